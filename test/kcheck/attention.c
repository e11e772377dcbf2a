/* Attention over one chunk, in both cache types, and over quantised groups. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "kcheck/kcheck.h"

enum {
    MAX_QUERIES = 104, /* more than kernels take at once */
    USUAL_QUERIES = 40
};

struct shape {
    size_t n_q, dim, positions; /* positions that are written */
    int bf16, has_first;
    float cap;
};

/* The queries of a call, and the positions that each sees. */
struct queries {
    const float *q[MAX_QUERIES];
    int32_t first[MAX_QUERIES], visible[MAX_QUERIES];
};

/* A query sees one position at least, or none at all. */
static int32_t first_below(struct kcheck *check, int32_t visible)
{
    return visible ? (int32_t)kcheck_between(check, 0, (size_t)visible - 1) : 0;
}

static float *attend(struct kcheck *check, const struct rf_kernels *kernels,
                     const struct shape *shape, const struct queries *queries, size_t begin,
                     const uint16_t *k, const uint16_t *v, size_t n_q)
{
    size_t ldo = rf_padded(shape->dim) + 2;
    float *out = kcheck_guarded(n_q * ldo * sizeof *out);
    struct rf_attention_args args = {.q = queries->q + begin,
                                     .first = shape->has_first ? queries->first + begin : NULL,
                                     .visible = queries->visible + begin,
                                     .n_q = n_q,
                                     .k = k,
                                     .v = v,
                                     .head_dim = shape->dim,
                                     .scale = 1.0f / sqrtf((float)shape->dim),
                                     .cap = shape->cap,
                                     .out = out,
                                     .ldo = ldo};
    kcheck_call(check, shape->bf16 ? "attention_bf16" : "attention_f16",
                (kcheck_kernel *)(shape->bf16 ? kernels->attention_bf16 : kernels->attention_f16),
                (uint64_t[4]){kcheck_pointer(&args)}, 0.0f);
    return out;
}

/* Few queries have a weight on the other side of a rounding border. */
static void check_flipped(struct kcheck *check, const char *kernel, size_t flipped, size_t n_q)
{
    kcheck_near(check, (double)flipped, 0, 1 + (double)n_q / 10,
                "%s queries=%zu: queries off by more than rounding", kernel, n_q);
}

static void check_shape(struct kcheck *check, const struct shape *shape)
{
    size_t padded = rf_padded(shape->dim), ldo = padded + 2, blocks = (shape->positions + 15) / 16;
    size_t k_bytes = blocks * 16 * shape->dim * sizeof(uint16_t),
           v_bytes = shape->positions * padded * sizeof(uint16_t);
    size_t q_bytes = shape->dim * sizeof(float);
    uint16_t (*half)(float) = shape->bf16 ? rf_f32_to_bf16 : rf_f32_to_f16;
    /* Positions after the written ones stay NaN in K: no query sees them, so no result may show
     * them. */
    uint16_t *k = kcheck_guarded(k_bytes), *v = kcheck_guarded(v_bytes);
    for (size_t p = 0; p < shape->positions; p++) {
        for (size_t j = 0; j < shape->dim; j++)
            k[p / 16 * 16 * shape->dim + j * 16 + p % 16] = half(kcheck_normal(check));
        for (size_t j = 0; j < padded; j++)
            v[p * padded + j] = j < shape->dim ? half(kcheck_normal(check)) : 0;
    }
    float *q[MAX_QUERIES];
    struct queries queries = {.visible[0] = (int32_t)shape->positions};
    for (size_t i = 0; i < shape->n_q; i++) {
        queries.q[i] = q[i] = kcheck_guarded(q_bytes);
        for (size_t j = 0; j < shape->dim; j++) q[i][j] = kcheck_normal(check) * 3.0f;
        if (i > 0) queries.visible[i] = (int32_t)kcheck_between(check, 0, shape->positions);
        queries.first[i] = first_below(check, queries.visible[i]);
    }

    float *wanted = attend(check, check->ref, shape, &queries, 0, k, v, shape->n_q);
    float *got = attend(check, check->kernels, shape, &queries, 0, k, v, shape->n_q);
    size_t flipped = 0;
    for (size_t i = 0; i < shape->n_q; i++) {
        /* A weight that falls on the other side of a rounding border to BF16 is off by up to 2^-8
         * and changes an element by that times a value, here below 6. */
        double rounding = 1e-5 * (1.0 + (double)fabsf(wanted[i * ldo + padded + 1]));
        double flip = shape->bf16 ? 6.0 / 256 : 0;
        int is_flipped = 0;
        for (size_t j = 0; j < ldo; j++) {
            double off = fabs((double)got[i * ldo + j] - (double)wanted[i * ldo + j]);
            if (off > rounding) is_flipped = 1;
            kcheck_near(
                check, (double)got[i * ldo + j], (double)wanted[i * ldo + j], rounding + flip,
                "attention_%s dim=%zu queries=%zu positions=%zu first=%d visible=%d cap=%g: query "
                "%zu, element %zu",
                shape->bf16 ? "bf16" : "f16", shape->dim, shape->n_q, shape->positions,
                shape->has_first ? queries.first[i] : 0, queries.visible[i], (double)shape->cap, i,
                j);
        }
        flipped += (size_t)is_flipped;
        float *single = attend(check, check->kernels, shape, &queries, i, k, v, 1);
        kcheck_same(check, single, got + i * ldo, ldo * sizeof *got,
                    "attention_%s dim=%zu queries=%zu: bits of query %zu depend on the others",
                    shape->bf16 ? "bf16" : "f16", shape->dim, shape->n_q, i);
        kcheck_release(single, ldo * sizeof *got);
        kcheck_release(q[i], q_bytes);
    }
    check_flipped(check, shape->bf16 ? "attention_bf16" : "attention_f16", flipped, shape->n_q);
    kcheck_release(wanted, shape->n_q * ldo * sizeof *wanted);
    kcheck_release(got, shape->n_q * ldo * sizeof *got);
    kcheck_release(k, k_bytes);
    kcheck_release(v, v_bytes);
}

