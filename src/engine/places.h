/* The memories that a model is in, one or two, and the bytes it takes of each. Opening a model and
 * opening a session both check against these. */
#ifndef RF_ENGINE_PLACES_H
#define RF_ENGINE_PLACES_H

#include "engine/engine.h"
#include "infer/sequence.h"

/* One memory: this machine's or a device's. All figures in bytes. */
struct rf_place {
    const char *name; /* name in sentences */
    uint64_t memory;  /* size of the whole memory */
    uint64_t weights, drafts, kv;
};

/* Writes the places and returns how many there are. kv: keys and values of a sequence of that
 * shape; 0 for NULL. */
int rf_engine_places(const struct rf_engine *engine, const struct rf_sequence_shape *shape,
                     struct rf_place places[2]);

/* 1 if some layers are the processor's and some the device's. */
int rf_engine_is_shared(const struct rf_engine *engine);

/* The KV type of a name: f16, bf16, q8 or q4. */
int rf_kv_type_find(const char *name, enum rf_kv_type *kv, struct rf_error *error);
/* Bytes of keys and values of such a sequence in the last n layers, or in all if there are fewer.
 */
uint64_t rf_kv_bytes_of_layers(const struct rf_backend_kind *kind, const struct rf_params *params,
                               const struct rf_sequence_shape *shape, int32_t n);

#endif
