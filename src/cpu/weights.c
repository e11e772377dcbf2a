/* Weights: used in place where the file has them in BF16, else converted to BF16 at load on all cores. */
#include <stdatomic.h>
#include <string.h>

#include "cpu/cpu.h"

enum { PIECE_ELEMENTS = 1 << 18 }; /* that a worker converts at a time */

struct job {
    const struct rf_tensor *tensor;
    enum rf_weight_role role;
    void *out;
    uint64_t elements;
    uint64_t first_piece; /* pieces before this job's */
};

struct load {
    const struct job *jobs;
    size_t n_jobs;
    uint64_t n_pieces;
    _Atomic uint64_t next;
    _Atomic uint64_t bytes_done;
    uint64_t bytes_total;
    _Atomic int cancelled;
    rf_load_progress progress;
    void *user;
};

static uint64_t elements_of(const struct rf_tensor *tensor)
{
    uint64_t n = 1;
    for (int32_t d = 0; d < tensor->n_dims; d++) n *= (uint64_t)tensor->ne[d];
    return n;
}

static int usable_in_place(const struct rf_weight_request *request)
{
    enum rf_dtype wanted = request->role == RF_WEIGHT_MATRIX ? RF_BF16 : RF_F32;
    size_t alignment = request->role == RF_WEIGHT_MATRIX ? sizeof(uint16_t) : sizeof(float);
    return request->tensor->dtype == wanted && (uintptr_t)request->tensor->data % alignment == 0;
}

static void convert_piece(struct load *load, uint64_t piece)
{
    size_t low = 0, high = load->n_jobs;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (load->jobs[middle].first_piece <= piece)
            low = middle;
        else
            high = middle;
    }
    const struct job *job = &load->jobs[low];
    const struct rf_dtype_info *info = rf_dtype_info(job->tensor->dtype);
    uint64_t begin = (piece - job->first_piece) * PIECE_ELEMENTS;
    uint64_t n = job->elements - begin < PIECE_ELEMENTS ? job->elements - begin : PIECE_ELEMENTS;
    const char *data = (const char *)job->tensor->data + begin / info->block_elems * info->block_bytes;
    if (job->role == RF_WEIGHT_MATRIX)
        rf_dequantize_bf16(job->tensor->dtype, data, (uint16_t *)job->out + begin, (size_t)n);
    else
        rf_dequantize_f32(job->tensor->dtype, data, (float *)job->out + begin, (size_t)n);
    atomic_fetch_add_explicit(&load->bytes_done, n / info->block_elems * info->block_bytes, memory_order_relaxed);
}

static void convert(void *argument, struct rf_worker *worker)
{
    struct load *load = argument;
    uint64_t piece;
    while (!atomic_load_explicit(&load->cancelled, memory_order_relaxed) &&
           (piece = atomic_fetch_add_explicit(&load->next, 1, memory_order_relaxed)) < load->n_pieces) {
        convert_piece(load, piece);
        if (worker->index == 0 && load->progress &&
            load->progress(load->user, atomic_load_explicit(&load->bytes_done, memory_order_relaxed),
                           load->bytes_total))
            atomic_store_explicit(&load->cancelled, 1, memory_order_relaxed);
    }
}

static int run_jobs(struct cpu_backend *backend, struct load *load, int32_t threads, struct rf_error *error)
{
    struct rf_team *team;
    int code = rf_team_new(&team, threads, backend->allocator, error);
    if (code) return code;
    /* Once for certain: of a small model other workers may take every piece. */
    if (load->progress && load->progress(load->user, 0, load->bytes_total)) atomic_store(&load->cancelled, 1);
    rf_team_run(team, convert, load);
    rf_team_free(team);
    if (load->cancelled) return rf_fail(error, RF_ERR_CANCELLED, "loading was cancelled");
    return 0;
}

int cpu_weights_load(struct rf_backend *base, const struct rf_weight_request *requests, int32_t n_requests,
                     int32_t threads, rf_load_progress progress, void *user, struct rf_error *error)
{
    struct cpu_backend *backend = (struct cpu_backend *)base;
    const struct rf_allocator *allocator = backend->allocator;
    size_t n = (size_t)n_requests, converted_bytes = 0;
    struct load load = {.progress = progress, .user = user};

    backend->weights = rf_calloc(allocator, n, sizeof *backend->weights, "weights", error);
    struct job *jobs = rf_calloc(allocator, n, sizeof *jobs, "weights", error);
    int code = backend->weights && jobs ? 0 : RF_ERR_MEMORY;

    for (size_t i = 0; !code && i < n; i++) {
        const struct rf_tensor *tensor = requests[i].tensor;
        struct rf_weight *weight = &backend->weights[i];
        weight->columns = tensor->ne[0];
        weight->rows = (int64_t)elements_of(tensor) / tensor->ne[0];
        *requests[i].weight = weight;
        if (usable_in_place(&requests[i])) {
            if (requests[i].role == RF_WEIGHT_MATRIX)
                weight->bf16 = tensor->data;
            else
                weight->f32 = tensor->data;
            continue;
        }
        struct job *job = &jobs[load.n_jobs++];
        *job = (struct job){tensor, requests[i].role, NULL, elements_of(tensor), load.n_pieces};
        load.n_pieces += (job->elements + PIECE_ELEMENTS - 1) / PIECE_ELEMENTS;
        load.bytes_total += tensor->bytes;
        size_t size = job->role == RF_WEIGHT_MATRIX ? sizeof(uint16_t) : sizeof(float);
        converted_bytes += ((size_t)job->elements * size + 63) & ~(size_t)63;
    }
    if (!code) {
        backend->converted = rf_malloc(allocator, converted_bytes, 1, "weights in BF16", error);
        if (!backend->converted) code = RF_ERR_MEMORY;
    }
    if (!code) {
        char *at = backend->converted;
        size_t job = 0;
        for (size_t i = 0; i < n; i++) {
            struct rf_weight *weight = &backend->weights[i];
            if (weight->bf16 || weight->f32) continue;
            size_t size = sizeof(uint16_t);
            if (requests[i].role == RF_WEIGHT_MATRIX) {
                weight->bf16 = (const uint16_t *)(void *)at;
            } else {
                weight->f32 = (const float *)(void *)at;
                size = sizeof(float);
            }
            jobs[job].out = at;
            at += ((size_t)jobs[job++].elements * size + 63) & ~(size_t)63;
        }
        load.jobs = jobs;
        if (load.n_jobs) code = run_jobs(backend, &load, threads, error);
    }
    rf_free(allocator, jobs);
    return code;
}