/* ---- quantised groups ---- */

struct kv_shape {
    size_t n_q, dim, n_groups;
    int has_lower, is_hard; /* hard: any bits as codes */
    int has_first;
    float cap;
};

/* One head's planes. */
struct planes {
    uint8_t *upper, *lower;
    size_t upper_bytes, lower_bytes;
};

/* Codes of 8 bits are off by half a step of the scale, those of 4 by half of 16 steps and what the
 * rounding of the middle shifts them by. Where a middle's own rounding is more than the slack of
 * the codes, that is the error: 2^-11 of the value. */
static void check_code(struct kcheck *check, float got, uint16_t half, uint16_t scale, double steps)
{
    double wanted = (double)rf_f16_to_f32(half);
    kcheck_near(check, (double)got, wanted,
                steps * (double)rf_f16_to_f32(scale) + fabs(wanted) / 2048 + 1e-6,
                "a quantised key or value");
}

static void check_quantizer(struct kcheck *check, const struct planes *planes, const uint16_t *k,
                            const uint16_t *v, size_t dim)
{
    size_t padded = rf_padded(dim);
    for (int has_lower = 0; has_lower < 2; has_lower++) {
        struct rf_kv_group group =
            rf_kv_group_at(planes->upper, has_lower ? planes->lower : NULL, padded);
        double steps = has_lower ? 0.502 : 12;
        for (size_t p = 0; p < RF_KV_GROUP; p++)
            for (size_t j = 0; j < dim; j++) {
                check_code(check, rf_kv_key(&group, p, j, padded),
                           k[(p / 16 * dim + j) * 16 + p % 16], group.k_scale[j], steps);
                check_code(check, rf_kv_value(&group, p, j), v[p * padded + j], group.v_scale[p],
                           steps);
            }
    }
}

static struct planes make_planes(struct kcheck *check, const struct kv_shape *shape)
{
    size_t padded = rf_padded(shape->dim), n_k = RF_KV_GROUP * shape->dim,
           n_v = RF_KV_GROUP * padded;
    struct planes planes = {.upper_bytes = rf_kv_upper_bytes(padded),
                            .lower_bytes = rf_kv_lower_bytes(padded)};
    planes.upper = kcheck_guarded(planes.upper_bytes);
    planes.lower = kcheck_guarded(planes.lower_bytes);
    uint16_t *k = kcheck_guarded(n_k * sizeof *k), *v = kcheck_guarded(n_v * sizeof *v);
    for (size_t i = 0; i < n_k; i++)
        k[i] = rf_f32_to_f16(kcheck_normal(check) + (i / 16 % shape->dim == 1 ? 20.0f : 0.0f));
    for (size_t i = 0; i < n_v; i++) v[i] = rf_f32_to_f16(kcheck_normal(check));
    rf_kv_quantize(planes.upper, planes.lower, k, v, shape->dim);
    check_quantizer(check, &planes, k, v, shape->dim);
    for (size_t i = 0; shape->is_hard && i < 2 * rf_kv_nibbles(padded); i++) {
        planes.upper[i] = (uint8_t)kcheck_between(check, 0, 255);
        planes.lower[i] = i % 2 ? 255 : (uint8_t)kcheck_between(check, 0, 255);
    }
    kcheck_release(k, n_k * sizeof *k);
    kcheck_release(v, n_v * sizeof *v);
    return planes;
}

