/* A transformer of the llama family, read top-down: rounding, weights, the layer's parts, one token, a sequence. */
#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rounding ---- */

static float round_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isfinite(x)) bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float round_f16(float x)
{
    if (x == 0 || !isfinite(x)) return x;
    int exponent;
    (void)frexpf(x, &exponent); /* |x| = m * 2^exponent with m in [1/2, 1) */
    int last_bit = exponent - 11 < -24 ? -24 : exponent - 11;
    float rounded = ldexpf(nearbyintf(ldexpf(x, -last_bit)), last_bit);
    return fabsf(rounded) > 65504.0f ? copysignf(INFINITY, x) : rounded;
}

/* ---- weights ---- */

struct layer_weights {
    float *attn_norm, *wq, *wk, *wv, *wo;     /* wq: [n_head * head_dim][n_embd], and so on */
    float *bq, *bk, *bv;                      /* NULL without qkv_bias */
    float *q_norm, *k_norm;                   /* [head_dim]; NULL without qk_norm */
    float *ffn_norm, *w_gate, *w_up, *w_down; /* w_gate, w_up: [n_ff][n_embd]; w_down: [n_embd][n_ff] */
};

struct weights {
    float *embedding, *output_norm, *output; /* [n_vocab][n_embd], [n_embd], [n_vocab][n_embd] */
    struct layer_weights *layers;
    float **owned;
    int n_owned;
    int failed;
};

/* A whole tensor as F32, its values rounded to BF16 if asked. */
static float *load(struct weights *w, const struct rf_source *source, const char *name, int bf16)
{
    const struct rf_tensor *tensor = rf_source_tensor(source, name);
    size_t n = 1;
    for (int i = 0; tensor && i < tensor->n_dims; i++) n *= (size_t)tensor->ne[i];
    float *values = tensor ? malloc(n * sizeof *values) : NULL;
    if (!values) {
        fprintf(stderr, "reference: cannot load %s\n", name);
        w->failed = 1;
        return NULL;
    }
    w->owned[w->n_owned++] = values;
    rf_dequantize_f32(tensor->dtype, tensor->data, values, n);
    for (size_t i = 0; bf16 && i < n; i++) values[i] = round_bf16(values[i]);
    return values;
}

static float *load_layer(struct weights *w, const struct rf_source *source, int layer, const char *name, int bf16)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%d.%s", layer, name);
    return load(w, source, full, bf16);
}

static int weights_load(struct weights *w, const struct rf_source *source, int bf16)
{
    const struct rf_params *p = &source->params;
    memset(w, 0, sizeof *w);
    w->layers = calloc((size_t)p->n_layer, sizeof *w->layers);
    w->owned = calloc((size_t)source->n_tensors + 1, sizeof *w->owned);
    if (!w->layers || !w->owned) return -1;
    w->embedding = load(w, source, "token_embd.weight", bf16);
    w->output_norm = load(w, source, "output_norm.weight", 0);
    w->output = p->tied_output ? w->embedding : load(w, source, "output.weight", bf16);
    for (int l = 0; l < p->n_layer && !w->failed; l++) {
        struct layer_weights *layer = &w->layers[l];
        layer->attn_norm = load_layer(w, source, l, "attn_norm.weight", 0);
        layer->wq = load_layer(w, source, l, "attn_q.weight", bf16);
        layer->wk = load_layer(w, source, l, "attn_k.weight", bf16);
        layer->wv = load_layer(w, source, l, "attn_v.weight", bf16);
        layer->wo = load_layer(w, source, l, "attn_output.weight", bf16);
        if (p->qkv_bias) {
            layer->bq = load_layer(w, source, l, "attn_q.bias", 0);
            layer->bk = load_layer(w, source, l, "attn_k.bias", 0);
            layer->bv = load_layer(w, source, l, "attn_v.bias", 0);
        }
        if (p->qk_norm) {
            layer->q_norm = load_layer(w, source, l, "attn_q_norm.weight", 0);
            layer->k_norm = load_layer(w, source, l, "attn_k_norm.weight", 0);
        }
        layer->ffn_norm = load_layer(w, source, l, "ffn_norm.weight", 0);
        layer->w_gate = load_layer(w, source, l, "ffn_gate.weight", bf16);
        layer->w_up = load_layer(w, source, l, "ffn_up.weight", bf16);
        layer->w_down = load_layer(w, source, l, "ffn_down.weight", bf16);
    }
    return w->failed ? -1 : 0;
}

