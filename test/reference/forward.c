/* A transformer of the llama family in plain loops: the shortest way to see what the engine
 * computes. Nothing here is fast. It shares only the reader of the model's file with the engine, so
 * that the two can disagree.
 *
 * One token at a position goes through the model like this:
 *
 *     x = embedding[token]                        [n_embd], the residual stream
 *     for every layer:
 *         h = rms_norm(x)
 *         q, k, v = Wq h, Wk h, Wv h              n_head queries, n_head_kv keys and values
 *         rotate q and k by the position          rope
 *         append k and v to the layer's keys and values
 *         x += Wo attend(q, keys, values)         n_head / n_head_kv queries share a key and value
 *             or, in a layer with a convolution: b, c, z = Win h; append b * z to the layer's rows;
 *             x += Wout (c * the weighted sum of the last few rows, element by element)
 *             or, with latent attention: key = norm(Wkva h), and the same for all heads;
 *             q = Kb Wq h; x += Wo Vb attend(q, keys, keys)
 *             or, with the delta rule: q, k, v of silu(that sum) of Wqkv h; each head's matrix
 *             S = g S + k (b (v - g S k))^T; x += Wout (rms_norm(S q) * silu(Wz h))
 *         h = rms_norm(x)
 *         x += Wdown (silu(Wgate h) * Wup h)      with experts: a weighted sum of some such results
 *     logits = Woutput rms_norm(x)                [n_vocab]
 *
 * The file goes from the whole to the parts: a sequence, a token, the blocks of a layer, the
 * operations in them. Vectors are F32, sums are doubles. weights.c loads the matrices. rounding.c
 * rounds where the engine rounds, so that tests can ask for close agreement. */
#include "reference/forward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/rounding.h"
#include "reference/weights.h"
#include "support/loops.h"

/* Buffers for one token, and the keys and values of all tokens before it. */
struct state {
    float *x;             /* [n_embd]: the residual stream */
    float *normed, *out;  /* [n_embd]: a block's input and output */
    float *gated;         /* [n_embd]: a convolution's result */
    float *q, *heads;     /* [n_head * head_dim]: queries, and what each attended to */
    float *gate, *up;     /* [the widest feed-forward] */
    float *routed;        /* [n_expert]: the router's values */
    double *sum;          /* [n_embd]: the experts' results */
    float *rounded;       /* the widest input of a linear layer */
    float *keys, *values; /* [n_layer][n_tokens][n_head_kv * head_dim] */
    float *bcz;           /* [3 * n_embd]: the gates of a convolution and what they gate */
    float *rows;         /* [n_layer][n_tokens][n_embd, or of q, k and v]: what convolutions read */
    float *q_gates;      /* [n_head * head_dim]: gates of what the heads attended to */
    float *mixed, *z;    /* the delta rule's q, k and v, and the gates of its results */
    float *beta, *alpha; /* [delta_values] */
    float *matrices;     /* [n_layer][delta_values][delta_key_dim][delta_value_dim] */
    float *raw, *low;    /* latent attention: queries, results of heads; what queries are made of */
    double *score;       /* [n_tokens] */
};

/* The parts, from the whole down. */
static void forward(struct state *s, const struct rf_params *p, const struct reference_weights *w,
                    int32_t token, int32_t position, int32_t n_tokens, int f16,
                    reference_on_layer *on_layer, void *user, float *logits);
static void attention_block(struct state *s, const struct rf_params *p,
                            const struct reference_layer *w, float *keys, float *values,
                            int position, int f16);
static void latent_block(struct state *s, const struct rf_params *p,
                         const struct reference_layer *w, float *keys, int position, int f16);
static void conv_block(struct state *s, const struct rf_params *p, const struct reference_layer *w,
                       float *rows, int position);
static void delta_block(struct state *s, const struct rf_params *p, const struct reference_layer *w,
                        float *rows, float *matrices, int position);
