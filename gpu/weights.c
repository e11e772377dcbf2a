/* Weights: matrices as tiles in the device's memory, vectors in F32 there, tables in the file. The
 * host converts or repacks pieces of rows into pinned buffers; the device copies and lays out one
 * piece while the host fills the next. */
#include <string.h>

#include "base/half.h"
#include "cpu/repack.h"
#include "gpu/cuda_backend.h"
#include "microkernels/kernels.h"
#include "platform/cpu.h"
#include "quant/cast.h"

enum { BUFFERS = 2 };
static const size_t PIECE = (size_t)16 << 20; /* bytes, but at least one tile */

static const enum rf_cast_target targets[] = {[RF_WEIGHTS_BF16] = RF_TARGET_BF16,
                                              [RF_WEIGHTS_MXFP4] = RF_TARGET_MXFP4,
                                              [RF_WEIGHTS_Q4] = RF_TARGET_Q4};

/* What a matrix of that type with rows of k values is computed from. */
static enum rf_dtype type_in_form(enum rf_dtype dtype, enum rf_weight_form form, int64_t k)
{
    return form == RF_WEIGHTS_STORED ? dtype : rf_cast_type(targets[form], dtype, k);
}

static enum rf_dtype type_of(const struct rf_weight_request *request)
{
    return type_in_form(request->tensor->dtype, request->form, request->tensor->ne[0]);
}

static size_t tile_count(size_t rows)
{
    return rf_padded(rows) / RF_PANEL_ROWS;
}

static int is_matrix(enum rf_weight_role role)
{
    return role != RF_WEIGHT_TABLE && role != RF_WEIGHT_VECTOR;
}

static size_t n_experts(const struct rf_weight_request *request)
{
    return request->role == RF_WEIGHT_EXPERTS ? (size_t)request->tensor->ne[2] : 0;
}

size_t gpu_matrix_bytes(const struct rf_weight *weight)
{
    return tile_count(weight->rows) * gpu_layout(weight->format, weight->columns).bytes;
}

struct rf_weight_bytes gpu_weight_bytes(const struct rf_weight_request *request)
{
    size_t k = (size_t)request->tensor->ne[0], n = n_experts(request) ? n_experts(request) : 1,
           elements = (size_t)rf_tensor_elements(request->tensor);
    if (request->role == RF_WEIGHT_TABLE)
        return (struct rf_weight_bytes){.mapped = request->tensor->bytes};
    uint64_t bytes = elements * sizeof(float);
    if (is_matrix(request->role))
        bytes = n * tile_count(elements / k / n) *
                gpu_layout(rf_cpu_format_of(type_of(request)), k).bytes;
    return (struct rf_weight_bytes){.pass = bytes, .resident = bytes};
}

const char *gpu_weight_format(enum rf_dtype dtype, enum rf_weight_form form)
{
    return rf_panel_layout(rf_cpu_format_of(type_in_form(dtype, form, RF_SUPERBLOCK)))->name;
}

void gpu_read_table(const struct rf_weight *table, int32_t token, float *out)
{
    const struct rf_tensor *tensor = table->table;
    size_t row_bytes = (size_t)(tensor->bytes / (uint64_t)table->rows);
    rf_dequantize_f32(tensor->dtype, (const char *)tensor->data + (size_t)token * row_bytes, out,
                      table->columns);
    for (size_t j = 0; table->table_in_bf16 && j < table->columns; j++)
        out[j] = rf_bf16_to_f32(rf_f32_to_bf16(out[j]));
}

/* ---- loading ---- */

/* One piece on its way: pinned memory, its copy on the device, and when the device is done. */
struct buffer {
    void *host, *device;
    cudaEvent_t done;
};

struct load {
    const struct gpu_backend *backend;
    const struct rf_kernels *kernels;
    struct buffer buffers[BUFFERS];
    size_t bytes;           /* of a buffer */
    uint8_t *cast, *stored; /* a tile's rows in the order of a file: cast, and as they are */
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
    rf_free(load->backend->base.allocator, load->cast);
    rf_free(load->backend->base.allocator, load->stored);
}

/* What the largest tensors ask for. */
struct load_sizes {
    size_t buffer, cast, stored;
};

static int load_begin(struct load *load, const struct load_sizes *sizes, struct rf_error *error)
{
    const struct rf_allocator *allocator = load->backend->base.allocator;
    size_t bytes = load->bytes = sizes->buffer;
    int code = 0;
    load->cast = rf_malloc(allocator, sizes->cast, 1, "casting weights", error);
    load->stored = rf_malloc(allocator, sizes->stored, 1, "loading weights", error);
    if (!load->cast || !load->stored) return RF_ERR_MEMORY;
    for (int b = 0; !code && b < BUFFERS; b++) {
        struct buffer *buffer = &load->buffers[b];
        code = gpu_check(cudaMallocHost(&buffer->host, bytes), "pinned memory", error);
        if (!code)
            code = gpu_check(cudaEventCreateWithFlags(&buffer->done, cudaEventDisableTiming),
                             "an event", error);
        if (!code) buffer->device = gpu_take(load->backend, bytes, "loading", error);
        if (!code && !buffer->device) code = RF_ERR_MEMORY;
    }
    return code;
}

