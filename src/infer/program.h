/* The forward pass of a model as a list of operations, and views over it. */
#ifndef RF_INFER_PROGRAM_H
#define RF_INFER_PROGRAM_H

#include "infer/backend.h"
#include "infer/model.h"

struct rf_head;

/* The inputs of a layer's matrices: of q, k, v; of o; of gate and up; of down. */
enum rf_layer_input { RF_INPUT_QKV, RF_INPUT_O, RF_INPUT_FFN, RF_INPUT_DOWN, RF_LAYER_INPUTS };

struct rf_view_options {
    enum rf_precision precision;
    enum rf_kv_type kv;
    int has_window;      /* rows read a window of the text: rf_window_has */
    int32_t max_rows;    /* most rows of a pass */
    const int32_t *taps; /* [n_taps] layers whose output rows can be asked for, ascending; -1 is
                            the embedding */
    int32_t n_taps;      /* <= RF_MAX_TAPS */
    /* For a model of one layer: instead, taps 0 to RF_LAYER_INPUTS - 1 are the inputs of its linear
     * layers, and a pass ends with the last of them. n_taps is 0. */
    int taps_inputs;
    /* A draft head of this model: tap RF_HEAD_FEATURES gives out features (infer/head.h), and
     * n_taps is 0. NULL: none. */
    const struct rf_head *head;
    const atomic_int *cancel; /* NULL: passes cannot be cancelled */
};

/* A view of the model's weights on `queue`. The model and the queue must outlive it. */
int rf_view_new(struct rf_view **view, const struct rf_model *model, struct rf_queue *queue,
                const struct rf_view_options *options, struct rf_error *error);
void rf_view_free(struct rf_view *view);
/* Parts of programs that others write, for parameters of one layer: the shapes of all slots but
 * taps, and the operations of the layer on RF_SLOT_X, at most RF_LAYER_OPS. */
enum { RF_LAYER_OPS = 26 };
void rf_program_shape_slots(struct rf_program *program);
void rf_program_one_layer(struct rf_program *program, const struct rf_layer *layer);
/* A view of a program that the caller has written, in one block of the queue's allocator, which the
 * view takes over also on failure. */
int rf_view_of_program(struct rf_view **view, struct rf_program *program,
                       const struct rf_source *source, const struct rf_weights *weights,
                       struct rf_queue *queue, const struct rf_view_options *options,
                       struct rf_error *error);

/* Memory of a device of that kind for the passes of a view without taps, at most. */
uint64_t rf_view_bytes(const struct rf_params *params, const struct rf_backend_kind *kind,
                       const struct rf_view_options *options);

/* Submits a pass and waits for it. */
int rf_view_run(struct rf_view *view, const struct rf_pass *pass, struct rf_error *error);

#endif
