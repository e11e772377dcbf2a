/* The device of the program's roofline (src/program/machine/device.h) that this module offers: its
 * ceilings, then linear layers and attention beside them. A round measures the ceilings and the
 * kernel one after the other. The program looks up the entry point at the end of this file. */
#include "base/median.h"
#include "gpu/cuda_backend.h"
#include "machine/cuda.h"
#include "microkernels/kv.h"

enum {
    READ,
    COPY,
    PEAKS, /* enum gpu_peak from here on */
    CEILINGS = PEAKS + GPU_PEAKS,
    SAMPLES = 4096, /* measurements of a ceiling that are kept */
    /* The attention of Qwen2.5-7B. */
    CONTEXT = 32768,
    HEAD_DIM = 128,
    HEADS = 28,
    KV_HEADS = 4,
    GROUPS = CONTEXT / GPU_CHUNK,
    CACHE_LAUNCHES = 16, /* launches of a kernel whose data stay in the second cache */
    MOST_TAKEN = 8
};

static const size_t POOL = (size_t)1 << 30;
static const int32_t default_rows[] = {1, 4, 8, 16, 512};
static const int32_t peak_loops[GPU_PEAKS] = {1024, 128, 1024, 2048}; /* about 0.1 ms */

static const struct {
    const char *key, *name;
} ceiling_names[CEILINGS] = {[READ] = {"read", "reading memory"},
                             [COPY] = {"copy", "copying memory, both ways"},
                             [PEAKS + GPU_PEAK_BF16] = {"mma_bf16", "mma.sync, BF16"},
                             [PEAKS + GPU_PEAK_WGMMA] = {"wgmma_bf16", "wgmma, BF16"},
                             [PEAKS + GPU_PEAK_INT8] = {"mma_int8", "mma.sync, INT8"},
                             [PEAKS + GPU_PEAK_DP4A] = {"dp4a", "dp4a"}};

struct samples {
    double rates[SAMPLES];
    size_t n;
};

struct bench {
    const struct rf_allocator *allocator;
    struct rf_backend *base;
    const struct gpu_backend *backend; /* base as its own kind */
    const struct rf_roofline_request *asked;
    struct samples ceilings[CEILINGS];
    cudaEvent_t at[2];
    char *pool; /* random bits */
    size_t pool_bytes, cache_bytes;
    int has_wide;
};

/* A kernel with its data. */
struct work {
    const struct bench *bench;
    const struct rf_roofline_kernel *kernel;
    int32_t m, k, rows;
    int in_cache, launches;
    size_t bytes; /* read by one launch */
    double operations;
    struct gpu_linear linear;
    struct gpu_attention attention;
    struct gpu_rows out;
    cudaGraphExec_t graph; /* the launches, recorded as a pass is */
    void *taken[MOST_TAKEN];
    int n_taken;
};

/* 1 if the rows of activations are of 16 bits. */
static int has_16_bits(const struct work *work)
{
    return work->kernel->operand == RF_OPERAND_A16;
}

/* ---- ceilings ---- */

static cudaError_t run_ceiling(const struct bench *bench, int which, double *amount)
{
    cudaStream_t stream = bench->backend->stream;
    size_t half = bench->pool_bytes / 2;
    *amount = (double)bench->pool_bytes;
    if (which == READ) return gpu_read(stream, bench->pool, bench->pool_bytes, (void *)bench->pool);
    if (which == COPY)
        return cudaMemcpyAsync(bench->pool + half, bench->pool, half, cudaMemcpyDeviceToDevice,
                               stream);
    return gpu_peak(stream, (enum gpu_peak)(which - PEAKS), peak_loops[which - PEAKS],
                    (void *)bench->pool, amount);
}

static cudaError_t run_attention(const struct work *work, const struct gpu_launch *launch,
                                 int32_t layer)
{
    struct gpu_attention attention = work->attention;
    cudaError_t status = cudaSuccess;
    attention.layer = layer;
    if (attention.has_spans) status = gpu_attention_kv(launch, &attention);
    if (status == cudaSuccess) status = gpu_attention(launch, &attention);
    return status == cudaSuccess ? gpu_merge(launch, &attention, &work->out, work->rows) : status;
}

static cudaError_t run_work(const struct work *work)
{
    const struct gpu_backend *backend = work->bench->backend;
    const struct gpu_launch launch = {backend->stream, backend->overlap};
    struct gpu_linear linear = work->linear;
    cudaError_t status = cudaSuccess;
    for (int i = 0; status == cudaSuccess && i < work->launches; i++) {
        int at = work->in_cache ? 0 : i;
        linear.matrices[0].tiles = work->bench->pool + (size_t)at * work->bytes;
        status = work->kernel->is_attention ? run_attention(work, &launch, at)
                                            : gpu_linear(&launch, &linear);
    }
    return status;
}