static void mamba_block(struct state *s, const struct rf_params *p, const struct reference_layer *w,
                        float *rows, float *matrices, int position);
static void feed_forward_block(struct state *s, const struct rf_params *p,
                               const struct reference_layer *w);
static void experts_block(struct state *s, const struct rf_params *p,
                          const struct reference_layer *w);
static void feed_forward(struct state *s, const struct rf_params *p,
                         const struct reference_feed_forward *ffn, int expert);
static struct reference_matrix of_expert(const struct reference_matrix *all, int expert, int n_out,
                                         int n_in);
static void attend(float *out, const float *query, const float *keys, const float *values,
                   int position, int head_dim, float scale, size_t stride, double *score);
static void rope(float *head, int position, const struct rf_params *p);
static void rms_norm(float *y, const float *x, const float *gamma, int n, float eps);
static void linear(float *y, const struct reference_matrix *w, const float *bias, const float *x,
                   int n_out, int n_in, float *rounded);
static int state_new(struct state *s, const struct rf_params *p, int n_tokens);
static void state_free(struct state *s);

/* ---- a sequence ---- */

int reference_logits(const struct rf_source *source, enum reference_rounding rounding,
                     const int32_t *tokens, int32_t n_tokens, reference_on_layer *on_layer,
                     void *user, float *logits)
{
    const struct rf_params *p = &source->params;
    struct reference_weights w;
    struct state s;
    memset(&s, 0, sizeof s);
    int result = reference_weights_load(&w, source, rounding);
    if (!result) result = state_new(&s, p, n_tokens);
    for (int32_t t = 0; t < n_tokens && !result; t++)
        forward(&s, p, &w, tokens[t], t, n_tokens, rounding != REFERENCE_EXACT, on_layer, user,
                logits + (size_t)t * (size_t)p->n_vocab);
    state_free(&s);
    reference_weights_free(&w);
    return result;
}

/* ---- a token ---- */

/* The token at `position` through all layers; logits [n_vocab] of the one after it. `f16`: keys and
 * values are rounded to F16. */
static void forward(struct state *s, const struct rf_params *p, const struct reference_weights *w,
                    int32_t token, int32_t position, int32_t n_tokens, int f16,
                    reference_on_layer *on_layer, void *user, float *logits)
{
    size_t n_embd = (size_t)p->n_embd;
    size_t layer_kv = (size_t)n_tokens * (size_t)p->n_head_kv * (size_t)p->head_dim;
    memcpy(s->x, w->embedding + (size_t)token * n_embd, n_embd * sizeof *s->x);
    for (int32_t l = 0; l < p->n_layer; l++) {
        if (rf_is_conv(p, l))
            conv_block(s, p, &w->layers[l], s->rows + (size_t)l * (size_t)n_tokens * n_embd,
                       position);
        else if (rf_has_matrices(p, l))
            (p->is_mamba ? mamba_block : delta_block)(
                s, p, &w->layers[l],
                s->rows + (size_t)l * (size_t)n_tokens * (size_t)rf_delta_mixed(p),
                s->matrices + (size_t)l * (size_t)rf_delta_values(p) * (size_t)p->delta_key_dim,
                position);
        else if (p->latent)
            latent_block(s, p, &w->layers[l], s->keys + (size_t)l * layer_kv, position, f16);
        else
            attention_block(s, p, &w->layers[l], s->keys + (size_t)l * layer_kv,
                            s->values + (size_t)l * layer_kv, position, f16);
        feed_forward_block(s, p, &w->layers[l]);
        if (on_layer) on_layer(user, l, position, s->x);
    }
    rms_norm(s->normed, s->x, w->output_norm, p->n_embd, p->rms_eps);
    linear(logits, &w->output, NULL, s->normed, p->n_vocab, p->n_embd, s->rounded);
}

