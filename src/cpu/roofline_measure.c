/* Calls kernels as the backend does: workers share the rows of a matrix, or the chunks of a layer's
 * keys and values. Matrices are taken in turn from a pool that is larger than any cache. */
#include "cpu/roofline_measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/median.h"
#include "cpu/cpu.h"
#include "cpu/read_search.h"
#include "platform/clock.h"
#include "platform/cpu.h"
#include "platform/memory.h"
#include "platform/team.h"

enum {
    READ_BLOCK = 1 << 20, /* bytes of the pool that a worker reads at a time */
    PAGE = 4096,
    CACHED_BYTES = 384 * 1024, /* of weights for each worker: fits in the L2 cache */
    HEADS = 2,                 /* KV heads of a layer */
    POSITIONS = HEADS * RF_ROOFLINE_CONTEXT,
    FIRST_ROUNDS = 7, /* of the ceilings alone, and of the finalists of a search */
    FINAL_TIMES = 5,  /* as many bytes in final rounds of a search, if the pool has them */
    MOST_QUERIES = RF_ROOFLINE_MAX_QUERY_ROWS * RF_ROOFLINE_GROUP,
    SEEN = 1024,
    LEAST_LOOPS = 20000 /* of an instruction: some tens of microseconds */
};

static const uint64_t DEFAULT_POOL = (uint64_t)1 << 30, SMALLEST_POOL = (uint64_t)64 << 20,
                      READ_POOL = (uint64_t)256 << 20, MOST_POOL = (uint64_t)2 << 30;
/* Seconds of one measurement of a ceiling or a kernel. */
static const double READ_TIME = 3e-3, SEARCH_TIME = 1.5e-3, CACHE_TIME = 0.5e-3, PEAK_TIME = 1e-3,
                    KERNEL_TIME = 5e-3, CACHED_TIME = 2e-3, LONGEST = 40e-3;