/* Seconds of a ceiling's run, or of the work's if that is not NULL. */
static cudaError_t time_run(const struct bench *bench, int which, const struct work *work,
                            double *amount, double *seconds)
{
    float ms = 0;
    cudaError_t status = cudaEventRecord(bench->at[0], bench->backend->stream);
    if (status == cudaSuccess)
        status = work ? cudaGraphLaunch(work->graph, bench->backend->stream)
                      : run_ceiling(bench, which, amount);
    if (status == cudaSuccess) status = cudaEventRecord(bench->at[1], bench->backend->stream);
    if (status == cudaSuccess) status = cudaEventSynchronize(bench->at[1]);
    if (status == cudaSuccess) status = cudaEventElapsedTime(&ms, bench->at[0], bench->at[1]);
    *seconds = (double)ms * 1e-3;
    return status;
}

static cudaError_t measure_ceiling(struct bench *bench, int which, double *rate)
{
    struct samples *samples = &bench->ceilings[which];
    double amount = 0, seconds;
    cudaError_t status = time_run(bench, which, NULL, &amount, &seconds);
    *rate = seconds > 0 ? amount / seconds : 0;
    if (status == cudaSuccess && samples->n < SAMPLES) samples->rates[samples->n++] = *rate;
    return status;
}

static int roofline_ceilings(void *user_bench,
                             int (*report)(void *user, const struct rf_ceiling *ceiling),
                             void *user)
{
    struct bench *bench = user_bench;
    int stopped = 0;
    for (int i = 0; i < CEILINGS && !stopped; i++) {
        struct samples *samples = &bench->ceilings[i];
        struct rf_ceiling ceiling = {.key = ceiling_names[i].key,
                                     .name = ceiling_names[i].name,
                                     .is_bandwidth = i < PEAKS,
                                     .threads = 1};
        if (!samples->n) continue; /* the device has no such instruction */
        ceiling.per_second = rf_median(samples->rates, samples->n);
        ceiling.best = samples->rates[samples->n - 1];
        stopped = report(user, &ceiling);
    }
    return stopped;
}

static int roofline_begin(void *user_bench, int32_t threads, struct rf_error *error)
{
    (void)threads;
    struct bench *bench = user_bench;
    cudaError_t status = cudaSuccess;
    if (bench->ceilings[READ].n) return 0;
    for (int i = 0; i < CEILINGS; i++) {
        double rate;
        if (i == PEAKS + GPU_PEAK_WGMMA && !bench->has_wide) continue;
        /* The first runs wake the device up. */
        for (int n = 0; n < 2 * bench->asked->rounds && status == cudaSuccess; n++) {
            status = measure_ceiling(bench, i, &rate);
            if (n == bench->asked->rounds - 1) bench->ceilings[i].n = 0;
        }
    }
    return gpu_check(status, "measuring", error);
}

/* ---- kernels ---- */

static void *work_take(struct work *work, size_t bytes, struct rf_error *error)
{
    const struct gpu_backend *backend = work->bench->backend;
    void *memory = gpu_take(backend, bytes, "roofline", error);
    if (!memory) return NULL;
    work->taken[work->n_taken++] = memory;
    gpu_fill(backend->stream, memory, bytes);
    return memory;
}

static void work_free(struct work *work)
{
    if (work->graph) cudaGraphExecDestroy(work->graph);
    for (int i = 0; i < work->n_taken; i++) gpu_give(work->bench->backend, work->taken[i]);
}

/* 1 if wgmma does a layer's products, of BF16 or of panels (in F16, at the same rate). */
static int takes_wide(const struct work *work)
{
    return work->bench->has_wide && work->rows > GPU_NARROW_ROWS && !has_16_bits(work);
}