/* ---- the blocks of a layer ---- */

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* q of all heads and their gates, which lie behind each head's q in `q`. */
static void split_gates(float *q, float *gates, int n_head, int dim)
{
    for (int h = 0; h < n_head; h++) {
        memcpy(gates + h * dim, q + (2 * h + 1) * dim, (size_t)dim * sizeof *q);
        memmove(q + h * dim, q + 2 * h * dim, (size_t)dim * sizeof *q);
    }
}

/* x += Wo attention(norm(x)). keys, values: this layer's, [n_tokens][n_head_kv * head_dim]. */
static void attention_block(struct state *s, const struct rf_params *p,
                            const struct reference_layer *w, float *keys, float *values,
                            int position, int f16)
{
    int dim = p->head_dim, n_q = p->n_head * dim, n_kv = p->n_head_kv * dim;
    float *key = keys + (size_t)position * (size_t)n_kv,
          *value = values + (size_t)position * (size_t)n_kv;
    rms_norm(s->normed, s->x, w->attn_norm, p->n_embd, p->rms_eps);
    linear(s->q, &w->q, w->bq, s->normed, p->attn_gate ? 2 * n_q : n_q, p->n_embd, s->rounded);
    if (p->attn_gate) split_gates(s->q, s->q_gates, p->n_head, dim);
    linear(key, &w->k, w->bk, s->normed, n_kv, p->n_embd, s->rounded);
    linear(value, &w->v, w->bv, s->normed, n_kv, p->n_embd, s->rounded);
    for (int h = 0; h < p->n_head; h++) {
        if (p->qk_norm) rms_norm(s->q + h * dim, s->q + h * dim, w->q_norm, dim, p->rms_eps);
        rope(s->q + h * dim, position, p);
    }
    for (int h = 0; h < p->n_head_kv; h++) {
        if (p->qk_norm) rms_norm(key + h * dim, key + h * dim, w->k_norm, dim, p->rms_eps);
        rope(key + h * dim, position, p);
    }
    for (int i = 0; f16 && i < n_kv; i++) {
        key[i] = reference_round_f16(key[i]);
        value[i] = reference_round_f16(value[i]);
    }
    for (int h = 0; h < p->n_head; h++) {
        int offset = h / (p->n_head / p->n_head_kv) * dim; /* place of the key head in a row */
        attend(s->heads + h * dim, s->q + h * dim, keys + offset, values + offset, position, dim,
               1.0f / sqrtf((float)dim), (size_t)n_kv, s->score);
    }
    for (int i = 0; p->attn_gate && i < n_q; i++)
        s->heads[i] = (float)((double)s->heads[i] * sigmoid((double)s->q_gates[i]));
    linear(s->out, &w->o, w->bo, s->heads, p->n_embd, n_q, s->rounded);
    for (int i = 0; i < p->n_embd; i++) s->x[i] += s->out[i];
}

/* x += Wo attention(norm(x)), in the space of latents. keys: this layer's, [n_tokens][head_dim],
 * which are the values, too. */
static void latent_block(struct state *s, const struct rf_params *p,
                         const struct reference_layer *w, float *keys, int position, int f16)
{
    int dim = p->head_dim, latent = p->latent, nope = p->head_nope, query = nope + p->rope_dim;
    float *key = keys + (size_t)position * (size_t)dim, *input = s->normed;
    rms_norm(s->normed, s->x, w->attn_norm, p->n_embd, p->rms_eps);
    if (p->latent_q) {
        linear(s->low, &w->q_a, NULL, s->normed, p->latent_q, p->n_embd, s->rounded);
        rms_norm(s->low, s->low, w->q_a_norm, p->latent_q, p->rms_eps);
        input = s->low;
    }
    linear(s->raw, &w->q, NULL, input, p->n_head * query, p->latent_q ? p->latent_q : p->n_embd,
           s->rounded);
    linear(key, &w->kv_a, NULL, s->normed, dim, p->n_embd, s->rounded);
    rms_norm(key, key, w->kv_a_norm, latent, p->rms_eps);
    rope(key + latent, position, p);
    for (int i = 0; f16 && i < dim; i++) key[i] = reference_round_f16(key[i]);
    for (int h = 0; h < p->n_head; h++) {
        struct reference_matrix k_b = of_expert(&w->k_b, h, latent, nope);
        float *q = s->q + h * dim, *raw = s->raw + h * query;
        linear(q, &k_b, NULL, raw, latent, nope, s->rounded);
        memcpy(q + latent, raw + nope, (size_t)p->rope_dim * sizeof *q);
        rope(q + latent, position, p);
        attend(s->heads + h * dim, q, keys, keys, position, dim, p->attention_scale, (size_t)dim,
               s->score);
    }
    for (int h = 0; h < p->n_head; h++) {
        struct reference_matrix v_b = of_expert(&w->v_b, h, p->head_value, latent);
        linear(s->raw + h * p->head_value, &v_b, NULL, s->heads + h * dim, p->head_value, latent,
               s->rounded);
    }
    linear(s->out, &w->o, NULL, s->raw, p->n_embd, p->n_head * p->head_value, s->rounded);
    for (int i = 0; i < p->n_embd; i++) s->x[i] += s->out[i];
}

