/* Gives queues to sessions (queues.h). Holders of a queue are counted, since sessions are opened
 * and closed on any thread. */
#include "engine/queues.h"

#include <string.h>

int rf_engine_open_queue(struct rf_engine *engine, const riffle_model_options *options,
                         struct rf_error *error)
{
    const char *cores = options->cores ? options->cores : "auto"; /* the same choice */
    const struct rf_queue_options asked = {.cores = cores, .threads = options->threads};
    engine->threads = options->threads;
    engine->cores = rf_strndup(&engine->allocator, cores, strlen(cores), error);
    if (!engine->cores) return RF_ERR_MEMORY;
    return engine->backend->ops->queue_new(&engine->queue, engine->backend, &asked, NULL, error);
}

int rf_engine_take_queue(struct rf_queue **queue, struct rf_engine *engine, const char *cores,
                         int32_t threads, struct rf_error *error)
{
    int none = 0;
    if (!cores) cores = engine->cores;
    int same = threads == engine->threads && strcmp(cores, engine->cores) == 0;
    *queue = engine->queue;
    if (same && atomic_compare_exchange_strong(&engine->queue->holders, &none, 1)) return 0;
    const struct rf_queue_options asked = {.cores = cores, .threads = threads};
    int code = engine->backend->ops->queue_new(queue, engine->backend, &asked,
                                               same ? engine->queue : NULL, error);
    if (!code) atomic_store(&(*queue)->holders, 1);
    return code;
}

void rf_engine_return_queue(struct rf_engine *engine, struct rf_queue *queue)
{
    if (queue && atomic_fetch_sub(&queue->holders, 1) == 1 && queue != engine->queue)
        engine->backend->ops->queue_free(queue);
}
