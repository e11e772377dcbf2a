#include "quant/rotate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tensors.h"

enum { STRIPE = 64 /* columns that the odd factor takes at a time */ };

/* y = x D (H (x) C): random signs D, a Hadamard matrix H of 2^i rows and a cosine transform C of
 * `odd` rows. */
struct turn {
    size_t n, odd;
    float *signs;   /* [n], divided by the square root of 2^i */
    float *cosines; /* [odd][odd] */
    float *scratch; /* [odd][STRIPE] */
};

struct rf_rotation {
    const struct rf_allocator *allocator;
    const struct rf_source *source;
    struct turn hidden, head;
};

/* ---- a rotation ---- */

static uint64_t next_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void fill_cosines(float *cosines, size_t n)
{
    const double pi = 3.14159265358979323846, size = (double)n;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            cosines[i * n + j] = (float)(sqrt((i ? 2 : 1) / size) *
                                         cos(pi * (double)(2 * j + 1) * (double)i / (2 * size)));
}

static int turn_new(struct turn *turn, size_t n, const struct rf_allocator *allocator,
                    struct rf_error *error)
{
    uint64_t state = n;
    size_t power = n & (~n + 1), odd = n / power;
    float scale = (float)(1 / sqrt((double)power));
    /* One block: signs, cosines, scratch. */
    turn->signs =
        rf_malloc(allocator, n + odd * odd + odd * STRIPE, sizeof *turn->signs, "rotating", error);
    if (!turn->signs) return RF_ERR_MEMORY;
    turn->n = n;
    turn->odd = odd;
    turn->cosines = turn->signs + n;
    turn->scratch = turn->cosines + odd * odd;
    for (size_t i = 0; i < n; i++) turn->signs[i] = next_random(&state) >> 63 ? -scale : scale;
    fill_cosines(turn->cosines, odd);
    return 0;
}

static void add_and_subtract(float *a, float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float sum = a[i] + b[i];
        b[i] = a[i] - b[i];
        a[i] = sum;
    }
}

/* x, [odd][width], becomes C^T x. */
static void turn_odd(const struct turn *turn, float *x, size_t width)
{
    size_t odd = turn->odd;
    for (size_t at = 0; at < width; at += STRIPE) {
        size_t n = width - at < STRIPE ? width - at : STRIPE;
        memset(turn->scratch, 0, odd * STRIPE * sizeof *turn->scratch);
        for (size_t j = 0; j < odd; j++)
            for (size_t i = 0; i < odd; i++)
                for (size_t c = 0; c < n; c++)
                    turn->scratch[i * STRIPE + c] +=
                        turn->cosines[j * odd + i] * x[j * width + at + c];
        for (size_t i = 0; i < odd; i++)
            memcpy(x + i * width + at, turn->scratch + i * STRIPE, n * sizeof *x);
    }
}

/* The columns of x, [turn->n][width], become themselves times the rotation. */
static void apply(const struct turn *turn, float *x, size_t width)
{
    size_t unit = turn->odd * width, total = turn->n * width;
    for (size_t i = 0; i < turn->n; i++)
        for (size_t c = 0; c < width; c++) x[i * width + c] *= turn->signs[i];
    for (size_t half = unit; half < total; half *= 2)
        for (size_t i = 0; i < total; i += 2 * half) add_and_subtract(x + i, x + i + half, half);
    for (size_t i = 0; turn->odd > 1 && i < total; i += unit) turn_odd(turn, x + i, width);
}

/* ---- a model's tensors ---- */

enum change { IN = 1, OUT = 2, VALUES_IN = 4, VALUES_OUT = 8, ONES = 16 };

static const struct rule {
    const char *name, *gain; /* the layer's name without its number; the norm before it */
    unsigned changes;
} rules[] = {{RF_TOKEN_EMBD, NULL, IN},
             {RF_OUTPUT, "output_norm.weight", IN},
             {"output_norm.weight", NULL, ONES},
             {"attn_norm.weight", NULL, ONES},
             {"ffn_norm.weight", NULL, ONES},
             {"attn_q.weight", "attn_norm.weight", IN},
             {"attn_k.weight", "attn_norm.weight", IN},
             {"attn_v.weight", "attn_norm.weight", IN | VALUES_OUT},
             {"attn_v.bias", NULL, VALUES_IN},
             {"attn_output.weight", NULL, VALUES_IN | OUT},
             {"ffn_gate.weight", "ffn_norm.weight", IN},
             {"ffn_up.weight", "ffn_norm.weight", IN},
             {"ffn_down.weight", NULL, OUT}};