/* x += Wout (c * convolution of the rows b * z). rows: this layer's, [n_tokens][n_embd]. */
static void conv_block(struct state *s, const struct rf_params *p, const struct reference_layer *w,
                       float *rows, int position)
{
    int n = p->n_embd;
    rms_norm(s->normed, s->x, w->attn_norm, n, p->rms_eps);
    linear(s->bcz, &w->conv_in, w->conv_in_bias, s->normed, 3 * n, n, s->rounded);
    for (int i = 0; i < n; i++)
        rows[(size_t)position * (size_t)n + (size_t)i] = s->bcz[i] * s->bcz[2 * n + i];
    for (int i = 0; i < n; i++) {
        double sum = w->conv_bias ? (double)w->conv_bias[i] : 0;
        for (int k = 0; k < p->conv_rows; k++) {
            int t = position - (p->conv_rows - 1) + k;
            if (t >= 0)
                sum += (double)w->conv[i * p->conv_rows + k] *
                       (double)rows[(size_t)t * (size_t)n + (size_t)i];
        }
        s->gated[i] = (float)((double)s->bcz[n + i] * sum);
    }
    linear(s->out, &w->conv_out, w->conv_out_bias, s->gated, n, n, s->rounded);
    for (int i = 0; i < n; i++) s->x[i] += s->out[i];
}

/* x / |x|, and another factor. */
static void to_length(float *x, int n, double factor)
{
    double sum = 1e-6;
    for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    for (int i = 0; i < n; i++) x[i] = (float)(factor * (double)x[i] / sqrt(sum));
}

/* One head: S = g S + k u^T with u = b (v - g S^T k), then out = S^T q. */
static void delta_head(float *matrix, float *out, const float *q, const float *k, const float *v,
                       double b, double g, int rows, int columns)
{
    for (int c = 0; c < columns; c++) {
        double held = 0, result = 0;
        for (int r = 0; r < rows; r++) held += (double)matrix[r * columns + c] * (double)k[r];
        double u = b * ((double)v[c] - g * held);
        for (int r = 0; r < rows; r++) {
            float *element = &matrix[r * columns + c];
            *element = (float)(g * (double)*element + (double)k[r] * u);
            result += (double)*element * (double)q[r];
        }
        out[c] = (float)result;
    }
}

/* silu of the convolution of the rows. */
static void mix(struct state *s, const struct rf_params *p, const struct reference_layer *w,
                const float *rows, int position)
{
    int n = rf_delta_mixed(p);
    for (int i = 0; i < n; i++) {
        double sum = w->mamba_conv_bias ? (double)w->mamba_conv_bias[i] : 0;
        for (int k = 0; k < p->conv_rows; k++) {
            int t = position - (p->conv_rows - 1) + k;
            if (t >= 0)
                sum += (double)w->delta_conv[i * p->conv_rows + k] *
                       (double)rows[(size_t)t * (size_t)n + (size_t)i];
        }
        s->mixed[i] = (float)(sum * sigmoid(sum));
    }
}

