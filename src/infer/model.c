#include "infer/model.h"

#include <stdio.h>
#include <string.h>

#include "model/tensors.h"

/* The requests for all weights of a model in one list. Loading passes them to the backend; costs
 * are their sums. */
struct list {
    const struct rf_source *source;
    struct rf_weight_request *requests;
    int32_t count;
    struct rf_error *error;
    int code;
};

_Static_assert(sizeof(struct rf_layer) == RF_LAYER_TENSORS * sizeof(struct rf_weight *),
               "struct rf_layer has one field for each row of RF_EACH_LAYER_TENSOR");

/* Adds the tensor of that name, in a layer or (-1) of the whole model; the reader has checked that
 * the architecture's tensors exist. */
static void want(struct list *list, int32_t layer, const char *name, enum rf_weight_role role,
                 struct rf_weight **weight)
{
    char full[64];
    if (list->code) return;
    if (layer >= 0) {
        snprintf(full, sizeof full, "blk.%d.%s", layer, name);
        name = full;
    }
    const struct rf_tensor *tensor = rf_source_tensor(list->source, name);
    if (!tensor) {
        list->code = rf_fail(list->error, RF_ERR_FORMAT, "%s: tensor %s is missing",
                             list->source->name, name);
        return;
    }
    list->requests[list->count++] =
        (struct rf_weight_request){tensor, role, RF_WEIGHTS_BF16, weight, layer};
}

