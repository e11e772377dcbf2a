/* A model's weights under their roles, bound to a backend. */
#ifndef RF_INFER_MODEL_H
#define RF_INFER_MODEL_H

#include "infer/backend.h"

struct rf_layer {
    struct rf_weight *attn_norm, *q, *k, *v, *o;
    struct rf_weight *q_bias, *k_bias, *v_bias; /* NULL where the architecture has none */
    struct rf_weight *q_norm, *k_norm;          /* likewise */
    struct rf_weight *ffn_norm, *gate, *up, *down;
};

struct rf_model {
    const struct rf_allocator *allocator;
    const struct rf_source *source;
    struct rf_backend *backend;
    struct rf_weight *token_embd, *output_norm, *output; /* of one tensor where they are tied */
    struct rf_layer *layers;
};

/* Loads all weights, in `form`; as stored, a file whose matrices are all floats gives
 * RF_WEIGHTS_BF16. The source must outlive the model; the backend is the model's from here on, on
 * failure too. */
int rf_model_load(struct rf_model **model, const struct rf_source *source,
                  struct rf_backend *backend, enum rf_weight_form form, struct rf_team *team,
                  rf_load_progress progress, void *user, const struct rf_allocator *allocator,
                  struct rf_error *error);
void rf_model_free(struct rf_model *model);

/* What the weights cost, known before they are loaded. */
struct rf_weight_cost {
    uint64_t n_params;
    uint64_t pass_bytes;              /* that a decoding pass reads */
    uint64_t mapped_bytes;            /* used in place from the file */
    uint64_t resident_bytes;          /* memory for the rest */
    enum rf_weight_form form;         /* that rf_model_load gives for the form that was asked */
    int32_t matrices[RF_DTYPE_LIMIT]; /* of each type in the file */
};
/* `bytes` tells what each weight takes in the backend to come. */
int rf_weight_cost(const struct rf_source *source, enum rf_weight_form form,
                   struct rf_weight_bytes (*bytes)(const struct rf_weight_request *request),
                   const struct rf_allocator *allocator, struct rf_weight_cost *cost,
                   struct rf_error *error);

#endif
