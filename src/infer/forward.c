#include "infer/forward.h"

int rf_activations_new(struct rf_activations *activations, struct rf_context *context,
                       const struct rf_model *model, int32_t max_rows, int32_t max_logits,
                       struct rf_error *error)
{
    const struct rf_backend_ops *ops = model->backend->ops;
    const struct rf_params *params = &model->source->params;
    int32_t n_q = params->n_head * params->head_dim, n_kv = params->n_head_kv * params->head_dim;
    *activations = (struct rf_activations){.max_rows = max_rows, .max_logits = max_logits};
    const struct {
        struct rf_buffer **buffer;
        enum rf_buffer_kind kind;
        int32_t rows, width;
    } wanted[] = {
        {&activations->x, RF_BUFFER_F32, max_rows, params->n_embd},
        {&activations->normed, RF_BUFFER_OPERAND, max_rows, params->n_embd},
        {&activations->q, RF_BUFFER_F32, max_rows, n_q},
        {&activations->k, RF_BUFFER_F32, max_rows, n_kv},
        {&activations->v, RF_BUFFER_F32, max_rows, n_kv},
        {&activations->attended, RF_BUFFER_OPERAND, max_rows, n_q},
        {&activations->gate, RF_BUFFER_F32, max_rows, params->n_ff},
        {&activations->up, RF_BUFFER_F32, max_rows, params->n_ff},
        {&activations->gated, RF_BUFFER_OPERAND, max_rows, params->n_ff},
        {&activations->logits, RF_BUFFER_F32, max_logits, params->n_vocab},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        *wanted[i].buffer = ops->buffer_new(context, model->backend, wanted[i].kind, wanted[i].rows,
                                            wanted[i].width, error);
        if (!*wanted[i].buffer) return RF_ERR_MEMORY;
    }
    return 0;
}

/* The output head over `n` rows from `first`, in groups that fit the logits buffer. */
static void head(struct rf_pass *pass, struct rf_worker *worker)
{
    const struct rf_model *model = pass->model;
    const struct rf_backend_ops *ops = model->backend->ops;
    const struct rf_activations *act = pass->activations;
    const struct rf_params *params = &model->source->params;
    const struct rf_weight *output = model->output;

    for (int32_t done = 0; done < pass->n_logits; done += act->max_logits) {
        int32_t n =
            pass->n_logits - done < act->max_logits ? pass->n_logits - done : act->max_logits;
        ops->norm(pass->context, worker, act->x, pass->logits_first + done, n, model->output_norm,
                  params->rms_eps, act->normed);
        ops->linear(pass->context, worker, act->normed, n, 1, &output, NULL, &act->logits, 0);
        if (pass->logprobs)
            ops->log_probabilities(pass->context, worker, act->logits, n, pass->targets + done,
                                   pass->logprobs + done);
    }
}

/* Returns non-zero if the pass was cancelled; then every worker does. */
static int layer(struct rf_pass *pass, struct rf_worker *worker, int32_t i)
{
    const struct rf_backend_ops *ops = pass->model->backend->ops;
    const struct rf_activations *act = pass->activations;
    const struct rf_layer *weights = &pass->model->layers[i];
    struct rf_context *context = pass->context;
    int32_t n = pass->rows.n_rows;
    float eps = pass->model->source->params.rms_eps;

    /* The leader's decision is visible to all when the next operation returns. */
    if (pass->cancel && ops->is_leader(worker))
        pass->stopped = atomic_load_explicit(pass->cancel, memory_order_relaxed);
    ops->norm(context, worker, act->x, 0, n, weights->attn_norm, eps, act->normed);
    if (pass->stopped) return 1;
    ops->linear(context, worker, act->normed, n, 3,
                (const struct rf_weight *[]){weights->q, weights->k, weights->v},
                (const struct rf_weight *[]){weights->q_bias, weights->k_bias, weights->v_bias},
                (struct rf_buffer *[]){act->q, act->k, act->v}, 0);
    ops->rope_store(context, worker, i, pass->rows, act->q, act->k, act->v, weights->q_norm,
                    weights->k_norm, eps);
    ops->attention(context, worker, i, pass->rows, act->q, act->attended);
    ops->linear(context, worker, act->attended, n, 1, (const struct rf_weight *[]){weights->o},
                NULL, &(struct rf_buffer *){act->x}, 1);

    ops->norm(context, worker, act->x, 0, n, weights->ffn_norm, eps, act->normed);
    ops->linear(context, worker, act->normed, n, 2,
                (const struct rf_weight *[]){weights->gate, weights->up}, NULL,
                (struct rf_buffer *[]){act->gate, act->up}, 0);
    ops->silu_gate(context, worker, n, act->gate, act->up, act->gated);
    ops->linear(context, worker, act->gated, n, 1, (const struct rf_weight *[]){weights->down},
                NULL, &(struct rf_buffer *){act->x}, 1);
    return 0;
}

static void run(void *argument, struct rf_worker *worker)
{
    struct rf_pass *pass = argument;
    const struct rf_backend_ops *ops = pass->model->backend->ops;
    const struct rf_activations *act = pass->activations;
    int leader = ops->is_leader(worker);

    ops->embed(pass->context, worker, pass->model->token_embd, pass->tokens, pass->rows, act->x);
    if (leader && pass->observe) pass->observe(pass->user, -1, act->x);
    for (int32_t i = 0; i < pass->model->source->params.n_layer; i++) {
        if (layer(pass, worker, i)) return;
        if (leader && pass->observe) pass->observe(pass->user, i, act->x);
    }
    head(pass, worker);
}

int rf_forward(struct rf_pass *pass)
{
    pass->stopped = 0;
    pass->model->backend->ops->run(pass->context, pass->model->backend, pass->rows.n_rows, run,
                                   pass);
    return pass->stopped ? RF_ERR_CANCELLED : 0;
}