/* Where an architecture with the same parts in other places or under other names would differ. */
static void want_layer(struct list *list, int32_t layer, struct rf_layer *weights)
{
    const struct rf_params *p = &list->source->params;
#define WANT(field, gguf, hf, role, ne0, ne1, condition) \
    if (condition) want(list, layer, gguf, RF_WEIGHT_##role, &weights->field);
    RF_EACH_LAYER_TENSOR(WANT)
#undef WANT
}

static int is_matrix(const struct rf_weight_request *request)
{
    return request->role == RF_WEIGHT_MATRIX || request->role == RF_WEIGHT_EXPERTS;
}

/* Sets the form of all requests to `form`, but of routers: a cast that chose other experts would
 * draft badly. */
static void set_form(struct list *list, enum rf_weight_form form)
{
    for (int32_t i = 0; i < list->count; i++)
        if (list->requests[i].role != RF_WEIGHT_ROUTER) list->requests[i].form = form;
}

/* A model of floats only stays BF16 if `form` is STORED. */
static void choose_form(struct list *list, enum rf_weight_form form)
{
    int quantised = form != RF_WEIGHTS_STORED;
    for (int32_t i = 0; i < list->count; i++)
        quantised |= is_matrix(&list->requests[i]) &&
                     rf_dtype_info(list->requests[i].tensor->dtype)->block_elems > 1;
    if (quantised) set_form(list, form);
}

static int want_all(struct list *list, const struct rf_source *source, enum rf_weight_form form,
                    struct rf_model *model, const struct rf_allocator *allocator,
                    struct rf_error *error)
{
    const struct rf_params *p = &source->params;
    *list = (struct list){.source = source, .error = error};
    list->requests = rf_calloc(allocator, (size_t)p->n_layer * RF_LAYER_TENSORS + RF_MODEL_TENSORS,
                               sizeof *list->requests, "weights", error);
    model->layers =
        rf_calloc(allocator, (size_t)p->n_layer, sizeof *model->layers, "layers", error);
    if (!list->requests || !model->layers) return RF_ERR_MEMORY;
#define WANT(field, gguf, hf, role, ne0, ne1, condition) \
    want(list, -1, (condition) ? gguf : RF_TOKEN_EMBD, RF_WEIGHT_##role, &model->field);
    RF_EACH_MODEL_TENSOR(WANT)
#undef WANT /* a tied output head has no tensor but the embedding table */
    for (int32_t i = 0; i < p->n_layer; i++) want_layer(list, i, &model->layers[i]);
    if (!list->code) choose_form(list, form);
    return list->code;
}

void rf_model_free(struct rf_model *model)
{
    if (!model) return;
    const struct rf_allocator *allocator = model->allocator;
    if (model->weights) model->weights->backend->ops->weights_free(model->weights);
    rf_free(allocator, model->layers);
    rf_free(allocator, model);
}

int rf_model_load(struct rf_model **model, const struct rf_source *source, struct rf_queue *queue,
                  enum rf_weight_form form, rf_load_progress progress, void *user,
                  struct rf_error *error)
{
    const struct rf_allocator *allocator = queue->backend->allocator;
    *model = NULL;
    struct rf_model *made = rf_calloc(allocator, 1, sizeof *made, "model", error);
    if (!made) return RF_ERR_MEMORY;
    made->allocator = allocator;
    made->source = source;
    struct list list;
    int code = want_all(&list, source, form, made, allocator, error);
    if (!code)
        code = queue->backend->ops->weights_new(&made->weights, queue, list.requests, list.count,
                                                progress, user, error);
    rf_free(allocator, list.requests);
    if (code) {
        rf_model_free(made);
        return code;
    }
    *model = made;
    return 0;
}

/* In one block, for rf_model_free. */
struct layer_model {
    struct rf_model model;
    struct rf_source source; /* the parameters of one layer; borrows the rest */
};

int rf_model_load_layer(struct rf_model **model, const struct rf_source *source, int32_t layer,
                        const struct rf_tensor *rows, struct rf_queue *queue,
                        enum rf_weight_form form, struct rf_error *error)
{
    const struct rf_allocator *allocator = queue->backend->allocator;
    struct rf_weight_request requests[1 + RF_LAYER_TENSORS];
    struct list list = {.source = source, .requests = requests, .count = 1, .error = error};
    *model = NULL;
    struct layer_model *made = rf_calloc(allocator, 1, sizeof *made, "layer", error);
    if (!made) return RF_ERR_MEMORY;
    made->source = *source;
    made->source.params.n_layer = 1;
    made->source.params.embedding_scale = 0; /* the rows are inputs of the layer, not embeddings */
    if (source->params.layer_flags) made->source.params.layer_flags += layer;
    made->model.allocator = allocator;
    made->model.source = &made->source;
    requests[0] = (struct rf_weight_request){rows, RF_WEIGHT_TABLE, RF_WEIGHTS_STORED,
                                             &made->model.token_embd, -1};
    made->model.layers = rf_calloc(allocator, 1, sizeof *made->model.layers, "layer", error);
    if (!made->model.layers) list.code = RF_ERR_MEMORY;
    if (!list.code) want_layer(&list, layer, made->model.layers);
    for (int32_t i = 1; i < list.count; i++) requests[i].layer = 0;
    set_form(&list, form);
    requests[0].form = RF_WEIGHTS_STORED;
    if (!list.code)
        list.code = queue->backend->ops->weights_new(&made->model.weights, queue, requests,
                                                     list.count, NULL, NULL, error);
    if (list.code)
        rf_model_free(&made->model);
    else
        *model = &made->model;
    return list.code;
}

int rf_shared_weight_cost(const struct rf_source *source, enum rf_weight_form form,
                          const struct rf_backend_kind *first, const struct rf_backend_kind *second,
                          int32_t n_second, const struct rf_allocator *allocator,
                          struct rf_weight_cost *cost, struct rf_error *error)
{
    struct rf_model model = {0};
    struct list list;
    int32_t cut = rf_first_shared_layer(source->params.n_layer, n_second);
    *cost = (struct rf_weight_cost){.form = RF_WEIGHTS_BF16};
    int code = want_all(&list, source, form, &model, allocator, error);
    for (int32_t i = 0; !code && i < list.count; i++) {
        const struct rf_weight_request *request = &list.requests[i];
        /* A tied table is counted with the output head, which reads all of it. */
        if (request->role == RF_WEIGHT_TABLE && source->params.tied_output) continue;
        int is_second = rf_is_shared_second(request, cut);
        const struct rf_backend_kind *kind = is_second ? second : first;
        struct rf_weight_bytes taken = kind->weight_bytes(request);
        uint64_t n = 1;
        for (int32_t d = 0; d < request->tensor->n_dims; d++) n *= (uint64_t)request->tensor->ne[d];
        cost->n_params += n;
        cost->all_bytes += taken.pass;
        if (request->role == RF_WEIGHT_EXPERTS)
            taken.pass = taken.pass / (uint64_t)source->params.n_expert *
                         (uint64_t)source->params.n_expert_used;
        cost->pass_bytes += taken.pass;
        if (request->role == RF_WEIGHT_EXPERTS) cost->expert_bytes += taken.pass;
        int is_bf16 =
            strcmp(kind->weight_format(request->tensor->dtype, request->form), "BF16") == 0;
        if (request->role == RF_WEIGHT_EXPERTS && !is_bf16 && (!is_second || first == second))
            cost->resident_experts += taken.resident;
        cost->mapped_bytes += taken.mapped;
        cost->resident_bytes += taken.resident;
        if (is_second && first != second) {
            cost->second_pass_bytes += taken.pass;
            cost->second_bytes += taken.resident;
        }
        if (request->role != RF_WEIGHT_ROUTER) cost->form = request->form;
        if (is_matrix(request)) cost->matrices[request->tensor->dtype]++;
    }
    rf_free(allocator, list.requests);
    rf_free(allocator, model.layers);
    return code;
}

int rf_weight_cost(const struct rf_source *source, enum rf_weight_form form,
                   const struct rf_backend_kind *kind, const struct rf_allocator *allocator,
                   struct rf_weight_cost *cost, struct rf_error *error)
{
    return rf_shared_weight_cost(source, form, kind, kind, source->params.n_layer, allocator, cost,
                                 error);
}
