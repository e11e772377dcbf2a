/* Applies the rotations of rotate.h to rows of tensors, with a fast Hadamard transform times a
 * small cosine transform for dimensions that are no powers of two. quantize.c calls it for every
 * tensor that rf_rotates names. */
#include "quant/rotate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tensors.h"

enum { STRIPE = 16 /* vectors that are rotated together: a line of the cache */ };

/* y = x D (H (x) C): random signs D, a Hadamard matrix H of 2^i rows and a cosine transform C of
 * `odd` rows. */
struct turn {
    size_t n, odd;
    float *signs;   /* [n], divided by the square root of 2^i */
    float *cosines; /* [odd][odd] */
};

struct rf_rotation {
    const struct rf_allocator *allocator;
    const struct rf_source *source;
    struct rf_team *team;
    struct turn hidden, head;
    float *scratch; /* [workers][scratch_size] */
    size_t scratch_size;
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
    /* One block: signs, cosines. */
    turn->signs = rf_malloc(allocator, n + odd * odd, sizeof *turn->signs, "rotating", error);
    if (!turn->signs) return RF_ERR_MEMORY;
    turn->n = n;
    turn->odd = odd;
    turn->cosines = turn->signs + n;
    for (size_t i = 0; i < n; i++) turn->signs[i] = next_random(&state) >> 63 ? -scale : scale;
    fill_cosines(turn->cosines, odd);
    return 0;
}

/* Sums and differences of x, [n][STRIPE], and of the n rows behind. */
static void add_and_subtract(float *x, size_t n)
{
    float *y = x + n * STRIPE;
    for (size_t i = 0; i < n * STRIPE; i++) {
        float sum = x[i] + y[i];
        y[i] = x[i] - y[i];
        x[i] = sum;
    }
}

/* x, [odd][STRIPE], becomes C^T x; `sums` is as large. */
static void turn_odd(const struct turn *turn, float *x, float *sums)
{
    size_t odd = turn->odd;
    memset(sums, 0, odd * STRIPE * sizeof *sums);
    for (size_t j = 0; j < odd; j++)
        for (size_t i = 0; i < odd; i++)
            for (size_t c = 0; c < STRIPE; c++)
                sums[i * STRIPE + c] += turn->cosines[j * odd + i] * x[j * STRIPE + c];
    memcpy(x, sums, odd * STRIPE * sizeof *x);
}

/* Rotates vectors whose values are `step` apart and which are `next` apart themselves. scratch:
 * [n + odd][STRIPE]. */
static void apply(const struct turn *turn, float *x, size_t step, size_t next, size_t vectors,
                  float *scratch)
{
    size_t n = turn->n, odd = turn->odd;
    for (size_t c = 0; c < STRIPE; c++)
        for (size_t i = 0; i < n; i++)
            scratch[i * STRIPE + c] = c < vectors ? x[i * step + c * next] * turn->signs[i] : 0;
    for (size_t half = odd; half < n; half *= 2)
        for (size_t i = 0; i < n; i += 2 * half) add_and_subtract(scratch + i * STRIPE, half);
    for (size_t i = 0; odd > 1 && i < n; i += odd)
        turn_odd(turn, scratch + i * STRIPE, scratch + n * STRIPE);
    for (size_t c = 0; c < vectors; c++)
        for (size_t i = 0; i < n; i++) x[i * step + c * next] = scratch[i * STRIPE + c];
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
             {"attn_output.bias", NULL, IN},
             {"ffn_gate.weight", "ffn_norm.weight", IN},
             {"ffn_up.weight", "ffn_norm.weight", IN},
             {"ffn_down.weight", NULL, OUT},
             {"ffn_down.bias", NULL, IN}};

/* The name behind "blk.N.", if it begins so. */
static const char *name_in_layer(const char *name)
{
    const char *dot = strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') : NULL;
    return dot ? dot + 1 : name;
}

static const struct rule *turn_rule(const struct rf_tensor *tensor)
{
    const char *name = name_in_layer(tensor->name);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].name, name) == 0) return &rules[i];
    return NULL;
}

int rf_rotates(const struct rf_rotation *rotation, const struct rf_tensor *tensor, int *whole)
{
    const struct rule *rule = rotation ? turn_rule(tensor) : NULL;
    *whole = rule && (rule->changes & (OUT | VALUES_OUT));
    return rule != NULL;
}

/* Rows of a tensor that are being rotated. */
struct work {
    const struct rf_rotation *rotation;
    const struct rf_tensor *tensor;
    const struct rule *rule;
    size_t first, n, k;
    float *rows;
};

/* Times the gains of the norm before the matrix. */
static void take_gain(const struct work *work, float *rows, size_t n)
{
    char name[64];
    float gain[STRIPE];
    size_t k = work->k;
    const char *full = work->tensor->name;
    snprintf(name, sizeof name, "%.*s%s", (int)(name_in_layer(full) - full), full,
             work->rule->gain);
    const struct rf_tensor *gains = rf_source_tensor(work->rotation->source, name);
    for (size_t at = 0; at < k; at += STRIPE) {
        size_t count = k - at < STRIPE ? k - at : STRIPE;
        rf_dequantize_f32(gains->dtype,
                          (const char *)gains->data + rf_dtype_bytes(gains->dtype, at), gain,
                          count);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < count; j++) rows[i * k + at + j] *= gain[j];
    }
}