#define A8(name, FORMAT, ...) \
    {"linear_" #name "_a8", 0, RF_FORMAT_##FORMAT, RF_OPERAND_A8, RF_KV_F16},
#define A16(name, FORMAT, ...) \
    {"linear_" #name "_a16", 0, RF_FORMAT_##FORMAT, RF_OPERAND_A16, RF_KV_F16},
const struct rf_roofline_kernel rf_roofline_kernels[] = {
    {"linear_bf16", 0, RF_FORMAT_BF16, RF_OPERAND_BF16, RF_KV_F16},
    /* clang-format off */
    RF_EACH_PANEL_FORMAT(A8)
    RF_EACH_PANEL_FORMAT(A16)
    /* clang-format on */
    {"attention_f16", 1, RF_FORMAT_BF16, RF_OPERAND_BF16, RF_KV_F16},
    {"attention_bf16", 1, RF_FORMAT_BF16, RF_OPERAND_BF16, RF_KV_BF16},
    {"attention_q8", 1, RF_FORMAT_BF16, RF_OPERAND_A8, RF_KV_Q8},
    {"attention_q4", 1, RF_FORMAT_BF16, RF_OPERAND_A8, RF_KV_Q4},
    {NULL, 0, RF_FORMAT_BF16, RF_OPERAND_BF16, RF_KV_F16},
};
#undef A8
#undef A16

/* A ceiling and its latest measurements. */
struct seen {
    double rates[SEEN];
    size_t count;
    struct rf_ceiling ceiling;
    struct rf_read_pattern pattern; /* of memory and caches: the fastest */
    size_t bytes;                   /* of a cache: what each worker reads again and again */
    char why_not[RF_CEILING_NOTE];  /* why a cache is not measured */
};

struct rf_roofline {
    const struct rf_allocator *allocator;
    uint64_t (*read_streams)(const struct rf_read_args *args);
    char *pool;
    size_t pool_bytes, cursor; /* at the cursor is the least recently used data */
    int most_threads, threads;
    struct rf_team *team;
    struct seen seen[RF_ROOFLINE_CEILINGS];
    struct rf_peak_loop loops[RF_PEAK_COUNT];
};

/* Returns `bytes` of the pool at the cursor and advances it. */
static char *take(const struct rf_roofline *roofline, size_t *cursor, size_t bytes)
{
    if (*cursor + bytes > roofline->pool_bytes) *cursor = 0;
    char *at = roofline->pool + *cursor;
    *cursor += (bytes + PAGE - 1) / PAGE * PAGE;
    return at;
}

static double timed(const struct rf_roofline *roofline, rf_team_fn fn, void *argument)
{
    double start = rf_clock_seconds();
    rf_team_run(roofline->team, 0, fn, argument);
    return rf_clock_seconds() - start;
}

/* ---- The pool ---- */

/* Values that are valid in every format: any two of these bytes are a normal F16 and BF16, and each
 * byte is a moderate MXFP4 scale. */
static void fill(void *argument, struct rf_worker *worker)
{
    const struct rf_roofline *roofline = argument;
    struct rf_share share;
    size_t begin, end;
    rf_share_begin(&share, worker, roofline->pool_bytes / READ_BLOCK, 1, 0.0);
    while (rf_share_next(&share, &begin, &end)) {
        uint64_t state = 0x9e3779b97f4a7c15u * (begin + 1);
        uint64_t *at = (uint64_t *)(void *)(roofline->pool + begin * READ_BLOCK);
        for (size_t n = (end - begin) * (READ_BLOCK / sizeof *at); n > 0; n--) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *at++ = (state & 0x0707070707070707u) + 0x2c2c2c2c2c2c2c2cu;
        }
    }
}

uint64_t rf_cpu_pool_bytes(uint64_t least)
{
    uint64_t pool = 4 * (uint64_t)rf_cpu_cache_bytes(), memory = rf_memory_physical() / 4;
    if (pool < least) pool = least;
    if (pool > MOST_POOL) pool = MOST_POOL;
    return pool < memory ? pool : memory;
}

int rf_roofline_new(struct rf_roofline **roofline, uint64_t pool_bytes, int threads,
                    const struct rf_allocator *allocator, struct rf_error *error)
{
    *roofline = NULL;
    if (!pool_bytes) pool_bytes = rf_cpu_pool_bytes(DEFAULT_POOL);
    if (pool_bytes < SMALLEST_POOL) pool_bytes = SMALLEST_POOL;
    struct rf_roofline *made = rf_calloc(allocator, 1, sizeof *made, "roofline", error);
    if (!made) return RF_ERR_MEMORY;
    made->allocator = allocator;
    made->read_streams = rf_kernels(rf_kernels_best_tier())->read_streams;
    made->most_threads = made->threads = threads;
    made->pool_bytes = (size_t)(pool_bytes / READ_BLOCK * READ_BLOCK);
    made->pool = rf_malloc(allocator, made->pool_bytes, 1, "pool of the roofline", error);
    int code =
        made->pool ? rf_team_of(&made->team, NULL, threads, allocator, error) : RF_ERR_MEMORY;
    if (code) {
        rf_roofline_free(made);
        return code;
    }
    rf_team_run(made->team, 0, fill, made);
    *roofline = made;
    return 0;
}

void rf_roofline_free(struct rf_roofline *roofline)
{
    if (!roofline) return;
    rf_team_free(roofline->team);
    rf_free(roofline->allocator, roofline->pool);
    rf_free(roofline->allocator, roofline);
}

/* ---- The ceilings ---- */

/* What one measurement does: reads blocks of the pool, reads each worker's part of it several
 * times, or runs the loop of an instruction. */
struct ceiling_work {
    const struct rf_roofline *roofline;
    struct rf_read_pattern pattern;
    const char *data;
    size_t blocks;
    size_t bytes, times; /* of a worker's part */
    struct rf_peak_loop loop;
    uint64_t loops;
};

static void read_range(const struct ceiling_work *read, const char *data, size_t n, size_t times)
{
    const struct rf_read_args args = {.data = data,
                                      .n = n,
                                      .streams = read->pattern.streams,
                                      .step = read->pattern.step,
                                      .ahead = read->pattern.ahead,
                                      .times = times};
    /* The sum is used, so that the compiler keeps the reads. */
    volatile uint64_t sum = read->roofline->read_streams(&args);
    (void)sum;
}

static void read_blocks(void *argument, struct rf_worker *worker)
{
    const struct ceiling_work *read = argument;
    struct rf_share share;
    size_t begin, end;
    rf_share_begin(&share, worker, read->blocks, 1, 0.0);
    while (rf_share_next(&share, &begin, &end))
        read_range(read, read->data + begin * READ_BLOCK, (end - begin) * READ_BLOCK, 1);
}

static void read_again(void *argument, struct rf_worker *worker)
{
    const struct ceiling_work *read = argument;
    size_t distance = (read->bytes + PAGE - 1) / PAGE * PAGE;
    read_range(read, read->data + (size_t)worker->index * distance, read->bytes, read->times);
}

static void issue_part(void *argument, struct rf_worker *worker)
{
    const struct ceiling_work *issue = argument;
    for (int part = worker->index; part < issue->roofline->threads; part += worker->count)
        issue->loop.run(issue->loops);
}

static double rate_of_memory(struct rf_roofline *roofline, const struct rf_read_pattern *pattern,
                             double bytes)
{
    size_t most = roofline->pool_bytes / 2 / READ_BLOCK, least = 4 * (size_t)roofline->threads;
    struct ceiling_work read = {roofline, .pattern = *pattern,
                                .blocks = (size_t)(bytes / READ_BLOCK)};
    if (read.blocks < least) read.blocks = least;
    if (read.blocks > most) read.blocks = most;
    read.data = take(roofline, &roofline->cursor, read.blocks * READ_BLOCK);
    rf_team_deal_equally(roofline->team, pattern->equally);
    double seconds = timed(roofline, read_blocks, &read);
    rf_team_deal_equally(roofline->team, 0);
    return (double)(read.blocks * READ_BLOCK) / seconds;
}

static double rate_of_cache(struct rf_roofline *roofline, const struct rf_read_pattern *pattern,
                            size_t part, double bytes)
{
    double all = (double)part * rf_team_places(roofline->team);
    struct ceiling_work read = {roofline, .pattern = *pattern, .data = roofline->pool,
                                .bytes = part, .times = 1};
    rf_team_run(roofline->team, 0, read_again, &read); /* fills the cache */
    read.times = 1 + (size_t)(bytes / all);
    return (double)read.times * all / timed(roofline, read_again, &read);
}

static double rate_of_read(struct rf_roofline *roofline, int which,
                           const struct rf_read_pattern *pattern, double bytes)
{
    return which == RF_ROOFLINE_READ
               ? rate_of_memory(roofline, pattern, bytes)
               : rate_of_cache(roofline, pattern, roofline->seen[which].bytes, bytes);
}

static double rate_of_instruction(struct rf_roofline *roofline, int which, double operations)
{
    double each = roofline->loops[which].operations * roofline->threads;
    struct ceiling_work issue = {roofline, .loop = roofline->loops[which],
                                 .loops = (uint64_t)(operations / each) + LEAST_LOOPS};
    return (double)issue.loops * each / timed(roofline, issue_part, &issue);
}

/* Reads or issues an instruction for about `seconds`. Returns bytes or operations per second. */
static double measure_ceiling(struct rf_roofline *roofline, int which, double seconds)
{
    struct seen *seen = &roofline->seen[which];
    double work = seconds * seen->ceiling.best;
    double rate = which < RF_ROOFLINE_READ ? rate_of_instruction(roofline, which, work)
                                           : rate_of_read(roofline, which, &seen->pattern, work);
    seen->rates[seen->count++ % SEEN] = rate;
    if (rate > seen->ceiling.best) seen->ceiling.best = rate;
    return rate;
}

struct reading {
    struct rf_roofline *roofline;
    int which;
    double bytes; /* of a measurement; in final rounds FINAL_TIMES as much */
};

static double measure_pattern(void *user, size_t candidate, int is_final)
{
    const struct reading *reading = user;
    const struct rf_read_pattern pattern = rf_read_pattern(candidate);
    return rate_of_read(reading->roofline, reading->which, &pattern,
                        is_final ? FINAL_TIMES * reading->bytes : reading->bytes);
}

/* Finds the fastest pattern. */
static struct rf_found search_pattern(struct rf_roofline *roofline, int which)
{
    struct seen *seen = &roofline->seen[which];
    int is_memory = which == RF_ROOFLINE_READ;
    struct reading reading = {roofline, which,
                              (is_memory ? SEARCH_TIME : CACHE_TIME) * seen->ceiling.best};
    const struct rf_search search = {.n = is_memory ? RF_READ_PATTERNS
                                                    : RF_READ_PATTERNS_OF_A_THREAD,
                                     .rounds = 1,
                                     .final_rounds = FIRST_ROUNDS,
                                     .measure = measure_pattern,
                                     .user = &reading};
    struct rf_found found = rf_search_fastest(&search);
    seen->pattern = rf_read_pattern(found.candidate);
    return found;
}

/* The first measurements only calibrate the amount of work. */
static void begin_ceiling(struct rf_roofline *roofline, int which, double seconds)
{
    struct seen *seen = &roofline->seen[which];
    seen->count = 0;
    seen->ceiling = (struct rf_ceiling){0};
    seen->pattern = rf_read_pattern(0);
    if (which < RF_ROOFLINE_READ && !rf_peak_find((enum rf_peak)which, &roofline->loops[which]))
        return;
    if (which > RF_ROOFLINE_READ && !seen->bytes) return;
    for (int i = 0; i < FIRST_ROUNDS; i++) measure_ceiling(roofline, which, 0);
    if (which >= RF_ROOFLINE_READ) search_pattern(roofline, which);
    seen->count = 0;
    for (int i = 0; i < FIRST_ROUNDS; i++) measure_ceiling(roofline, which, seconds);
}

/* Half of a worker's share of each cache, if that is at least twice what the level before holds:
 * else part of the reads would come from there. */
static void choose_cache_bytes(struct rf_roofline *roofline, const struct rf_plan *plan)
{
    size_t shares[3] = {0}, most = roofline->pool_bytes / (size_t)roofline->threads - PAGE;
    if (plan->topology.is_this_system) rf_plan_cache_shares(plan, shares);
    for (int level = 0; level < 3; level++) {
        struct seen *seen = &roofline->seen[RF_ROOFLINE_L1 + level];
        size_t below = level ? shares[level - 1] : 0,
               bytes = shares[level] / 2 < most ? shares[level] / 2 : most;
        seen->bytes = bytes >= 2 * below ? bytes / PAGE * PAGE : 0;
        seen->why_not[0] = 0;
        if (!shares[level])
            snprintf(seen->why_not, sizeof seen->why_not, "the system does not show its size");
        else if (!seen->bytes)
            snprintf(seen->why_not, sizeof seen->why_not,
                     "%zu KiB for each thread, too little beside the %zu KiB of the level before",
                     shares[level] >> 10, below >> 10);
    }
}

/* Takes a team of that many workers, and the sizes of their caches. */
static int take_team(struct rf_roofline *roofline, int threads, struct rf_error *error)
{
    struct rf_plan plan;
    struct rf_team *team;
    int code = rf_plan_new(&plan, NULL, threads, roofline->allocator, error);
    if (code) return code;
    code = rf_team_new(&team, &plan, roofline->allocator, error);
    if (!code) {
        rf_team_free(roofline->team);
        roofline->team = team;
        roofline->threads = threads;
        choose_cache_bytes(roofline, &plan);
    }
    rf_plan_free(&plan);
    return code;
}

int rf_roofline_use_threads(struct rf_roofline *roofline, int threads, struct rf_error *error)
{
    if (threads > roofline->most_threads) threads = roofline->most_threads;
    if (threads == roofline->threads && roofline->seen[RF_ROOFLINE_READ].count) return 0;
    int code = take_team(roofline, threads, error);
    if (code) return code;
    for (int which = 0; which < RF_ROOFLINE_CEILINGS; which++)
        begin_ceiling(roofline, which,
                      which < RF_ROOFLINE_READ    ? 3 * PEAK_TIME
                      : which == RF_ROOFLINE_READ ? READ_TIME
                                                  : FINAL_TIMES * CACHE_TIME);
    rf_roofline_settle(roofline);
    return 0;
}

void rf_roofline_settle(struct rf_roofline *roofline)
{
    for (int which = 0; which < RF_ROOFLINE_CEILINGS; which++) {
        struct seen *seen = &roofline->seen[which];
        seen->ceiling.usual = rf_median(seen->rates, seen->count < SEEN ? seen->count : SEEN);
    }
}

struct rf_ceiling rf_roofline_ceiling(const struct rf_roofline *roofline, int which)
{
    return roofline->seen[which].ceiling;
}

void rf_roofline_note(const struct rf_roofline *roofline, int which, char note[RF_CEILING_NOTE])
{
    const struct seen *seen = &roofline->seen[which];
    note[0] = 0;
    if (which < RF_ROOFLINE_READ) return;
    if (seen->why_not[0])
        snprintf(note, RF_CEILING_NOTE, "%s", seen->why_not);
    else
        rf_read_pattern_name(&seen->pattern, note);
}

int rf_cpu_measure_read(int32_t threads, const struct rf_allocator *allocator,
                        struct rf_read_speed *speed, struct rf_error *error)
{
    struct rf_roofline *roofline;
    int code = rf_roofline_new(&roofline, rf_cpu_pool_bytes(READ_POOL), threads, allocator, error);
    if (code) return code;
    struct seen *seen = &roofline->seen[RF_ROOFLINE_READ];
    seen->pattern = rf_read_pattern(0);
    for (int i = 0; i < FIRST_ROUNDS; i++) measure_ceiling(roofline, RF_ROOFLINE_READ, 0);
    struct rf_found found = search_pattern(roofline, RF_ROOFLINE_READ);
    speed->bytes_per_second = found.usual;
    speed->best = found.best;
    rf_roofline_note(roofline, RF_ROOFLINE_READ, speed->pattern);
    rf_roofline_free(roofline);
    return 0;
}

/* ---- The kernels ---- */

/* Items are rows of weights, or chunks of keys and values. */
struct work {
    const struct rf_roofline *roofline;
    const struct rf_roofline_case *what;
    void (*part)(const struct work *work, const char *data, size_t begin, size_t end, size_t slot);
    size_t items, grain,
        call; /* grain: dealt to a worker at a time; call: passed to a kernel at a time */
    size_t unit, unit_bytes; /* items stored together, and their bytes */
    double item_operations;
    void *x;  /* packed rows, or queries [HEADS or 1][n_queries][head_dim] */
    float *y; /* [slots][slot_floats] */
    size_t ldy, slot_floats;
    const float *q[MOST_QUERIES]; /* attention's lists, the same for every call */
    int32_t visible[MOST_QUERIES];
    size_t passes; /* over all items */
    size_t cursor; /* in the pool, at the first pass */
};

static size_t work_bytes(const struct work *work)
{
    return (work->items + work->unit - 1) / work->unit * work->unit_bytes;
}

static void linear_part(const struct work *work, const char *weights, size_t begin, size_t end,
                        size_t slot)
{
    const struct rf_roofline_case *what = work->what;
    rf_linear_fn *linear = what->kernel->operand == RF_OPERAND_A16
                               ? what->table->linear_a16[what->kernel->format]
                               : what->table->linear[what->kernel->format];
    for (size_t r = begin, m; r < end; r += m) {
        m = end - r < work->call ? end - r : work->call;
        struct rf_linear_args args = {
            .y = work->y + slot * work->slot_floats + r,
            .ldy = work->ldy,
            .w = weights + r / work->unit * work->unit_bytes,
            .ldw = what->kernel->format == RF_FORMAT_BF16 ? what->k : work->unit_bytes,
            .x = work->x,
            .m = m,
            .n = what->rows,
            .k = what->k};
        linear(&args);
    }
}

/* Positions of one call, and the bytes of their keys and values. */
static size_t attention_positions(const struct rf_roofline_case *what)
{
    return rf_kv_is_quantised(what->kernel->kv) ? RF_KV_SPAN * RF_KV_GROUP : RF_ATTENTION_CHUNK;
}

static size_t group_bytes(const struct rf_roofline_case *what)
{
    size_t padded = rf_padded(RF_ROOFLINE_HEAD_DIM);
    return rf_kv_upper_bytes(padded) +
           (what->kernel->kv == RF_KV_Q8 ? rf_kv_lower_bytes(padded) : 0);
}

static size_t attention_bytes(const struct rf_roofline_case *what)
{
    if (rf_kv_is_quantised(what->kernel->kv)) return RF_KV_SPAN * group_bytes(what);
    return RF_ATTENTION_CHUNK * (RF_ROOFLINE_HEAD_DIM + rf_padded(RF_ROOFLINE_HEAD_DIM)) *
           sizeof(uint16_t);
}

static void attend_halves(const struct work *work, const char *chunk, float *out)
{
    const struct rf_roofline_case *what = work->what;
    const uint16_t *k = (const uint16_t *)(const void *)chunk;
    struct rf_attention_args args = {.q = work->q,
                                     .visible = work->visible,
                                     .n_q = what->rows * RF_ROOFLINE_GROUP,
                                     .k = k,
                                     .v = k + (size_t)RF_ATTENTION_CHUNK * RF_ROOFLINE_HEAD_DIM,
                                     .head_dim = RF_ROOFLINE_HEAD_DIM,
                                     .scale = 1.0f / sqrtf((float)RF_ROOFLINE_HEAD_DIM),
                                     .out = out,
                                     .ldo = work->ldy};
    if (what->kernel->kv == RF_KV_BF16)
        what->table->attention_bf16(&args);
    else
        what->table->attention_f16(&args);
}

static void attend_groups(const struct work *work, const char *span, float *out)
{
    const struct rf_roofline_case *what = work->what;
    size_t padded = rf_padded(RF_ROOFLINE_HEAD_DIM), upper = rf_kv_upper_bytes(padded);
    struct rf_kv_group groups[RF_KV_SPAN + 1]; /* and the one after them */
    for (size_t g = 0; g <= RF_KV_SPAN; g++) {
        const char *group = span + g * group_bytes(what);
        groups[g] =
            rf_kv_group_at(group, what->kernel->kv == RF_KV_Q8 ? group + upper : NULL, padded);
    }
    struct rf_attention_kv_args args = {.q = work->q,
                                        .n_q = what->rows * RF_ROOFLINE_GROUP,
                                        .groups = groups,
                                        .n_groups = RF_KV_SPAN,
                                        .next = &groups[RF_KV_SPAN],
                                        .head_dim = RF_ROOFLINE_HEAD_DIM,
                                        .scale = 1.0f / sqrtf((float)RF_ROOFLINE_HEAD_DIM),
                                        .out = out,
                                        .ldo = work->ldy};
    what->table->attention_kv(&args);
}

static void attention_part(const struct work *work, const char *chunks, size_t begin, size_t end,
                           size_t slot)
{
    size_t floats = work->what->rows * RF_ROOFLINE_GROUP * work->ldy;
    for (size_t item = begin; item < end; item++) {
        const char *chunk = chunks + item * work->unit_bytes;
        float *out = work->y + slot * work->slot_floats + item * floats;
        if (rf_kv_is_quantised(work->what->kernel->kv))
            attend_groups(work, chunk, out);
        else
            attend_halves(work, chunk, out);
    }
}

static void stream(void *argument, struct rf_worker *worker)
{
    const struct work *work = argument;
    size_t cursor = work->cursor, begin, end;
    for (size_t pass = 0; pass < work->passes; pass++) {
        const char *data = take(work->roofline, &cursor, work_bytes(work));
        struct rf_share share;
        rf_share_begin(&share, worker, work->items, work->grain, 0.0);
        while (rf_share_next(&share, &begin, &end)) work->part(work, data, begin, end, 0);
        rf_team_barrier(worker);
    }
}

static void repeat(void *argument, struct rf_worker *worker)
{
    const struct work *work = argument;
    size_t bytes = (work_bytes(work) + PAGE - 1) / PAGE * PAGE;
    for (int slot = worker->index; slot < work->roofline->threads; slot += worker->count)
        for (size_t pass = 0; pass < work->passes; pass++)
            work->part(work, work->roofline->pool + (size_t)slot * bytes, 0, work->items,
                       (size_t)slot);
}

static int linear_work(struct work *work, struct rf_error *error)
{
    const struct rf_roofline_case *what = work->what;
    const struct rf_allocator *allocator = work->roofline->allocator;
    int panels = what->kernel->format != RF_FORMAT_BF16;
    work->part = linear_part;
    work->unit = panels ? RF_PANEL_ROWS : 1;
    work->unit_bytes =
        panels ? rf_panel_bytes(what->kernel->format, what->k) : what->k * sizeof(uint16_t);
    work->item_operations = 2.0 * (double)what->rows * (double)what->k;
    work->items = what->m;
    if (what->in_cache) {
        size_t rows = CACHED_BYTES / work->unit_bytes * work->unit / RF_PANEL_ROWS * RF_PANEL_ROWS;
        if (rows < RF_PANEL_ROWS) rows = RF_PANEL_ROWS;
        if (rows < work->items) work->items = rows;
    }
    struct cpu_pieces pieces = rf_cpu_pieces(what->table, !panels, work->unit_bytes / work->unit,
                                             work->items, work->roofline->threads, what->rows);
    work->grain = pieces.grain;
    work->call = pieces.call;
    work->ldy = rf_padded(work->items);
    work->slot_floats = what->rows * work->ldy;

    enum rf_operand form = rf_roofline_operand(what);
    float *x = rf_malloc(allocator, what->k, sizeof *x, "roofline", error);
    work->x = rf_malloc(allocator, what->table->packed_bytes[form](what->rows, what->k), 1,
                        "roofline", error);
    if (x && work->x)
        for (size_t i = 0; i < what->rows; i++) {
            for (size_t j = 0; j < what->k; j++) x[j] = (float)((i + 7 * j) % 31) / 16.0f - 0.9f;
            what->table->pack[form](&(struct rf_pack_args){work->x, i, what->k, x, 0, what->k, 0});
        }
    rf_free(allocator, x);
    return x && work->x ? 0 : RF_ERR_MEMORY;
}

static int attention_work(struct work *work, struct rf_error *error)
{
    const struct rf_allocator *allocator = work->roofline->allocator;
    size_t queries = work->what->rows * RF_ROOFLINE_GROUP;
    work->part = attention_part;
    work->unit = work->grain = 1;
    size_t positions = attention_positions(work->what);
    work->unit_bytes = attention_bytes(work->what);
    work->items = work->what->in_cache ? 1 : POSITIONS / positions;
    work->item_operations = 4.0 * (double)queries * (double)positions * RF_ROOFLINE_HEAD_DIM;
    work->ldy = rf_padded(RF_ROOFLINE_HEAD_DIM) + 2;
    work->slot_floats = work->items * queries * work->ldy;

    float *x = rf_malloc(allocator, queries, RF_ROOFLINE_HEAD_DIM * sizeof *x, "roofline", error);
    work->x = x;
    if (!x) return RF_ERR_MEMORY;
    for (size_t i = 0; i < queries * RF_ROOFLINE_HEAD_DIM; i++)
        x[i] = (float)(i % 31) / 16.0f - 0.9f;
    for (size_t i = 0; i < queries; i++) {
        work->q[i] = x + i * RF_ROOFLINE_HEAD_DIM;
        work->visible[i] = RF_ATTENTION_CHUNK;
    }
    return 0;
}

static double run(struct rf_roofline *roofline, struct work *work)
{
    if (work->what->in_cache) return timed(roofline, repeat, work);
    work->cursor = roofline->cursor;
    double seconds = timed(roofline, stream, work);
    for (size_t pass = 0; pass < work->passes; pass++)
        take(roofline, &roofline->cursor, work_bytes(work));
    return seconds;
}

/* Chooses the work of a round: enough passes to be measured, and only the first rows of a matrix
 * that would take too long. */
static int set_size(struct rf_roofline *roofline, struct work *work, struct rf_error *error)
{
    size_t all = work->items, atom = work->part == linear_part ? RF_PANEL_ROWS : 1;
    size_t least = atom * (size_t)(work->what->in_cache ? 1 : roofline->threads);
    /* In a cache: one matrix for each worker. Else one matrix that leaves room in the pool for the
     * measurements between rounds. */
    size_t part = work->what->in_cache ? roofline->pool_bytes / (size_t)roofline->threads
                                       : roofline->pool_bytes / 4;
    size_t fits = part / work->unit_bytes * work->unit / atom * atom;
    if (all > fits) all = fits;
    if (all == 0)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "the shape %zux%zu is too large for a pool of %zu MiB", work->what->m,
                       work->what->k, roofline->pool_bytes >> 20);
    work->items = all < least ? all : least;
    work->passes = 1;
    run(roofline, work); /* warms up */
    double each = run(roofline, work) / (double)work->items;
    work->items = all;
    if (each * (double)all > LONGEST) {
        size_t some = (size_t)(LONGEST / each) / atom * atom;
        work->items = some < least ? (least < all ? least : all) : some;
    }
    double wanted = work->what->in_cache ? CACHED_TIME : KERNEL_TIME,
           pass = each * (double)work->items;
    double most =
        work->what->in_cache ? 1e6 : (double)roofline->pool_bytes / 4 / (double)work_bytes(work);
    double passes = ceil(wanted / (pass > 1e-9 ? pass : 1e-9));
    work->passes = (size_t)(passes > most ? most : passes);
    if (work->passes < 1) work->passes = 1;
    return 0;
}

