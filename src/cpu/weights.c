/* Places a model's weights in host memory by their plans (weights/plan.h): in the file where its
 * bytes can serve, else packed by all workers into one block at load; or in a pool, where quantised
 * experts take more memory than they may. Every rf_weight is complete when weights_new returns, and
 * read-only but for a pool's experts. The engine calls this through the backend's table. */
#include <stdatomic.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/pool.h"
#include "weights/pack.h"

enum { PIECE_ELEMENTS = 1 << 18 }; /* about as many as a worker takes at a time */

/* A tensor to pack. */
struct pack_job {
    const struct rf_weight_plan *plan;
    char *out; /* room in the common block */
    uint64_t strips, strips_per_piece;
    uint64_t first_piece; /* pieces before this job's */
};

struct pack_run {
    const struct rf_kernels *kernels;
    char *scratch; /* [workers][scratch_bytes] */
    size_t scratch_bytes;
    struct pack_job *jobs;
    size_t n_jobs;
    uint64_t n_pieces;
    _Atomic uint64_t next;
    _Atomic uint64_t bytes_done;
    uint64_t bytes_total;
    _Atomic int cancelled;
    rf_load_progress progress;
    void *user;
};

struct rf_weight_bytes rf_cpu_weight_bytes(const struct rf_weight_plan *plan)
{
    if (plan->role == RF_WEIGHT_TABLE)
        return (struct rf_weight_bytes){.mapped = plan->tensor->bytes};
    if (plan->in_place) return (struct rf_weight_bytes){.pass = plan->bytes, .mapped = plan->bytes};
    return (struct rf_weight_bytes){.pass = plan->bytes, .resident = plan->bytes};
}

/* ---- packing, on all cores ---- */

static void pack_piece(struct pack_run *run, uint64_t piece, int worker)
{
    const struct pack_job *job = run->jobs, *last = job + run->n_jobs - 1;
    while (job < last && job[1].first_piece <= piece) job++;
    uint64_t begin = (piece - job->first_piece) * job->strips_per_piece,
             end = begin + job->strips_per_piece;
    if (end > job->strips) end = job->strips;
    rf_weight_pack(job->plan, run->kernels, begin, end - begin,
                   job->out + begin * job->plan->strip_bytes,
                   run->scratch + (size_t)worker * run->scratch_bytes);
    /* The parts of all pieces add up to the tensor's bytes. */
    uint64_t bytes = job->plan->tensor->bytes, strips = job->strips;
    atomic_fetch_add_explicit(&run->bytes_done,
                              bytes / strips * (end - begin) + (end == strips ? bytes % strips : 0),
                              memory_order_relaxed);
}

static void pack_pieces(void *argument, struct rf_worker *worker)
{
    struct pack_run *run = argument;
    uint64_t piece;
    while (!atomic_load_explicit(&run->cancelled, memory_order_relaxed) &&
           (piece = atomic_fetch_add_explicit(&run->next, 1, memory_order_relaxed)) <
               run->n_pieces) {
        pack_piece(run, piece, worker->index);
        if (worker->index == 0 && run->progress &&
            run->progress(run->user, atomic_load_explicit(&run->bytes_done, memory_order_relaxed),
                          run->bytes_total))
            atomic_store_explicit(&run->cancelled, 1, memory_order_relaxed);
    }
}

static int run_jobs(struct cpu_queue *queue, struct pack_run *run, struct rf_error *error)
{
    run->scratch = rf_malloc(queue->base.backend->allocator, (size_t)rf_team_size(queue->team),
                             run->scratch_bytes, "casting weights", error);
    if (!run->scratch) return RF_ERR_MEMORY;
    /* Worker 0 reports progress, but other workers may take every piece of a small model. So it is
     * reported here once. */
    if (run->progress && run->progress(run->user, 0, run->bytes_total))
        atomic_store(&run->cancelled, 1);
    rf_lock_take(&queue->turn);
    rf_team_run(queue->team, 0, pack_pieces, run);
    rf_lock_release(&queue->turn);
    if (run->cancelled) return rf_fail(error, RF_ERR_CANCELLED, "loading was cancelled");
    return 0;
}