static int work_rows_new(struct work *work, struct gpu_rows *x, struct rf_error *error)
{
    size_t pairs = ((size_t)work->k + GPU_PAIR - 1) / GPU_PAIR, rows = (size_t)work->rows,
           values = (rows + GPU_ROW_GROUP - 1) / GPU_ROW_GROUP * GPU_ROW_GROUP * pairs * GPU_PAIR,
           scales = values / RF_BLOCK * 2 * sizeof(float);
    *x = (struct gpu_rows){.width = work->k, .pairs = (int32_t)pairs};
    if (work->kernel->format == RF_FORMAT_BF16) {
        if (takes_wide(work))
            x->arranged = work_take(work, gpu_arranged_bytes(rows, pairs), error);
        else
            x->bf16 = work_take(work, values * sizeof *x->bf16, error);
        return x->bf16 || x->arranged ? 0 : RF_ERR_MEMORY;
    }
    if (takes_wide(work)) {
        x->pieces = work_take(work, gpu_pieces_bytes(rows, pairs), error);
        return x->pieces ? 0 : RF_ERR_MEMORY;
    }
    x->codes = work_take(work, values, error);
    x->scales = work_take(work, scales, error);
    x->halves = work_take(work, scales, error);
    if (has_16_bits(work)) x->low = work_take(work, values, error);
    return x->codes && x->scales && x->halves && (x->low || !has_16_bits(work)) ? 0 : RF_ERR_MEMORY;
}