struct ceilings {
    double read, peak;
};

static struct ceilings measure_ceilings(struct rf_roofline *roofline,
                                        const struct rf_roofline_case *what)
{
    struct ceilings now = {roofline->seen[RF_ROOFLINE_READ].ceiling.usual,
                           measure_ceiling(roofline, (int)what->peak, PEAK_TIME)};
    /* Reading the pool would evict the data of kernels that work in a cache. */
    if (!what->in_cache) now.read = measure_ceiling(roofline, RF_ROOFLINE_READ, READ_TIME);
    return now;
}

static int measure_rounds(struct rf_roofline *roofline, struct work *work, int rounds,
                          double *values, int (*stop)(void *user), void *user,
                          struct rf_roofline_result *result)
{
    size_t n = (size_t)rounds;
    double *seconds = values, *of_read = values + rounds, *of_peak = of_read + rounds,
           *lower = of_peak + rounds;
    double times = (double)work->passes * (work->what->in_cache ? roofline->threads : 1);
    double bytes = times * (double)work_bytes(work),
           operations = times * (double)work->items * work->item_operations;
    result->operations_per_byte = operations / bytes;
    struct ceilings before = measure_ceilings(roofline, work->what);
    for (int i = 0; i < rounds; i++) {
        if (stop(user)) return 1;
        seconds[i] = run(roofline, work);
        struct ceilings after = measure_ceilings(roofline, work->what);
        double read = (before.read + after.read) / 2, peak = (before.peak + after.peak) / 2;
        of_read[i] = bytes / seconds[i] / read;
        of_peak[i] = operations / seconds[i] / peak;
        lower[i] =
            peak / (read * result->operations_per_byte); /* below 1: the compute ceiling binds */
        before = after;
    }
    result->bytes_per_second = bytes / rf_median(seconds, n);
    result->operations_per_second = result->bytes_per_second * result->operations_per_byte;
    result->of_read = rf_median(of_read, n);
    result->of_peak = rf_median(of_peak, n);
    result->compute_binds = work->what->in_cache || rf_median(lower, n) < 1;
    return 0;
}