static float *attend_kv(struct kcheck *check, const struct rf_kernels *kernels,
                        const struct kv_shape *shape, const struct rf_kv_group *groups,
                        const struct queries *queries, size_t begin, size_t n_q)
{
    size_t ldo = rf_padded(shape->dim) + 2;
    float *out = kcheck_guarded(n_q * ldo * sizeof *out);
    struct rf_attention_kv_args args = {.q = queries->q + begin,
                                        .first = shape->has_first ? queries->first + begin : NULL,
                                        .n_q = n_q,
                                        .groups = groups,
                                        .n_groups = shape->n_groups,
                                        .head_dim = shape->dim,
                                        .scale = 1.0f / sqrtf((float)shape->dim),
                                        .cap = shape->cap,
                                        .out = out,
                                        .ldo = ldo};
    kcheck_call(check, "attention_kv", (kcheck_kernel *)kernels->attention_kv,
                (uint64_t[4]){kcheck_pointer(&args)}, 0.0f);
    return out;
}

/* The reference's rounding of queries and weights is small beside attention over the values that
 * the codes stand for. */
static void check_definition(struct kcheck *check, const struct kv_shape *shape,
                             const struct rf_kv_group *groups, const float *q, size_t first,
                             const float *wanted)
{
    size_t padded = rf_padded(shape->dim), n = shape->n_groups * RF_KV_GROUP;
    double score[RF_KV_SPAN * RF_KV_GROUP], max = -INFINITY, sum = 0;
    for (size_t p = first; p < n; p++) {
        score[p] = 0;
        for (size_t j = 0; j < shape->dim; j++)
            score[p] += (double)q[j] *
                        (double)rf_kv_key(&groups[p / RF_KV_GROUP], p % RF_KV_GROUP, j, padded);
        score[p] /= sqrt((double)shape->dim);
        if (shape->cap > 0) score[p] = (double)shape->cap * tanh(score[p] / (double)shape->cap);
        max = fmax(max, score[p]);
    }
    for (size_t p = first; p < n; p++) sum += score[p] = exp(score[p] - max);
    double tolerance = shape->has_lower ? 0.06 : 0.25;
    kcheck_near(check, (double)wanted[padded] + log((double)wanted[padded + 1]), max + log(sum),
                tolerance, "attention_kv: the logarithm of the sum");
    for (size_t j = 0; j < shape->dim; j++) {
        double value = 0;
        for (size_t p = first; p < n; p++)
            value += score[p] * (double)rf_kv_value(&groups[p / RF_KV_GROUP], p % RF_KV_GROUP, j);
        kcheck_near(check, (double)(wanted[j] / wanted[padded + 1]), value / sum, tolerance,
                    "attention_kv dim=%zu lower=%d: element %zu", shape->dim, shape->has_lower, j);
    }
}

/* One query beside the reference. The greatest score's exponent may be on the other side of a
 * rounding border; then all sums are. Returns whether an element is off by more than rounding: a
 * weight that falls on the other side of a rounding border changes an element by up to a code, 128
 * steps of the greatest scale (here below 0.1), in 127. */
static int check_kv_query(struct kcheck *check, const struct kv_shape *shape, size_t i,
                          const float *got, const float *wanted)
{
    size_t padded = rf_padded(shape->dim);
    double shift =
        wanted[padded] == got[padded] ? 0 : rint((double)(got[padded] - wanted[padded]) / log(2));
    double factor = exp2(shift);
    double rounding = 1e-5 * (1.0 + (double)fabsf(wanted[padded + 1]));
    int is_flipped = 0;
    kcheck_near(check, shift, 0, 1, "attention_kv: the exponent");
    for (size_t j = 0; j < padded + 2; j++) {
        if (j == padded) continue;
        double mine = (double)got[j] * factor, off = fabs(mine - (double)wanted[j]);
        if (off > rounding && j < padded) is_flipped = 1;
        kcheck_near(check, mine, (double)wanted[j],
                    j < padded ? rounding + 12.8 / 127 * (double)shape->n_groups : rounding,
                    "attention_kv dim=%zu queries=%zu lower=%d groups=%zu: query %zu, element %zu",
                    shape->dim, shape->n_q, shape->has_lower, shape->n_groups, i, j);
    }
    return is_flipped;
}

