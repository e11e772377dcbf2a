/* Draft heads: loading, costs, and their program, which is one decoder layer whose input is two
 * rows side by side, or what fc makes of these. The engine loads heads, and head_level.c of
 * speculate runs them. */
#include "infer/head.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "weights/repack.h"

/* ---- weights ---- */

enum {
#define COUNT(...) +1
    EAGLE_TENSORS = RF_EACH_HEAD_TENSOR(COUNT),
    MTP_TENSORS = RF_EACH_MTP_TENSOR(COUNT) + RF_LAYER_TENSORS,
    HEAD_TENSORS = MTP_TENSORS > EAGLE_TENSORS ? MTP_TENSORS : EAGLE_TENSORS
#undef COUNT
};

/* The requests for a head's tensors, and for rows of its target's output. */
struct head_plans {
    struct rf_weight_plan plans[HEAD_TENSORS + 1];
    int32_t n;
};

static int want_tensor(struct head_plans *list, const struct rf_source *source, const char *name,
                       enum rf_weight_role role, struct rf_weight **weight, struct rf_error *error)
{
    const struct rf_tensor *tensor = rf_source_tensor(source, name);
    if (!tensor)
        return rf_fail(error, RF_ERR_FORMAT, "%s: tensor %s is missing", source->name, name);
    list->plans[list->n++] = (struct rf_weight_plan){
        .tensor = tensor,
        .role = role,
        .form = RF_WEIGHTS_STORED,
        .layer = -1,
        .weight = weight,
        .is_mapped = rf_source_is_mapped(source, tensor->data, tensor->bytes)};
    return 0;
}

/* Requests a tensor of the layer behind the target's own. */
static int want_in_layer(struct head_plans *list, const struct rf_head_file *f, const char *name,
                         enum rf_weight_role role, struct rf_weight **weight,
                         struct rf_error *error)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%d.%s", f->mtp_layer, name);
    return want_tensor(list, f->source, full, role, weight, error);
}