static int linear_new(struct work *work, struct rf_error *error)
{
    struct gpu_linear *linear = &work->linear;
    size_t tile = gpu_layout(work->kernel->format, (size_t)work->k).bytes, most;
    most = (work->in_cache ? work->bench->cache_bytes : work->bench->pool_bytes) / tile;
    if ((size_t)work->m > most * RF_PANEL_ROWS) work->m = (int32_t)(most * RF_PANEL_ROWS);
    work->bytes = ((size_t)work->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS * tile;
    work->operations = 2.0 * work->m * work->k * work->rows;
    *linear = (struct gpu_linear){.format = work->kernel->format,
                                  .n = work->rows,
                                  .k = work->k,
                                  .n_matrices = 1,
                                  .parts = gpu_parts((size_t)work->m)};
    int code = work_rows_new(work, &linear->x, error);
    float *y = work_take(work, (size_t)work->m * (size_t)work->rows * sizeof *y, error);
    linear->matrices[0] = (struct gpu_matrix){.y = y, .rows = work->m};
    return y ? code : RF_ERR_MEMORY;
}

/* The rows' places, their tiles and the cache's blocks, in the device's memory. */
static int attention_places(struct work *work, struct rf_error *error)
{
    const struct bench *bench = work->bench;
    struct gpu_row rows[RF_ROOFLINE_ATTENTION_ROWS];
    struct gpu_tile tiles[RF_ROOFLINE_ATTENTION_ROWS];
    uint16_t *blocks[CONTEXT / GPU_KV_BLOCK];
    uint8_t *groups[GROUPS];
    size_t of_group = bench->pool_bytes / GROUPS / 16 * 16;
    int32_t n = work->rows, n_tiles = 0;
    for (int32_t i = 0; i < n; i++)
        rows[i] = (struct gpu_row){.position = CONTEXT - n + i,
                                   .slot = CONTEXT - n + i,
                                   .first = CONTEXT - n,
                                   .map = GPU_NO_MAP};
    for (int32_t i = 0; i < n; i += GPU_TILE_ROWS)
        tiles[n_tiles++] =
            (struct gpu_tile){i, n - i < GPU_TILE_ROWS ? n - i : (int32_t)GPU_TILE_ROWS};
    for (size_t b = 0; b < CONTEXT / GPU_KV_BLOCK; b++) /* groups leave few blocks: anywhere */
        blocks[b] =
            (uint16_t *)(void *)(bench->pool +
                                 (rf_kv_is_quantised(work->kernel->kv) ? b / 2 : b) * 2 * of_group);
    for (size_t g = 0; g < GROUPS; g++) groups[g] = (uint8_t *)bench->pool + g * of_group;
    const struct {
        const void *from;
        size_t bytes;
    } parts[] = {{rows, (size_t)n * sizeof *rows},
                 {tiles, (size_t)n_tiles * sizeof *tiles},
                 {blocks, sizeof blocks},
                 {groups, sizeof groups}};
    void *to[4];
    cudaError_t status = cudaSuccess;
    for (int i = 0; i < 4 && status == cudaSuccess; i++) {
        to[i] = work_take(work, parts[i].bytes, error);
        if (!to[i]) return RF_ERR_MEMORY;
        status = cudaMemcpyAsync(to[i], parts[i].from, parts[i].bytes, cudaMemcpyHostToDevice,
                                 bench->backend->stream);
    }
    if (status == cudaSuccess) status = cudaStreamSynchronize(bench->backend->stream);
    work->attention.pass =
        (struct gpu_pass){.rows = to[0], .tiles = to[1], .blocks = to[2], .groups = to[3]};
    work->attention.n_tiles = n_tiles;
    return gpu_check(status, "roofline", error);
}

static int attention_new(struct work *work, struct rf_error *error)
{
    const struct rf_params params = {
        .n_layer = 1, .n_head = HEADS, .n_head_kv = KV_HEADS, .head_dim = HEAD_DIM};
    struct gpu_heads heads = gpu_heads_of(&params, work->kernel->kv);
    const struct gpu_cut cut = gpu_cut_of(&heads, CONTEXT - 1);
    size_t rows = (size_t)work->rows, width = (size_t)HEADS * HEAD_DIM,
           groups = (size_t)cut.groups * KV_HEADS,
           halves = CONTEXT - (size_t)cut.groups * GPU_CHUNK;
    int code = attention_places(work, error);
    if (code) return code;
    float *q = work_take(work, rows * width * sizeof *q, error);
    float *partials = work_take(
        work, rows * HEADS * (size_t)cut.parts * (HEAD_DIM + 2) * sizeof *partials, error);
    work->m = CONTEXT;
    work->k = HEAD_DIM;
    work->bytes = halves * KV_HEADS * 2 * HEAD_DIM * sizeof(uint16_t) +
                  groups * (rf_kv_upper_bytes(HEAD_DIM) +
                            (work->kernel->kv == RF_KV_Q8 ? rf_kv_lower_bytes(HEAD_DIM) : 0));
    work->operations = 4.0 * CONTEXT * HEADS * HEAD_DIM * work->rows;
    work->out = (struct gpu_rows){.f32 = work_take(work, rows * width * sizeof(float), error),
                                  .width = (int32_t)width,
                                  .pairs = (int32_t)width / GPU_PAIR};
    heads.planes = KV_HEADS * (int32_t)(work->bench->pool_bytes / work->bytes);
    work->attention.heads = heads;
    work->attention.q = q;
    work->attention.partials = partials;
    work->attention.parts = cut.parts;
    work->attention.has_spans = heads.quantised != 0;
    work->attention.queries =
        HEADS / KV_HEADS * (work->rows < GPU_TILE_ROWS ? work->rows : (int32_t)GPU_TILE_ROWS);
    work->attention.scale = 0.08838835f;
    return q && partials && work->out.f32 ? 0 : RF_ERR_MEMORY;
}

/* The instruction that does a kernel's products. */
static int peak_of(const struct work *work)
{
    const struct rf_roofline_kernel *kernel = work->kernel;
    enum gpu_peak peak = GPU_PEAK_INT8;
    if (kernel->is_attention)
        peak = rf_kv_is_quantised(kernel->kv) ? GPU_PEAK_INT8 : GPU_PEAK_BF16;
    else if (takes_wide(work))
        peak = GPU_PEAK_WGMMA;
    else if (kernel->format == RF_FORMAT_BF16)
        peak = GPU_PEAK_BF16;
    else if (work->rows == 1 && !has_16_bits(work) && !gpu_has_small_groups(kernel->format))
        peak = GPU_PEAK_DP4A;
    return (int)PEAKS + (int)peak;
}

static cudaError_t work_record(struct work *work)
{
    cudaStream_t stream = work->bench->backend->stream;
    cudaGraph_t recorded = NULL;
    cudaError_t status = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (status != cudaSuccess) return status;
    cudaError_t launched = run_work(work);
    status = cudaStreamEndCapture(stream, &recorded);
    if (launched != cudaSuccess) status = launched;
    if (status == cudaSuccess) status = cudaGraphInstantiate(&work->graph, recorded, 0);
    if (recorded) cudaGraphDestroy(recorded);
    return status;
}

static int roofline_measure_rounds(struct bench *bench, struct work *work,
                                   struct rf_roofline_result *result, struct rf_error *error)
{
    size_t rounds = (size_t)bench->asked->rounds;
    double *values = rf_malloc(bench->allocator, rounds, 3 * sizeof *values, "roofline", error);
    if (!values) return RF_ERR_MEMORY;
    double *seconds = values, *of_read = values + rounds, *of_peak = of_read + rounds, read, peak;
    double bytes = (double)work->bytes * work->launches,
           operations = work->operations * work->launches;
    int peak_at = peak_of(work);
    cudaError_t status = run_work(work);
    if (status == cudaSuccess) status = work_record(work);
    for (size_t i = 0; i < rounds && status == cudaSuccess; i++) {
        status = measure_ceiling(bench, READ, &read);
        if (status == cudaSuccess) status = measure_ceiling(bench, peak_at, &peak);
        /* Reading memory has emptied the cache. */
        if (status == cudaSuccess && work->in_cache) status = run_work(work);
        if (status == cudaSuccess) status = time_run(bench, 0, work, NULL, &seconds[i]);
        if (status != cudaSuccess) break;
        of_read[i] = bytes / seconds[i] / read;
        of_peak[i] = operations / seconds[i] / peak;
    }
    if (status == cudaSuccess) {
        double usual = rf_median(seconds, rounds);
        *result = (struct rf_roofline_result){.ceiling = ceiling_names[peak_at].key,
                                              .m = (size_t)work->m,
                                              .k = (size_t)work->k,
                                              .bytes_per_second = bytes / usual,
                                              .operations_per_second = operations / usual,
                                              .operations_per_byte = operations / bytes,
                                              .of_read = rf_median(of_read, rounds),
                                              .of_peak = rf_median(of_peak, rounds)};
        result->compute_binds = work->in_cache || result->of_peak > result->of_read;
    }
    rf_free(bench->allocator, values);
    return gpu_check(status, work->kernel->name, error);
}

static int roofline_measure(void *user_bench, const struct rf_roofline_case *what,
                            int (*stop)(void *user), void *user, struct rf_roofline_result *result,
                            struct rf_error *error)
{
    struct bench *bench = user_bench;
    struct work work = {.bench = bench,
                        .kernel = what->kernel,
                        .m = (int32_t)what->m,
                        .k = (int32_t)what->k,
                        .rows = (int32_t)what->rows,
                        .in_cache = what->in_cache};
    if (stop(user)) return rf_fail(error, RF_ERR_CANCELLED, "roofline: cancelled");
    int code = what->kernel->is_attention ? attention_new(&work, error) : linear_new(&work, error);
    if (!code) {
        work.launches = what->in_cache ? CACHE_LAUNCHES : (int)(bench->pool_bytes / work.bytes);
        code = roofline_measure_rounds(bench, &work, result, error);
    }
    work_free(&work);
    return code;
}

/* ---- the device ---- */

static void roofline_close(void *user_bench)
{
    struct bench *bench = user_bench;
    if (bench->backend) {
        gpu_give(bench->backend, bench->pool);
        for (int i = 0; i < 2; i++)
            if (bench->at[i]) cudaEventDestroy(bench->at[i]);
        bench->base->ops->free(bench->base);
    }
    rf_free(bench->allocator, bench);
}

static int roofline_take_pool(struct bench *bench, struct rf_error *error)
{
    struct cudaDeviceProp properties;
    const struct gpu_backend *backend = bench->backend;
    int code = gpu_check(cudaGetDeviceProperties(&properties, backend->device), "a device", error);
    if (code) return code;
    bench->has_wide = backend->has_wgmma;
    bench->cache_bytes = (size_t)properties.l2CacheSize / 3;
    size_t wanted = bench->asked->pool_bytes ? (size_t)bench->asked->pool_bytes : POOL,
           least = (size_t)4 * (size_t)properties.l2CacheSize;
    bench->pool_bytes = (wanted > least ? wanted : least) & ~(size_t)4095;
    bench->pool = gpu_take(backend, bench->pool_bytes, "roofline", error);
    if (!bench->pool) return RF_ERR_MEMORY;
    for (int i = 0; !code && i < 2; i++)
        code = gpu_check(cudaEventCreate(&bench->at[i]), "an event", error);
    return code ? code
                : gpu_check(gpu_fill(backend->stream, bench->pool, bench->pool_bytes), "roofline",
                            error);
}

static int roofline_open(void **bench, const struct rf_backend_options *options,
                         const struct rf_roofline_request *request,
                         const struct rf_allocator *allocator, struct rf_error *error)
{
    *bench = NULL;
    struct bench *made = rf_calloc(allocator, 1, sizeof *made, "roofline", error);
    if (!made) return RF_ERR_MEMORY;
    made->allocator = allocator;
    made->asked = request;
    int code = gpu_open(&made->base, options, allocator, error);
    if (!code) {
        made->backend = gpu_backend_of(made->base);
        code = roofline_take_pool(made, error);
    }
    if (code)
        roofline_close(made);
    else
        *bench = made;
    return code;
}

static const struct rf_roofline_device device = {
    .tier = "cuda",
    .default_rows = default_rows,
    .n_default_rows = sizeof default_rows / sizeof *default_rows,
    .open = roofline_open,
    .close = roofline_close,
    .begin = roofline_begin,
    .ceilings = roofline_ceilings,
    .measure = roofline_measure,
};

__attribute__((visibility("default"))) rf_cuda_roofline_fn riffle_cuda_roofline;

const struct rf_roofline_device *riffle_cuda_roofline(size_t fingerprint)
{
    return fingerprint == rf_cuda_roofline_fingerprint() ? &device : NULL;
}
