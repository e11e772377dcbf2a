/* The backend on the processor's cores: its queues (teams of threads), the tables of its functions,
 * and its kind. devices/backends.c lists the kind; the engine calls through the tables. */
#include "cpu/calibrate.h"
#include "cpu/cpu.h"
#include "cpu/read_speed.h"
#include "cpu/tiers.h"
#include "platform/cpu.h"
#include "platform/plan.h"

static void cpu_backend_free(struct rf_backend *backend)
{
    rf_free(backend->allocator, backend);
}

static void cpu_queue_free(struct rf_queue *base)
{
    if (!base) return;
    struct cpu_queue *queue = (struct cpu_queue *)base;
    rf_team_free(queue->team);
    rf_split_free(queue->own);
    rf_lock_destroy(&queue->turn);
    rf_free(base->backend->allocator, queue);
}

static int cpu_queue_new(struct rf_queue **queue, struct rf_backend *backend,
                         const struct rf_queue_options *options, const struct rf_queue *like,
                         struct rf_error *error)
{
    *queue = NULL;
    struct cpu_queue *made = rf_calloc(backend->allocator, 1, sizeof *made, "threads", error);
    if (!made) return RF_ERR_MEMORY;
    made->base.backend = backend;
    rf_lock_init(&made->turn);
    int code = rf_team_of(&made->team, options->cores, options->threads, backend->allocator, error);
    if (code) {
        cpu_queue_free(&made->base);
        return code;
    }
    if (like) made->measured = ((const struct cpu_queue *)like)->measured;
    rf_team_begin_with(made->team, made->measured);
    *queue = &made->base;
    return 0;
}

static void cpu_queue_info(const struct rf_queue *base, struct rf_queue_info *info)
{
    const struct cpu_queue *queue = (const struct cpu_queue *)base;
    *info = (struct rf_queue_info){rf_team_size(queue->team), rf_team_places(queue->team)};
}

static int cpu_queue_calibrate(struct rf_queue *base, const struct rf_weights *weights,
                               struct rf_error *error)
{
    struct cpu_queue *queue = (struct cpu_queue *)base;
    rf_lock_take(&queue->turn);
    rf_split_free(queue->own);
    int code = rf_cpu_calibrate(&queue->own, weights, queue->team, error);
    queue->measured = queue->own;
    rf_team_begin_with(queue->team, queue->measured);
    rf_lock_release(&queue->turn);
    return code;
}

/* A pass is done when it has been submitted. */
static int cpu_sync(struct rf_view *view, struct rf_error *error)
{
    (void)view;
    (void)error;
    return 0;
}

static int cpu_logits(struct rf_view *base, int32_t i, const float **row, struct rf_error *error)
{
    (void)error;
    const struct cpu_view *view = (const struct cpu_view *)base;
    *row = buffer_row(&view->buffers[RF_SLOT_LOGITS], (size_t)i);
    return 0;
}

static int cpu_tap(struct rf_view *base, int32_t tap, int32_t i, const float **row,
                   struct rf_error *error)
{
    (void)error;
    const struct cpu_view *view = (const struct cpu_view *)base;
    *row = buffer_row(&view->buffers[RF_SLOT_TAP + tap], (size_t)i);
    return 0;
}

static int32_t cpu_view_threads(const struct rf_view *base, int32_t n_rows)
{
    const struct cpu_view *view = (const struct cpu_view *)base;
    return view->split->kinds[rf_work_of(n_rows)].active;
}

static const struct rf_backend_ops ops = {
    .free = cpu_backend_free,
    .queue_new = cpu_queue_new,
    .queue_free = cpu_queue_free,
    .queue_info = cpu_queue_info,
    .queue_calibrate = cpu_queue_calibrate,
    .weights_new = rf_cpu_weights_new,
    .weights_free = rf_cpu_weights_free,
    .cache_new = rf_cpu_cache_new,
    .cache_fork = rf_cpu_cache_fork,
    .cache_free = rf_cpu_cache_free,
    .cache_trim = rf_cpu_cache_trim,
    .cache_settle = rf_cpu_cache_settle,
    .cache_resume = rf_cpu_cache_resume,
    .cache_can_save = rf_cpu_cache_can_save,
    .cache_keep = rf_cpu_cache_keep,
    .cache_bytes = rf_cpu_cache_size,
    .cache_held = rf_cpu_cache_held,
    .cache_save = rf_cpu_cache_save,
    .cache_load = rf_cpu_cache_load,
    .view_new = rf_cpu_view_new,
    .view_free = rf_cpu_view_free,
    .submit = rf_cpu_submit,
    .sync = cpu_sync,
    .logits = cpu_logits,
    .tap = cpu_tap,
    .view_threads = cpu_view_threads,
};

