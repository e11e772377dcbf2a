/* A model opened on a kind of device, without the public interface. A test cannot go on without
 * it. */
#ifndef RF_TEST_INFER_DEVICE_H
#define RF_TEST_INFER_DEVICE_H

#include <stdlib.h>

#include "infer/model.h"
#include "infer/program.h"
#include "platform/memory.h"
#include "support/check.h"

/* A call that must not fail. */
#define MUST(call)                                                                     \
    do {                                                                               \
        struct rf_error error = {.text = ""};                                          \
        if (call) {                                                                    \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, error.text); \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

struct device {
    const char *name;
    const struct rf_backend_kind *kind;
    const char *tier;
};

struct opened {
    const struct device *device;
    const struct rf_source *source;
    struct rf_backend *backend;
    struct rf_queue *queue;
    struct rf_model *model;
};

static inline struct opened opened_new(const struct device *device, const struct rf_source *source,
                                       enum rf_weight_form form,
                                       const struct rf_allocator *allocator)
{
    struct opened made = {.device = device, .source = source};
    const struct rf_backend_options options = {.tier = device->tier};
    const struct rf_queue_options threads = {.threads = 2};
    MUST(device->kind->open(&made.backend, &options, allocator, &error));
    MUST(made.backend->ops->queue_new(&made.queue, made.backend, &threads, NULL, &error));
    MUST(rf_model_load(&made.model, source, made.queue, form, NULL, NULL, &error));
    return made;
}

static inline void opened_free(struct opened *opened)
{
    rf_model_free(opened->model);
    opened->backend->ops->queue_free(opened->queue);
    opened->backend->ops->free(opened->backend);
}

static inline struct rf_view *view_of(const struct opened *opened, const struct rf_model *model,
                                      const struct rf_view_options *options)
{
    struct rf_view *view;
    MUST(rf_view_new(&view, model, opened->queue, options, &error));
    return view;
}

/* Ends the test as skipped where this machine has no such device. */
static inline void device_must_exist(const struct device *device)
{
    const struct rf_backend_options options = {.tier = device->tier};
    struct rf_error error;
    if (!device->kind->describe(&options, NULL, &error)) return;
    fprintf(stderr, "skipped: %s\n", error.text);
    exit(77);
}

/* Pseudorandom numbers below n, and tokens. */
static inline uint32_t random_below(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)*state * n) >> 32);
}

static inline void random_tokens(int32_t *tokens, int32_t n, int32_t n_vocab, uint32_t seed)
{
    for (int32_t i = 0; i < n; i++) tokens[i] = (int32_t)random_below(&seed, (uint32_t)n_vocab);
}

#endif