/* The next buffer, which the device no longer needs. */
static int next_buffer(struct load *load, struct buffer **buffer, struct rf_error *error)
{
    *buffer = &load->buffers[load->turn++ % BUFFERS];
    if (load->progress && load->progress(load->user, load->done, load->total))
        return rf_fail(error, RF_ERR_CANCELLED, "loading was cancelled");
    return gpu_check(cudaEventSynchronize((*buffer)->done), "loading", error);
}

static int send(const struct load *load, struct buffer *buffer, size_t bytes,
                struct rf_error *error)
{
    return gpu_check(cudaMemcpyAsync(buffer->device, buffer->host, bytes, cudaMemcpyHostToDevice,
                                     load->backend->stream),
                     "copying weights", error);
}

/* What a matrix needs on the host for a tile: rows of BF16, or a panel. */
static size_t host_tile_bytes(int format, size_t k)
{
    return format == RF_FORMAT_BF16 ? RF_PANEL_ROWS * k * sizeof(uint16_t)
                                    : rf_panel_bytes((enum rf_format)format, k);
}

/* Rows [row, row + n) of a matrix to the host's order; those of experts are counted one expert
 * after the other, and these are of one. */
static void fill(const struct load *load, const struct rf_weight_request *request, size_t row,
                 size_t n, void *out)
{
    size_t k = (size_t)request->tensor->ne[0];
    enum rf_dtype from = request->tensor->dtype, to = type_of(request);
    enum rf_format format = rf_cpu_format_of(to);
    char *tile = out;
    for (size_t r = 0; r < n; r += RF_PANEL_ROWS, tile += host_tile_bytes(format, k)) {
        size_t rows = n - r < RF_PANEL_ROWS ? n - r : RF_PANEL_ROWS;
        const void *data = rf_tensor_rows(request->tensor, row + r, rows, load->stored);
        if (format == RF_FORMAT_BF16) {
            rf_dequantize_bf16(from, data, (uint16_t *)(void *)tile, rows * k);
            continue;
        }
        if (from != to) {
            rf_cast_values(load->kernels, targets[request->form], from, data, to, load->cast,
                           rows * k);
            data = load->cast;
        }
        rf_cpu_repack_panel(to, data, rf_dtype_bytes(to, k), rows, k, tile);
    }
}

/* A matrix whose first row is row `first` of the tensor, to `tiles`. */
static int load_tiles(struct load *load, const struct rf_weight_request *request, size_t first,
                      const struct rf_weight *weight, char *tiles, struct rf_error *error)
{
    size_t tile = host_tile_bytes(weight->format, weight->columns), each = load->bytes / tile;
    struct gpu_layout layout = gpu_layout(weight->format, weight->columns);
    cudaStream_t stream = load->backend->stream;
    int code = 0;
    for (size_t row = 0; !code && row < weight->rows; row += each * RF_PANEL_ROWS) {
        struct buffer *buffer;
        size_t left = weight->rows - row,
               n = left < each * RF_PANEL_ROWS ? left : each * RF_PANEL_ROWS;
        char *out = tiles + row / RF_PANEL_ROWS * layout.bytes;
        code = next_buffer(load, &buffer, error);
        if (code) return code;
        fill(load, request, first + row, n, buffer->host);
        int is_bf16 = weight->format == RF_FORMAT_BF16;
        code = send(load, buffer,
                    is_bf16 ? n * weight->columns * sizeof(uint16_t) : tile_count(n) * tile, error);
        if (code) return code;
        cudaError_t status = is_bf16
                                 ? gpu_tile_bf16(stream, out, buffer->device, n, weight->columns)
                                 : gpu_tile_panels(stream, out, buffer->device, tile_count(n), tile,
                                                   weight->format, weight->columns);
        if (status == cudaSuccess) status = cudaEventRecord(buffer->done, stream);
        code = gpu_check(status, "laying out weights", error);
    }
    return code;
}

static int load_matrix(struct load *load, const struct rf_weight_request *request,
                       struct rf_weight *weight, struct rf_error *error)
{
    size_t n = weight->n_experts ? weight->n_experts : 1, bytes = gpu_matrix_bytes(weight);
    int code = 0;
    weight->data = gpu_take(load->backend, n * bytes, "weights", error);
    if (!weight->data) return RF_ERR_MEMORY;
    uint64_t before = load->done;
    for (size_t e = 0; !code && e < n; e++) {
        code = load_tiles(load, request, e * weight->rows, weight, (char *)weight->data + e * bytes,
                          error);
        load->done = before + request->tensor->bytes / n * (e + 1);
    }
    load->done = before + request->tensor->bytes;
    return code;
}