int rf_cpu_backend_new(struct rf_backend **backend, int tier, const struct rf_allocator *allocator,
                       struct rf_error *error)
{
    *backend = NULL;
    const struct rf_kernels *kernels = rf_cpu_kernels(tier);
    if (!kernels)
        return rf_fail(error, RF_ERR_UNSUPPORTED, "this version has no kernels for cpu tier %d",
                       tier);
    struct cpu_backend *made = rf_calloc(allocator, 1, sizeof *made, "backend", error);
    if (!made) return RF_ERR_MEMORY;
    made->base = (struct rf_backend){
        .ops = &ops, .allocator = allocator, .first_above = kernels->first_above};
    made->kernels = kernels;
    *backend = &made->base;
    return 0;
}

static int chosen_tier(const struct rf_backend_options *options, struct rf_error *error)
{
    if (!options->tier) return rf_kernels_best_tier();
    return rf_cpu_find_tier(options->asker ? options->asker : "tier", options->tier, error);
}

static int cpu_describe(const struct rf_backend_options *options, struct rf_device_info *info,
                        struct rf_error *error)
{
    int tier = chosen_tier(options, error);
    if (tier < 0) return tier;
    if (!info) return 0;
    *info = (struct rf_device_info){
        .tier = rf_tier_name((enum rf_tier)tier),
        .best_tier = rf_tier_name((enum rf_tier)rf_kernels_best_tier()),
        .note = rf_cpu_kernels_note(tier),
    };
    return 0;
}

static int cpu_open(struct rf_backend **backend, const struct rf_backend_options *options,
                    const struct rf_allocator *allocator, struct rf_error *error)
{
    int tier = chosen_tier(options, error);
    return tier < 0 ? tier : rf_cpu_backend_new(backend, tier, allocator, error);
}

/* 0 for a worker that this kind of work does not use. */
static void take_speeds(struct rf_plan *plan, const struct rf_split *split)
{
    const struct rf_split_kind *decode = &split->kinds[RF_WORK_ONE],
                               *prompt = &split->kinds[RF_WORK_MANY];
    for (int s = 0; s < plan->n_placed; s++) {
        plan->seats[s].decode = s < decode->active ? (float)decode->speed[s] : 0;
        plan->seats[s].prompt = s < prompt->active ? (float)prompt->speed[s] : 0;
    }
}

static int cpu_measure_cores(const struct rf_backend_options *options, struct rf_plan *plan,
                             const struct rf_allocator *allocator, int32_t *n_measured,
                             double *bytes_per_second, struct rf_error *error)
{
    struct rf_team *team = NULL;
    struct rf_split *split = NULL;
    int tier = chosen_tier(options, error);
    int code = tier < 0 ? tier : rf_team_new(&team, plan, allocator, error);
    if (!code)
        code = rf_cpu_calibrate_machine(&split, tier, team, allocator, bytes_per_second, error);
    if (!code && split) take_speeds(plan, split);
    *n_measured = !code && split ? plan->n_placed : 0;
    rf_split_free(split);
    rf_team_free(team);
    return code;
}

static int measure_read(const struct rf_backend_options *options, int32_t threads,
                        const struct rf_allocator *allocator, struct rf_read_speed *speed,
                        struct rf_error *error)
{
    (void)options;
    return rf_cpu_measure_read(threads, allocator, speed, error);
}

const struct rf_backend_kind rf_cpu_backend_kind = {
    .name = "cpu",
    .describe = cpu_describe,
    .open = cpu_open,
    .weight_bytes = rf_cpu_weight_bytes,
    .kv_bytes = rf_cpu_kv_bytes,
    .measure_read = measure_read,
    .measure_cores = cpu_measure_cores,
};
