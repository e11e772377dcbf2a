/* A model on a tier with all that a pass takes, for tests that look at a pass's answers. Its
 * workers are a crew (crew.h). */
#ifndef RF_TEST_ENGINE_H
#define RF_TEST_ENGINE_H

#include <string.h>

#include "cpu/cpu.h"
#include "devices/devices.h"
#include "infer/program.h"
#include "support/crew.h"

struct engine {
    struct rf_backend *backend;
    struct rf_queue *queue;
    struct rf_split *split; /* the split that views begin with */
    struct rf_model *model;
    struct rf_view *view;
    struct rf_cache *cache;
};

/* A queue whose views begin with unequal shares of all workers. */
static inline int engine_queue(struct rf_queue **queue, struct rf_split **split,
                               struct rf_backend *backend, int threads, struct rf_error *error)
{
    const struct rf_queue_options options = {.threads = threads};
    int code = backend->ops->queue_new(queue, backend, &options, NULL, error);
    if (code) return code;
    struct rf_team *team = ((struct cpu_queue *)*queue)->team;
    *split = crew_split(rf_team_size(team));
    rf_team_begin_with(team, *split);
    return 0;
}

enum { ENGINE_ON_CUDA = -1 }; /* given in place of a tier */

static inline int engine_device(struct engine *engine, int tier, int threads,
                                struct rf_error *error)
{
    static const struct rf_backend_options first_device;
    static const struct rf_queue_options no_choice;
    int is_cuda = tier == ENGINE_ON_CUDA;
    engine->split = NULL;
    int code = is_cuda ? rf_cuda_backend_kind.open(&engine->backend, &first_device,
                                                   &rf_system_allocator, error)
                       : rf_cpu_backend_new(&engine->backend, tier, &rf_system_allocator, error);
    if (code) return code;
    if (!is_cuda)
        return engine_queue(&engine->queue, &engine->split, engine->backend, threads, error);
    return engine->backend->ops->queue_new(&engine->queue, engine->backend, &no_choice, NULL,
                                           error);
}

/* `view`: how the model is read; the cache holds n_ctx positions of the view's KV type. */
static inline void engine_open(struct engine *engine, const struct rf_source *source,
                               enum rf_weight_form form, int tier, int threads, int32_t n_ctx,
                               const struct rf_view_options *view)
{
    struct rf_error error = {.text = ""};
    const struct rf_cache_shape shape = {.params = &source->params, .n_ctx = n_ctx, .kv = view->kv};
    int code = engine_device(engine, tier, threads, &error);
    if (!code)
        code = rf_model_load(&engine->model, source, engine->queue, form, NULL, NULL, &error);
    if (!code) code = rf_view_new(&engine->view, engine->model, engine->queue, view, &error);
    if (!code)
        code = engine->backend->ops->cache_new(&engine->cache, engine->backend, &shape, &error);
    if (code) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
}

static inline void engine_close(struct engine *engine)
{
    const struct rf_backend_ops *ops = engine->backend->ops;
    ops->cache_free(engine->cache);
    rf_view_free(engine->view);
    rf_model_free(engine->model);
    ops->queue_free(engine->queue);
    rf_split_free(engine->split);
    ops->free(engine->backend);
}

/* A pass over one group of rows, which answers the rows from `first` to before `end`. Returns its
 * code. */
static inline int engine_read(struct engine *engine, struct rf_rows rows, int32_t first,
                              int32_t end)
{
    struct rf_error error;
    int32_t wanted[RF_MAX_ROWS];
    rows.cache = engine->cache;
    for (int32_t i = first; i < end; i++) wanted[i - first] = i;
    const struct rf_pass pass = {
        .groups = &rows, .n_groups = 1, .wanted = wanted, .n_wanted = end - first};
    return rf_view_run(engine->view, &pass, &error);
}

/* Logits of the i-th row that the last pass answered. */
static inline const float *engine_logits(struct engine *engine, int32_t i)
{
    struct rf_error error = {.text = ""};
    const float *logits;
    if (engine->backend->ops->logits(engine->view, i, &logits, &error)) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    return logits;
}

#endif