int rf_roofline_measure(struct rf_roofline *roofline, const struct rf_roofline_case *what,
                        int rounds, int (*stop)(void *user), void *user,
                        struct rf_roofline_result *result, struct rf_error *error)
{
    const struct rf_allocator *allocator = roofline->allocator;
    struct work work = {.roofline = roofline, .what = what};
    *result = (struct rf_roofline_result){0};
    int code =
        what->kernel->is_attention ? attention_work(&work, error) : linear_work(&work, error);
    double *values =
        code ? NULL : rf_malloc(allocator, (size_t)rounds, 4 * sizeof *values, "roofline", error);
    size_t slots = what->in_cache ? (size_t)roofline->threads : 1;
    if (values)
        work.y = rf_malloc(allocator, slots * work.slot_floats, sizeof *work.y, "roofline", error);
    if (!work.y) code = RF_ERR_MEMORY;
    if (!code) code = set_size(roofline, &work, error);
    if (!code) {
        if (measure_rounds(roofline, &work, rounds, values, stop, user, result))
            code = rf_fail(error, RF_ERR_CANCELLED, "roofline: cancelled");
        result->m = what->in_cache ? work.items : what->m;
        result->k = what->k;
        if (what->kernel->is_attention) {
            result->m = what->in_cache ? attention_positions(what) : RF_ROOFLINE_CONTEXT;
            result->k = RF_ROOFLINE_HEAD_DIM;
        }
    }
    rf_free(allocator, work.y);
    rf_free(allocator, values);
    rf_free(allocator, work.x);
    return code;
}