static void weights_free(struct weights *w)
{
    for (int i = 0; i < w->n_owned; i++) free(w->owned[i]);
    free(w->owned);
    free(w->layers);
}

/* ---- the parts of a layer ---- */

/* y = x / rms(x) * gamma, over n elements; y may be x. */
static void rms_norm(float *y, const float *x, const float *gamma, int n, float eps)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * x[i];
    double scale = 1.0 / sqrt(sum / n + eps);
    for (int i = 0; i < n; i++) y[i] = (float)(x[i] * scale * gamma[i]);
}

/* y = W x + bias with W [n_out][n_in]; bias may be NULL. With bf16 the input is rounded, as the engine does. */
static void linear(float *y, const float *w, const float *bias, const float *x, int n_out, int n_in, int bf16)
{
    for (int o = 0; o < n_out; o++) {
        double sum = 0;
        for (int i = 0; i < n_in; i++)
            sum += (double)w[(size_t)o * (size_t)n_in + (size_t)i] * (bf16 ? round_bf16(x[i]) : x[i]);
        y[o] = (float)(sum + (bias ? bias[o] : 0.0f));
    }
}

/* Rotates one head in place: pair i turns by position / theta^(2i / rope_dim). */
static void rope(float *head, int position, const struct rf_params *p)
{
    for (int i = 0; i < p->rope_dim / 2; i++) {
        double frequency = pow(p->rope_theta, -2.0 * i / p->rope_dim);
        if (p->rope_freq_factors) frequency /= p->rope_freq_factors[i];
        double angle = position * (double)p->rope_scale * frequency;
        int a = p->rope_style == RF_ROPE_NEOX ? i : 2 * i;
        int b = p->rope_style == RF_ROPE_NEOX ? i + p->rope_dim / 2 : 2 * i + 1;
        double xa = head[a], xb = head[b];
        head[a] = (float)(xa * cos(angle) - xb * sin(angle));
        head[b] = (float)(xa * sin(angle) + xb * cos(angle));
    }
}

/* One query head over the keys and values of positions 0 .. position; score [position + 1] is scratch. */
static void attend(float *out, const float *query, const float *keys, const float *values, int position, int head_dim,
                   size_t stride, double *score)
{
    double largest = -INFINITY, total = 0;
    for (int t = 0; t <= position; t++) {
        double dot = 0;
        for (int i = 0; i < head_dim; i++) dot += (double)query[i] * keys[(size_t)t * stride + (size_t)i];
        score[t] = dot / sqrt(head_dim);
        if (score[t] > largest) largest = score[t];
    }
    for (int t = 0; t <= position; t++) total += score[t] = exp(score[t] - largest);
    for (int i = 0; i < head_dim; i++) {
        double sum = 0;
        for (int t = 0; t <= position; t++) sum += score[t] / total * values[(size_t)t * stride + (size_t)i];
        out[i] = (float)sum;
    }
}

/* ---- one token ---- */

struct state {
    float *x, *normed, *q, *heads, *out; /* x, normed, out: [n_embd]; q, heads: [n_head * head_dim] */
    float *gate, *up;                    /* [n_ff] */
    float *keys, *values;                /* [n_layer][n_tokens][n_head_kv * head_dim] */
    double *score;                       /* [n_tokens] */
};

static int state_new(struct state *s, const struct rf_params *p, int n_tokens)
{
    size_t n_embd = (size_t)p->n_embd, n_q = (size_t)p->n_head * (size_t)p->head_dim;
    size_t n_kv = (size_t)p->n_head_kv * (size_t)p->head_dim * (size_t)p->n_layer * (size_t)n_tokens;
    s->x = calloc(n_embd, sizeof(float));
    s->normed = calloc(n_embd, sizeof(float));
    s->out = calloc(n_embd, sizeof(float));
    s->q = calloc(n_q, sizeof(float));
    s->heads = calloc(n_q, sizeof(float));
    s->gate = calloc((size_t)p->n_ff, sizeof(float));
    s->up = calloc((size_t)p->n_ff, sizeof(float));
    s->keys = calloc(n_kv, sizeof(float));
    s->values = calloc(n_kv, sizeof(float));
    s->score = calloc((size_t)n_tokens, sizeof(double));
    return s->x && s->normed && s->out && s->q && s->heads && s->gate && s->up && s->keys && s->values && s->score ? 0
                                                                                                                   : -1;
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
    free(s->keys);
    free(s->values);
    free(s->score);
}

