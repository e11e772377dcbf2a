/* Calls kernels as the backend does: workers share the rows of a matrix, or the chunks of a layer's
 * keys and values. Matrices are taken in turn from a pool that is larger than any cache, or each
 * worker reuses one that fits its cache. */
#include <math.h>

#include "base/median.h"
#include "cpu/cpu.h"
#include "cpu/tiers.h"
#include "machine/cpu_bench.h"

enum {
    CACHED_BYTES = 384 * 1024, /* weights for each worker: fits in the L2 cache */
    /* The attention of Qwen2.5-1.5B. */
    CONTEXT = 16384, /* positions */
    HEAD_DIM = 128,
    GROUP = 6, /* query heads that share a KV head */
    HEADS = 2, /* KV heads of a layer */
    POSITIONS = HEADS * CONTEXT,
    MOST_QUERIES = RF_ROOFLINE_ATTENTION_ROWS * GROUP
};

/* Seconds of one measurement: of a ceiling beside a kernel, and of a kernel. */
static const double READ_TIME = 3e-3, PEAK_TIME = 1e-3, KERNEL_TIME = 5e-3, CACHED_TIME = 2e-3,
                    LONGEST = 40e-3;

/* A kernel with its data. Items are rows of weights, or chunks of keys and values. */
struct work {
    const struct cpu_bench *bench;
    const struct rf_roofline_case *what;
    const struct rf_kernels *table; /* the kernels of the case's tier and form */
    enum rf_peak peak;              /* the instruction that limits the kernel */
    void (*part)(const struct work *work, const char *data, size_t begin, size_t end, size_t slot);
    size_t items;
    size_t grain;            /* items that are dealt to a worker at a time */
    size_t call;             /* items that are passed to a kernel at a time */
    size_t unit, unit_bytes; /* items stored together, and their bytes */
    double item_operations;
    void *x;  /* packed rows, or queries [HEADS or 1][n_queries][head_dim] */
    float *y; /* [slots][slot_floats] */
    size_t ldy, slot_floats;
    const float *q[MOST_QUERIES]; /* attention's lists, the same for every call */
    int32_t visible[MOST_QUERIES];
    size_t passes; /* passes over all items */
    size_t cursor; /* place in the pool before the first pass */
};

/* The form of the rows of activations: 16-bit ones have several. */
static enum rf_operand operand_of(const struct work *work)
{
    const struct rf_roofline_kernel *kernel = work->what->kernel;
    return kernel->operand == RF_OPERAND_A16 ? work->table->operand_a16[kernel->format]
                                             : kernel->operand;
}

static size_t work_bytes(const struct work *work)
{
    return (work->items + work->unit - 1) / work->unit * work->unit_bytes;
}