static float *scratch_of(const struct rf_rotation *rotation, const struct rf_worker *worker)
{
    return rotation->scratch + (size_t)worker->index * rotation->scratch_size;
}

/* Reads rows, and rotates them or their heads. */
static void turn_rows(void *argument, struct rf_worker *worker)
{
    const struct work *work = argument;
    const struct rf_rotation *rotation = work->rotation;
    const struct rf_tensor *tensor = work->tensor;
    size_t k = work->k, begin, end, row_bytes = rf_dtype_bytes(tensor->dtype, k);
    float *scratch = scratch_of(rotation, worker);
    struct rf_share share;
    rf_share_begin(&share, worker, work->n, STRIPE, 0.0);
    while (rf_share_next(&share, &begin, &end))
        for (size_t row = begin, n; row < end; row += n) {
            float *rows = work->rows + row * k;
            n = end - row < STRIPE ? end - row : STRIPE;
            rf_dequantize_f32(tensor->dtype,
                              (const char *)tensor->data + (work->first + row) * row_bytes, rows,
                              n * k);
            if (work->rule->gain) take_gain(work, rows, n);
            if (work->rule->changes & IN) apply(&rotation->hidden, rows, 1, k, n, scratch);
            for (size_t i = 0; (work->rule->changes & VALUES_IN) && i < k; i += rotation->head.n)
                apply(&rotation->head, rows + i, 1, k, n, scratch);
        }
}

/* Rotates columns or their heads. */
static void turn_columns(void *argument, struct rf_worker *worker)
{
    const struct work *work = argument;
    const struct rf_rotation *rotation = work->rotation;
    size_t k = work->k, begin, end;
    const struct turn *turn = work->rule->changes & OUT ? &rotation->hidden : &rotation->head;
    float *scratch = scratch_of(rotation, worker);
    struct rf_share share;
    rf_share_begin(&share, worker, k, STRIPE, 0.0);
    while (rf_share_next(&share, &begin, &end))
        for (size_t c = begin; c < end; c += STRIPE)
            for (size_t i = 0; i < work->n; i += turn->n)
                apply(turn, work->rows + i * k + c, k, 1, end - c < STRIPE ? end - c : STRIPE,
                      scratch);
}

void rf_rotate_rows(const struct rf_rotation *rotation, const struct rf_tensor *tensor,
                    size_t first, size_t n, float *rows)
{
    struct work work = {rotation, tensor, turn_rule(tensor), first, n, (size_t)tensor->ne[0], rows};
    if (work.rule->changes & ONES) {
        for (size_t i = 0; i < n * work.k; i++) rows[i] = 1.0f;
        return;
    }
    rf_team_run(rotation->team, 0, turn_rows, &work);
    if (work.rule->changes & (OUT | VALUES_OUT))
        rf_team_run(rotation->team, 0, turn_columns, &work);
}

/* ---- the models that can be rotated ---- */

int rf_rotation_check(const struct rf_source *source, struct rf_error *error)
{
    const struct rf_params *params = &source->params;
    const char *why =
        params->post_norm || params->no_input_norm
            ? "have norms behind attention and feed-forward, which no rotation passes"
        : params->layer_norm   ? "have norms that subtract the mean, which no rotation passes"
        : params->n_expert     ? "have experts, which are not rotated yet"
        : params->latent       ? "have latent attention, which is not rotated yet"
        : params->fused        ? "have fused matrices, which are not rotated yet"
        : params->is_mamba     ? "have Mamba-2, whose layers are not rotated yet"
        : params->delta_values ? "have the delta rule, whose layers are not rotated yet"
        : params->conv_rows    ? "have convolutions, which are not rotated yet"
                               : NULL;
    return why ? rf_fail(error, RF_ERR_UNSUPPORTED, "%s: cannot be rotated: %s models %s",
                         source->name, params->arch_name, why)
               : 0;
}

int rf_rotation_new(struct rf_rotation **rotation, const struct rf_source *source,
                    struct rf_team *team, const struct rf_allocator *allocator,
                    struct rf_error *error)
{
    *rotation = NULL;
    int code = rf_rotation_check(source, error);
    if (code) return code;
    struct rf_rotation *made = rf_calloc(allocator, 1, sizeof *made, "rotating", error);
    if (!made) return RF_ERR_MEMORY;
    made->allocator = allocator;
    made->source = source;
    made->team = team;
    code = turn_new(&made->hidden, (size_t)source->params.n_embd, allocator, error);
    if (!code) code = turn_new(&made->head, (size_t)source->params.head_dim, allocator, error);
    if (!code) {
        size_t hidden = made->hidden.n + made->hidden.odd, head = made->head.n + made->head.odd;
        made->scratch_size = (hidden > head ? hidden : head) * STRIPE;
        made->scratch = rf_malloc(allocator, (size_t)rf_team_places(team),
                                  made->scratch_size * sizeof *made->scratch, "rotating", error);
        if (!made->scratch) code = RF_ERR_MEMORY;
    }
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
    rf_free(allocator, rotation->scratch);
    rf_free(allocator, rotation);
}
