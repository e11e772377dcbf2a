/* Submits passes and waits for them. Launches of passes over few rows are recorded as a graph when
 * their shape comes for the second time. The engine calls gpu_submit and gpu_sync through the
 * backend's table. */
#include <string.h>

#include "gpu/view.h"

enum { GRAPH_ROWS = RF_TREE_ROWS /* most rows of a pass whose launches are recorded */ };

_Static_assert(sizeof(struct gpu_answer) == sizeof(struct rf_best) &&
                   offsetof(struct gpu_answer, n) == offsetof(struct rf_best, n) &&
                   offsetof(struct gpu_answer, mass) == offsetof(struct rf_best, mass) &&
                   (int)GPU_BEST == (int)RF_MAX_BEST,
               "answers are copied as they are");

/* ---- graphs ---- */

static struct gpu_graph *find_graph(struct gpu_view *view, const struct gpu_shape *shape)
{
    struct gpu_graph *oldest = view->graphs;
    for (struct gpu_graph *graph = view->graphs; graph < view->graphs + GPU_GRAPHS; graph++) {
        if (graph->used && memcmp(&graph->shape, shape, sizeof *shape) == 0) return graph;
        if (graph->used < oldest->used) oldest = graph;
    }
    if (oldest->launches) cudaGraphExecDestroy(oldest->launches);
    *oldest = (struct gpu_graph){.shape = *shape};
    return oldest;
}

static cudaError_t record_graph(const struct gpu_view *view, struct gpu_graph *graph)
{
    const struct gpu_launch launch = {view->recorder, view->backend->overlap};
    cudaGraph_t recorded = NULL;
    int cancelled = 0;
    cudaError_t status = cudaStreamBeginCapture(view->recorder, cudaStreamCaptureModeThreadLocal);
    if (status != cudaSuccess) return status;
    cudaError_t launched = gpu_launch_all(view, &launch, &cancelled);
    status = cudaStreamEndCapture(view->recorder, &recorded);
    if (launched != cudaSuccess) status = launched;
    if (status == cudaSuccess && !cancelled)
        status = cudaGraphInstantiate(&graph->launches, recorded, 0);
    if (recorded) cudaGraphDestroy(recorded);
    return status;
}

/* Launches a pass from its graph; *done: whether it has one. */
static cudaError_t launch_graph(struct gpu_view *view, int *done)
{
    const struct rf_pass *pass = &view->pass;
    *done = 0;
    if (view->n_rows > GRAPH_ROWS || view->n_jobs || pass->logprobs ||
        gpu_partial_rows(view) < view->n_rows)
        return cudaSuccess;
    const struct gpu_shape shape = {.rows = view->n_rows,
                                    .tiles = view->n_tiles,
                                    .parts = view->parts,
                                    .queries = view->queries,
                                    .wanted = pass->n_wanted,
                                    .best = pass->n_best,
                                    .masks = view->has_masks};
    struct gpu_graph *graph = find_graph(view, &shape);
    int is_new = !graph->used;
    graph->used = view->base.passes + 1;
    if (is_new) return cudaSuccess;
    cudaError_t status = graph->launches ? cudaSuccess : record_graph(view, graph);
    if (status != cudaSuccess || !graph->launches) return status;
    *done = 1;
    return cudaGraphLaunch(graph->launches, view->backend->stream);
}

/* ---- a pass ---- */

static cudaError_t copy_answers(struct gpu_view *view)
{
    const struct rf_pass *pass = &view->pass;
    size_t n = (size_t)pass->n_wanted;
    cudaStream_t stream = view->backend->stream;
    cudaError_t status = gpu_fill_taps(view);
    if (!n || status != cudaSuccess) return status;
    if (pass->logprobs)
        return cudaMemcpyAsync(view->host_logprobs, view->device_logprobs, n * sizeof(double),
                               cudaMemcpyDeviceToHost, stream);
    if (!pass->n_best) return cudaSuccess;
    return cudaMemcpyAsync(view->host_best, view->device_best, n * sizeof(struct gpu_answer),
                           cudaMemcpyDeviceToHost, stream);
}

static int launch_pass(struct gpu_view *view, struct rf_error *error)
{
    const struct gpu_launch launch = {view->backend->stream, view->backend->overlap};
    const atomic_int *cancel = view->base.cancel;
    int done = 0, cancelled = cancel && atomic_load_explicit(cancel, memory_order_relaxed);
    if (cancelled) return rf_fail(error, RF_ERR_CANCELLED, "cancelled");
    cudaError_t status = launch_graph(view, &done);
    if (status == cudaSuccess && !done) status = gpu_launch_all(view, &launch, &cancelled);
    if (status == cudaSuccess && !cancelled) status = copy_answers(view);
    if (status == cudaSuccess) status = cudaEventRecord(view->done, view->backend->stream);
    int code = gpu_check(status, "a pass", error);
    return !code && cancelled ? rf_fail(error, RF_ERR_CANCELLED, "cancelled") : code;
}

int gpu_submit(struct rf_view *base, const struct rf_pass *pass, struct rf_error *error)
{
    struct gpu_view *view = (struct gpu_view *)base;
    struct rf_error ignored; /* the answers of a pass that nobody waited for are gone */
    gpu_enter(&view->backend->base);
    if (view->is_pending) gpu_sync(base, &ignored);
    view->filled_taps = 0;
    int code = gpu_make_ready(view, error);
    if (!code) code = gpu_prepare(view, pass, error);
    if (!code) code = launch_pass(view, error);
    if (!code) gpu_count_groups(pass);
    view->is_pending = !code;
    /* The pinned memory must not change under a copy of a pass that was given up. */
    if (code) cudaStreamSynchronize(view->backend->stream);
    return code;
}

int gpu_sync(struct rf_view *base, struct rf_error *error)
{
    struct gpu_view *view = (struct gpu_view *)base;
    const struct rf_pass *pass = &view->pass;
    if (!view->is_pending) return 0;
    view->is_pending = 0;
    gpu_enter(&view->backend->base);
    int code = gpu_check(cudaEventSynchronize(view->done), "a pass", error);
    if (code) return code;
    size_t n = (size_t)pass->n_wanted;
    if (pass->logprobs && n)
        memcpy(pass->logprobs, view->host_logprobs, n * sizeof(double));
    else if (pass->n_best && n)
        memcpy(pass->best, view->host_best, n * sizeof *pass->best);
    return 0;
}