static void linear_part(const struct work *work, const char *weights, size_t begin, size_t end,
                        size_t slot)
{
    const struct rf_roofline_case *what = work->what;
    rf_linear_fn *linear = what->kernel->operand == RF_OPERAND_A16
                               ? work->table->linear_a16[what->kernel->format]
                               : work->table->linear[what->kernel->format];
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

static size_t kv_group_bytes(const struct rf_roofline_case *what)
{
    size_t padded = rf_padded(HEAD_DIM);
    return rf_kv_upper_bytes(padded) +
           (what->kernel->kv == RF_KV_Q8 ? rf_kv_lower_bytes(padded) : 0);
}

static size_t attention_bytes(const struct rf_roofline_case *what)
{
    if (rf_kv_is_quantised(what->kernel->kv)) return RF_KV_SPAN * kv_group_bytes(what);
    return RF_ATTENTION_CHUNK * (HEAD_DIM + rf_padded(HEAD_DIM)) * sizeof(uint16_t);
}

static void attend_halves(const struct work *work, const char *chunk, float *out)
{
    const struct rf_roofline_case *what = work->what;
    const uint16_t *k = (const uint16_t *)(const void *)chunk;
    struct rf_attention_args args = {.q = work->q,
                                     .visible = work->visible,
                                     .n_q = what->rows * GROUP,
                                     .k = k,
                                     .v = k + (size_t)RF_ATTENTION_CHUNK * HEAD_DIM,
                                     .head_dim = HEAD_DIM,
                                     .scale = 1.0f / sqrtf((float)HEAD_DIM),
                                     .out = out,
                                     .ldo = work->ldy};
    if (what->kernel->kv == RF_KV_BF16)
        work->table->attention_bf16(&args);
    else
        work->table->attention_f16(&args);
}

static void attend_kv_groups(const struct work *work, const char *span, float *out)
{
    const struct rf_roofline_case *what = work->what;
    size_t padded = rf_padded(HEAD_DIM), upper = rf_kv_upper_bytes(padded);
    struct rf_kv_group groups[RF_KV_SPAN + 1]; /* the last one is prefetched only */
    for (size_t g = 0; g <= RF_KV_SPAN; g++) {
        const char *group = span + g * kv_group_bytes(what);
        groups[g] =
            rf_kv_group_at(group, what->kernel->kv == RF_KV_Q8 ? group + upper : NULL, padded);
    }
    struct rf_attention_kv_args args = {.q = work->q,
                                        .n_q = what->rows * GROUP,
                                        .groups = groups,
                                        .n_groups = RF_KV_SPAN,
                                        .next = &groups[RF_KV_SPAN],
                                        .head_dim = HEAD_DIM,
                                        .scale = 1.0f / sqrtf((float)HEAD_DIM),
                                        .out = out,
                                        .ldo = work->ldy};
    work->table->attention_kv(&args);
}

static void attention_part(const struct work *work, const char *chunks, size_t begin, size_t end,
                           size_t slot)
{
    size_t floats = work->what->rows * GROUP * work->ldy;
    for (size_t item = begin; item < end; item++) {
        const char *chunk = chunks + item * work->unit_bytes;
        float *out = work->y + slot * work->slot_floats + item * floats;
        if (rf_kv_is_quantised(work->what->kernel->kv))
            attend_kv_groups(work, chunk, out);
        else
            attend_halves(work, chunk, out);
    }
}

static void stream_pool(void *argument, struct rf_worker *worker)
{
    const struct work *work = argument;
    size_t cursor = work->cursor, begin, end;
    for (size_t pass = 0; pass < work->passes; pass++) {
        const char *data = rf_reader_take(&work->bench->reader, &cursor, work_bytes(work));
        struct rf_share share;
        rf_share_begin(&share, worker, work->items, work->grain, 0.0);
        while (rf_share_next(&share, &begin, &end)) work->part(work, data, begin, end, 0);
        rf_team_barrier(worker);
    }
}

static void repeat_cached(void *argument, struct rf_worker *worker)
{
    const struct work *work = argument;
    size_t bytes = (work_bytes(work) + RF_READ_PAGE - 1) / RF_READ_PAGE * RF_READ_PAGE;
    for (int slot = worker->index; slot < work->bench->reader.threads; slot += worker->count)
        for (size_t pass = 0; pass < work->passes; pass++)
            work->part(work, work->bench->reader.pool + (size_t)slot * bytes, 0, work->items,
                       (size_t)slot);
}

static int linear_work(struct work *work, struct rf_error *error)
{
    const struct rf_roofline_case *what = work->what;
    const struct rf_allocator *allocator = work->bench->allocator;
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
    struct cpu_pieces pieces = rf_cpu_pieces(work->table, !panels, work->unit_bytes / work->unit,
                                             work->items, work->bench->reader.threads, what->rows);
    work->grain = pieces.grain;
    work->call = pieces.call;
    work->ldy = rf_padded(work->items);
    work->slot_floats = what->rows * work->ldy;

    enum rf_operand form = operand_of(work);
    float *x = rf_malloc(allocator, what->k, sizeof *x, "roofline", error);
    work->x = rf_malloc(allocator, work->table->packed_bytes[form](what->rows, what->k), 1,
                        "roofline", error);
    if (x && work->x)
        for (size_t i = 0; i < what->rows; i++) {
            for (size_t j = 0; j < what->k; j++) x[j] = (float)((i + 7 * j) % 31) / 16.0f - 0.9f;
            work->table->pack[form](&(struct rf_pack_args){work->x, i, what->k, x, 0, what->k, 0});
        }
    rf_free(allocator, x);
    return x && work->x ? 0 : RF_ERR_MEMORY;
}

static int attention_work(struct work *work, struct rf_error *error)
{
    const struct rf_allocator *allocator = work->bench->allocator;
    size_t queries = work->what->rows * GROUP;
    work->part = attention_part;
    work->unit = work->grain = 1;
    size_t positions = attention_positions(work->what);
    work->unit_bytes = attention_bytes(work->what);
    work->items = work->what->in_cache ? 1 : POSITIONS / positions;
    work->item_operations = 4.0 * (double)queries * (double)positions * HEAD_DIM;
    work->ldy = rf_padded(HEAD_DIM) + 2;
    work->slot_floats = work->items * queries * work->ldy;

    float *x = rf_malloc(allocator, queries, HEAD_DIM * sizeof *x, "roofline", error);
    work->x = x;
    if (!x) return RF_ERR_MEMORY;
    for (size_t i = 0; i < queries * HEAD_DIM; i++) x[i] = (float)(i % 31) / 16.0f - 0.9f;
    for (size_t i = 0; i < queries; i++) {
        work->q[i] = x + i * HEAD_DIM;
        work->visible[i] = RF_ATTENTION_CHUNK;
    }
    return 0;
}

static double run_passes(struct rf_reader *reader, struct work *work)
{
    if (work->what->in_cache) return rf_reader_time(reader, repeat_cached, work);
    work->cursor = reader->cursor;
    double seconds = rf_reader_time(reader, stream_pool, work);
    for (size_t pass = 0; pass < work->passes; pass++)
        rf_reader_take(reader, &reader->cursor, work_bytes(work));
    return seconds;
}

/* Chooses the work of a round: enough passes to be measured, and only the first rows of a matrix
 * that would take too long. */
static int set_size(struct rf_reader *reader, struct work *work, struct rf_error *error)
{
    size_t all = work->items, atom = work->part == linear_part ? RF_PANEL_ROWS : 1;
    size_t least = atom * (size_t)(work->what->in_cache ? 1 : reader->threads);
    /* In a cache: one matrix for each worker. Else one matrix that leaves room in the pool for the
     * measurements between rounds. */
    size_t part = work->what->in_cache ? reader->pool_bytes / (size_t)reader->threads
                                       : reader->pool_bytes / 4;
    size_t fits = part / work->unit_bytes * work->unit / atom * atom;
    if (all > fits) all = fits;
    if (all == 0)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "the shape %zux%zu is too large for a pool of %zu MiB", work->what->m,
                       work->what->k, reader->pool_bytes >> 20);
    work->items = all < least ? all : least;
    work->passes = 1;
    run_passes(reader, work); /* warms up */
    double each = run_passes(reader, work) / (double)work->items;
    work->items = all;
    if (each * (double)all > LONGEST) {
        size_t some = (size_t)(LONGEST / each) / atom * atom;
        work->items = some < least ? (least < all ? least : all) : some;
    }
    double wanted = work->what->in_cache ? CACHED_TIME : KERNEL_TIME,
           pass = each * (double)work->items;
    double most =
        work->what->in_cache ? 1e6 : (double)reader->pool_bytes / 4 / (double)work_bytes(work);
    double passes = ceil(wanted / (pass > 1e-9 ? pass : 1e-9));
    work->passes = (size_t)(passes > most ? most : passes);
    if (work->passes < 1) work->passes = 1;
    return 0;
}

