/* Speeds of a CUDA device: reading memory, linear layers beside it, and passes of models whose
 * shapes are those of known ones. Their weights are made up, and all tensors of a type lie in the
 * same host memory. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/devices.h"
#include "gpu/kernels.h"
#include "infer/model.h"
#include "infer/program.h"
#include "model/tensors.h"
#include "platform/clock.h"
#include "platform/memory.h"

#define MUST(call)                                                          \
    do {                                                                    \
        struct rf_error error = {.text = ""};                               \
        if (call) {                                                         \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, error.text); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)
#define MUST_RUN(call)                                                                       \
    do {                                                                                     \
        cudaError_t status_ = (call);                                                        \
        if (status_ != cudaSuccess) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status_)); \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

enum { ROUNDS = 9, N_TENSORS = 1024 };

static const double WARM_UP = 0.03; /* seconds */
static const char *only = "";       /* names of layers and models that are measured have it */
static double read_speed;           /* bytes a second */
static cudaStream_t stream;

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, compare);
    return x[n / 2];
}

/* Seconds of what `work` enqueues, the median of ROUNDS, at the clocks of a busy device. */
static double time_work(void (*work)(void *), void *user)
{
    cudaEvent_t begin, end;
    double seconds[ROUNDS];
    MUST_RUN(cudaEventCreate(&begin));
    MUST_RUN(cudaEventCreate(&end));
    double start = rf_clock_seconds();
    do {
        work(user);
        MUST_RUN(cudaStreamSynchronize(stream));
    } while (rf_clock_seconds() - start < WARM_UP);
    for (int i = 0; i < ROUNDS; i++) {
        float ms;
        MUST_RUN(cudaEventRecord(begin, stream));
        work(user);
        MUST_RUN(cudaEventRecord(end, stream));
        MUST_RUN(cudaEventSynchronize(end));
        MUST_RUN(cudaEventElapsedTime(&ms, begin, end));
        seconds[i] = ms * 1e-3;
    }
    MUST_RUN(cudaEventDestroy(begin));
    MUST_RUN(cudaEventDestroy(end));
    return median(seconds, ROUNDS);
}

/* ---- memory ---- */

struct area {
    void *data;
    size_t bytes;
    uint32_t *out;
};

static void read_area(void *user)
{
    const struct area *area = user;
    MUST_RUN(gpu_read(stream, area->data, area->bytes, area->out));
}

static void copy_area(void *user)
{
    const struct area *area = user;
    MUST_RUN(cudaMemcpyAsync(area->data, (char *)area->data + area->bytes / 2, area->bytes / 2,
                             cudaMemcpyDeviceToDevice, stream));
}

static void measure_memory(void)
{
    struct area area = {.bytes = (size_t)4 << 30};
    MUST_RUN(cudaMalloc(&area.data, area.bytes));
    MUST_RUN(cudaMemset(area.data, 1, area.bytes));
    void *out;
    MUST_RUN(cudaMalloc(&out, 4));
    area.out = out;
    read_speed = (double)area.bytes / time_work(read_area, &area);
    double copied = (double)area.bytes / time_work(copy_area, &area);
    printf("read %.0f GB/s, copy %.0f GB/s (read and written)\n", read_speed * 1e-9, copied * 1e-9);
    MUST_RUN(cudaFree(area.data));
    MUST_RUN(cudaFree(out));
}

/* ---- linear layers ---- */

struct layers {
    struct gpu_linear args;
    char *tiles;
    size_t bytes;
    int n; /* copies, together larger than any cache */
};

static void run_layers(void *user)
{
    struct layers *layers = user;
    const struct gpu_launch launch = {stream, 1};
    for (int i = 0; i < layers->n; i++) {
        layers->args.matrices[0].tiles = layers->tiles + (size_t)i * layers->bytes;
        MUST_RUN(gpu_linear(&launch, &layers->args));
    }
}

/* Values around 0.02, random in their signs and bits. */
static void fill_bf16(void *to, size_t bytes)
{
    static uint16_t values[1 << 20];
    uint32_t state = 1;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        values[i] = (uint16_t)(((state = state * 1664525u + 1013904223u) >> 16 & 0x80ff) | 0x3c00);
    for (size_t at = 0; at < bytes; at += sizeof values)
        MUST_RUN(cudaMemcpy((char *)to + at, values,
                            bytes - at < sizeof values ? bytes - at : sizeof values,
                            cudaMemcpyHostToDevice));
}