static void add_job(struct pack_run *run, const struct rf_weight_plan *plan, char *out)
{
    struct pack_job *job = &run->jobs[run->n_jobs++];
    uint64_t elements = plan->strip_rows * plan->columns;
    *job = (struct pack_job){.plan = plan,
                             .out = out,
                             .strips = plan->n_experts * plan->strips,
                             .strips_per_piece =
                                 elements < PIECE_ELEMENTS ? PIECE_ELEMENTS / elements : 1,
                             .first_piece = run->n_pieces};
    if (run->scratch_bytes < plan->scratch_bytes) run->scratch_bytes = plan->scratch_bytes;
    run->n_pieces += (job->strips + job->strips_per_piece - 1) / job->strips_per_piece;
    run->bytes_total += plan->tensor->bytes;
}

/* ---- placing ---- */

static int is_pooled(const struct cpu_weights *weights, const struct rf_weight_plan *plan)
{
    return weights->pool && plan->role == RF_WEIGHT_EXPERTS;
}

/* Whether each matrix of the tensor has a place of its own. */
static int has_matrices(const struct rf_weight_plan *plan)
{
    return plan->role == RF_WEIGHT_EXPERTS || plan->role == RF_WEIGHT_HEADS;
}

static int is_packed(const struct cpu_weights *weights, const struct rf_weight_plan *plan)
{
    return !plan->in_place && !is_pooled(weights, plan);
}

/* Room for a tensor in the common block: whole cache lines, so that no two workers write to the
 * same one. */
static size_t packed_room(const struct rf_weight_plan *plan)
{
    return (plan->bytes + 63) & ~(size_t)63;
}

/* Sets the place of each expert's matrix; the matrices of a pool have none yet. `packed`: the first
 * one, or NULL. */
static void place_experts(struct rf_weight *weight, const char *packed, int pooled)
{
    const struct rf_weight_plan *plan = &weight->plan;
    for (size_t e = 0; !pooled && e < plan->n_experts; e++)
        weight->experts[e] = packed ? packed + e * plan->matrix_bytes
                                    : rf_tensor_rows(plan->tensor, e * plan->rows, 1, NULL);
}

/* Points every weight to the file, or to its room in the common block, and makes the latter jobs.
 */
static void place_all(struct cpu_weights *weights, struct pack_run *run,
                      const struct rf_weight_plan *plans)
{
    char *room = weights->packed;
    const void **experts = weights->experts;
    for (size_t i = 0; i < weights->n_tensors; i++) {
        const struct rf_weight_plan *plan = &plans[i];
        struct rf_weight *weight = *plan->weight = &weights->tensors[i];
        int pooled = is_pooled(weights, plan);
        char *packed = is_packed(weights, plan) ? room : NULL;
        const void *data = pooled ? NULL : packed ? packed : plan->tensor->data;
        weight->plan = *plan;
        if (packed) {
            add_job(run, plan, packed);
            room += packed_room(plan);
        }
        if (plan->role == RF_WEIGHT_VECTOR) weight->f32 = data;
        if (!plan->is_matrix) continue;
        weight->data = data;
        weight->ld =
            plan->format == RF_FORMAT_BF16 ? rf_plan_packed_columns(plan) : plan->strip_bytes;
        if (!has_matrices(plan)) continue;
        weight->experts = experts;
        place_experts(weight, packed, pooled);
        experts += plan->n_experts;
    }
}