/* x += Wout (norm(S q) * silu(z)). rows: this layer's, [n_tokens][q, k and v]; matrices: its S. */
static void delta_block(struct state *s, const struct rf_params *p, const struct reference_layer *w,
                        float *rows, float *matrices, int position)
{
    int n = rf_delta_mixed(p), n_keys = rf_delta_keys(p), n_values = rf_delta_values(p),
        heads = p->delta_values, dim = p->delta_key_dim, columns = p->delta_value_dim;
    rms_norm(s->normed, s->x, w->attn_norm, p->n_embd, p->rms_eps);
    linear(rows + (size_t)position * (size_t)n, &w->delta_qkv, NULL, s->normed, n, p->n_embd,
           s->rounded);
    linear(s->z, &w->delta_z, NULL, s->normed, n_values, p->n_embd, s->rounded);
    linear(s->beta, &w->delta_beta, NULL, s->normed, heads, p->n_embd, s->rounded);
    linear(s->alpha, &w->delta_alpha, NULL, s->normed, heads, p->n_embd, s->rounded);
    mix(s, p, w, rows, position);
    for (int h = 0; h < p->delta_keys; h++) {
        to_length(s->mixed + h * dim, dim, 1 / sqrt(dim));
        to_length(s->mixed + n_keys + h * dim, dim, 1);
    }
    for (int h = 0; h < heads; h++) {
        int of = p->delta_tiled ? h % p->delta_keys : h / (heads / p->delta_keys);
        double step = (double)s->alpha[h] + (double)w->step[h];
        float b = (float)sigmoid((double)s->beta[h]),
              g = (float)exp((double)w->decay[h] * log1p(exp(step)));
        float *out = s->heads + h * columns;
        delta_head(matrices + (size_t)h * (size_t)(dim * columns), out, s->mixed + of * dim,
                   s->mixed + n_keys + of * dim, s->mixed + 2 * n_keys + h * columns, (double)b,
                   (double)g, dim, columns);
        rms_norm(out, out, w->delta_norm, columns, p->rms_eps);
    }
    for (int i = 0; i < n_values; i++)
        s->heads[i] = (float)((double)s->heads[i] * (double)s->z[i] * sigmoid((double)s->z[i]));
    linear(s->out, &w->delta_out, NULL, s->heads, p->n_embd, n_values, s->rounded);
    for (int i = 0; i < p->n_embd; i++) s->x[i] += s->out[i];
}

/* One head: S = g S + B (b x)^T, then out = S^T C + skip x. */
static void mamba_head(float *matrix, float *out, const float *c, const float *b_row,
                       const float *x, double b, double g, double skip, int rows, int columns)
{
    for (int j = 0; j < columns; j++) {
        double result = skip * (double)x[j];
        for (int r = 0; r < rows; r++) {
            float *element = &matrix[r * columns + j];
            *element = (float)(g * (double)*element + (double)b_row[r] * b * (double)x[j]);
            result += (double)*element * (double)c[r];
        }
        out[j] = (float)result;
    }
}

/* x += Wout norm((S C + D x) * silu(z)). rows: this layer's, [n_tokens][x, B and C]; matrices: its
 * S. */
