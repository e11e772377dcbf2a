/* An engine: one model that is ready to answer. It owns the file, the tokenizer, the weights, the
 * drafts, the device and the queue that computes; sessions, batches and grammars are opened on it
 * and must be closed before it. It speaks the plain data types of riffle.h with all defaults taken.
 * src/api covers it with the public handles.
 *
 * Invariants. (1) After rf_engine_open nothing changes but the queue's holders, so any number of
 * threads may read an engine. (2) backend, queue, model and tier are NULL together: then only the
 * header was opened, and no session can be. */
#ifndef RF_ENGINE_ENGINE_H
#define RF_ENGINE_ENGINE_H

#include <riffle.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/drafts.h"
#include "infer/model.h"
#include "infer/sampler.h"
#include "model/source.h"
#include "template/chat_template.h"
#include "text/tokenizer.h"

enum { RF_SAMPLING_SENTENCE = 512 };

struct rf_engine {
    struct rf_allocator allocator;
    struct rf_open_options open; /* how the files of this model are opened */
    struct rf_source *source;
    struct rf_tokenizer *tokenizer;
    struct rf_chat_template *chat; /* NULL: chat_error says why */
    struct rf_error chat_error;
    struct rf_model *model; /* NULL when only the header was opened */
    struct rf_weight_cost cost;
    uint64_t n_params; /* a head that repeats the embeddings is counted once, unlike in `cost` */
    enum rf_precision precision; /* precision of the target's activations */
    char stored_types[256], weights_note[256], activations_reason[160];
    struct drafts drafts;
    struct rf_sampling sampling; /* recommended, by rf_recommend_sampling */
    char sampling_source[RF_SAMPLING_SENTENCE];

    const struct rf_backend_kind *kind; /* kind of the chosen device */
    int32_t device;                     /* number among the devices of this kind */
    char device_name[32], device_note[512];
    uint64_t expert_bytes; /* memory for experts if not all fit; else 0 */
    char experts_note[256];
    uint64_t device_bytes; /* memory of the device; 0: the machine's own */
    int32_t device_layers; /* last layers of the model, on the device; the processor has the rest */
    char layers_note[512];
    struct rf_backend *backend; /* NULL when only the header was opened */
    const char *tier;           /* backend's tier, part of the pace files' names */
    char shared_tier[32];       /* tier of two devices, with the number of the device's layers */
    struct rf_queue *queue;     /* loaded the weights; free for a session while it has no holder */
    char *cores;                /* the caller's choice */
    int32_t threads;            /* the caller's choice */
};

/* Opens the model at `path`. `options` are complete (defaults taken); its struct_size, allocator
 * and reserved fields are not looked at. */
int rf_engine_open(struct rf_engine **engine, const char *path, const riffle_model_options *options,
                   const struct rf_allocator *allocator, struct rf_error *error);
void rf_engine_close(struct rf_engine *engine);

/* Loads the weights of an engine whose header and backend are open. */
int rf_engine_load(struct rf_engine *engine, const riffle_model_options *options,
                   struct rf_error *error);

/* Bits of the target's activations: 8 or 16. */
int32_t rf_engine_activation_bits(const struct rf_engine *engine);

#endif
