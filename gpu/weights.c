/* Places a model's weights on the device by their plans (weights/plan.h): matrices as tiles in its
 * memory, vectors in F32 there, tables in the file. The host packs pieces of rows into pinned
 * buffers; the device copies and lays out one piece while the host fills the next. The engine calls
 * this through the backend's table. */
#include "gpu/cuda_backend.h"
#include "microkernels/kernels.h"
#include "weights/pack.h"

enum { BUFFERS = 2 };
static const size_t PIECE = (size_t)16 << 20; /* bytes, but at least one tile */

static size_t tile_count(size_t rows)
{
    return rf_padded(rows) / RF_PANEL_ROWS;
}

size_t gpu_matrix_bytes(const struct rf_weight_plan *plan)
{
    return tile_count(plan->rows) * gpu_layout(plan->format, plan->columns).bytes;
}

/* Bytes of a tile's rows as the host packs them: a panel, or as many rows of BF16. */
static size_t packed_tile_bytes(const struct rf_weight_plan *plan)
{
    return RF_PANEL_ROWS / plan->strip_rows * plan->strip_bytes;
}

struct rf_weight_bytes gpu_weight_bytes(const struct rf_weight_plan *plan)
{
    if (plan->role == RF_WEIGHT_TABLE)
        return (struct rf_weight_bytes){.mapped = plan->tensor->bytes};
    uint64_t bytes = plan->is_matrix ? plan->n_experts * gpu_matrix_bytes(plan) : plan->bytes;
    return (struct rf_weight_bytes){.pass = bytes, .resident = bytes};
}

/* ---- loading ---- */

/* One piece on its way. */
struct load_buffer {
    void *host, *device; /* pinned memory, and its copy */
    cudaEvent_t done;    /* the device no longer needs them */
};

struct load {
    const struct gpu_backend *backend;
    const struct rf_kernels *kernels;
    struct load_buffer buffers[BUFFERS];
    size_t bytes;  /* size of a buffer */
    void *scratch; /* memory for packing (weights/pack.h) */
    int turn;
    rf_load_progress progress;
    void *user;
    uint64_t done, total;
};

static void load_end(struct load *load)
{
    cudaStreamSynchronize(load->backend->stream);
    for (int b = 0; b < BUFFERS; b++) {
        gpu_give(load->backend, load->buffers[b].device);
        if (load->buffers[b].host) cudaFreeHost(load->buffers[b].host);
        if (load->buffers[b].done) cudaEventDestroy(load->buffers[b].done);
    }
    rf_free(load->backend->base.allocator, load->scratch);
}

/* Takes the buffers and scratch memory that the largest tensors ask for. */
static int load_begin(struct load *load, const struct rf_weight_plan *plans, int32_t n_plans,
                      struct rf_error *error)
{
    size_t scratch = 0;
    int code = 0;
    load->bytes = PIECE;
    for (int32_t i = 0; i < n_plans; i++) {
        size_t bytes = plans[i].is_matrix ? packed_tile_bytes(&plans[i]) : plans[i].bytes;
        if (load->bytes < bytes) load->bytes = bytes;
        if (scratch < plans[i].scratch_bytes) scratch = plans[i].scratch_bytes;
        load->total += plans[i].tensor->bytes;
    }
    load->scratch = rf_malloc(load->backend->base.allocator, scratch, 1, "casting weights", error);
    if (!load->scratch) return RF_ERR_MEMORY;
    for (int b = 0; !code && b < BUFFERS; b++) {
        struct load_buffer *buffer = &load->buffers[b];
        code = gpu_check(cudaMallocHost(&buffer->host, load->bytes), "pinned memory", error);
        if (!code)
            code = gpu_check(cudaEventCreateWithFlags(&buffer->done, cudaEventDisableTiming),
                             "an event", error);
        if (!code) buffer->device = gpu_take(load->backend, load->bytes, "loading", error);
        if (!code && !buffer->device) code = RF_ERR_MEMORY;
    }
    return code;
}