static int load_vector(struct load *load, const struct rf_weight_request *request,
                       struct rf_weight *weight, struct rf_error *error)
{
    struct buffer *buffer;
    size_t n = weight->rows * weight->columns;
    weight->data = gpu_take(load->backend, n * sizeof(float), "weights", error);
    if (!weight->data) return RF_ERR_MEMORY;
    int code = next_buffer(load, &buffer, error);
    if (code) return code;
    for (size_t r = 0; r < weight->rows; r++)
        rf_dequantize_f32(request->tensor->dtype,
                          rf_tensor_rows(request->tensor, r, 1, load->stored),
                          (float *)buffer->host + r * weight->columns, weight->columns);
    code = gpu_check(cudaMemcpyAsync(weight->data, buffer->host, n * sizeof(float),
                                     cudaMemcpyHostToDevice, load->backend->stream),
                     "copying weights", error);
    if (!code)
        code = gpu_check(cudaEventRecord(buffer->done, load->backend->stream), "loading", error);
    load->done += request->tensor->bytes;
    return code;
}

static int load_tensor(struct load *load, const struct rf_weight_request *request,
                       struct rf_weight *weight, struct rf_error *error)
{
    const struct rf_tensor *tensor = request->tensor;
    switch (request->role) {
    case RF_WEIGHT_MATRIX:
    case RF_WEIGHT_ROUTER:
    case RF_WEIGHT_EXPERTS: return load_matrix(load, request, weight, error);
    case RF_WEIGHT_VECTOR: return load_vector(load, request, weight, error);
    case RF_WEIGHT_TABLE: break;
    }
    /* With casts, embeddings are the same as if the file itself held the cast. */
    int as_stored =
        request->form != RF_WEIGHTS_BF16 && rf_dtype_info(tensor->dtype)->block_elems > 1;
    weight->table = tensor;
    weight->table_in_bf16 = !as_stored && request->form != RF_WEIGHTS_STORED;
    load->done += tensor->bytes;
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

static void grow(size_t *size, size_t wanted)
{
    if (*size < wanted) *size = wanted;
}

static void describe(struct gpu_weights *weights, const struct rf_weight_request *requests,
                     struct load_sizes *sizes)
{
    sizes->buffer = PIECE;
    for (int32_t i = 0; i < weights->n; i++) {
        const struct rf_weight_request *request = &requests[i];
        struct rf_weight *weight = *request->weight = &weights->tensors[i];
        weight->columns = (size_t)request->tensor->ne[0];
        weight->n_experts = n_experts(request);
        weight->rows = (size_t)rf_tensor_elements(request->tensor) / weight->columns /
                       (weight->n_experts ? weight->n_experts : 1);
        size_t bytes = weight->columns * weight->rows * sizeof(float);
        weight->is_matrix = is_matrix(request->role);
        if (weight->is_matrix) {
            weight->format = rf_cpu_format_of(type_of(request));
            bytes = host_tile_bytes(weight->format, weight->columns);
            grow(&sizes->cast, RF_PANEL_ROWS * rf_dtype_bytes(type_of(request), weight->columns));
        }
        if (request->role == RF_WEIGHT_TABLE) continue;
        grow(&sizes->buffer, bytes);
        grow(&sizes->stored,
             RF_PANEL_ROWS * rf_dtype_bytes(request->tensor->dtype, weight->columns));
    }
}

/* All weights must fit what is free of the device's memory, experts too. */
static int check_room(const struct gpu_weights *weights, struct rf_error *error)
{
    const struct gpu_backend *backend = gpu_backend_of(weights->base.backend);
    uint64_t needed = 0, experts = 0, free_bytes;
    for (int32_t i = 0; i < weights->n; i++) {
        const struct rf_weight *weight = &weights->tensors[i];
        if (weight->is_matrix)
            needed += (weight->n_experts ? weight->n_experts : 1) * gpu_matrix_bytes(weight);
        experts += weight->n_experts * gpu_matrix_bytes(weight);
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
                    const struct rf_weight_request *requests, int32_t n_requests,
                    rf_load_progress progress, void *user, struct rf_error *error)
{
    const struct rf_allocator *allocator = queue->backend->allocator;
    *out = NULL;
    gpu_enter(queue->backend);
    struct gpu_weights *made = rf_calloc(allocator, 1, sizeof *made, "weights", error);
    if (!made) return RF_ERR_MEMORY;
    made->base.backend = queue->backend;
    made->n = n_requests;
    made->tensors =
        rf_calloc(allocator, (size_t)n_requests, sizeof *made->tensors, "weights", error);
    int code = made->tensors ? 0 : RF_ERR_MEMORY;
    struct load load = {.backend = gpu_backend_of(queue->backend),
                        .kernels = rf_kernels(rf_kernels_best_tier()),
                        .progress = progress,
                        .user = user};
    for (int32_t i = 0; i < n_requests; i++) load.total += requests[i].tensor->bytes;
    if (!code) {
        struct load_sizes sizes = {0};
        describe(made, requests, &sizes);
        code = check_room(made, error);
        if (!code) code = load_begin(&load, &sizes, error);
    }
    for (int32_t i = 0; !code && i < n_requests; i++)
        code = load_tensor(&load, &requests[i], &made->tensors[i], error);
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