/* 512 rows of such values, as wide kernels of panels take them. */
static char *make_pieces(int32_t k, int32_t pairs)
{
    const struct gpu_launch launch = {stream, 0};
    struct gpu_rows rows = {.width = k, .pairs = pairs};
    void *values, *pieces;
    MUST_RUN(cudaMalloc(&values, (size_t)512 * (size_t)k * sizeof(float)));
    MUST_RUN(cudaMalloc(&pieces, gpu_pieces_bytes(512, (size_t)pairs)));
    fill_bf16(values, (size_t)512 * (size_t)k * sizeof(float));
    rows.pieces = pieces;
    MUST_RUN(gpu_copy(&launch, &rows, values, 512));
    MUST_RUN(cudaStreamSynchronize(stream));
    MUST_RUN(cudaFree(values));
    return pieces;
}

static void measure_linear(int format, int32_t m, int32_t k)
{
    static const int32_t rows[] = {1, 2, 4, 8, 16, 32, 64, 512};
    if (!strstr(rf_panel_layout((enum rf_format)format)->name, only)) return;
    struct gpu_layout layout = gpu_layout(format, (size_t)k);
    struct layers layers = {.bytes = (size_t)((m + 15) / 16) * layout.bytes};
    int32_t pairs = (k + 63) / 64;
    layers.n = (int)(((size_t)1 << 30) / layers.bytes) + 1;
    struct cudaDeviceProp properties;
    void *memory[7];
    MUST_RUN(cudaGetDeviceProperties(&properties, 0));
    MUST_RUN(cudaMalloc(&memory[0], layers.bytes * (size_t)layers.n));
    MUST_RUN(cudaMalloc(&memory[1], (size_t)512 * (size_t)pairs * 64 * 2));
    MUST_RUN(cudaMalloc(&memory[2], (size_t)512 * (size_t)pairs * 64));
    MUST_RUN(cudaMalloc(&memory[3], (size_t)512 * (size_t)pairs * 32));
    MUST_RUN(cudaMalloc(&memory[4], (size_t)512 * (size_t)m * 4));
    MUST_RUN(cudaMalloc(&memory[5], gpu_arranged_bytes(512, (size_t)pairs)));
    MUST_RUN(cudaMemset(memory[0], 0x11, layers.bytes * (size_t)layers.n));
    for (int i = 1; i < 4; i++)
        MUST_RUN(cudaMemset(memory[i], 0, (size_t)512 * (size_t)pairs * 32));
    if (format == RF_FORMAT_BF16) {
        fill_bf16(memory[0], layers.bytes * (size_t)layers.n);
        fill_bf16(memory[1], (size_t)512 * (size_t)pairs * 64 * 2);
        fill_bf16(memory[5], gpu_arranged_bytes(512, (size_t)pairs));
    }
    memory[6] = make_pieces(k, pairs);
    if (format != RF_FORMAT_BF16)
        MUST_RUN(gpu_fill(stream, memory[0], layers.bytes * (size_t)layers.n));
    layers.tiles = memory[0];
    layers.args = (struct gpu_linear){.format = format,
                                      .k = k,
                                      .n_matrices = 1,
                                      .parts = gpu_parts((size_t)m),
                                      .matrices = {{.y = memory[4], .rows = m}},
                                      .x = {.bf16 = memory[1],
                                            .codes = memory[2],
                                            .scales = memory[3],
                                            .halves = memory[3],
                                            .width = k,
                                            .pairs = pairs}};
    printf("%-6s %5d x %5d:", rf_panel_layout((enum rf_format)format)->name, m, k);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        layers.args.n = rows[r];
        if (gpu_has_wide(properties.major, properties.minor) && rows[r] > GPU_NARROW_ROWS) {
            layers.args.x.arranged = memory[5];
            layers.args.x.pieces = memory[6];
        }
        double seconds = time_work(run_layers, &layers) / layers.n;
        if (rows[r] < 64)
            printf("  %d: %.0f %%", rows[r], (double)layers.bytes / seconds / read_speed * 100);
        else
            printf("  %d: %.0f TF/s", rows[r], 2e-12 * m * k * rows[r] / seconds);
    }
    printf("\n");
    fflush(stdout);
    for (int i = 0; i < 7; i++) MUST_RUN(cudaFree(memory[i]));
}