/* x += Wo attention(norm(x)). keys and values are this layer's, [n_tokens][n_head_kv * head_dim]. */
static void attention_block(struct state *s, const struct rf_params *p, const struct layer_weights *w, float *keys,
                            float *values, int position, int bf16)
{
    int dim = p->head_dim, n_q = p->n_head * dim, n_kv = p->n_head_kv * dim;
    float *key = keys + (size_t)position * (size_t)n_kv, *value = values + (size_t)position * (size_t)n_kv;
    rms_norm(s->normed, s->x, w->attn_norm, p->n_embd, p->rms_eps);
    linear(s->q, w->wq, w->bq, s->normed, n_q, p->n_embd, bf16);
    linear(key, w->wk, w->bk, s->normed, n_kv, p->n_embd, bf16);
    linear(value, w->wv, w->bv, s->normed, n_kv, p->n_embd, bf16);
    for (int h = 0; h < p->n_head; h++) {
        if (p->qk_norm) rms_norm(s->q + h * dim, s->q + h * dim, w->q_norm, dim, p->rms_eps);
        rope(s->q + h * dim, position, p);
    }
    for (int h = 0; h < p->n_head_kv; h++) {
        if (p->qk_norm) rms_norm(key + h * dim, key + h * dim, w->k_norm, dim, p->rms_eps);
        rope(key + h * dim, position, p);
    }
    for (int i = 0; bf16 && i < n_kv; i++) {
        key[i] = round_f16(key[i]);
        value[i] = round_f16(value[i]);
    }
    for (int h = 0; h < p->n_head; h++) {
        int offset = h / (p->n_head / p->n_head_kv) * dim; /* of the key/value head that this head shares */
        attend(s->heads + h * dim, s->q + h * dim, keys + offset, values + offset, position, dim, (size_t)n_kv,
               s->score);
    }
    linear(s->out, w->wo, NULL, s->heads, p->n_embd, n_q, bf16);
    for (int i = 0; i < p->n_embd; i++) s->x[i] += s->out[i];
}

/* x += W_down (silu(W_gate norm(x)) * W_up norm(x)). */
static void feed_forward_block(struct state *s, const struct rf_params *p, const struct layer_weights *w, int bf16)
{
    rms_norm(s->normed, s->x, w->ffn_norm, p->n_embd, p->rms_eps);
    linear(s->gate, w->w_gate, NULL, s->normed, p->n_ff, p->n_embd, bf16);
    linear(s->up, w->w_up, NULL, s->normed, p->n_ff, p->n_embd, bf16);
    for (int i = 0; i < p->n_ff; i++) s->gate[i] = (float)(s->gate[i] / (1.0 + exp(-(double)s->gate[i])) * s->up[i]);
    linear(s->out, w->w_down, NULL, s->gate, p->n_embd, p->n_ff, bf16);
    for (int i = 0; i < p->n_embd; i++) s->x[i] += s->out[i];
}

/* ---- a sequence ---- */

int reference_logits(const struct rf_source *source, enum reference_rounding rounding, const int32_t *tokens,
                     int32_t n_tokens, reference_on_layer *on_layer, void *user, float *logits)
{
    const struct rf_params *p = &source->params;
    int bf16 = rounding == REFERENCE_BF16;
    struct weights w;
    struct state s;
    memset(&s, 0, sizeof s);
    int result = weights_load(&w, source, bf16);
    if (!result) result = state_new(&s, p, n_tokens);
    size_t layer_kv = (size_t)n_tokens * (size_t)p->n_head_kv * (size_t)p->head_dim;
    for (int32_t t = 0; t < n_tokens && !result; t++) {
        memcpy(s.x, w.embedding + (size_t)tokens[t] * (size_t)p->n_embd, (size_t)p->n_embd * sizeof *s.x);
        for (int32_t l = 0; l < p->n_layer; l++) {
            attention_block(&s, p, &w.layers[l], s.keys + (size_t)l * layer_kv, s.values + (size_t)l * layer_kv, t,
                            bf16);
            feed_forward_block(&s, p, &w.layers[l], bf16);
            if (on_layer) on_layer(user, l, t, s.x);
        }
        rms_norm(s.normed, s.x, w.output_norm, p->n_embd, p->rms_eps);
        linear(logits + (size_t)t * (size_t)p->n_vocab, w.output, NULL, s.normed, p->n_vocab, p->n_embd, bf16);
    }
    state_free(&s);
    weights_free(&w);
    return result;
}