/* Requests the tensors of a head that was trained with its target. */
static int want_mtp(struct head_plans *list, const struct rf_head_file *f, struct rf_head *head,
                    struct rf_error *error)
{
    const struct rf_params *p = &f->source->params;
    const int32_t layer = 0;
    int code = 0;
#define WANT(field, name, role, ne0, ne1, condition) \
    if (!code && (condition))                        \
        code = want_in_layer(list, f, name, RF_WEIGHT_##role, &head->field, error);
    RF_EACH_MTP_TENSOR(WANT)
#undef WANT
#define WANT(field, name, hf, role, ne0, ne1, condition) \
    if (!code && (condition))                            \
        code = want_in_layer(list, f, name, RF_WEIGHT_##role, &head->layer.field, error);
    RF_EACH_LAYER_TENSOR(WANT)
#undef WANT
    return code;
}

static int want_eagle(struct head_plans *list, const struct rf_head_file *f, struct rf_head *head,
                      struct rf_error *error)
{
    const struct rf_params *p = &f->source->params;
    int code = 0;
#define WANT(field, name, role, ne0, ne1, condition) \
    if (!code && (condition))                        \
        code = want_tensor(list, f->source, name, RF_WEIGHT_##role, &head->field, error);
    RF_EACH_HEAD_TENSOR(WANT)
#undef WANT
    return code;
}

/* Plans all tensors. The weights' places are fields of `head`. */
static int plan_head(struct head_plans *list, const struct rf_head_file *f, struct rf_head *head,
                     struct rf_error *error)
{
    int has_blocks = 0;
    list->n = 0;
    int code = f->mtp_layer ? want_mtp(list, f, head, error) : want_eagle(list, f, head, error);
    for (int32_t i = 0; i < list->n; i++)
        has_blocks |=
            (list->plans[i].role == RF_WEIGHT_MATRIX || list->plans[i].role == RF_WEIGHT_EXPERTS) &&
            rf_dtype_info(list->plans[i].tensor->dtype)->block_elems > 1;
    for (int32_t i = 0; i < list->n; i++) {
        struct rf_weight_plan *plan = &list->plans[i];
        if (!has_blocks || plan->role == RF_WEIGHT_ROUTER) plan->form = RF_WEIGHTS_BF16;
        rf_plan_weight(plan);
    }
    return code;
}

static const struct rf_tensor *target_output(const struct rf_source *target)
{
    return rf_source_tensor(target, target->params.tied_output ? RF_TOKEN_EMBD : RF_OUTPUT);
}

/* Plans the rows that the head takes from its target's output, in their stored type. */
static void plan_rows(struct head_plans *list, const struct rf_head_file *file,
                      const struct rf_source *target, struct rf_head *head)
{
    const struct rf_tensor *whole = target_output(target);
    struct rf_tensor *rows = &head->rows_tensor;
    if (!file->n_rows) return;
    *rows = *whole;
    rows->bytes = whole->bytes / (uint64_t)whole->ne[1] * (uint64_t)file->n_rows;
    rows->ne[1] = file->n_rows;
    if (head->rows) rows->data = head->rows; /* for costs the target's stand for the copy */
    int has_blocks = rf_dtype_info(whole->dtype)->block_elems > 1;
    struct rf_weight_plan *plan = &list->plans[list->n++];
    *plan = (struct rf_weight_plan){.tensor = rows,
                                    .role = RF_WEIGHT_MATRIX,
                                    .form = has_blocks ? RF_WEIGHTS_STORED : RF_WEIGHTS_BF16,
                                    .layer = -1,
                                    .weight = &head->output};
    rf_plan_weight(plan);
}

/* Copies these rows. They lie one behind the other then, as a matrix is packed from them. */
static int copy_rows(struct rf_head *head, struct rf_error *error)
{
    const struct rf_head_file *file = head->file;
    const struct rf_tensor *whole = target_output(head->target->source);
    size_t row_bytes = (size_t)(whole->bytes / (uint64_t)whole->ne[1]);
    if (!file->n_rows) return 0;
    head->rows = rf_malloc(head->allocator, (size_t)file->n_rows, row_bytes, "draft head", error);
    if (!head->rows) return RF_ERR_MEMORY;
    for (int32_t i = 0; i < file->n_rows; i++)
        memcpy((char *)head->rows + (size_t)i * row_bytes,
               (const char *)whole->data + (size_t)file->tokens[i] * row_bytes, row_bytes);
    return rf_source_check(head->target->source, error);
}

int rf_head_load(struct rf_head **head, const struct rf_head_file *file,
                 const struct rf_model *target, struct rf_queue *queue, struct rf_error *error)
{
    struct head_plans list;
    *head = NULL;
    struct rf_head *made = rf_calloc(target->allocator, 1, sizeof *made, "draft head", error);
    if (!made) return RF_ERR_MEMORY;
    made->allocator = target->allocator;
    made->file = file;
    made->target = target;
    int code = plan_head(&list, file, made, error);
    for (int32_t i = 0; !code && i < list.n; i++) code = rf_check_rows(list.plans[i].tensor, error);
    if (!code) code = copy_rows(made, error);
    if (!code) plan_rows(&list, file, target->source, made);
    if (!code)
        code = queue->backend->ops->weights_new(&made->weights, queue, list.plans, list.n, NULL,
                                                NULL, error);
    if (code) {
        rf_head_free(made);
        return code;
    }
    if (file->n_rows && !list.plans[list.n - 1].in_place) {
        rf_free(made->allocator, made->rows);
        made->rows = NULL;
    }
    if (!file->has_output && !file->n_rows) made->output = target->output;
    if (!file->has_embd) made->token_embd = target->token_embd;
    if (!made->output_norm) made->output_norm = target->output_norm;
    *head = made;
    return 0;
}

void rf_head_free(struct rf_head *head)
{
    if (!head) return;
    if (head->weights) head->weights->backend->ops->weights_free(head->weights);
    rf_free(head->allocator, head->rows);
    rf_free(head->allocator, head);
}

/* Bytes of the target's output matrix that a pass of the head reads. */
static uint64_t shared_bytes(const struct rf_head_file *file, const struct rf_source *target,
                             enum rf_weight_form form, const struct rf_backend_kind *kind)
{
    struct rf_weight_plan plan = {
        .tensor = target_output(target), .role = RF_WEIGHT_MATRIX, .form = form, .layer = -1};
    rf_plan_weight(&plan);
    return kind->weight_bytes(&plan).pass / (uint64_t)plan.rows *
           (uint64_t)file->source->params.n_vocab;
}

int rf_head_cost(const struct rf_head_file *file, const struct rf_source *target,
                 enum rf_weight_form form, const struct rf_backend_kind *kind,
                 struct rf_weight_cost *cost, struct rf_error *error)
{
    struct head_plans list;
    struct rf_head places = {.rows = NULL};
    *cost = (struct rf_weight_cost){.form = RF_WEIGHTS_BF16};
    int code = plan_head(&list, file, &places, error);
    if (!code) plan_rows(&list, file, target, &places);
    for (int32_t i = 0; !code && i < list.n; i++) {
        const struct rf_weight_plan *plan = &list.plans[i];
        struct rf_weight_bytes bytes = kind->weight_bytes(plan);
        /* Features are made in the target's pass. */
        int is_fc = plan->weight == &places.fc && !file->mtp_layer;
        cost->n_params += rf_tensor_elements(plan->tensor);
        cost->all_bytes += bytes.pass;
        if (plan->role == RF_WEIGHT_EXPERTS)
            bytes.pass = bytes.pass / (uint64_t)file->source->params.n_expert *
                         (uint64_t)file->source->params.n_expert_used;
        cost->pass_bytes += is_fc ? 0 : bytes.pass;
        cost->mapped_bytes += bytes.mapped;
        cost->resident_bytes += bytes.resident;
        cost->matrices[plan->tensor->dtype] += plan->is_matrix;
        if (plan->is_matrix && plan->weight != &places.output && plan->role != RF_WEIGHT_ROUTER)
            cost->form = plan->form;
    }
    if (!code && !file->has_output && !file->n_rows)
        cost->pass_bytes += shared_bytes(file, target, form, kind);
    return code;
}

/* ---- the head's program ---- */

enum { JOIN_OPS = 7, BODY_OPS = JOIN_OPS + RF_LAYER_OPS + 1, TAIL_OPS = 3 };

static struct rf_op *add_head_op(struct rf_program *program, enum rf_op_kind kind, enum rf_slot in,
                                 enum rf_slot out, const struct rf_weight *weight)
{
    struct rf_op *op = &program->body[program->n_body++];
    *op = (struct rf_op){
        .kind = kind, .n = 1, .scale = 1, .in = {in}, .out = {out}, .weight = {weight}};
    return op;
}

/* Adds to the slots of the layer those of the joined rows and of the result. */
static void shape_mtp_slots(struct rf_program *program)
{
    int32_t n_embd = program->params->n_embd;
    rf_program_shape_slots(program);
    program->slots[RF_SLOT_JOINED] = (struct rf_slot_shape){.width = 2 * n_embd};
    program->slots[RF_SLOT_JOINED_IN] =
        (struct rf_slot_shape){.width = 2 * n_embd, .is_operand = 1};
    program->slots[RF_SLOT_TAP + RF_HEAD_RESULT] = (struct rf_slot_shape){.width = n_embd};
    program->n_slots = RF_SLOT_TAP + RF_HEAD_RESULT + 1;
}

static void shape_head_slots(struct rf_program *program)
{
    const struct rf_params *p = program->params;
    int32_t n_q = p->n_head * p->head_dim, n_kv = p->n_head_kv * p->head_dim;
    const struct rf_slot_shape slots[] = {
        [RF_SLOT_X] = {.width = p->n_embd},
        [RF_SLOT_NORMED] = {.width = p->n_embd, .is_operand = 1},
        [RF_SLOT_Q] = {.width = n_q},
        [RF_SLOT_K] = {.width = n_kv},
        [RF_SLOT_V] = {.width = n_kv},
        [RF_SLOT_ATTENDED] = {.width = n_q, .is_operand = 1},
        [RF_SLOT_BRANCH] = {.width = p->n_embd},
        [RF_SLOT_GATE] = {.width = p->n_ff},
        [RF_SLOT_UP] = {.width = p->n_ff},
        [RF_SLOT_GATED] = {.width = p->n_ff, .is_operand = 1},
        [RF_SLOT_JOINED] = {.width = 2 * p->n_embd},
        [RF_SLOT_JOINED_IN] = {.width = 2 * p->n_embd, .is_operand = 1},
        [RF_SLOT_LOGITS] = {.width = p->n_vocab},
        [RF_SLOT_TAP + RF_HEAD_RESULT] = {.width = p->n_embd},
    };
    memcpy(program->slots, slots, sizeof slots);
    program->n_slots = sizeof slots / sizeof *slots;
}

/* The layer's input: the token's embedding and the feature, normed, side by side. */
static void add_joined_input(struct rf_program *program, const struct rf_head *head)
{
    const struct rf_params *target = &head->target->source->params;
    struct rf_op *op =
        add_head_op(program, RF_OP_EMBED, RF_SLOT_BRANCH, RF_SLOT_BRANCH, head->token_embd);
    if (!head->file->has_embd && target->embedding_scale != 0) op->scale = target->embedding_scale;
    add_head_op(program, RF_OP_EMBED, RF_SLOT_X, RF_SLOT_X, NULL);
    add_head_op(program, RF_OP_NORM, RF_SLOT_BRANCH, RF_SLOT_JOINED, head->embd_norm);
    add_head_op(program, RF_OP_NORM, RF_SLOT_X, RF_SLOT_JOINED, head->feature_norm)->column =
        program->params->n_embd;
    if (head->file->norm_before_residual)
        add_head_op(program, RF_OP_NORM, RF_SLOT_X, RF_SLOT_X, head->feature_norm);
    add_head_op(program, RF_OP_COPY, RF_SLOT_JOINED, RF_SLOT_JOINED_IN, NULL)->may_stop = 1;
}

static void add_head_layer(struct rf_program *program, const struct rf_head *head)
{
    struct rf_op *op = add_head_op(program, RF_OP_LINEAR, RF_SLOT_JOINED_IN, RF_SLOT_Q, head->q);
    op->n = 3;
    op->out[1] = RF_SLOT_K;
    op->out[2] = RF_SLOT_V;
    op->weight[1] = head->k;
    op->weight[2] = head->v;
    op->bias[0] = head->q_bias;
    op->bias[1] = head->k_bias;
    op->bias[2] = head->v_bias;
    op = add_head_op(program, RF_OP_ROPE_STORE, RF_SLOT_Q, RF_SLOT_Q, NULL);
    op->in[1] = RF_SLOT_K;
    op->in[2] = RF_SLOT_V;
    op->rotation = RF_ROTATE_GLOBAL;
    add_head_op(program, RF_OP_ATTENTION, RF_SLOT_Q, RF_SLOT_ATTENDED, NULL)->scale =
        1.0f / sqrtf((float)program->params->head_dim);
    op = add_head_op(program, RF_OP_LINEAR, RF_SLOT_ATTENDED, RF_SLOT_X, head->o);
    op->bias[0] = head->o_bias;
    op->accumulate = 1;
    add_head_op(program, RF_OP_NORM, RF_SLOT_X, RF_SLOT_NORMED, head->ffn_norm);
    op = add_head_op(program, RF_OP_LINEAR, RF_SLOT_NORMED, RF_SLOT_GATE, head->gate);
    op->n = 2;
    op->out[1] = RF_SLOT_UP;
    op->weight[1] = head->up;
    add_head_op(program, RF_OP_SILU_GATE, RF_SLOT_GATE, RF_SLOT_GATED, NULL)->in[1] = RF_SLOT_UP;
    add_head_op(program, RF_OP_LINEAR, RF_SLOT_GATED, RF_SLOT_X, head->down)->accumulate = 1;
    add_head_op(program, RF_OP_COPY, RF_SLOT_X, (enum rf_slot)(RF_SLOT_TAP + RF_HEAD_RESULT), NULL);
}

/* The layer of the target's kind, over what fc makes of the joined rows. */
static void add_mtp_layer(struct rf_program *program, const struct rf_head *head)
{
    add_head_op(program, RF_OP_LINEAR, RF_SLOT_JOINED_IN, RF_SLOT_X, head->fc);
    rf_program_one_layer(program, &head->layer);
    add_head_op(program, RF_OP_NORM, RF_SLOT_X, (enum rf_slot)(RF_SLOT_TAP + RF_HEAD_RESULT),
                head->output_norm);
}

/* The output rows. Their factor and cap are the target's where the rows are. */
static void add_head_output(struct rf_program *program, const struct rf_head *head)
{
    const struct rf_params *target = &head->target->source->params;
    float factor = target->logit_scale != 0 ? target->logit_scale : 1;
    program->head[0] = (struct rf_op){.kind = RF_OP_NORM,
                                      .n = 1,
                                      .in = {RF_SLOT_X},
                                      .out = {RF_SLOT_NORMED},
                                      .weight = {head->output_norm}};
    program->head[1] = (struct rf_op){.kind = RF_OP_LINEAR,
                                      .n = 1,
                                      .in = {RF_SLOT_NORMED},
                                      .out = {RF_SLOT_LOGITS},
                                      .weight = {head->output}};
    program->n_head = 2;
    if (head->file->has_output || (factor == 1 && target->logit_cap <= 0)) return;
    program->head[program->n_head++] = (struct rf_op){.kind = RF_OP_CAP,
                                                      .n = 1,
                                                      .scale = factor,
                                                      .cap = target->logit_cap,
                                                      .in = {RF_SLOT_LOGITS},
                                                      .out = {RF_SLOT_LOGITS}};
}

int rf_head_view_new(struct rf_view **view, const struct rf_head *head, struct rf_queue *queue,
                     const struct rf_view_options *options, struct rf_error *error)
{
    *view = NULL;
    struct rf_program *program =
        rf_calloc(head->allocator, 1,
                  sizeof *program + (BODY_OPS + TAIL_OPS) * sizeof(struct rf_op), "view", error);
    if (!program) return RF_ERR_MEMORY;
    program->params = &head->file->source->params;
    program->body = (struct rf_op *)(program + 1);
    program->head = program->body + BODY_OPS;
    if (head->file->mtp_layer)
        shape_mtp_slots(program);
    else
        shape_head_slots(program);
    add_joined_input(program, head);
    if (head->file->mtp_layer)
        add_mtp_layer(program, head);
    else
        add_head_layer(program, head);
    assert(program->n_body <= BODY_OPS);
    add_head_output(program, head);
    return rf_view_of_program(view, program, head->file->source, head->weights, queue, options,
                              error);
}
