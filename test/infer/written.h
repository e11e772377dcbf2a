/* Programs and weights that a test writes by hand, without a model. Weights are random, with the
 * same values on every device. */
#ifndef RF_TEST_INFER_WRITTEN_H
#define RF_TEST_INFER_WRITTEN_H

#include <math.h>

#include "infer/device.h"

enum { MOST_TENSORS = 16, MOST_OPS = 40 };

static inline float random_value(uint32_t *state)
{
    return (float)random_below(state, 1 << 24) / (float)(1 << 23) - 1.0f;
}

/* ---- weights ---- */

struct store {
    struct rf_tensor tensors[MOST_TENSORS];
    struct rf_weight_plan plans[MOST_TENSORS];
    void *data[MOST_TENSORS];
    int32_t n;
    struct rf_weights *weights;
};

/* Asks for a tensor: a matrix or table in BF16, or (n_out is 1) a vector in F32 around 1. */
static inline void want_weight(struct store *store, struct rf_weight **weight,
                               enum rf_weight_role role, enum rf_weight_form form, int32_t n_in,
                               int32_t n_out)
{
    int32_t at = store->n++;
    size_t n = (size_t)n_in * (size_t)n_out;
    uint32_t state = (uint32_t)(7 + 31 * at + n_in);
    int is_vector = role == RF_WEIGHT_VECTOR;
    char *data = malloc(n * sizeof(float));
    if (!data) exit(1);
    for (size_t i = 0; i < n; i++) {
        float value = is_vector ? 1 + 0.3f * random_value(&state)
                                : 1.7f / sqrtf((float)n_in) * random_value(&state);
        if (is_vector)
            memcpy(data + 4 * i, &value, 4);
        else
            memcpy(data + 2 * i, (char *)&value + 2, 2);
    }
    store->data[at] = data;
    store->tensors[at] = (struct rf_tensor){.name = "written",
                                            .dtype = is_vector ? RF_F32 : RF_BF16,
                                            .n_dims = is_vector ? 1 : 2,
                                            .ne = {n_in, n_out, 1, 1},
                                            .data = data,
                                            .bytes = n * (is_vector ? 4 : 2)};
    store->plans[at] = (struct rf_weight_plan){
        .tensor = &store->tensors[at], .role = role, .form = form, .layer = -1, .weight = weight};
    rf_plan_weight(&store->plans[at]);
}

static inline void store_load(struct store *store, struct rf_queue *queue)
{
    MUST(queue->backend->ops->weights_new(&store->weights, queue, store->plans, store->n, NULL,
                                          NULL, &error));
}

static inline void store_free(struct store *store)
{
    if (store->weights) store->weights->backend->ops->weights_free(store->weights);
    for (int32_t i = 0; i < store->n; i++) free(store->data[i]);
}

/* ---- programs ---- */

struct written {
    struct rf_program program;
    struct rf_op body[MOST_OPS], head[4];
};

static inline void written_new(struct written *written, const struct rf_params *params)
{
    memset(written, 0, sizeof *written);
    written->program.params = params;
    written->program.body = written->body;
    written->program.head = written->head;
    written->program.n_slots = RF_SLOT_TAP;
}

static inline void shape_slot(struct written *written, int32_t slot, int32_t width, int is_operand)
{
    written->program.slots[slot] = (struct rf_slot_shape){.width = width, .is_operand = is_operand};
}

static inline struct rf_op *put_op(struct written *written, enum rf_op_kind kind, enum rf_slot in,
                                   enum rf_slot out, const struct rf_weight *weight)
{
    struct rf_op *op = &written->body[written->program.n_body++];
    if (written->program.n_body > MOST_OPS) exit(1);
    *op = (struct rf_op){
        .kind = kind, .n = 1, .scale = 1, .in = {in}, .out = {out}, .weight = {weight}};
    return op;
}

/* A copy of a slot's rows becomes the next tap. */
static inline int32_t put_tap(struct written *written, enum rf_slot slot)
{
    int32_t tap = written->program.n_slots++;
    shape_slot(written, tap, written->program.slots[slot].width, 0);
    put_op(written, RF_OP_COPY, slot, (enum rf_slot)tap, NULL);
    return tap - RF_SLOT_TAP;
}

/* Logits of all rows of a weight. */
static inline void put_head(struct written *written, const struct rf_weight *norm,
                            const struct rf_weight *output)
{
    written->head[0] = (struct rf_op){
        .kind = RF_OP_NORM, .n = 1, .in = {RF_SLOT_X}, .out = {RF_SLOT_NORMED}, .weight = {norm}};
    written->head[1] = (struct rf_op){.kind = RF_OP_LINEAR,
                                      .n = 1,
                                      .in = {RF_SLOT_NORMED},
                                      .out = {RF_SLOT_LOGITS},
                                      .weight = {output}};
    written->program.n_head = 2;
    shape_slot(written, RF_SLOT_LOGITS, written->program.params->n_vocab, 0);
}

static inline struct rf_view *view_of_written(const struct written *written, struct rf_queue *queue,
                                              const struct rf_weights *weights, int32_t max_rows)
{
    struct rf_view *view;
    const struct rf_view_shape shape = {.program = &written->program,
                                        .weights = weights,
                                        .max_rows = max_rows,
                                        .max_logits =
                                            max_rows < RF_TREE_ROWS ? max_rows : RF_TREE_ROWS};
    MUST(queue->backend->ops->view_new(&view, queue, &shape, &error));
    view->backend = queue->backend;
    view->shape = shape;
    return view;
}

static inline void run_pass(struct rf_view *view, const struct rf_pass *pass)
{
    view->passes++;
    MUST(view->backend->ops->submit(view, pass, &error));
    MUST(view->backend->ops->sync(view, &error));
}

#endif