static void mamba_block(struct state *s, const struct rf_params *p, const struct reference_layer *w,
                        float *rows, float *matrices, int position)
{
    int n = rf_delta_mixed(p), n_keys = rf_delta_keys(p), n_values = rf_delta_values(p),
        heads = p->delta_values, dim = p->delta_key_dim, columns = p->delta_value_dim,
        groups = p->delta_keys, part = n_values / groups;
    rms_norm(s->normed, s->x, w->attn_norm, p->n_embd, p->rms_eps);
    linear(rows + (size_t)position * (size_t)n, &w->mamba_xbc, NULL, s->normed, n, p->n_embd,
           s->rounded);
    linear(s->z, &w->delta_z, NULL, s->normed, n_values, p->n_embd, s->rounded);
    linear(s->beta, &w->mamba_dt, NULL, s->normed, heads, p->n_embd, s->rounded);
    mix(s, p, w, rows, position);
    for (int h = 0; h < heads; h++) {
        int of = h / (heads / groups);
        double step = log1p(exp((double)s->beta[h] + (double)w->step[h]));
        if (p->step_max > 0) step = fmin(fmax(step, (double)p->step_min), (double)p->step_max);
        float b = (float)step, g = (float)exp((double)w->decay[h] * step);
        mamba_head(matrices + (size_t)h * (size_t)(dim * columns), s->heads + h * columns,
                   s->mixed + n_values + n_keys + of * dim, s->mixed + n_values + of * dim,
                   s->mixed + h * columns, (double)b, (double)g, (double)w->skip[h], dim, columns);
    }
    for (int i = 0; i < n_values; i++)
        s->heads[i] = (float)((double)s->heads[i] * (double)s->z[i] * sigmoid((double)s->z[i]));
    for (int i = 0; i < n_values; i += part)
        rms_norm(s->heads + i, s->heads + i, w->delta_norm + i, part, p->rms_eps);
    linear(s->out, &w->delta_out, NULL, s->heads, p->n_embd, n_values, s->rounded);
    for (int i = 0; i < p->n_embd; i++) s->x[i] += s->out[i];
}

/* x += the feed-forward network of norm(x), or that of the experts chosen for this token. */
static void feed_forward_block(struct state *s, const struct rf_params *p,
                               const struct reference_layer *w)
{
    rms_norm(s->normed, s->x, w->ffn_norm, p->n_embd, p->rms_eps);
    if (w->router.values) {
        experts_block(s, p, w);
        return;
    }
    feed_forward(s, p, &w->ffn, 0);
    for (int i = 0; i < p->n_embd; i++) s->x[i] += s->out[i];
}

/* The expert at `rank`, 0 for the greatest value. Of equal values the lower number comes first. */
static int ranked(const float *values, int n, int rank)
{
    for (int e = 0; e < n; e++) {
        int before = 0;
        for (int i = 0; i < n; i++)
            before += values[i] > values[e] || (values[i] == values[e] && i < e);
        if (before == rank) return e;
    }
    return 0;
}

/* x += the sum of the chosen experts' results, each times its share. */
static void experts_block(struct state *s, const struct rf_params *p,
                          const struct reference_layer *w)
{
    double all = 0, chosen = 0;
    linear(s->routed, &w->router, NULL, s->normed, p->n_expert, p->n_embd, s->rounded);
    double most = (double)s->routed[ranked(s->routed, p->n_expert, 0)];
    for (int e = 0; e < p->n_expert; e++) all += exp((double)s->routed[e] - most);
    for (int r = 0; r < p->n_expert_used; r++)
        chosen += exp((double)s->routed[ranked(s->routed, p->n_expert, r)] - most);
    for (int i = 0; i < p->n_embd; i++) s->sum[i] = 0;
    for (int r = 0; r < p->n_expert_used; r++) {
        int e = ranked(s->routed, p->n_expert, r);
        double share = exp((double)s->routed[e] - most) / (p->expert_norm ? chosen : all);
        feed_forward(s, p, &w->ffn, e);
        for (int i = 0; i < p->n_embd; i++) s->sum[i] += share * (double)s->out[i];
    }
    for (int i = 0; i < p->n_embd; i++) s->x[i] += (float)s->sum[i];
    if (!w->shared.width) return;
    double share = 1;
    if (!p->shared_whole) {
        linear(s->routed, &w->shared_router, NULL, s->normed, 1, p->n_embd, s->rounded);
        share = sigmoid((double)s->routed[0]);
    }
    feed_forward(s, p, &w->shared, 0);
    for (int i = 0; i < p->n_embd; i++) s->x[i] += (float)(share * (double)s->out[i]);
}

