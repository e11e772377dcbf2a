/* Names a model's tensors and has each planned (weights/plan.h). Loading hands the plans to a
 * backend; the costs of a model are sums over the same plans. The engine calls both. */
#include "infer/model.h"

#include <stdio.h>

#include "weights/repack.h"

/* The plans of all weights of a model. */
struct plan_list {
    const struct rf_source *source;
    struct rf_weight_plan *plans;
    int32_t count;
    struct rf_error *error;
    int code;
};

_Static_assert(sizeof(struct rf_layer) == RF_LAYER_TENSORS * sizeof(struct rf_weight *),
               "struct rf_layer has one field for each row of RF_EACH_LAYER_TENSOR");

/* Adds a request for the tensor of that name, in a layer or (-1) of the whole model; the reader has
 * checked that the architecture's tensors exist. */
static void want(struct plan_list *list, int32_t layer, const char *name, enum rf_weight_role role,
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
    list->plans[list->count++] = (struct rf_weight_plan){
        .tensor = tensor, .role = role, .form = RF_WEIGHTS_BF16, .layer = layer, .weight = weight};
}

/* Asks for the tensors of a layer. An architecture with the same parts under other names would
 * differ here. */
static void want_layer(struct plan_list *list, int32_t layer, struct rf_layer *weights)
{
    const struct rf_params *p = &list->source->params;
#define WANT(field, gguf, hf, role, ne0, ne1, condition) \
    if (condition) want(list, layer, gguf, RF_WEIGHT_##role, &weights->field);
    RF_EACH_LAYER_TENSOR(WANT)
#undef WANT
}

/* A matrix whose form can be chosen. Routers stay BF16: a cast that chose other experts would draft
 * badly. */
static int has_choice(enum rf_weight_role role)
{
    return role == RF_WEIGHT_MATRIX || role == RF_WEIGHT_EXPERTS || role == RF_WEIGHT_HEADS;
}

/* Plans the tensors from `first` on in `form`, but for routers. */
static void plan_from(struct plan_list *list, int32_t first, enum rf_weight_form form)
{
    for (int32_t i = first; i < list->count; i++) {
        struct rf_weight_plan *plan = &list->plans[i];
        int is_encoder = list->source->params.encoder;
        enum rf_dtype dtype = plan->tensor->dtype;
        if (plan->role != RF_WEIGHT_ROUTER) plan->form = form;
        if (is_encoder && plan->role == RF_WEIGHT_TABLE) plan->form = RF_WEIGHTS_STORED;
        plan->is_split =
            is_encoder && plan->role == RF_WEIGHT_MATRIX && (dtype == RF_F32 || dtype == RF_F16);
        plan->is_mapped =
            rf_source_is_mapped(list->source, plan->tensor->data, plan->tensor->bytes);
        rf_plan_weight(plan);
    }
}

/* The form of a model's weights. "Stored" means BF16 for a model that has only floats. */
static enum rf_weight_form choose_form(const struct plan_list *list, enum rf_weight_form form)
{
    if (form != RF_WEIGHTS_STORED) return form;
    for (int32_t i = 0; i < list->count; i++)
        if (has_choice(list->plans[i].role) &&
            rf_dtype_info(list->plans[i].tensor->dtype)->block_elems > 1)
            return form;
    return RF_WEIGHTS_BF16;
}

/* RF_WEIGHTS_W4 casts to no other type where rows do not suit. */
static int check_w4(const struct plan_list *list, struct rf_error *error)
{
    for (int32_t i = 0; i < list->count; i++) {
        const struct rf_weight_plan *plan = &list->plans[i];
        const struct rf_tensor *tensor = plan->tensor;
        int is_cast =
            plan->dtype != tensor->dtype || rf_dtype_info(tensor->dtype)->block_elems == 1;
        if (plan->form != RF_WEIGHTS_W4 || !has_choice(plan->role) || !is_cast) continue;
        if (plan->format != RF_FORMAT_W4A8_G128)
            return rf_fail(error, RF_ERR_UNSUPPORTED,
                           "%s: a cast to w4 wants rows of a multiple of %d weights, at most %d, "
                           "and those of tensor %s have %lld",
                           list->source->name, (int)RF_ROW_GROUP, (int)RF_ROW_MOST_K, tensor->name,
                           (long long)tensor->ne[0]);
    }
    return 0;
}

static int want_all(struct plan_list *list, const struct rf_source *source,
                    enum rf_weight_form form, struct rf_model *model,
                    const struct rf_allocator *allocator, struct rf_error *error)
{
    const struct rf_params *p = &source->params;
    *list = (struct plan_list){.source = source, .error = error};
    list->plans = rf_calloc(allocator, (size_t)p->n_layer * RF_LAYER_TENSORS + RF_MODEL_TENSORS,
                            sizeof *list->plans, "weights", error);
    model->layers =
        rf_calloc(allocator, (size_t)p->n_layer, sizeof *model->layers, "layers", error);
    if (!list->plans || !model->layers) return RF_ERR_MEMORY;
#define WANT(field, gguf, hf, role, ne0, ne1, condition)                 \
    if ((condition) || (&model->field == &model->output && !p->encoder)) \
        want(list, -1, (condition) ? gguf : RF_TOKEN_EMBD, RF_WEIGHT_##role, &model->field);
    RF_EACH_MODEL_TENSOR(WANT)
#undef WANT /* a tied output head has no tensor but the embedding table */
    for (int32_t i = 0; i < p->n_layer; i++) want_layer(list, i, &model->layers[i]);
    if (list->code) return list->code;
    plan_from(list, 0, choose_form(list, form));
    return check_w4(list, error);
}

void rf_model_free(struct rf_model *model)
{
    if (!model) return;
    const struct rf_allocator *allocator = model->allocator;
    if (model->weights) model->weights->backend->ops->weights_free(model->weights);
    rf_free(allocator, model->layers);
    rf_free(allocator, model);
}

/* Loads the weights by their plans. Where kept casts turn out to be damaged, once more without. */
static int load_planned(struct rf_model *model, struct rf_queue *queue, struct plan_list *list,
                        const struct rf_kept_folder *folder, rf_load_progress progress, void *user,
                        struct rf_error *error)
{
    const struct rf_backend_ops *ops = queue->backend->ops;
    struct rf_kept *kept;
    int code = 0;
    for (int32_t i = 0; !code && i < list->count; i++)
        code = rf_check_rows(list->plans[i].tensor, error);
    if (!code)
        code = rf_kept_open(&kept, folder, list->plans, list->count, model->allocator, error);
    if (code) return code;
    code =
        ops->weights_new(&model->weights, queue, list->plans, list->count, progress, user, error);
    if (!rf_kept_close(kept, code == 0)) return code;
    ops->weights_free(model->weights);
    model->weights = NULL;
    for (int32_t i = 0; i < list->count; i++) list->plans[i].kept = NULL;
    return ops->weights_new(&model->weights, queue, list->plans, list->count, progress, user,
                            error);
}

int rf_model_load(struct rf_model **model, const struct rf_source *source, struct rf_queue *queue,
                  enum rf_weight_form form, rf_load_progress progress, void *user,
                  struct rf_error *error)
{
    static const struct rf_kept_folder nowhere;
    return rf_model_load_draft(model, source, queue, form, &nowhere, progress, user, error);
}

int rf_model_load_draft(struct rf_model **model, const struct rf_source *source,
                        struct rf_queue *queue, enum rf_weight_form form,
                        const struct rf_kept_folder *folder, rf_load_progress progress, void *user,
                        struct rf_error *error)
{
    const struct rf_allocator *allocator = queue->backend->allocator;
    *model = NULL;
    struct rf_model *made = rf_calloc(allocator, 1, sizeof *made, "model", error);
    if (!made) return RF_ERR_MEMORY;
    made->allocator = allocator;
    made->source = source;
    struct plan_list list;
    int code = want_all(&list, source, form, made, allocator, error);
    if (!code) code = load_planned(made, queue, &list, folder, progress, user, error);
    rf_free(allocator, list.plans);
    if (code) {
        rf_model_free(made);
        return code;
    }
    *model = made;
    return 0;
}

/* A model of one layer and its parameters in one block, which rf_model_free frees. */
struct layer_model {
    struct rf_model model;
    struct rf_source source; /* the parameters of one layer; borrows the rest */
};

int rf_model_load_layer(struct rf_model **model, const struct rf_source *source, int32_t layer,
                        const struct rf_tensor *rows, struct rf_queue *queue,
                        enum rf_weight_form form, struct rf_error *error)
{
    const struct rf_allocator *allocator = queue->backend->allocator;
    struct rf_weight_plan plans[1 + RF_LAYER_TENSORS];
    struct plan_list list = {.source = source, .plans = plans, .count = 1, .error = error};
    *model = NULL;
    struct layer_model *made = rf_calloc(allocator, 1, sizeof *made, "layer", error);
    if (!made) return RF_ERR_MEMORY;
    made->source = *source;
    made->source.params.n_layer = 1;
    made->source.params.embedding_scale = 0; /* the rows are inputs of the layer, not embeddings */
    if (source->params.layer_flags) made->source.params.layer_flags += layer;
    made->model.allocator = allocator;
    made->model.source = &made->source;
    plans[0] = (struct rf_weight_plan){.tensor = rows,
                                       .role = RF_WEIGHT_TABLE,
                                       .form = RF_WEIGHTS_STORED,
                                       .layer = -1,
                                       .weight = &made->model.token_embd};
    rf_plan_weight(&plans[0]);
    made->model.layers = rf_calloc(allocator, 1, sizeof *made->model.layers, "layer", error);
    if (!made->model.layers) list.code = RF_ERR_MEMORY;
    if (!list.code) want_layer(&list, layer, made->model.layers);
    for (int32_t i = 1; i < list.count; i++) plans[i].layer = 0;
    plan_from(&list, 1, form);
    if (!list.code)
        list.code = queue->backend->ops->weights_new(&made->model.weights, queue, plans, list.count,
                                                     NULL, NULL, error);
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
    struct plan_list list;
    int32_t cut = rf_first_shared_layer(source->params.n_layer, n_second);
    *cost = (struct rf_weight_cost){.form = RF_WEIGHTS_BF16};
    int code = want_all(&list, source, form, &model, allocator, error);
    for (int32_t i = 0; !code && i < list.count; i++) {
        const struct rf_weight_plan *plan = &list.plans[i];
        /* A tied table is counted with the output head, which reads all of it. */
        if (plan->role == RF_WEIGHT_TABLE && source->params.tied_output && !source->params.encoder)
            continue;
        int is_second = rf_is_shared_second(plan, cut);
        const struct rf_backend_kind *kind = is_second ? second : first;
        struct rf_weight_bytes taken = kind->weight_bytes(plan);
        cost->n_params += rf_tensor_elements(plan->tensor);
        cost->all_bytes += taken.pass;
        if (plan->role == RF_WEIGHT_EXPERTS)
            taken.pass = taken.pass / (uint64_t)source->params.n_expert *
                         (uint64_t)source->params.n_expert_used;
        cost->pass_bytes += taken.pass;
        if (plan->role == RF_WEIGHT_EXPERTS) cost->expert_bytes += taken.pass;
        if (plan->role == RF_WEIGHT_EXPERTS && plan->format != RF_FORMAT_BF16 &&
            (!is_second || first == second))
            cost->resident_experts += taken.resident;
        cost->mapped_bytes += taken.mapped;
        cost->resident_bytes += taken.resident;
        if (is_second && first != second) {
            cost->second_pass_bytes += taken.pass;
            cost->second_bytes += taken.resident;
        }
        if (plan->role != RF_WEIGHT_ROUTER) cost->form = plan->form;
        if (has_choice(plan->role)) cost->matrices[plan->tensor->dtype]++;
    }
    rf_free(allocator, list.plans);
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
