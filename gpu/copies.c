/* Rows that the host asks for after a pass: logits one by one, taps all at once. The backend's
 * table has gpu_logits and gpu_tap; pass.c has taps that were asked for before copied with the
 * answers. */
#include "gpu/view.h"

int gpu_logits(struct rf_view *base, int32_t i, const float **row, struct rf_error *error)
{
    struct gpu_view *view = (struct gpu_view *)base;
    const struct gpu_rows *slot = &view->slots[RF_SLOT_LOGITS];
    size_t n = (size_t)slot->width, rows = (size_t)base->shape.max_logits;
    gpu_enter(&view->backend->base);
    if (!view->logits)
        view->logits =
            rf_malloc(view->backend->base.allocator, rows * n, sizeof *view->logits, "view", error);
    if (!view->logits) return RF_ERR_MEMORY;
    float *to = view->logits + (size_t)i * n;
    *row = to;
    cudaError_t status = cudaMemcpyAsync(to, slot->f32 + (size_t)i * n, n * sizeof *to,
                                         cudaMemcpyDeviceToHost, view->backend->stream);
    if (status == cudaSuccess) status = cudaStreamSynchronize(view->backend->stream);
    return gpu_check(status, "copying a row", error);
}

/* Begins to copy all rows of a tap of the last pass. */
static cudaError_t fill_tap(struct gpu_view *view, int32_t tap)
{
    const struct gpu_rows *slot = &view->slots[RF_SLOT_TAP + tap];
    cudaError_t status = cudaMemcpyAsync(view->taps[tap], slot->f32,
                                         (size_t)view->n_rows * (size_t)slot->width * sizeof(float),
                                         cudaMemcpyDeviceToHost, view->backend->stream);
    if (status == cudaSuccess) view->filled_taps |= (uint64_t)1 << tap;
    return status;
}

cudaError_t gpu_fill_taps(struct gpu_view *view)
{
    cudaError_t status = cudaSuccess;
    for (int32_t t = 0; t < RF_MAX_TAPS && status == cudaSuccess; t++)
        if (view->taps[t]) status = fill_tap(view, t);
    return status;
}

/* Whoever asks for one row of a tap asks for others, and after the next pass again. */
int gpu_tap(struct rf_view *base, int32_t tap, int32_t i, const float **row, struct rf_error *error)
{
    struct gpu_view *view = (struct gpu_view *)base;
    size_t n = (size_t)view->slots[RF_SLOT_TAP + tap].width;
    gpu_enter(&view->backend->base);
    if (!view->taps[tap]) {
        void *copy;
        size_t bytes = (size_t)base->shape.max_rows * n * sizeof(float);
        int code = gpu_check(cudaMallocHost(&copy, bytes), "pinned memory", error);
        if (code) return code;
        view->taps[tap] = copy;
    }
    *row = view->taps[tap] + (size_t)i * n;
    if (view->filled_taps >> tap & 1) return 0;
    cudaError_t status = fill_tap(view, tap);
    if (status == cudaSuccess) status = cudaStreamSynchronize(view->backend->stream);
    return gpu_check(status, "copying rows", error);
}

void gpu_copies_free(struct gpu_view *view)
{
    rf_free(view->backend->base.allocator, view->logits);
    for (int t = 0; t < RF_MAX_TAPS; t++)
        if (view->taps[t]) cudaFreeHost(view->taps[t]);
}