static void check_kv_shape(struct kcheck *check, const struct kv_shape *shape)
{
    size_t padded = rf_padded(shape->dim), ldo = padded + 2, q_bytes = shape->dim * sizeof(float);
    struct planes planes[RF_KV_SPAN];
    struct rf_kv_group groups[RF_KV_SPAN];
    for (size_t g = 0; g < shape->n_groups; g++) {
        planes[g] = make_planes(check, shape);
        groups[g] =
            rf_kv_group_at(planes[g].upper, shape->has_lower ? planes[g].lower : NULL, padded);
    }
    float *q[MAX_QUERIES];
    struct queries queries = {.q = {NULL}};
    for (size_t i = 0; i < shape->n_q; i++) {
        queries.q[i] = q[i] = kcheck_guarded(q_bytes);
        for (size_t j = 0; j < shape->dim; j++)
            q[i][j] = i == 3 ? 0.0f : kcheck_normal(check) * (shape->is_hard ? 0.3f : 1.0f);
        queries.first[i] = first_below(check, RF_KV_GROUP);
    }
    float *wanted = attend_kv(check, check->ref, shape, groups, &queries, 0, shape->n_q);
    float *got = attend_kv(check, check->kernels, shape, groups, &queries, 0, shape->n_q);
    if (!shape->is_hard)
        check_definition(check, shape, groups, q[0],
                         shape->has_first ? (size_t)queries.first[0] : 0, wanted);
    size_t flipped = 0;
    for (size_t i = 0; i < shape->n_q; i++) {
        flipped += (size_t)check_kv_query(check, shape, i, got + i * ldo, wanted + i * ldo);
        float *single = attend_kv(check, check->kernels, shape, groups, &queries, i, 1);
        kcheck_same(check, single, got + i * ldo, ldo * sizeof *got,
                    "attention_kv dim=%zu queries=%zu: bits of query %zu depend on the others",
                    shape->dim, shape->n_q, i);
        kcheck_release(single, ldo * sizeof *got);
        kcheck_release(q[i], q_bytes);
    }
    check_flipped(check, "attention_kv", flipped, shape->n_q * shape->n_groups);
    kcheck_release(wanted, shape->n_q * ldo * sizeof *wanted);
    kcheck_release(got, shape->n_q * ldo * sizeof *got);
    for (size_t g = 0; g < shape->n_groups; g++) {
        kcheck_release(planes[g].upper, planes[g].upper_bytes);
        kcheck_release(planes[g].lower, planes[g].lower_bytes);
    }
}

static float some_cap(struct kcheck *check)
{
    static const float caps[] = {0.0f, 0.0f, 2.0f, 50.0f};
    return caps[kcheck_between(check, 0, 3)];
}

void kcheck_attention(struct kcheck *check)
{
    const size_t dims[] = {2, 7, 8, 16, 24, 40, 64, 80, 96, 128, 256, 576, 584};
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
            for (size_t i = 0; i < kcheck_shapes(check, 8, 5); i++) {
                struct shape shape = {.n_q = kcheck_between(check, 1, i < 4 ? 8 : USUAL_QUERIES),
                                      .dim = dims[d],
                                      .positions = i == 0   ? 1
                                                   : i == 1 ? 256
                                                            : kcheck_between(check, 1, 256),
                                      .bf16 = bf16,
                                      .has_first = (int)kcheck_between(check, 0, 1),
                                      .cap = some_cap(check)};
                check_shape(check, &shape);
            }
    for (int kind = 0; kind < 4; kind++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims && dims[d] <= RF_KV_MOST_DIM; d++)
            for (size_t i = 0; i < kcheck_shapes(check, 3, 2); i++) {
                /* A signal for each instruction: half of the shapes are enough. */
                if (check->emulated && !check->is_translated && (d + i) % 2) continue;
                size_t most = i == 0 ? 8 : dims[d] == 24 ? MAX_QUERIES : USUAL_QUERIES;
                struct kv_shape shape = {.n_q = i == 1 ? most : kcheck_between(check, 1, most),
                                         .dim = dims[d],
                                         .n_groups = kcheck_between(check, 1, RF_KV_SPAN),
                                         .has_lower = kind % 2,
                                         .is_hard = kind / 2,
                                         .has_first = (int)kcheck_between(check, 0, 1),
                                         .cap = some_cap(check)};
                check_kv_shape(check, &shape);
            }
}