/* ---- models ---- */

static void *noise[RF_DTYPE_LIMIT]; /* values of each type */

/* Blocks with random codes and small scales; a BF16 value around 0.02. */
static const void *noise_of(enum rf_dtype dtype, size_t bytes)
{
    if (noise[dtype]) return noise[dtype];
    size_t block = rf_dtype_info(dtype)->block_bytes;
    uint8_t *data = noise[dtype] = malloc(bytes);
    uint32_t state = 1;
    if (!data) exit(1);
    for (size_t i = 0; i < bytes && i < (size_t)1 << 22; i++)
        data[i] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
    for (size_t i = 0; i + block <= bytes && i < (size_t)1 << 22; i += block) {
        if (dtype == RF_Q4_K) memcpy(data + i, "\x8f\x06\x31\x10", 4);
        if (dtype == RF_Q6_K) memcpy(data + i + 208, "\x50\x01", 2);
        if (dtype == RF_MXFP4) data[i] = 119;
        if (dtype == RF_BF16) data[i + 1] = (uint8_t)((data[i + 1] & 0x80) | 0x3c);
        if (dtype == RF_F32) memcpy(data + i, "\0\0\x80\x3f", 4);
    }
    size_t whole = ((size_t)1 << 22) / block * block;
    for (size_t i = whole; i < bytes; i += whole)
        memcpy(data + i, data, bytes - i < whole ? bytes - i : whole);
    return data;
}

struct made {
    struct rf_source source;
    struct rf_tensor tensors[N_TENSORS];
    char names[N_TENSORS][48];
    uint64_t widest;
};

static void add_tensor(struct made *made, int32_t layer, const char *name, enum rf_dtype dtype,
                       int64_t ne0, int64_t ne1, int64_t ne2)
{
    struct rf_tensor *tensor = &made->tensors[made->source.n_tensors];
    char *full = made->names[made->source.n_tensors++];
    if (layer >= 0)
        snprintf(full, sizeof *made->names, "blk.%d.%s", layer, name);
    else
        snprintf(full, sizeof *made->names, "%s", name);
    *tensor = (struct rf_tensor){.name = full,
                                 .dtype = dtype,
                                 .n_dims = ne2 > 1   ? 3
                                           : ne1 > 1 ? 2
                                                     : 1,
                                 .ne = {ne0, ne1, ne2, 1}};
    tensor->bytes = rf_dtype_bytes(dtype, (size_t)(ne0 * ne1 * ne2));
    size_t room = rf_dtype_bytes(dtype, (size_t)(ne0 > 8192 ? ne0 : 8192) *
                                            (size_t)made->source.params.n_vocab);
    tensor->data = noise_of(dtype, dtype == RF_F32 ? 1 << 22 : room);
}

/* The types of a model's tensors. */
struct types {
    enum rf_dtype matrices, experts;
};

static enum rf_dtype type_of(const struct types *types, enum rf_weight_role role)
{
    if (role == RF_WEIGHT_VECTOR) return RF_F32;
    if (role == RF_WEIGHT_ROUTER) return RF_BF16;
    return role == RF_WEIGHT_EXPERTS ? types->experts : types->matrices;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct rf_tensor *)a)->name, ((const struct rf_tensor *)b)->name);
}

