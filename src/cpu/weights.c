/* Weights. Float matrices are BF16, in place where the file has BF16, else converted. Quantised
 * matrices are repacked into panels of their own bits; those of a draft may be cast to fewer bits.
 * All cores do this at load. */
#include <stdatomic.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/pool.h"
#include "cpu/repack.h"
#include "quant/cast.h"

enum { PIECE_ELEMENTS = 1 << 18 }; /* about as many as a worker takes at a time */

/* A tensor to convert, in items: elements, or panels. */
struct job {
    const struct rf_weight_request *request;
    void *out; /* in the common block */
    uint64_t items, items_per_piece;
    uint64_t first_piece; /* pieces before this job's */
};

struct load {
    const struct rf_kernels *kernels;
    uint8_t *blocks; /* of each worker: a panel's rows, cast, and rows that lie scattered */
    size_t blocks_bytes;
    struct job *jobs;
    size_t n_jobs;
    uint64_t n_pieces;
    _Atomic uint64_t next;
    _Atomic uint64_t bytes_done;
    uint64_t bytes_total;
    _Atomic int cancelled;
    rf_load_progress progress;
    void *user;
};

static const enum rf_cast_target targets[] = {[RF_WEIGHTS_BF16] = RF_TARGET_BF16,
                                              [RF_WEIGHTS_MXFP4] = RF_TARGET_MXFP4,
                                              [RF_WEIGHTS_Q4] = RF_TARGET_Q4};

/* What a matrix of that type with rows of k values is computed from. */
static enum rf_dtype type_in_form(enum rf_dtype dtype, enum rf_weight_form form, int64_t k)
{
    return form == RF_WEIGHTS_STORED ? dtype : rf_cast_type(targets[form], dtype, k);
}

static int is_matrix(enum rf_weight_role role)
{
    return role != RF_WEIGHT_TABLE && role != RF_WEIGHT_VECTOR;
}

static enum rf_dtype type_of(const struct rf_weight_request *request)
{
    return type_in_form(request->tensor->dtype, request->form, request->tensor->ne[0]);
}

