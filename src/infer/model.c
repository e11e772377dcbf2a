#include "infer/model.h"

#include <stdio.h>
#include <string.h>

/* The requests for all weights of a model, in one list: what loading asks of the backend, and what
 * the costs add up. */
struct list {
    const struct rf_source *source;
    struct rf_weight_request *requests;
    int32_t count;
    struct rf_error *error;
    int code;
};

enum { PER_LAYER = 14, GLOBAL = 3 };

/* Adds the tensor of that name; the reader has checked that the architecture's tensors exist. */
static void want(struct list *list, const char *name, enum rf_weight_role role,
                 struct rf_weight **weight)
{
    if (list->code) return;
    const struct rf_tensor *tensor = rf_source_tensor(list->source, name);
    if (!tensor) {
        list->code = rf_fail(list->error, RF_ERR_FORMAT, "%s: tensor %s is missing",
                             list->source->name, name);
        return;
    }
    list->requests[list->count++] =
        (struct rf_weight_request){tensor, role, RF_WEIGHTS_BF16, weight};
}

static void want_in_layer(struct list *list, int32_t layer, const char *name,
                          enum rf_weight_role role, struct rf_weight **weight)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%d.%s", layer, name);
    want(list, full, role, weight);
}

/* Where an architecture with the same parts in other places or under other names would differ. */
static void want_layer(struct list *list, int32_t i, struct rf_layer *layer)
{
    const struct rf_params *params = &list->source->params;
    want_in_layer(list, i, "attn_norm.weight", RF_WEIGHT_VECTOR, &layer->attn_norm);
    want_in_layer(list, i, "attn_q.weight", RF_WEIGHT_MATRIX, &layer->q);
    want_in_layer(list, i, "attn_k.weight", RF_WEIGHT_MATRIX, &layer->k);
    want_in_layer(list, i, "attn_v.weight", RF_WEIGHT_MATRIX, &layer->v);
    want_in_layer(list, i, "attn_output.weight", RF_WEIGHT_MATRIX, &layer->o);
    if (params->qkv_bias) {
        want_in_layer(list, i, "attn_q.bias", RF_WEIGHT_VECTOR, &layer->q_bias);
        want_in_layer(list, i, "attn_k.bias", RF_WEIGHT_VECTOR, &layer->k_bias);
        want_in_layer(list, i, "attn_v.bias", RF_WEIGHT_VECTOR, &layer->v_bias);
    }
    if (params->qk_norm) {
        want_in_layer(list, i, "attn_q_norm.weight", RF_WEIGHT_VECTOR, &layer->q_norm);
        want_in_layer(list, i, "attn_k_norm.weight", RF_WEIGHT_VECTOR, &layer->k_norm);
    }
    want_in_layer(list, i, "ffn_norm.weight", RF_WEIGHT_VECTOR, &layer->ffn_norm);
    want_in_layer(list, i, "ffn_gate.weight", RF_WEIGHT_MATRIX, &layer->gate);
    want_in_layer(list, i, "ffn_up.weight", RF_WEIGHT_MATRIX, &layer->up);
    want_in_layer(list, i, "ffn_down.weight", RF_WEIGHT_MATRIX, &layer->down);
}

/* Asks for `form`; but floats as they are stored are BF16. */
static void choose_form(struct list *list, enum rf_weight_form form)
{
    int quantised = form != RF_WEIGHTS_STORED;
    for (int32_t i = 0; i < list->count; i++)
        quantised |= list->requests[i].role == RF_WEIGHT_MATRIX &&
                     rf_dtype_info(list->requests[i].tensor->dtype)->block_elems > 1;
    if (!quantised) return;
    for (int32_t i = 0; i < list->count; i++) list->requests[i].form = form;
}

static int want_all(struct list *list, const struct rf_source *source, enum rf_weight_form form,
                    struct rf_model *model, const struct rf_allocator *allocator,
                    struct rf_error *error)
{
    const struct rf_params *params = &source->params;
    *list = (struct list){.source = source, .error = error};
    list->requests = rf_calloc(allocator, (size_t)params->n_layer * PER_LAYER + GLOBAL,
                               sizeof *list->requests, "weights", error);
    model->layers =
        rf_calloc(allocator, (size_t)params->n_layer, sizeof *model->layers, "layers", error);
    if (!list->requests || !model->layers) return RF_ERR_MEMORY;
    want(list, "token_embd.weight", RF_WEIGHT_TABLE, &model->token_embd);
    for (int32_t i = 0; i < params->n_layer; i++) want_layer(list, i, &model->layers[i]);
    want(list, "output_norm.weight", RF_WEIGHT_VECTOR, &model->output_norm);
    want(list, params->tied_output ? "token_embd.weight" : "output.weight", RF_WEIGHT_MATRIX,
         &model->output);
    if (!list->code) choose_form(list, form);
    return list->code;
}

void rf_model_free(struct rf_model *model)
{
    if (!model) return;
    const struct rf_allocator *allocator = model->allocator;
    if (model->backend) model->backend->ops->free(model->backend);
    rf_free(allocator, model->layers);
    rf_free(allocator, model);
}

int rf_model_load(struct rf_model **model, const struct rf_source *source,
                  struct rf_backend *backend, enum rf_weight_form form, struct rf_team *team,
                  rf_load_progress progress, void *user, const struct rf_allocator *allocator,
                  struct rf_error *error)
{
    *model = NULL;
    struct rf_model *made = rf_calloc(allocator, 1, sizeof *made, "model", error);
    if (!made) {
        backend->ops->free(backend);
        return RF_ERR_MEMORY;
    }
    made->allocator = allocator;
    made->source = source;
    made->backend = backend;
    struct list list;
    int code = want_all(&list, source, form, made, allocator, error);
    if (!code)
        code = backend->ops->weights_load(backend, list.requests, list.count, team, progress, user,
                                          error);
    rf_free(allocator, list.requests);
    if (code) {
        rf_model_free(made);
        return code;
    }
    *model = made;
    return 0;
}

int rf_weight_cost(const struct rf_source *source, enum rf_weight_form form,
                   struct rf_weight_bytes (*bytes)(const struct rf_weight_request *request),
                   const struct rf_allocator *allocator, struct rf_weight_cost *cost,
                   struct rf_error *error)
{
    struct rf_model model = {0};
    struct list list;
    *cost = (struct rf_weight_cost){.form = RF_WEIGHTS_BF16};
    int code = want_all(&list, source, form, &model, allocator, error);
    for (int32_t i = 0; !code && i < list.count; i++) {
        const struct rf_weight_request *request = &list.requests[i];
        /* A tied table is counted with the output head, which reads all of it. */
        if (request->role == RF_WEIGHT_TABLE && source->params.tied_output) continue;
        struct rf_weight_bytes taken = bytes(request);
        uint64_t n = 1;
        for (int32_t d = 0; d < request->tensor->n_dims; d++) n *= (uint64_t)request->tensor->ne[d];
        cost->n_params += n;
        cost->pass_bytes += taken.pass;
        cost->mapped_bytes += taken.mapped;
        cost->resident_bytes += taken.resident;
        cost->form = request->form;
        if (request->role == RF_WEIGHT_MATRIX) cost->matrices[request->tensor->dtype]++;
    }
    rf_free(allocator, list.requests);
    rf_free(allocator, model.layers);
    return code;
}
