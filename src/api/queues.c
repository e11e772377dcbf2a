/* The queues that compute. One session at a time uses the queue that loaded the model; others get
 * their own. Forks share the queue of their origin. */
#include <string.h>

#include "api/handles.h"

int rf_api_open_queue(riffle_model *model, const riffle_model_options *options,
                      struct rf_error *error)
{
    const char *cores = options->cores ? options->cores : "auto"; /* the same choice */
    const struct rf_queue_options asked = {.cores = cores, .threads = options->threads};
    model->threads = options->threads;
    model->cores = rf_strndup(&model->allocator, cores, strlen(cores), error);
    if (!model->cores) return RF_ERR_MEMORY;
    return model->backend->ops->queue_new(&model->queue, model->backend, &asked, NULL, error);
}

int rf_api_take_queue(struct rf_queue **queue, riffle_model *model, const char *cores,
                      int32_t threads, struct rf_error *error)
{
    int none = 0;
    if (!cores) cores = model->cores;
    int same = threads == model->threads && strcmp(cores, model->cores) == 0;
    *queue = model->queue;
    if (same && atomic_compare_exchange_strong(&model->queue->holders, &none, 1)) return 0;
    const struct rf_queue_options asked = {.cores = cores, .threads = threads};
    int code = model->backend->ops->queue_new(queue, model->backend, &asked,
                                              same ? model->queue : NULL, error);
    if (!code) atomic_store(&(*queue)->holders, 1);
    return code;
}

void rf_api_return_queue(riffle_model *model, struct rf_queue *queue)
{
    if (queue && atomic_fetch_sub(&queue->holders, 1) == 1 && queue != model->queue)
        model->backend->ops->queue_free(queue);
}