/* Makes a pool if the experts take more memory than they may. */
static int make_pool(struct cpu_weights *weights, const struct rf_weight_plan *plans,
                     struct rf_error *error)
{
    const struct rf_backend *backend = weights->base.backend;
    uint64_t all = 0;
    size_t layer = 0, most = 0, least_places = 0;
    for (size_t i = 0; i < weights->n_tensors; i++) {
        const struct rf_weight_plan *plan = &plans[i];
        /* The plans have a layer's tensors one behind the other. */
        if (plan->role == RF_WEIGHT_ROUTER) layer = 0;
        if (plan->role != RF_WEIGHT_EXPERTS) continue;
        if (plan->format == RF_FORMAT_BF16) return 0; /* used in place */
        layer += plan->matrix_bytes;
        if (most < layer) most = layer;
        if (least_places < plan->n_experts) least_places = plan->n_experts;
        if (weights->scratch_bytes < plan->scratch_bytes)
            weights->scratch_bytes = plan->scratch_bytes;
        all += plan->bytes;
    }
    if (!backend->expert_bytes || all <= backend->expert_bytes) return 0;
    if (backend->expert_bytes / most < least_places)
        return rf_fail(
            error, RF_ERR_MEMORY, "%.2f GB of memory for experts: those of one layer take %.2f GB",
            (double)backend->expert_bytes * 1e-9, (double)most * (double)least_places * 1e-9);
    return rf_cpu_pool_new(&weights->pool, backend->expert_bytes, most, backend->allocator, error);
}

/* The common block, and the list of all experts. */
static int take_memory(struct cpu_weights *weights, const struct rf_weight_plan *plans,
                       struct rf_error *error)
{
    const struct rf_allocator *allocator = weights->base.backend->allocator;
    size_t bytes = 0, experts = 0;
    for (size_t i = 0; i < weights->n_tensors; i++) {
        if (is_packed(weights, &plans[i])) bytes += packed_room(&plans[i]);
        if (has_matrices(&plans[i])) experts += plans[i].n_experts;
    }
    if (experts) {
        weights->experts =
            rf_calloc(allocator, experts, sizeof *weights->experts, "weights", error);
        if (!weights->experts) return RF_ERR_MEMORY;
    }
    weights->packed = rf_malloc(allocator, bytes, 1, "weights", error);
    return weights->packed ? 0 : RF_ERR_MEMORY;
}

void rf_cpu_weights_free(struct rf_weights *base)
{
    if (!base) return;
    struct cpu_weights *weights = (struct cpu_weights *)base;
    const struct rf_allocator *allocator = base->backend->allocator;
    rf_free(allocator, weights->tensors);
    rf_free(allocator, (void *)weights->experts);
    rf_cpu_pool_free(weights->pool);
    rf_free(allocator, weights->packed);
    rf_free(allocator, weights);
}

int rf_cpu_weights_new(struct rf_weights **out, struct rf_queue *queue,
                       const struct rf_weight_plan *plans, int32_t n_plans,
                       rf_load_progress progress, void *user, struct rf_error *error)
{
    const struct rf_allocator *allocator = queue->backend->allocator;
    size_t n = (size_t)n_plans;
    struct pack_run run = {
        .kernels = kernels_of(queue->backend), .progress = progress, .user = user};

    *out = NULL;
    struct cpu_weights *made = rf_calloc(allocator, 1, sizeof *made, "weights", error);
    if (!made) return RF_ERR_MEMORY;
    made->base.backend = queue->backend;
    made->n_tensors = n;
    made->tensors = rf_calloc(allocator, n, sizeof *made->tensors, "weights", error);
    run.jobs = rf_calloc(allocator, n, sizeof *run.jobs, "weights", error);
    int code = made->tensors && run.jobs ? 0 : RF_ERR_MEMORY;
    if (!code) code = make_pool(made, plans, error);
    if (!code) code = take_memory(made, plans, error);
    if (!code) {
        place_all(made, &run, plans);
        if (run.n_jobs) code = run_jobs((struct cpu_queue *)queue, &run, error);
    }
    rf_free(allocator, run.scratch);
    rf_free(allocator, run.jobs);
    if (code) {
        rf_cpu_weights_free(&made->base);
        return code;
    }
    *out = &made->base;
    return 0;
}