/* So that no two workers write to the same line. */
static size_t whole_lines(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static size_t n_experts(const struct rf_weight_request *request)
{
    return request->role == RF_WEIGHT_EXPERTS ? (size_t)request->tensor->ne[2] : 1;
}

static size_t n_rows(const struct rf_weight_request *request)
{
    size_t columns = (size_t)request->tensor->ne[0];
    return (size_t)rf_tensor_elements(request->tensor) / columns / n_experts(request);
}

static const void *expert_in_file(const struct rf_tensor *tensor, size_t expert)
{
    return rf_tensor_rows(tensor, expert * (size_t)tensor->ne[1], 1, NULL);
}

/* Each expert's matrix has its rows one behind the other. */
static int is_usable_bf16(const struct rf_weight_request *request)
{
    const struct rf_tensor *tensor = request->tensor;
    uintptr_t places = (uintptr_t)tensor->data;
    if (tensor->dtype != RF_BF16 || type_of(request) != RF_BF16) return 0;
    if (tensor->scattered && !rf_tensor_has_whole_experts(tensor)) return 0;
    for (size_t e = 1; e < n_experts(request); e++) places |= (uintptr_t)expert_in_file(tensor, e);
    return places % sizeof(uint16_t) == 0;
}

static int usable_in_place(const struct rf_weight_request *request)
{
    if (request->role == RF_WEIGHT_TABLE) return 1;
    if (is_matrix(request->role)) return is_usable_bf16(request);
    return request->tensor->dtype == RF_F32 && !request->tensor->scattered &&
           (uintptr_t)request->tensor->data % sizeof(float) == 0;
}

/* The memory that a matrix needs if it is not used in place, or one of experts; or a vector. */
static size_t matrix_bytes(const struct rf_weight_request *request)
{
    size_t k = (size_t)request->tensor->ne[0], rows = n_rows(request);
    enum rf_format format = rf_cpu_format_of(type_of(request));
    if (request->role == RF_WEIGHT_VECTOR) return rows * k * sizeof(float);
    if (format == RF_FORMAT_BF16) return rows * k * sizeof(uint16_t);
    return rf_padded(rows) / RF_PANEL_ROWS * rf_panel_bytes(format, k);
}

static size_t converted_bytes(const struct rf_weight_request *request)
{
    return n_experts(request) * matrix_bytes(request);
}

struct rf_weight_bytes rf_cpu_weight_bytes(const struct rf_weight_request *request)
{
    if (request->role == RF_WEIGHT_TABLE)
        return (struct rf_weight_bytes){.mapped = request->tensor->bytes};
    uint64_t bytes = converted_bytes(request);
    if (usable_in_place(request)) return (struct rf_weight_bytes){.pass = bytes, .mapped = bytes};
    return (struct rf_weight_bytes){.pass = bytes, .resident = bytes};
}

enum rf_format rf_cpu_weight_is_in(enum rf_dtype dtype, enum rf_weight_form form)
{
    return rf_cpu_format_of(type_in_form(dtype, form, RF_SUPERBLOCK));
}

const char *rf_cpu_weight_format(enum rf_dtype dtype, enum rf_weight_form form)
{
    return rf_panel_layout(rf_cpu_weight_is_in(dtype, form))->name;
}

/* ---- on all cores ---- */

/* Panels of all experts, to `out`. `blocks`: room for a panel's rows of the type that they are cast
 * to, and as the file has them. */
static void repack(const struct rf_kernels *kernels, const struct rf_weight_request *request,
                   const struct rf_weight *weight, uint64_t begin, uint64_t end, char *out,
                   uint8_t *blocks)
{
    const struct rf_tensor *tensor = request->tensor;
    enum rf_dtype from = tensor->dtype, to = type_of(request);
    size_t k = (size_t)weight->columns, to_bytes = rf_dtype_bytes(to, k),
           panels = rf_padded((size_t)weight->rows) / RF_PANEL_ROWS;
    for (size_t p = (size_t)begin; p < (size_t)end; p++) {
        size_t row = p % panels * RF_PANEL_ROWS, left = (size_t)weight->rows - row;
        size_t rows = left < RF_PANEL_ROWS ? left : RF_PANEL_ROWS;
        const void *data = rf_tensor_rows(tensor, p / panels * (size_t)weight->rows + row, rows,
                                          blocks + whole_lines(RF_PANEL_ROWS * to_bytes));
        if (from != to) {
            rf_cast_values(kernels, targets[request->form], from, data, to, blocks, rows * k);
            data = blocks;
        }
        rf_cpu_repack_panel(to, data, to_bytes, rows, k, out + (p - (size_t)begin) * weight->ld);
    }
}

static void convert_values(const struct job *job, const void *data, size_t begin, size_t n)
{
    enum rf_dtype dtype = job->request->tensor->dtype;
    if (job->request->role == RF_WEIGHT_VECTOR)
        rf_dequantize_f32(dtype, data, (float *)job->out + begin, n);
    else
        rf_dequantize_bf16(dtype, data, (uint16_t *)job->out + begin, n);
}

/* Items are elements, or rows that lie scattered; `row`: room for one. */
static void convert(const struct job *job, uint64_t begin, uint64_t end, uint8_t *row)
{
    const struct rf_tensor *tensor = job->request->tensor;
    size_t k = (size_t)tensor->ne[0];
    if (!tensor->scattered) {
        const char *data =
            (const char *)tensor->data + rf_dtype_bytes(tensor->dtype, (size_t)begin);
        convert_values(job, data, (size_t)begin, (size_t)(end - begin));
        return;
    }
    for (size_t r = (size_t)begin; r < (size_t)end; r++)
        convert_values(job, rf_tensor_rows(tensor, r, 1, row), r * k, k);
}

static void do_piece(struct load *load, uint64_t piece, int worker)
{
    const struct job *job = load->jobs, *last = job + load->n_jobs - 1;
    while (job < last && job[1].first_piece <= piece) job++;
    uint64_t begin = (piece - job->first_piece) * job->items_per_piece,
             end = begin + job->items_per_piece;
    if (end > job->items) end = job->items;
    uint8_t *blocks = load->blocks + (size_t)worker * load->blocks_bytes;
    if ((*job->request->weight)->format == RF_FORMAT_BF16)
        convert(job, begin, end, blocks);
    else
        repack(load->kernels, job->request, *job->request->weight, begin, end,
               (char *)job->out + begin * (*job->request->weight)->ld, blocks);
    /* The parts of all pieces add up to the tensor's bytes. */
    uint64_t bytes = job->request->tensor->bytes, items = job->items;
    atomic_fetch_add_explicit(&load->bytes_done,
                              bytes / items * (end - begin) + (end == items ? bytes % items : 0),
                              memory_order_relaxed);
}

static void do_pieces(void *argument, struct rf_worker *worker)
{
    struct load *load = argument;
    uint64_t piece;
    while (!atomic_load_explicit(&load->cancelled, memory_order_relaxed) &&
           (piece = atomic_fetch_add_explicit(&load->next, 1, memory_order_relaxed)) <
               load->n_pieces) {
        do_piece(load, piece, worker->index);
        if (worker->index == 0 && load->progress &&
            load->progress(load->user,
                           atomic_load_explicit(&load->bytes_done, memory_order_relaxed),
                           load->bytes_total))
            atomic_store_explicit(&load->cancelled, 1, memory_order_relaxed);
    }
}

static int run_jobs(struct cpu_queue *queue, struct load *load, struct rf_error *error)
{
    load->blocks = rf_malloc(queue->base.backend->allocator, (size_t)rf_team_size(queue->team),
                             load->blocks_bytes, "casting weights", error);
    if (!load->blocks) return RF_ERR_MEMORY;
    /* Worker 0 reports progress, but other workers may take every piece of a small model. So it is
     * reported here once. */
    if (load->progress && load->progress(load->user, 0, load->bytes_total))
        atomic_store(&load->cancelled, 1);
    rf_lock_take(&queue->turn);
    rf_team_run(queue->team, 0, do_pieces, load);
    rf_lock_release(&queue->turn);
    if (load->cancelled) return rf_fail(error, RF_ERR_CANCELLED, "loading was cancelled");
    return 0;
}

/* ---- what is to be done ---- */

/* What a worker needs to make a row or a panel. */
static size_t blocks_bytes(const struct rf_weight_request *request)
{
    const struct rf_tensor *tensor = request->tensor;
    enum rf_dtype to = type_of(request);
    size_t k = (size_t)tensor->ne[0], bytes = 0;
    if (rf_cpu_format_of(to) == RF_FORMAT_BF16)
        return tensor->scattered ? whole_lines(rf_dtype_bytes(tensor->dtype, k)) : 0;
    if (to != tensor->dtype || tensor->scattered)
        bytes = whole_lines(RF_PANEL_ROWS * rf_dtype_bytes(to, k));
    if (tensor->scattered) bytes += whole_lines(RF_PANEL_ROWS * rf_dtype_bytes(tensor->dtype, k));
    return bytes;
}

static void add_job(struct load *load, const struct rf_weight_request *request, void *out)
{
    const struct rf_weight *weight = *request->weight;
    const struct rf_tensor *tensor = request->tensor;
    struct job *job = &load->jobs[load->n_jobs++];
    size_t k = (size_t)tensor->ne[0], needed = blocks_bytes(request);
    *job = (struct job){.request = request, .out = out, .first_piece = load->n_pieces};
    if (weight->format == RF_FORMAT_BF16) {
        uint64_t item = tensor->scattered ? k : 1;
        job->items = rf_tensor_elements(tensor) / item;
        job->items_per_piece = item < PIECE_ELEMENTS ? PIECE_ELEMENTS / item : 1;
    } else {
        uint64_t panel = RF_PANEL_ROWS * (uint64_t)k;
        job->items = n_experts(request) * rf_padded((size_t)weight->rows) / RF_PANEL_ROWS;
        job->items_per_piece = panel < PIECE_ELEMENTS ? PIECE_ELEMENTS / panel : 1;
    }
    if (load->blocks_bytes < needed) load->blocks_bytes = needed;
    load->n_pieces += (job->items + job->items_per_piece - 1) / job->items_per_piece;
    load->bytes_total += request->tensor->bytes;
}

static void describe(struct rf_weight *weight, const struct rf_weight_request *request)
{
    const struct rf_tensor *tensor = request->tensor;
    weight->columns = tensor->ne[0];
    weight->rows = (int64_t)n_rows(request);
    if (is_matrix(request->role)) {
        weight->format = rf_cpu_format_of(type_of(request));
        weight->ld = (size_t)weight->columns;
        if (weight->format != RF_FORMAT_BF16)
            weight->ld = rf_panel_bytes(weight->format, weight->ld);
    } else if (request->role == RF_WEIGHT_TABLE) {
        /* With casts, embeddings are the same as if the file itself held the cast: floats in BF16,
         * others as stored. */
        int as_stored =
            request->form != RF_WEIGHTS_BF16 && rf_dtype_info(tensor->dtype)->block_elems > 1;
        weight->table = tensor;
        weight->table_form = as_stored ? RF_WEIGHTS_STORED : request->form;
    }
}

void rf_cpu_weights_free(struct rf_weights *base)
{
    if (!base) return;
    struct cpu_weights *weights = (struct cpu_weights *)base;
    const struct rf_allocator *allocator = base->backend->allocator;
    rf_free(allocator, weights->tensors);
    rf_free(allocator, (void *)weights->experts);
    rf_cpu_pool_free(weights->pool);
    rf_free(allocator, weights->converted);
    rf_free(allocator, weights);
}

/* Where each expert's matrix is. In a pool none is anywhere yet. */
static void place_experts(struct rf_weight *weight, const struct rf_weight_request *request,
                          const char *converted, int is_pooled, const void **experts)
{
    weight->experts = experts;
    weight->request = *request;
    for (size_t e = 0; !is_pooled && e < n_experts(request); e++)
        experts[e] =
            converted ? converted + e * matrix_bytes(request) : expert_in_file(request->tensor, e);
}

static int is_pooled(const struct cpu_weights *weights, const struct rf_weight_request *request)
{
    return weights->pool && request->role == RF_WEIGHT_EXPERTS;
}

/* Describes all tensors. Those that are used in place point to the file, the others become jobs
 * whose results lie one behind the other in `converted`. */
static void plan_jobs(struct cpu_weights *weights, struct load *load,
                      const struct rf_weight_request *requests)
{
    char *converted = weights->converted;
    const void **experts = weights->experts;
    for (size_t i = 0; i < weights->n_tensors; i++) {
        const struct rf_weight_request *request = &requests[i];
        struct rf_weight *weight = *request->weight = &weights->tensors[i];
        int pooled = is_pooled(weights, request);
        const char *made = pooled || usable_in_place(request) ? NULL : converted;
        const void *data = pooled ? NULL : made ? made : request->tensor->data;
        describe(weight, request);
        if (made) {
            add_job(load, request, converted);
            converted += whole_lines(converted_bytes(request));
        }
        if (is_matrix(request->role)) weight->data = data;
        if (request->role == RF_WEIGHT_VECTOR) weight->f32 = data;
        if (request->role != RF_WEIGHT_EXPERTS) continue;
        place_experts(weight, request, made, pooled, experts);
        experts += n_experts(request);
    }
}

void rf_cpu_pack_panel(const struct cpu_view *view, const struct rf_worker *worker,
                       const struct rf_weight *weight, size_t expert, size_t panel)
{
    const struct cpu_weights *weights = (const struct cpu_weights *)view->base.shape.weights;
    size_t panels = rf_padded((size_t)weight->rows) / RF_PANEL_ROWS,
           first = expert * panels + panel;
    repack(view->kernels, &weight->request, weight, first, first + 1,
           (char *)(uintptr_t)weight->experts[expert] + panel * weight->ld,
           view->blocks + (size_t)worker->index * weights->blocks_bytes);
}

/* Makes a pool if the experts take more memory than they may. */
static int make_pool(struct cpu_weights *weights, const struct rf_weight_request *requests,
                     struct rf_error *error)
{
    const struct rf_backend *backend = weights->base.backend;
    uint64_t all = 0;
    size_t layer = 0, most = 0, least_places = 0;
    for (size_t i = 0; i < weights->n_tensors; i++) {
        const struct rf_weight_request *request = &requests[i];
        /* The requests have a layer's tensors one behind the other. */
        if (request->role == RF_WEIGHT_ROUTER) layer = 0;
        if (request->role != RF_WEIGHT_EXPERTS) continue;
        if (rf_cpu_format_of(type_of(request)) == RF_FORMAT_BF16) return 0; /* in the file */
        layer += matrix_bytes(request);
        if (most < layer) most = layer;
        if (least_places < n_experts(request)) least_places = n_experts(request);
        if (weights->blocks_bytes < blocks_bytes(request))
            weights->blocks_bytes = blocks_bytes(request);
        all += converted_bytes(request);
    }
    if (!backend->expert_bytes || all <= backend->expert_bytes) return 0;
    if (backend->expert_bytes / most < least_places)
        return rf_fail(
            error, RF_ERR_MEMORY, "%.2f GB of memory for experts: those of one layer take %.2f GB",
            (double)backend->expert_bytes * 1e-9, (double)most * (double)least_places * 1e-9);
    return rf_cpu_pool_new(&weights->pool, backend->expert_bytes, most, backend->allocator, error);
}

int rf_cpu_weights_new(struct rf_weights **out, struct rf_queue *queue,
                       const struct rf_weight_request *requests, int32_t n_requests,
                       rf_load_progress progress, void *user, struct rf_error *error)
{
    const struct rf_allocator *allocator = queue->backend->allocator;
    size_t n = (size_t)n_requests;
    struct load load = {.kernels = kernels_of(queue->backend), .progress = progress, .user = user};

    *out = NULL;
    struct cpu_weights *made = rf_calloc(allocator, 1, sizeof *made, "weights", error);
    if (!made) return RF_ERR_MEMORY;
    made->base.backend = queue->backend;
    made->n_tensors = n;
    made->tensors = rf_calloc(allocator, n, sizeof *made->tensors, "weights", error);
    load.jobs = rf_calloc(allocator, n, sizeof *load.jobs, "weights", error);
    size_t bytes = 0, experts = 0;
    int code = make_pool(made, requests, error);
    for (size_t i = 0; i < n; i++) {
        if (!is_pooled(made, &requests[i]) && !usable_in_place(&requests[i]))
            bytes += whole_lines(converted_bytes(&requests[i]));
        if (requests[i].role == RF_WEIGHT_EXPERTS) experts += n_experts(&requests[i]);
    }
    if (experts)
        made->experts = rf_calloc(allocator, experts, sizeof *made->experts, "weights", error);
    if (!code && made->tensors && load.jobs && (made->experts || !experts))
        made->converted = rf_malloc(allocator, bytes, 1, "weights", error);
    if (!code && !made->converted) code = RF_ERR_MEMORY;
    if (!code) {
        plan_jobs(made, &load, requests);
        if (load.n_jobs) code = run_jobs((struct cpu_queue *)queue, &load, error);
    }
    rf_free(allocator, load.blocks);
    rf_free(allocator, load.jobs);
    if (code) {
        rf_cpu_weights_free(&made->base);
        return code;
    }
    *out = &made->base;
    return 0;
}
