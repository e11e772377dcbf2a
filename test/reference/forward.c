/* A transformer of the llama family, read top-down: rounding, weights, the layer's parts, one
 * token, a sequence. */
#include "reference/forward.h"

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

static void round_row_bf16(float *out, const float *x, int n)
{
    for (int i = 0; i < n; i++) out[i] = round_bf16(x[i]);
}

/* Each 32 values to the nearest of 255 steps between minus and plus their largest. */
static void round_row_8_bits(float *out, const float *x, int n)
{
    for (int first = 0; first < n; first += 32) {
        float largest = 0;
        for (int i = first; i < first + 32; i++) largest = fmaxf(largest, fabsf(x[i]));
        for (int i = first; i < first + 32; i++)
            out[i] = largest > 0 ? rintf(x[i] * (127.0f / largest)) * (largest / 127.0f) : 0;
    }
}

/* ---- weights ---- */

struct matrix {
    float *values;                                          /* [n_out][n_in] */
    void (*round_input)(float *out, const float *x, int n); /* NULL: not at all */
};

struct feed_forward {
    struct matrix gate, up, down; /* of all experts, one after the other, if there are such */
    int width;                    /* of one; 0: there is none */
};

struct layer_weights {
    float *attn_norm, *ffn_norm;
    struct matrix q, k, v, o; /* q: [n_head * head_dim][n_embd], and so on */
    struct feed_forward ffn, shared;
    struct matrix router, shared_router; /* [n_expert][n_embd], [1][n_embd] */
    float *bq, *bk, *bv;                 /* NULL without qkv_bias */
    float *q_norm, *k_norm;              /* [head_dim]; NULL without qk_norm */
};

struct weights {
    float *embedding, *output_norm; /* [n_vocab][n_embd], [n_embd] */
    struct matrix output;
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

static struct matrix load_matrix(struct weights *w, const struct rf_source *source,
                                 const char *name, enum reference_rounding rounding)
{
    const struct rf_tensor *tensor = rf_source_tensor(source, name);
    int quantised = tensor && rf_dtype_info(tensor->dtype)->block_elems > 1;
    if (rounding == REFERENCE_EXACT) return (struct matrix){load(w, source, name, 0), NULL};
    if (rounding == REFERENCE_STORED && quantised)
        return (struct matrix){load(w, source, name, 0), round_row_8_bits};
    return (struct matrix){load(w, source, name, 1), round_row_bf16};
}

static const char *name_in_layer(char full[64], int layer, const char *name)
{
    snprintf(full, 64, "blk.%d.%s", layer, name);
    return full;
}

static void load_feed_forward(struct weights *w, const struct rf_source *source, int layer,
                              const char *end, enum reference_rounding rounding,
                              struct feed_forward *ffn)
{
    struct matrix *const matrices[] = {&ffn->gate, &ffn->up, &ffn->down};
    static const char *const names[] = {"gate", "up", "down"};
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.ffn_%s%s.weight", layer, names[i], end);
        *matrices[i] = load_matrix(w, source, name, rounding);
    }
}