static void make_source(struct made *made, const struct rf_params *params,
                        const struct types *types)
{
    memset(made, 0, sizeof *made);
    made->source.params = *params;
    made->source.name = "made up";
    made->source.tensors = made->tensors;
    const struct rf_params *p = &made->source.params;
    int32_t layer = -1;
#define ADD(field, gguf, hf, role, ne0, ne1, condition)                           \
    if (condition)                                                                \
        add_tensor(made, layer, gguf, type_of(types, RF_WEIGHT_##role), ne0, ne1, \
                   RF_WEIGHT_##role == RF_WEIGHT_EXPERTS ? p->n_expert : 1);
    RF_EACH_MODEL_TENSOR(ADD)
    for (layer = 0; layer < p->n_layer; layer++) {
        RF_EACH_LAYER_TENSOR(ADD)
    }
#undef ADD
    qsort(made->tensors, (size_t)made->source.n_tensors, sizeof *made->tensors, compare_names);
}

/* Seconds of a pass over n rows after `context` positions. */
static double time_pass(struct rf_view *view, struct rf_cache *cache, int32_t n, int32_t context)
{
    static int32_t tokens[RF_MAX_ROWS];
    int32_t last = n - 1, wanted[16];
    struct rf_best best[16];
    double seconds[ROUNDS];
    for (int32_t i = 0; i < n; i++) tokens[i] = (i * 7919 + 1) % 1000;
    for (int32_t i = 0; i < 16; i++) wanted[i] = i;
    const struct rf_rows rows = {.cache = cache, .tokens = tokens, .n = n, .first_pos = context};
    const struct rf_pass pass = {.groups = &rows,
                                 .n_groups = 1,
                                 .wanted = n <= 16 ? wanted : &last,
                                 .n_wanted = n <= 16 ? n : 1,
                                 .n_best = 1,
                                 .best = best};
    for (int i = -3; i < ROUNDS; i++) {
        double begin = rf_clock_seconds();
        MUST(rf_view_run(view, &pass, &error));
        if (i >= 0) seconds[i] = rf_clock_seconds() - begin;
    }
    return median(seconds, ROUNDS);
}

/* Reads RF_MAX_ROWS tokens from position `at` on. */
static void fill(struct rf_view *view, struct rf_cache *cache, int32_t at)
{
    static const int32_t tokens[RF_MAX_ROWS];
    const struct rf_rows rows = {
        .cache = cache, .tokens = tokens, .n = RF_MAX_ROWS, .first_pos = at};
    const struct rf_pass pass = {.groups = &rows, .n_groups = 1};
    MUST(rf_view_run(view, &pass, &error));
}

static void measure_model(const char *name, const struct rf_params *params, enum rf_dtype matrices,
                          enum rf_dtype experts)
{
    static struct made made;
    static const int32_t rows[] = {1, 2, 4, 8, 16, 64, 512}, contexts[] = {1024, 4096, 32768};
    const struct rf_backend_options first = {0};
    const struct rf_queue_options no_choice = {0};
    struct rf_backend *backend;
    struct rf_queue *queue;
    struct rf_model *model;
    struct rf_view *view;
    struct rf_cache *cache;
    struct rf_weight_cost cost;
    const struct types types = {matrices, experts};
    if (!strstr(name, only)) return;
    make_source(&made, params, &types);
    double begin = rf_clock_seconds();
    MUST(rf_cuda_backend_kind.open(&backend, &first, &rf_system_allocator, &error));
    MUST(backend->ops->queue_new(&queue, backend, &no_choice, NULL, &error));
    MUST(rf_model_load(&model, &made.source, queue, RF_WEIGHTS_STORED, NULL, NULL, &error));
    MUST(rf_weight_cost(&made.source, RF_WEIGHTS_STORED, &rf_cuda_backend_kind,
                        &rf_system_allocator, &cost, &error));
    double loaded = rf_clock_seconds() - begin, bytes = (double)cost.pass_bytes;
    const struct rf_view_options options = {.kv = RF_KV_F16, .max_rows = RF_MAX_ROWS};
    const struct rf_cache_shape shape = {&made.source.params, 33000, RF_KV_F16};
    MUST(rf_view_new(&view, model, queue, &options, &error));
    MUST(backend->ops->cache_new(&cache, backend, &shape, &error));
    printf("%s: %.2f GB a pass, loaded in %.1f s\n  rows:", name, bytes * 1e-9, loaded);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        double seconds = time_pass(view, cache, rows[r], 0);
        printf("  %d: %.3f ms", rows[r], seconds * 1e3);
        if (rows[r] <= 16) printf(" (%.0f %%)", bytes / seconds / read_speed * 100);
        if (rows[r] >= 64) printf(" (%.0f tokens/s)", rows[r] / seconds);
    }
    for (int32_t at = 0; at + RF_MAX_ROWS <= 32768; at += RF_MAX_ROWS) fill(view, cache, at);
    printf("\n  one row after");
    for (size_t c = 0; c < sizeof contexts / sizeof *contexts; c++) {
        double seconds = time_pass(view, cache, 1, contexts[c]);
        double kv =
            (double)contexts[c] * params->n_layer * params->n_head_kv * params->head_dim * 4;
        printf("  %d: %.3f ms (%.0f %%)", contexts[c], seconds * 1e3,
               (bytes + kv) / seconds / read_speed * 100);
    }
    printf("\n");
    fflush(stdout);
    backend->ops->cache_free(cache);
    rf_view_free(view);
    rf_model_free(model);
    backend->ops->queue_free(queue);
    backend->ops->free(backend);
}

/* The shapes of Qwen3-30B-A3B and of gpt-oss-20b. */
static void measure_experts(const struct rf_params *of_qwen2)
{
    static uint8_t flags[24];
    struct rf_params params = *of_qwen2;
    params.arch = RF_ARCH_QWEN3MOE;
    params.arch_name = "qwen3moe";
    params.n_layer = 48;
    params.n_embd = 2048;
    params.n_head = 32;
    params.n_head_kv = 4;
    params.n_ff = 768;
    params.n_expert = 128;
    params.n_expert_used = 8;
    params.expert_norm = 1;
    params.qkv_bias = 0;
    params.qk_norm = 1;
    params.tied_output = 0;
    measure_model("30B-A3B, Q4_K", &params, RF_Q4_K, RF_Q4_K);
    params.arch = RF_ARCH_GPT_OSS;
    params.arch_name = "gpt-oss";
    params.n_layer = 24;
    params.n_embd = params.n_ff = 2880;
    params.n_head = 64;
    params.n_head_kv = 8;
    params.head_dim = params.rope_dim = 64;
    params.n_vocab = 201088;
    params.n_expert = 32;
    params.n_expert_used = 4;
    params.qk_norm = 0;
    params.qkv_bias = params.o_bias = params.expert_bias = params.attn_sinks = 1;
    params.gate_alpha = 1.702f;
    params.gate_limit = 7;
    params.window = 128;
    params.layer_flags = flags;
    for (int l = 0; l < 24; l += 2) flags[l] = RF_LAYER_WINDOW;
    measure_model("gpt-oss-20b, BF16 and MXFP4", &params, RF_BF16, RF_MXFP4);
}

int main(int argc, char **argv)
{
    static const int32_t shapes[][2] = {{8192, 8192}, {3584, 3584},  {37888, 3584}, {3584, 18944},
                                        {1536, 1536}, {17920, 1536}, {1536, 8960}};
    struct rf_params params = {.arch = RF_ARCH_QWEN2,
                               .arch_name = "qwen2",
                               .n_layer = 28,
                               .n_embd = 1536,
                               .n_head = 12,
                               .n_head_kv = 2,
                               .head_dim = 128,
                               .n_ff = 8960,
                               .n_vocab = 151936,
                               .n_ctx_train = 32768,
                               .rms_eps = 1e-6f,
                               .rope_style = RF_ROPE_NEOX,
                               .rope_dim = 128,
                               .rope.theta = 1e6f,
                               .rope.scale = 1.0f,
                               .rope.magnitude = 1.0f,
                               .tied_output = 1,
                               .qkv_bias = 1};
    const char *part = argc > 1 ? argv[1] : ""; /* "layers", "models", "experts" or all */
    int all = !*part, layers = all || !strcmp(part, "layers"),
        models = all || !strcmp(part, "models");
    if (argc > 2) only = argv[2];
    MUST_RUN(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    measure_memory();
    for (size_t s = 0; layers && s < sizeof shapes / sizeof *shapes; s++) {
        measure_linear(RF_FORMAT_BF16, shapes[s][0], shapes[s][1]);
        measure_linear(RF_FORMAT_Q4_K, shapes[s][0], shapes[s][1]);
    }
    for (int f = RF_FORMAT_MXFP4; layers && f < RF_DEVICE_FORMAT_COUNT; f++)
        if (f != RF_FORMAT_Q4_K) measure_linear(f, 8192, 8192);
    if (all || !strcmp(part, "experts")) measure_experts(&params);
    if (!models) return 0;
    measure_model("1.5B, BF16", &params, RF_BF16, RF_BF16);
    measure_model("1.5B, Q4_K", &params, RF_Q4_K, RF_Q4_K);
    params.n_embd = 3584;
    params.n_head = 28;
    params.n_head_kv = 4;
    params.n_ff = 18944;
    params.n_vocab = 152064;
    params.tied_output = 0;
    measure_model("7B, Q4_K", &params, RF_Q4_K, RF_Q4_K);
    measure_model("7B, BF16", &params, RF_BF16, RF_BF16);
    return 0;
}