/* ---- the operations ---- */

static struct reference_matrix of_expert(const struct reference_matrix *all, int expert, int n_out,
                                         int n_in)
{
    return (struct reference_matrix){all->values + (size_t)expert * (size_t)n_out * (size_t)n_in,
                                     all->round_input};
}

/* out = W_down (silu(W_gate normed) * W_up normed), with an expert's matrices. */
static void feed_forward(struct state *s, const struct rf_params *p,
                         const struct reference_feed_forward *ffn, int expert)
{
    int width = ffn->width;
    struct reference_matrix gate = of_expert(&ffn->gate, expert, width, p->n_embd),
                            up = of_expert(&ffn->up, expert, width, p->n_embd),
                            down = of_expert(&ffn->down, expert, p->n_embd, width);
    linear(s->gate, &gate, ffn->gate_bias, s->normed, width, p->n_embd, s->rounded);
    linear(s->up, &up, ffn->up_bias, s->normed, width, p->n_embd, s->rounded);
    for (int i = 0; i < width; i++)
        s->gate[i] = (float)(s->gate[i] / (1.0 + exp(-(double)s->gate[i])) * s->up[i]);
    linear(s->out, &down, ffn->down_bias, s->gate, p->n_embd, width, s->rounded);
}

/* One query head over the keys and values of positions 0 .. position; score [position + 1] is
 * scratch. */
static void attend(float *out, const float *query, const float *keys, const float *values,
                   int position, int head_dim, float scale, size_t stride, double *score)
{
    double largest = -INFINITY, total = 0;
    for (int t = 0; t <= position; t++) {
        double dot = loop_dot(query, keys + (size_t)t * stride, (size_t)head_dim);
        score[t] = dot * (double)scale; /* the engine's factor is F32 */
        if (score[t] > largest) largest = score[t];
    }
    for (int t = 0; t <= position; t++) total += score[t] = exp(score[t] - largest);
    for (int i = 0; i < head_dim; i++) {
        double sum = 0;
        for (int t = 0; t <= position; t++)
            sum += score[t] / total * values[(size_t)t * stride + (size_t)i];
        out[i] = (float)sum;
    }
}

/* Rotates one head in place: pair i turns by position / theta^(2i / rope_dim), and grows by the
 * magnitude. Dynamic scaling lets theta grow with the position. */
static void rope(float *head, int position, const struct rf_params *p)
{
    double growth = rf_rope_growth(&p->rope, position);
    for (int i = 0; i < p->rope_dim / 2; i++) {
        double frequency = pow(p->rope.theta, -2.0 * i / p->rope_dim);
        if (p->rope.factors) frequency /= p->rope.factors[i];
        if (growth != 1) frequency *= pow(growth, -2.0 * i / (p->rope_dim - 2));
        double angle = position * (double)p->rope.scale * frequency;
        int a = p->rope_style == RF_ROPE_NEOX ? i : 2 * i;
        int b = p->rope_style == RF_ROPE_NEOX ? i + p->rope_dim / 2 : 2 * i + 1;
        double xa = head[a], xb = head[b], magnitude = (double)p->rope.magnitude;
        head[a] = (float)(magnitude * (xa * cos(angle) - xb * sin(angle)));
        head[b] = (float)(magnitude * (xa * sin(angle) + xb * cos(angle)));
    }
}

/* y = x / rms(x) * gamma, over n elements; y may be x. */
static void rms_norm(float *y, const float *x, const float *gamma, int n, float eps)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * x[i];
    double scale = 1.0 / sqrt(sum / n + eps);
    for (int i = 0; i < n; i++) y[i] = (float)(x[i] * scale * gamma[i]);
}

/* y = W x + bias with W [n_out][n_in]; bias may be NULL. `rounded` [n_in] takes the input as the
 * engine rounds it. */
