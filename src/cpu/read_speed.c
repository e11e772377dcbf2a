/* Reads a pool that is larger than any cache, block by block, with all workers. The cursor goes
 * round the pool, so a block comes again only when it has left the caches. */
#include "cpu/read_speed.h"

#include "platform/clock.h"
#include "platform/cpu.h"
#include "platform/memory.h"

enum { READ_BLOCK = 1 << 20 /* bytes of the pool that a worker reads at a time */ };

static const uint64_t SMALLEST_POOL = (uint64_t)64 << 20, READ_POOL = (uint64_t)256 << 20,
                      MOST_POOL = (uint64_t)2 << 30;
static const double SEARCH_TIME = 1.5e-3; /* seconds of one measurement of a search */

uint64_t rf_reader_pool_bytes(uint64_t least)
{
    uint64_t pool = 4 * (uint64_t)rf_cpu_cache_bytes(), memory = rf_memory_physical() / 4;
    if (pool < least) pool = least;
    if (pool > MOST_POOL) pool = MOST_POOL;
    return pool < memory ? pool : memory;
}

/* Values that are valid in every format: any two of these bytes are a normal F16 and BF16, and each
 * byte is a moderate MXFP4 scale. */
static void fill_reader(void *argument, struct rf_worker *worker)
{
    const struct rf_reader *reader = argument;
    struct rf_share share;
    size_t begin, end;
    rf_share_begin(&share, worker, reader->pool_bytes / READ_BLOCK, 1, 0.0);
    while (rf_share_next(&share, &begin, &end)) {
        uint64_t state = 0x9e3779b97f4a7c15u * (begin + 1);
        uint64_t *at = (uint64_t *)(void *)(reader->pool + begin * READ_BLOCK);
        for (size_t n = (end - begin) * (READ_BLOCK / sizeof *at); n > 0; n--) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *at++ = (state & 0x0707070707070707u) + 0x2c2c2c2c2c2c2c2cu;
        }
    }
}

int rf_reader_init(struct rf_reader *reader, uint64_t pool_bytes, int threads,
                   const struct rf_allocator *allocator, struct rf_error *error)
{
    if (pool_bytes < SMALLEST_POOL) pool_bytes = SMALLEST_POOL;
    *reader = (struct rf_reader){.allocator = allocator,
                                 .read_streams = rf_kernels(rf_kernels_best_tier())->read_streams,
                                 .pool_bytes = (size_t)(pool_bytes / READ_BLOCK * READ_BLOCK),
                                 .threads = threads};
    reader->pool = rf_malloc(allocator, reader->pool_bytes, 1, "a pool to stream from", error);
    int code =
        reader->pool ? rf_team_of(&reader->team, NULL, threads, allocator, error) : RF_ERR_MEMORY;
    if (code)
        rf_reader_release(reader);
    else
        rf_team_run(reader->team, 0, fill_reader, reader);
    return code;
}

void rf_reader_release(struct rf_reader *reader)
{
    rf_team_free(reader->team);
    rf_free(reader->allocator, reader->pool);
}

char *rf_reader_take(const struct rf_reader *reader, size_t *cursor, size_t bytes)
{
    if (*cursor + bytes > reader->pool_bytes) *cursor = 0;
    char *at = reader->pool + *cursor;
    *cursor += (bytes + RF_READ_PAGE - 1) / RF_READ_PAGE * RF_READ_PAGE;
    return at;
}

double rf_reader_time(const struct rf_reader *reader, rf_team_fn fn, void *argument)
{
    double start = rf_clock_seconds();
    rf_team_run(reader->team, 0, fn, argument);
    return rf_clock_seconds() - start;
}

void rf_reader_read(const struct rf_reader *reader, const struct rf_read_pattern *pattern,
                    const char *data, size_t n, size_t times)
{
    const struct rf_read_args args = {.data = data,
                                      .n = n,
                                      .streams = pattern->streams,
                                      .step = pattern->step,
                                      .ahead = pattern->ahead,
                                      .times = times};
    /* The sum is used, so that the compiler keeps the reads. */
    volatile uint64_t sum = reader->read_streams(&args);
    (void)sum;
}

struct blocks {
    const struct rf_reader *reader;
    const struct rf_read_pattern *pattern;
    const char *data;
    size_t n;
};

static void read_blocks(void *argument, struct rf_worker *worker)
{
    const struct blocks *blocks = argument;
    struct rf_share share;
    size_t begin, end;
    rf_share_begin(&share, worker, blocks->n, 1, 0.0);
    while (rf_share_next(&share, &begin, &end))
        rf_reader_read(blocks->reader, blocks->pattern, blocks->data + begin * READ_BLOCK,
                       (end - begin) * READ_BLOCK, 1);
}

double rf_reader_rate(struct rf_reader *reader, const struct rf_read_pattern *pattern, double bytes)
{
    size_t most = reader->pool_bytes / 2 / READ_BLOCK, least = 4 * (size_t)reader->threads;
    struct blocks blocks = {reader, pattern, NULL, (size_t)(bytes / READ_BLOCK)};
    if (blocks.n < least) blocks.n = least;
    if (blocks.n > most) blocks.n = most;
    blocks.data = rf_reader_take(reader, &reader->cursor, blocks.n * READ_BLOCK);
    rf_team_deal_equally(reader->team, pattern->equally);
    double seconds = rf_reader_time(reader, read_blocks, &blocks);
    rf_team_deal_equally(reader->team, 0);
    return (double)(blocks.n * READ_BLOCK) / seconds;
}

struct reading {
    struct rf_reader *reader;
    double bytes; /* read by a measurement before the final rounds */
};

static double measure_pattern(void *user, size_t candidate, int is_final)
{
    const struct reading *reading = user;
    const struct rf_read_pattern pattern = rf_read_pattern(candidate);
    return rf_reader_rate(reading->reader, &pattern,
                          is_final ? RF_READ_FINAL_TIMES * reading->bytes : reading->bytes);
}

struct rf_found rf_reader_search(struct rf_reader *reader, double rate)
{
    struct reading reading = {reader, SEARCH_TIME * rate};
    const struct rf_search search = {.n = RF_READ_PATTERNS,
                                     .rounds = 1,
                                     .final_rounds = RF_READ_FIRST,
                                     .measure = measure_pattern,
                                     .user = &reading};
    return rf_search_fastest(&search);
}

int rf_cpu_measure_read(int32_t threads, const struct rf_allocator *allocator,
                        struct rf_read_speed *speed, struct rf_error *error)
{
    struct rf_reader reader;
    const struct rf_read_pattern first = rf_read_pattern(0);
    double best = 0;
    int code = rf_reader_init(&reader, rf_reader_pool_bytes(READ_POOL), threads, allocator, error);
    if (code) return code;
    for (int i = 0; i < RF_READ_FIRST; i++) {
        double rate = rf_reader_rate(&reader, &first, 0);
        if (rate > best) best = rate;
    }
    const struct rf_found found = rf_reader_search(&reader, best);
    const struct rf_read_pattern pattern = rf_read_pattern(found.candidate);
    speed->bytes_per_second = found.usual;
    speed->best = found.best;
    rf_read_pattern_name(&pattern, speed->pattern);
    rf_reader_release(&reader);
    return 0;
}