/* The next buffer, which the device no longer needs. */
static int next_buffer(struct load *load, struct load_buffer **buffer, struct rf_error *error)
{
    *buffer = &load->buffers[load->turn++ % BUFFERS];
    if (load->progress && load->progress(load->user, load->done, load->total))
        return rf_fail(error, RF_ERR_CANCELLED, "loading was cancelled");
    return gpu_check(cudaEventSynchronize((*buffer)->done), "loading", error);
}

static int send_buffer(const struct load *load, const struct load_buffer *buffer, void *to,
                       size_t bytes, struct rf_error *error)
{
    return gpu_check(
        cudaMemcpyAsync(to, buffer->host, bytes, cudaMemcpyHostToDevice, load->backend->stream),
        "copying weights", error);
}

/* Packs expert `e`'s matrix, piece by piece, and lays it out in `tiles`. */
static int load_tiles(struct load *load, const struct rf_weight_plan *plan, size_t e, char *tiles,
                      struct rf_error *error)
{
    size_t tile = packed_tile_bytes(plan), each = load->bytes / tile * RF_PANEL_ROWS, n;
    struct gpu_layout layout = gpu_layout(plan->format, plan->columns);
    cudaStream_t stream = load->backend->stream;
    for (size_t row = 0; row < plan->rows; row += n) {
        struct load_buffer *buffer;
        char *out = tiles + row / RF_PANEL_ROWS * layout.bytes;
        n = plan->rows - row < each ? plan->rows - row : each;
        size_t strips = (n + plan->strip_rows - 1) / plan->strip_rows;
        int code = next_buffer(load, &buffer, error);
        if (code) return code;
        rf_weight_pack(plan, load->kernels, e * plan->strips + row / plan->strip_rows, strips,
                       buffer->host, load->scratch);
        code = send_buffer(load, buffer, buffer->device, strips * plan->strip_bytes, error);
        if (code) return code;
        cudaError_t status = plan->format == RF_FORMAT_BF16
                                 ? gpu_tile_bf16(stream, out, buffer->device, n, plan->columns)
                                 : gpu_tile_panels(stream, out, buffer->device, strips, tile,
                                                   plan->format, plan->columns);
        if (status == cudaSuccess) status = cudaEventRecord(buffer->done, stream);
        code = gpu_check(status, "laying out weights", error);
        if (code) return code;
    }
    return 0;
}

static int load_matrix(struct load *load, struct rf_weight *weight, struct rf_error *error)
{
    const struct rf_weight_plan *plan = &weight->plan;
    size_t bytes = gpu_matrix_bytes(plan);
    uint64_t before = load->done;
    int code = 0;
    weight->data = gpu_take(load->backend, plan->n_experts * bytes, "weights", error);
    if (!weight->data) return RF_ERR_MEMORY;
    for (size_t e = 0; !code && e < plan->n_experts; e++) {
        code = load_tiles(load, plan, e, (char *)weight->data + e * bytes, error);
        load->done = before + plan->tensor->bytes / plan->n_experts * (e + 1);
    }
    load->done = before + plan->tensor->bytes;
    return code;
}

static int load_vector(struct load *load, struct rf_weight *weight, struct rf_error *error)
{
    const struct rf_weight_plan *plan = &weight->plan;
    struct load_buffer *buffer;
    weight->data = gpu_take(load->backend, plan->bytes, "weights", error);
    if (!weight->data) return RF_ERR_MEMORY;
    int code = next_buffer(load, &buffer, error);
    if (code) return code;
    rf_weight_pack(plan, load->kernels, 0, plan->strips, buffer->host, load->scratch);
    code = send_buffer(load, buffer, weight->data, plan->bytes, error);
    if (!code)
        code = gpu_check(cudaEventRecord(buffer->done, load->backend->stream), "loading", error);
    load->done += plan->tensor->bytes;
    return code;
}

static int load_tensor(struct load *load, struct rf_weight *weight, struct rf_error *error)
{
    if (weight->plan.is_matrix) return load_matrix(load, weight, error);
    if (weight->plan.role == RF_WEIGHT_VECTOR) return load_vector(load, weight, error);
    load->done += weight->plan.tensor->bytes; /* a table stays in the file */
    return 0;
}