static int weights_load(struct weights *w, const struct rf_source *source,
                        enum reference_rounding rounding)
{
    const struct rf_params *p = &source->params;
    memset(w, 0, sizeof *w);
    w->layers = calloc((size_t)p->n_layer, sizeof *w->layers);
    w->owned =
        calloc((size_t)source->n_tensors + 1, sizeof *w->owned); /* a tied tensor is loaded twice */
    if (!w->layers || !w->owned) return -1;
    w->embedding = load(w, source, "token_embd.weight", rounding == REFERENCE_BF16);
    w->output_norm = load(w, source, "output_norm.weight", 0);
    w->output =
        load_matrix(w, source, p->tied_output ? "token_embd.weight" : "output.weight", rounding);
    for (int l = 0; l < p->n_layer && !w->failed; l++) {
        struct layer_weights *layer = &w->layers[l];
        int experts = !rf_is_dense(p, l), shared = experts && p->n_ff_shared;
        const struct {
            struct matrix *matrix;
            const char *name;
        } matrices[] = {{&layer->q, "attn_q.weight"},
                        {&layer->k, "attn_k.weight"},
                        {&layer->v, "attn_v.weight"},
                        {&layer->o, "attn_output.weight"}};
        const struct {
            float **vector;
            const char *name;
            int exists;
        } vectors[] = {{&layer->attn_norm, "attn_norm.weight", 1},
                       {&layer->ffn_norm, "ffn_norm.weight", 1},
                       {&layer->bq, "attn_q.bias", p->qkv_bias},
                       {&layer->bk, "attn_k.bias", p->qkv_bias},
                       {&layer->bv, "attn_v.bias", p->qkv_bias},
                       {&layer->q_norm, "attn_q_norm.weight", p->qk_norm},
                       {&layer->k_norm, "attn_k_norm.weight", p->qk_norm}};
        char full[64];
        for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
            *matrices[i].matrix =
                load_matrix(w, source, name_in_layer(full, l, matrices[i].name), rounding);
        for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
            if (vectors[i].exists)
                *vectors[i].vector = load(w, source, name_in_layer(full, l, vectors[i].name), 0);
        enum reference_rounding of_routers =
            rounding == REFERENCE_EXACT ? rounding : REFERENCE_BF16;
        load_feed_forward(w, source, l, experts ? "_exps" : "", rounding, &layer->ffn);
        layer->ffn.width = experts ? p->n_ff : rf_n_ff_dense(p);
        if (experts)
            layer->router =
                load_matrix(w, source, name_in_layer(full, l, "ffn_gate_inp.weight"), of_routers);
        if (!shared) continue;
        load_feed_forward(w, source, l, "_shexp", rounding, &layer->shared);
        layer->shared.width = p->n_ff_shared;
        layer->shared_router =
            load_matrix(w, source, name_in_layer(full, l, "ffn_gate_inp_shexp.weight"), of_routers);
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

/* y = W x + bias with W [n_out][n_in]; bias may be NULL. `rounded` [n_in] takes the input as the
 * engine rounds it. */
static void linear(float *y, const struct matrix *w, const float *bias, const float *x, int n_out,
                   int n_in, float *rounded)
{
    if (w->round_input) {
        w->round_input(rounded, x, n_in);
        x = rounded;
    }
    for (int o = 0; o < n_out; o++) {
        double sum = 0;
        for (int i = 0; i < n_in; i++)
            sum += (double)w->values[(size_t)o * (size_t)n_in + (size_t)i] * x[i];
        y[o] = (float)(sum + (bias ? bias[o] : 0.0f));
    }
}

/* Rotates one head in place: pair i turns by position / theta^(2i / rope_dim), and grows by the
 * magnitude. */
static void rope(float *head, int position, const struct rf_params *p)
{
    for (int i = 0; i < p->rope_dim / 2; i++) {
        double frequency = pow(p->rope_theta, -2.0 * i / p->rope_dim);
        if (p->rope_freq_factors) frequency /= p->rope_freq_factors[i];
        double angle = position * (double)p->rope_scale * frequency;
        int a = p->rope_style == RF_ROPE_NEOX ? i : 2 * i;
        int b = p->rope_style == RF_ROPE_NEOX ? i + p->rope_dim / 2 : 2 * i + 1;
        double xa = head[a], xb = head[b], magnitude = (double)p->rope_magnitude;
        head[a] = (float)(magnitude * (xa * cos(angle) - xb * sin(angle)));
        head[b] = (float)(magnitude * (xa * sin(angle) + xb * cos(angle)));
    }
}

/* One query head over the keys and values of positions 0 .. position; score [position + 1] is
 * scratch. */
static void attend(float *out, const float *query, const float *keys, const float *values,
                   int position, int head_dim, size_t stride, double *score)
{
    double largest = -INFINITY, total = 0;
    for (int t = 0; t <= position; t++) {
        double dot = 0;
        for (int i = 0; i < head_dim; i++)
            dot += (double)query[i] * keys[(size_t)t * stride + (size_t)i];
        score[t] = dot * (double)(1.0f / sqrtf((float)head_dim)); /* in the engine, of F32 */
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

/* ---- one token ---- */

struct state {
    float *x, *normed, *q, *heads,
        *out;             /* x, normed, out: [n_embd]; q, heads: [n_head * head_dim] */
    float *gate, *up;     /* [the widest feed-forward] */
    float *routed;        /* [n_expert] */
    double *sum;          /* [n_embd], of experts */
    float *rounded;       /* the widest input of a linear layer */
    float *keys, *values; /* [n_layer][n_tokens][n_head_kv * head_dim] */
    double *score;        /* [n_tokens] */
};

static int state_new(struct state *s, const struct rf_params *p, int n_tokens)
{
    size_t n_embd = (size_t)p->n_embd, n_q = (size_t)p->n_head * (size_t)p->head_dim;
    size_t n_kv =
        (size_t)p->n_head_kv * (size_t)p->head_dim * (size_t)p->n_layer * (size_t)n_tokens;
    s->x = calloc(n_embd, sizeof(float));
    s->normed = calloc(n_embd, sizeof(float));
    s->out = calloc(n_embd, sizeof(float));
    s->q = calloc(n_q, sizeof(float));
    s->heads = calloc(n_q, sizeof(float));
    size_t n_ff = (size_t)p->n_ff + (size_t)p->n_ff_dense + (size_t)p->n_ff_shared;
    s->gate = calloc(n_ff, sizeof(float));
    s->up = calloc(n_ff, sizeof(float));
    s->sum = calloc(n_embd, sizeof(double));
    s->routed = calloc((size_t)p->n_expert + 1, sizeof(float));
    s->rounded = calloc(n_embd + n_q + n_ff, sizeof(float));
    s->keys = calloc(n_kv, sizeof(float));
    s->values = calloc(n_kv, sizeof(float));
    s->score = calloc((size_t)n_tokens, sizeof(double));
    int done = s->x && s->normed && s->out && s->q && s->heads && s->gate && s->up && s->rounded &&
               s->keys && s->values;
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
    free(s->keys);
    free(s->values);
    free(s->score);
}

/* x += Wo attention(norm(x)). keys and values are this layer's, [n_tokens][n_head_kv * head_dim].
 */
static void attention_block(struct state *s, const struct rf_params *p,
                            const struct layer_weights *w, float *keys, float *values, int position,
                            int f16)
{
    int dim = p->head_dim, n_q = p->n_head * dim, n_kv = p->n_head_kv * dim;
    float *key = keys + (size_t)position * (size_t)n_kv,
          *value = values + (size_t)position * (size_t)n_kv;
    rms_norm(s->normed, s->x, w->attn_norm, p->n_embd, p->rms_eps);
    linear(s->q, &w->q, w->bq, s->normed, n_q, p->n_embd, s->rounded);
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
        key[i] = round_f16(key[i]);
        value[i] = round_f16(value[i]);
    }
    for (int h = 0; h < p->n_head; h++) {
        int offset =
            h / (p->n_head / p->n_head_kv) * dim; /* of the key/value head that this head shares */
        attend(s->heads + h * dim, s->q + h * dim, keys + offset, values + offset, position, dim,
               (size_t)n_kv, s->score);
    }
    linear(s->out, &w->o, NULL, s->heads, p->n_embd, n_q, s->rounded);
    for (int i = 0; i < p->n_embd; i++) s->x[i] += s->out[i];
}

static struct matrix of_expert(const struct matrix *all, int expert, int n_out, int n_in)
{
    return (struct matrix){all->values + (size_t)expert * (size_t)n_out * (size_t)n_in,
                           all->round_input};
}

/* out = W_down (silu(W_gate normed) * W_up normed), with an expert's matrices. */
static void feed_forward(struct state *s, const struct rf_params *p, const struct feed_forward *ffn,
                         int expert)
{
    int width = ffn->width;
    struct matrix gate = of_expert(&ffn->gate, expert, width, p->n_embd),
                  up = of_expert(&ffn->up, expert, width, p->n_embd),
                  down = of_expert(&ffn->down, expert, p->n_embd, width);
    linear(s->gate, &gate, NULL, s->normed, width, p->n_embd, s->rounded);
    linear(s->up, &up, NULL, s->normed, width, p->n_embd, s->rounded);
    for (int i = 0; i < width; i++)
        s->gate[i] = (float)(s->gate[i] / (1.0 + exp(-(double)s->gate[i])) * s->up[i]);
    linear(s->out, &down, NULL, s->gate, p->n_embd, width, s->rounded);
}

/* The expert that `rank` others come before: with greater values, or equal ones and lower numbers.
 */
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
static void experts_block(struct state *s, const struct rf_params *p, const struct layer_weights *w)
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
    linear(s->routed, &w->shared_router, NULL, s->normed, 1, p->n_embd, s->rounded);
    feed_forward(s, p, &w->shared, 0);
    double share = 1.0 / (1.0 + exp(-(double)s->routed[0]));
    for (int i = 0; i < p->n_embd; i++) s->x[i] += (float)(share * (double)s->out[i]);
}

static void feed_forward_block(struct state *s, const struct rf_params *p,
                               const struct layer_weights *w)
{
    rms_norm(s->normed, s->x, w->ffn_norm, p->n_embd, p->rms_eps);
    if (w->router.values) {
        experts_block(s, p, w);
        return;
    }
    feed_forward(s, p, &w->ffn, 0);
    for (int i = 0; i < p->n_embd; i++) s->x[i] += s->out[i];
}

/* ---- a sequence ---- */

int reference_logits(const struct rf_source *source, enum reference_rounding rounding,
                     const int32_t *tokens, int32_t n_tokens, reference_on_layer *on_layer,
                     void *user, float *logits)
{
    const struct rf_params *p = &source->params;
    struct weights w;
    struct state s;
    memset(&s, 0, sizeof s);
    int result = weights_load(&w, source, rounding);
    if (!result) result = state_new(&s, p, n_tokens);
    size_t layer_kv = (size_t)n_tokens * (size_t)p->n_head_kv * (size_t)p->head_dim;
    for (int32_t t = 0; t < n_tokens && !result; t++) {
        memcpy(s.x, w.embedding + (size_t)tokens[t] * (size_t)p->n_embd,
               (size_t)p->n_embd * sizeof *s.x);
        for (int32_t l = 0; l < p->n_layer; l++) {
            attention_block(&s, p, &w.layers[l], s.keys + (size_t)l * layer_kv,
                            s.values + (size_t)l * layer_kv, t, rounding != REFERENCE_EXACT);
            feed_forward_block(&s, p, &w.layers[l]);
            if (on_layer) on_layer(user, l, t, s.x);
        }
        rms_norm(s.normed, s.x, w.output_norm, p->n_embd, p->rms_eps);
        linear(logits + (size_t)t * (size_t)p->n_vocab, &w.output, NULL, s.normed, p->n_vocab,
               p->n_embd, s.rounded);
    }
    state_free(&s);
    weights_free(&w);
    return result;
}