/* The two limits of a kernel, per second. */
struct limits {
    double read, peak;
};

static struct limits measure_limits(struct cpu_bench *bench, const struct work *work)
{
    struct limits now = {bench->ceilings[CEILING_READ].usual,
                         cpu_ceiling_measure(bench, (int)work->peak, PEAK_TIME)};
    /* Reading the pool would evict the data of kernels that work in a cache. */
    if (!work->what->in_cache) now.read = cpu_ceiling_measure(bench, CEILING_READ, READ_TIME);
    return now;
}

/* values: 4 * asked->rounds of them. 1: `stop` ended it. */
static int measure_rounds(struct cpu_bench *bench, struct work *work, double *values,
                          int (*stop)(void *user), void *user, struct rf_roofline_result *result)
{
    int rounds = bench->asked->rounds;
    size_t n = (size_t)rounds;
    double *seconds = values, *of_read = values + rounds, *of_peak = of_read + rounds,
           *lower = of_peak + rounds;
    double times = (double)work->passes * (work->what->in_cache ? bench->reader.threads : 1);
    double bytes = times * (double)work_bytes(work),
           operations = times * (double)work->items * work->item_operations;
    result->operations_per_byte = operations / bytes;
    struct limits before = measure_limits(bench, work);
    for (int i = 0; i < rounds; i++) {
        if (stop(user)) return 1;
        seconds[i] = run_passes(&bench->reader, work);
        struct limits after = measure_limits(bench, work);
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

/* The kernels and the instruction that the case names. */
static struct work work_of(const struct cpu_bench *bench, const struct rf_roofline_case *what)
{
    struct work work = {.bench = bench,
                        .what = what,
                        .table = what->is_generated ? rf_cpu_kernels(what->tier)
                                                    : rf_kernels(what->tier)};
    work.peak = what->kernel->is_attention && what->kernel->kv == RF_KV_F16
                    ? rf_peak_of_floats(what->tier)
                    : rf_peak_of(operand_of(&work), what->tier, what->rows);
    return work;
}

static void name_result(const struct work *work, struct rf_roofline_result *result)
{
    const struct rf_roofline_case *what = work->what;
    result->ceiling = rf_peak_key(work->peak);
    result->m = what->in_cache ? work->items : what->m;
    result->k = what->k;
    if (what->kernel->is_attention) {
        result->m = what->in_cache ? attention_positions(what) : CONTEXT;
        result->k = HEAD_DIM;
    }
}

int cpu_kernel_measure(void *user_bench, const struct rf_roofline_case *what,
                       int (*stop)(void *user), void *user, struct rf_roofline_result *result,
                       struct rf_error *error)
{
    struct cpu_bench *bench = user_bench;
    const struct rf_allocator *allocator = bench->allocator;
    size_t rounds = (size_t)bench->asked->rounds;
    struct work work = work_of(bench, what);
    *result = (struct rf_roofline_result){0};
    int code =
        what->kernel->is_attention ? attention_work(&work, error) : linear_work(&work, error);
    double *values =
        code ? NULL : rf_malloc(allocator, rounds, 4 * sizeof *values, "roofline", error);
    size_t slots = what->in_cache ? (size_t)bench->reader.threads : 1;
    if (values)
        work.y = rf_malloc(allocator, slots * work.slot_floats, sizeof *work.y, "roofline", error);
    if (!work.y) code = RF_ERR_MEMORY;
    if (!code) code = set_size(&bench->reader, &work, error);
    if (!code && measure_rounds(bench, &work, values, stop, user, result))
        code = rf_fail(error, RF_ERR_CANCELLED, "roofline: cancelled");
    name_result(&work, result);
    rf_free(allocator, work.y);
    rf_free(allocator, values);
    rf_free(allocator, work.x);
    return code;
}