static void linear(float *y, const struct reference_matrix *w, const float *bias, const float *x,
                   int n_out, int n_in, float *rounded)
{
    if (w->round_input) {
        w->round_input(rounded, x, n_in);
        x = rounded;
    }
    for (int o = 0; o < n_out; o++) {
        double sum = loop_dot(w->values + (size_t)o * (size_t)n_in, x, (size_t)n_in);
        y[o] = (float)(sum + (bias ? bias[o] : 0.0f));
    }
}

/* ---- memory ---- */

static int state_new(struct state *s, const struct rf_params *p, int n_tokens)
{
    size_t n_embd = (size_t)p->n_embd, n_q = (size_t)p->n_head * (size_t)p->head_dim;
    size_t n_kv =
        (size_t)p->n_head_kv * (size_t)p->head_dim * (size_t)p->n_layer * (size_t)n_tokens;
    s->x = calloc(n_embd, sizeof(float));
    s->normed = calloc(n_embd, sizeof(float));
    s->out = calloc(n_embd, sizeof(float));
    size_t n_mixed = (size_t)rf_delta_mixed(p), n_delta = (size_t)rf_delta_values(p),
           n_row = n_mixed > n_embd ? n_mixed : n_embd;
    s->q = calloc(2 * n_q, sizeof(float));
    s->q_gates = calloc(n_q, sizeof(float));
    s->heads = calloc(n_q + n_delta, sizeof(float));
    s->mixed = calloc(n_mixed + 1, sizeof(float));
    s->z = calloc(n_delta + 1, sizeof(float));
    s->beta = calloc((size_t)p->delta_values + 1, sizeof(float));
    s->alpha = calloc((size_t)p->delta_values + 1, sizeof(float));
    s->matrices =
        calloc((size_t)p->n_layer * n_delta * (size_t)p->delta_key_dim + 1, sizeof(float));
    size_t n_ff = (size_t)p->n_ff + (size_t)p->n_ff_dense + (size_t)p->n_ff_shared;
    s->gate = calloc(n_ff, sizeof(float));
    s->up = calloc(n_ff, sizeof(float));
    s->sum = calloc(n_embd, sizeof(double));
    s->routed = calloc((size_t)p->n_expert + 1, sizeof(float));
    size_t n_raw = (size_t)p->n_head * (size_t)(p->head_nope + p->rope_dim + p->head_value);
    s->raw = calloc(n_raw, sizeof(float));
    s->low = calloc((size_t)p->latent_q + 1, sizeof(float));
    s->rounded = calloc(n_embd + n_q + n_ff + n_delta + n_raw, sizeof(float));
    s->keys = calloc(n_kv, sizeof(float));
    s->values = calloc(n_kv, sizeof(float));
    s->bcz = calloc(3 * n_embd, sizeof(float));
    s->gated = calloc(n_embd, sizeof(float));
    s->rows = calloc(n_row * (size_t)p->n_layer * (size_t)n_tokens, sizeof(float));
    s->score = calloc((size_t)n_tokens, sizeof(double));
    int done = s->x && s->normed && s->out && s->q && s->heads && s->gate && s->up && s->rounded &&
               s->keys && s->values && s->bcz && s->gated && s->rows;
    done = done && s->q_gates && s->mixed && s->z && s->beta && s->alpha && s->matrices;
    done = done && s->raw && s->low;
    return done && s->score && s->routed && s->sum ? 0 : -1;
}

static void state_free(struct state *s)
{
    free(s->x);
    free(s->normed);
    free(s->out);
    free(s->q);
    free(s->heads);
    free(s->gate);
    free(s->up);
    free(s->routed);
    free(s->sum);
    free(s->rounded);
    free(s->raw);
    free(s->low);
    free(s->keys);
    free(s->values);
    free(s->bcz);
    free(s->gated);
    free(s->rows);
    free(s->q_gates);
    free(s->mixed);
    free(s->z);
    free(s->beta);
    free(s->alpha);
    free(s->matrices);
    free(s->score);
}