void gpu_weights_free(struct rf_weights *base)
{
    if (!base) return;
    struct gpu_weights *weights = (struct gpu_weights *)base;
    gpu_enter(base->backend);
    for (int32_t i = 0; weights->tensors && i < weights->n; i++)
        gpu_give(gpu_backend_of(base->backend), weights->tensors[i].data);
    rf_free(base->backend->allocator, weights->tensors);
    rf_free(base->backend->allocator, weights);
}

static int check_formats(const struct gpu_weights *weights, struct rf_error *error)
{
    for (int32_t i = 0; i < weights->n; i++) {
        const struct rf_weight_plan *plan = &weights->tensors[i].plan;
        if (plan->format >= RF_DEVICE_FORMAT_COUNT)
            return rf_fail(error, RF_ERR_UNSUPPORTED,
                           "tensor %s: CUDA devices do not compute with %s", plan->tensor->name,
                           rf_dtype_info(plan->dtype)->name);
    }
    return 0;
}

/* All weights, experts too, must fit into the device's free memory. */
static int check_room(const struct gpu_weights *weights, struct rf_error *error)
{
    const struct gpu_backend *backend = gpu_backend_of(weights->base.backend);
    uint64_t needed = 0, experts = 0, free_bytes;
    for (int32_t i = 0; i < weights->n; i++) {
        const struct rf_weight_plan *plan = &weights->tensors[i].plan;
        uint64_t bytes = plan->is_matrix ? plan->n_experts * gpu_matrix_bytes(plan) : 0;
        needed += bytes;
        if (plan->role == RF_WEIGHT_EXPERTS) experts += bytes;
    }
    int code = gpu_free_bytes(backend, &free_bytes, error);
    if (code) return code;
    if (backend->base.expert_bytes && experts > backend->base.expert_bytes)
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "all experts of a model must be in a CUDA device's memory: they take %.2f "
                       "GB, and may take %.2f GB",
                       (double)experts * 1e-9, (double)backend->base.expert_bytes * 1e-9);
    if (needed > free_bytes)
        return rf_fail(error, RF_ERR_MEMORY,
                       "the weights take %.2f GB, %.2f GB of them experts, and the CUDA device has "
                       "%.2f GB free",
                       (double)needed * 1e-9, (double)experts * 1e-9, (double)free_bytes * 1e-9);
    return 0;
}

int gpu_weights_new(struct rf_weights **out, struct rf_queue *queue,
                    const struct rf_weight_plan *plans, int32_t n_plans, rf_load_progress progress,
                    void *user, struct rf_error *error)
{
    const struct rf_allocator *allocator = queue->backend->allocator;
    *out = NULL;
    gpu_enter(queue->backend);
    struct gpu_weights *made = rf_calloc(allocator, 1, sizeof *made, "weights", error);
    if (!made) return RF_ERR_MEMORY;
    made->base.backend = queue->backend;
    made->tensors = rf_calloc(allocator, (size_t)n_plans, sizeof *made->tensors, "weights", error);
    int code = made->tensors ? 0 : RF_ERR_MEMORY;
    struct load load = {.backend = gpu_backend_of(queue->backend),
                        .kernels = rf_kernels(rf_kernels_best_tier()),
                        .progress = progress,
                        .user = user};
    made->n = code ? 0 : n_plans;
    for (int32_t i = 0; i < made->n; i++) {
        made->tensors[i].plan = plans[i];
        *plans[i].weight = &made->tensors[i];
    }
    if (!code) code = check_formats(made, error);
    if (!code) code = check_room(made, error);
    if (!code) code = load_begin(&load, plans, n_plans, error);
    for (int32_t i = 0; !code && i < n_plans; i++)
        code = load_tensor(&load, &made->tensors[i], error);
    if (!code)
        code = gpu_check(cudaStreamSynchronize(load.backend->stream), "loading weights", error);
    load_end(&load);
    if (code) {
        gpu_weights_free(&made->base);
        return code;
    }
    *out = &made->base;
    return 0;
}