/* Behind "blk.N.", if the name begins so. */
static const char *name_in_layer(const char *name)
{
    const char *dot = strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') : NULL;
    return dot ? dot + 1 : name;
}

static const struct rule *rule_of(const struct rf_tensor *tensor)
{
    const char *name = name_in_layer(tensor->name);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].name, name) == 0) return &rules[i];
    return NULL;
}

int rf_rotates(const struct rf_rotation *rotation, const struct rf_tensor *tensor, int *whole)
{
    const struct rule *rule = rotation ? rule_of(tensor) : NULL;
    *whole = rule && (rule->changes & (OUT | VALUES_OUT));
    return rule != NULL;
}

/* Times the gains of the norm before the matrix. */
static void take_gain(const struct rf_rotation *rotation, const struct rf_tensor *tensor,
                      const char *norm, float *rows, size_t n)
{
    char name[64];
    float gain[STRIPE];
    size_t k = (size_t)tensor->ne[0];
    snprintf(name, sizeof name, "%.*s%s", (int)(name_in_layer(tensor->name) - tensor->name),
             tensor->name, norm);
    const struct rf_tensor *gains = rf_source_tensor(rotation->source, name);
    for (size_t at = 0; at < k; at += STRIPE) {
        size_t count = k - at < STRIPE ? k - at : STRIPE;
        rf_dequantize_f32(gains->dtype,
                          (const char *)gains->data + rf_dtype_bytes(gains->dtype, at), gain,
                          count);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < count; j++) rows[i * k + at + j] *= gain[j];
    }
}

void rf_rotate_rows(const struct rf_rotation *rotation, const struct rf_tensor *tensor,
                    size_t first, size_t n, float *rows)
{
    const struct rule *rule = rule_of(tensor);
    const struct turn *hidden = &rotation->hidden, *head = &rotation->head;
    size_t k = (size_t)tensor->ne[0];
    if (rule->changes & ONES) {
        for (size_t i = 0; i < n * k; i++) rows[i] = 1.0f;
        return;
    }
    rf_dequantize_f32(tensor->dtype,
                      (const char *)tensor->data + first * rf_dtype_bytes(tensor->dtype, k), rows,
                      n * k);
    if (rule->gain) take_gain(rotation, tensor, rule->gain, rows, n);
    for (size_t i = 0; (rule->changes & IN) && i < n; i++) apply(hidden, rows + i * k, 1);
    for (size_t i = 0; (rule->changes & VALUES_IN) && i < n * k; i += head->n)
        apply(head, rows + i, 1);
    for (size_t i = 0; (rule->changes & VALUES_OUT) && i < n; i += head->n)
        apply(head, rows + i * k, k);
    if (rule->changes & OUT) apply(hidden, rows, k);
}

/* ---- the models that can be rotated ---- */

static int check(const struct rf_source *source, struct rf_error *error)
{
    const struct rf_params *params = &source->params;
    const char *why = params->post_norm || params->no_input_norm
                          ? "have norms behind attention and feed-forward, which no rotation passes"
                      : params->n_expert ? "have experts, which are not rotated yet"
                      : params->fused    ? "have fused matrices, which are not rotated yet"
                                         : NULL;
    return why ? rf_fail(error, RF_ERR_UNSUPPORTED, "%s: cannot be rotated: %s models %s",
                         source->name, params->arch_name, why)
               : 0;
}

int rf_rotation_new(struct rf_rotation **rotation, const struct rf_source *source,
                    const struct rf_allocator *allocator, struct rf_error *error)
{
    *rotation = NULL;
    int code = check(source, error);
    if (code) return code;
    struct rf_rotation *made = rf_calloc(allocator, 1, sizeof *made, "rotating", error);
    if (!made) return RF_ERR_MEMORY;
    made->allocator = allocator;
    made->source = source;
    code = turn_new(&made->hidden, (size_t)source->params.n_embd, allocator, error);
    if (!code) code = turn_new(&made->head, (size_t)source->params.head_dim, allocator, error);
    if (code)
        rf_rotation_free(made);
    else
        *rotation = made;
    return code;
}

void rf_rotation_free(struct rf_rotation *rotation)
{
    if (!rotation) return;
    const struct rf_allocator *allocator = rotation->allocator;
    rf_free(allocator, rotation->hidden.signs);
    rf_free(allocator, rotation->head.signs);
    rf_free(allocator, rotation);
}
