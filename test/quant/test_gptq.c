/* Rounding with compensation, against plain loops in double and against rounding one by one. */
#include "quant/descent.h"

#include <math.h>
#include <stdlib.h>

#include "platform/memory.h"
#include "quant/cast.h"
#include "support/check.h"

enum { SKIPPED = 77, ROWS = 300, M = 24, MOST_K = 512 };

static struct rf_gptq gptq;
static float x[ROWS][MOST_K]; /* inputs; the first [ROWS][k] floats are used */
static float weights[M * MOST_K];
static float damping[MOST_K];

static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) / (double)(1 << 24) - 0.5;
}

/* Inputs that a few directions explain for the most part, as a model's are. */
static void make(size_t k, uint64_t seed)
{
    enum { DIRECTIONS = 20 };
    static double direction[DIRECTIONS][MOST_K];
    uint64_t state = seed;
    for (size_t d = 0; d < DIRECTIONS; d++)
        for (size_t j = 0; j < k; j++) direction[d][j] = uniform(&state);
    float *at = &x[0][0];
    for (size_t i = 0; i < ROWS; i++, at += k) {
        for (size_t j = 0; j < k; j++) at[j] = (float)(0.3 * uniform(&state));
        for (size_t d = 0; d < DIRECTIONS; d++) {
            double share = uniform(&state);
            for (size_t j = 0; j < k; j++) at[j] += (float)(share * direction[d][j]);
        }
    }
    for (size_t i = 0; i < M * k; i++) weights[i] = (float)(0.1 * uniform(&state));
}

/* The squared error of the layer's outputs on x. */
static double output_error(const float *a, const float *b, size_t k)
{
    double sum = 0;
    for (size_t i = 0; i < ROWS; i++)
        for (size_t r = 0; r < M; r++) {
            double dot = 0;
            for (size_t j = 0; j < k; j++)
                dot +=
                    (double)(&x[0][0])[i * k + j] * ((double)a[r * k + j] - (double)b[r * k + j]);
            sum += dot * dot;
        }
    return sum;
}

static float *squares(size_t k)
{
    float *h = calloc((k + 1) * k, sizeof *h);
    rf_blas_add_squares(gptq.blas, h, k, &x[0][0], ROWS / 2);
    rf_blas_add_squares(gptq.blas, h, k, &x[0][0] + ROWS / 2 * k, ROWS - ROWS / 2);
    /* A hundredth of the mean, and every third column's own value as often as its number says. */
    for (size_t i = 0; i < k; i++) {
        damping[i] = i % 3 ? 0.0f : 0.001f * (float)i * h[i * k + i];
        for (size_t j = 0; j < k; j++) damping[i] += 0.01f / (float)k * h[j * k + j];
    }
    return h;
}

/* Scales for n values that count alike, block by block. */
static void choose(const struct rf_grid_layout *layout, const float *w, size_t n, uint8_t *blocks)
{
    static float ones[RF_SUPERBLOCK];
    const struct rf_dtype_info *info = rf_dtype_info(layout->dtype);
    for (size_t i = 0; i < RF_SUPERBLOCK; i++) ones[i] = 1;
    for (size_t i = 0; i < n; i += info->block_elems, blocks += info->block_bytes) {
        rf_grid_begin_row(layout, w + i, ones, info->block_elems, blocks);
        rf_grid_choose(layout, w + i, ones, info->block_elems, blocks);
    }
}

static uint8_t round_value(const struct rf_grid_layout *layout, const struct rf_grid *grid, float w,
                           float *value)
{
    struct rf_grid_lanes grids = {{0}, {0}, {0}};
    float lanes[RF_GRID_LANES] = {0}, values[RF_GRID_LANES];
    uint8_t codes[RF_GRID_LANES];
    const size_t lane = RF_GRID_LANES - 1;
    grids.scale[lane] = grid->scale;
    grids.inverse[lane] = grid->inverse;
    grids.base[lane] = grid->base;
    lanes[lane] = w;
    rf_grid_round(layout, &grids, lanes, values, codes);
    *value = values[lane];
    return codes[lane];
}

/* Each value by itself. */
static void round_alone(const struct rf_grid_layout *layout, size_t n, uint8_t *blocks)
{
    const struct rf_dtype_info *info = rf_dtype_info(layout->dtype);
    choose(layout, weights, n, blocks);
    for (size_t i = 0; i < n; i += info->block_elems, blocks += info->block_bytes) {
        struct rf_grid grids[RF_SUPERBLOCK / RF_GRID_GROUP];
        uint8_t codes[RF_SUPERBLOCK];
        float value;
        rf_grid_read(layout, blocks, grids);
        for (size_t j = 0; j < info->block_elems; j++)
            codes[j] = round_value(layout, &grids[j / RF_GRID_GROUP], weights[i + j], &value);
        rf_grid_put(layout, blocks, codes);
    }
}

/* M (H + damping) M^T is the identity for the factor M. */
static void the_factor_is_that_of_the_inverse(size_t k)
{
    make(k, 3);
    float *h = squares(k);
    double *full = malloc(k * k * sizeof *full), *part = malloc(k * k * sizeof *part);
    double mean = 0, worst = 0, worst_sum = 0;
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++) {
            double sum = 0;
            for (size_t r = 0; r < ROWS; r++)
                sum += (double)(&x[0][0])[r * k + i] * (double)(&x[0][0])[r * k + j];
            full[i * k + j] = sum;
            if (i == j) mean += sum / (double)k;
            if (j <= i) worst_sum = fmax(worst_sum, fabs(sum - (double)h[i * k + j]));
        }
    CHECK_MSG(worst_sum < 1e-4 * mean, "X^T X is off by %g", worst_sum);
    for (size_t i = 0; i < k; i++) full[i * k + i] += (double)damping[i];
    struct rf_error error;
    CHECK_INT(rf_gptq_factor(&gptq, h, k, damping, &error), 0);
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++) {
            double sum = 0;
            for (size_t l = 0; l <= i; l++) sum += (double)h[i * k + l] * full[l * k + j];
            part[i * k + j] = sum;
        }
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++) {
            double sum = 0;
            for (size_t l = 0; l <= j; l++) sum += part[i * k + l] * (double)h[j * k + l];
            worst = fmax(worst, fabs(sum - (i == j)));
        }
    /* F32 with a condition number of about 1e4. */
    CHECK_MSG(worst < 5e-3, "M H M^T is off the identity by %g", worst);
    free(h);
    free(full);
    free(part);
}

/* Leaves the inverse of H over the columns before j. */
static void eliminate(double *inverse, size_t k, size_t j)
{
    const double *row = inverse + j * k;
    for (size_t i = 0; i < j; i++)
        for (size_t c = 0; c < j; c++) inverse[i * k + c] -= inverse[i * k + j] * row[c] / row[j];
}

/* GPTQ as its paper has it, in double: the inverse of H over the columns that are left is updated
 * by elimination, and nothing is put off. `grids`: of each group, as the function under test chose
 * them. */
static void plain(const float *inverse_of, size_t k, enum rf_dtype dtype, float *rounded)
{
    const struct rf_grid_layout *layout = rf_grid_layout(dtype);
    const struct rf_dtype_info *info = rf_dtype_info(dtype);
    double *inverse = malloc(k * k * sizeof *inverse), *w = malloc(k * sizeof *w);
    float *importance = malloc(k * sizeof *importance);
    for (size_t i = 0; i < k * k; i++) inverse[i] = (double)inverse_of[i];
    for (size_t j = k; j-- > 0;) {
        importance[j] = (float)(1 / inverse[j * k + j]);
        eliminate(inverse, k, j);
    }
    for (size_t r = 0; r < M; r++) {
        for (size_t i = 0; i < k * k; i++) inverse[i] = (double)inverse_of[i];
        for (size_t j = 0; j < k; j++) w[j] = (double)weights[r * k + j];
        for (size_t at = k; at > 0; at -= info->block_elems) {
            struct rf_grid grids[RF_SUPERBLOCK / RF_GRID_GROUP];
            uint8_t block[RF_SUPERBLOCK];
            float now[RF_SUPERBLOCK];
            size_t first = at - info->block_elems;
            for (size_t j = first; j < at; j++) now[j - first] = (float)w[j];
            rf_grid_choose(layout, now, importance + first, info->block_elems, block);
            rf_grid_read(layout, block, grids);
            for (size_t j = at; j-- > first;) {
                double *row = inverse + j * k, pivot = row[j];
                round_value(layout, &grids[(j - first) / RF_GRID_GROUP], (float)w[j],
                            &rounded[r * k + j]);
                double error = (w[j] - (double)rounded[r * k + j]) / pivot;
                for (size_t c = 0; c < j; c++) w[c] -= error * row[c];
                eliminate(inverse, k, j);
            }
        }
    }
    free(inverse);
    free(importance);
    free(w);
}

static void invert(const double *h, float *inverse, size_t k)
{
    double *a = malloc(k * k * sizeof *a), *b = calloc(k * k, sizeof *b);
    memcpy(a, h, k * k * sizeof *a);
    for (size_t i = 0; i < k; i++) b[i * k + i] = 1;
    for (size_t p = 0; p < k; p++) {
        double pivot = a[p * k + p];
        for (size_t j = 0; j < k; j++) {
            a[p * k + j] /= pivot;
            b[p * k + j] /= pivot;
        }
        for (size_t i = 0; i < k; i++) {
            double share = a[i * k + p];
            if (i == p) continue;
            for (size_t j = 0; j < k; j++) {
                a[i * k + j] -= share * a[p * k + j];
                b[i * k + j] -= share * b[p * k + j];
            }
        }
    }
    for (size_t i = 0; i < k * k; i++) inverse[i] = (float)b[i];
    free(a);
    free(b);
}

/* W4A8: k of 448 has half a group. W4A8_ROW: 0, a row. */
static size_t group_of(enum rf_dtype dtype)
{
    if (dtype == RF_W4A8_ROW) return 0;
    return dtype == RF_W4A8 ? 128 : rf_dtype_info(dtype)->block_elems;
}

static int is_like_w4a8(enum rf_dtype dtype)
{
    return dtype == RF_W4A8 || rf_is_row_dtype(dtype);
}

/* `errors`: [M][k], what rounding leaves of the weights. */
static float *rounded_by(const float *factor, size_t k, enum rf_dtype dtype, void *blocks,
                         float *errors)
{
    float *values = malloc(M * k * sizeof *values);
    struct rf_error error;
    memcpy(errors, weights, M * k * sizeof *errors);
    CHECK_INT(rf_gptq_round(&gptq, factor, errors, M, k, dtype, group_of(dtype), blocks, &error),
              0);
    rf_dequantize_f32(dtype, blocks, values, M * k);
    return values;
}

/* errors L^-1 are the errors of the weights. */
static void errors_are_those_made_up_for(const float *factor, const float *errors,
                                         const float *values, size_t k)
{
    double worst = 0;
    for (size_t r = 0; r < M; r++)
        for (size_t j = 0; j < k; j++) {
            double sum = 0;
            for (size_t i = j; i < k; i++)
                sum += (double)errors[r * k + i] * (double)factor[i * k + j];
            worst = fmax(worst, fabs(sum - (double)weights[r * k + j] + (double)values[r * k + j]));
        }
    CHECK_MSG(worst < 1e-4, "k %zu: errors are off by %g", k, worst);
}

/* `before`: the error of the blocks. Each number of sweeps starts from them: more sweeps lose
 * nothing, as they would if a sweep left the next a wrong gradient. */
static void descent_lowers_the_error(float *h, size_t k, enum rf_dtype dtype, const uint8_t *blocks,
                                     const float *errors, double before)
{
    size_t bytes = rf_dtype_bytes(dtype, M * k);
    float *w = malloc(M * k * sizeof *w), *values = malloc(M * k * sizeof *values);
    uint8_t *lower = malloc(bytes);
    double after[3];
    for (int i = 0; i < 3; i++) {
        struct rf_error error;
        memcpy(w, errors, M * k * sizeof *w);
        memcpy(lower, blocks, bytes);
        CHECK_INT(
            rf_gptq_descend(&gptq, h, w, M, k, dtype, group_of(dtype), 1 << 2 * i, lower, &error),
            0);
        rf_dequantize_f32(dtype, lower, values, M * k);
        after[i] = output_error(weights, values, k);
    }
    CHECK_MSG(after[0] < 0.9 * before && after[1] < 1.0001 * after[0] &&
                  after[2] < 1.0001 * after[1],
              "%s, k %zu: error %g, by descent %g, %g, %g", rf_dtype_info(dtype)->name, k, before,
              after[0], after[1], after[2]);
    free(w);
    free(values);
    free(lower);
}

static void outputs_change_less(enum rf_dtype dtype, size_t k)
{
    make(k, 5 + k);
    const struct rf_grid_layout *layout = rf_grid_layout(dtype);
    size_t bytes = rf_dtype_bytes(dtype, M * k);
    uint8_t *blocks = malloc(bytes);
    float *values = malloc(M * k * sizeof *values), *h = squares(k);
    struct rf_error error;
    round_alone(layout, M * k, blocks);
    rf_dequantize_f32(dtype, blocks, values, M * k);
    double alone = output_error(weights, values, k);
    CHECK_INT(rf_gptq_factor(&gptq, h, k, damping, &error), 0);
    float *errors = malloc(M * k * sizeof *errors);
    float *compensated = rounded_by(h, k, dtype, blocks, errors);
    errors_are_those_made_up_for(h, errors, compensated, k);
    double with = output_error(weights, compensated, k);
    CHECK_MSG(with < 0.6 * alone, "%s, k %zu: error %g with compensation, %g without",
              rf_dtype_info(dtype)->name, k, with, alone);
    descent_lowers_the_error(h, k, dtype, blocks, errors, with);
    free(blocks);
    free(errors);
    free(values);
    free(compensated);
    free(h);
}

static void as_plain_loops(enum rf_dtype dtype, size_t k)
{
    make(k, 11);
    double *full = calloc(k * k, sizeof *full);
    float *inverse = malloc(k * k * sizeof *inverse), *wanted = malloc(M * k * sizeof *wanted);
    float *h = squares(k);
    for (size_t i = 0; i < k; i++) {
        for (size_t j = 0; j < k; j++)
            for (size_t r = 0; r < ROWS; r++)
                full[i * k + j] += (double)(&x[0][0])[r * k + i] * (double)(&x[0][0])[r * k + j];
        full[i * k + i] += (double)damping[i];
    }
    invert(full, inverse, k);
    plain(inverse, k, dtype, wanted);
    uint8_t *blocks = malloc(rf_dtype_bytes(dtype, M * k));
    struct rf_error error;
    CHECK_INT(rf_gptq_factor(&gptq, h, k, damping, &error), 0);
    float *errors = malloc(M * k * sizeof *errors), *got = rounded_by(h, k, dtype, blocks, errors);
    size_t same = 0;
    for (size_t i = 0; i < M * k; i++) same += fabsf(got[i] - wanted[i]) < 1e-6f;
    /* A value near the middle of two codes may fall to either side, and those after it with it. */
    CHECK_MSG(same > M * k * 9 / 10, "%s: %zu of %zu values are those of plain loops",
              rf_dtype_info(dtype)->name, same, M * k);
    double a = output_error(weights, got, k), b = output_error(weights, wanted, k);
    CHECK_MSG(fabs(a - b) < 0.1 * b, "%s: error %g, %g by plain loops", rf_dtype_info(dtype)->name,
              a, b);
    free(full);
    free(inverse);
    free(wanted);
    free(blocks);
    free(errors);
    free(got);
    free(h);
}

/* The block holds the value that rf_grid_round says a code stands for. */
static void blocks_hold_the_rounded_values(enum rf_dtype dtype)
{
    const struct rf_grid_layout *layout = rf_grid_layout(dtype);
    size_t n = rf_dtype_info(dtype)->block_elems;
    struct rf_grid grids[RF_SUPERBLOCK / RF_GRID_GROUP];
    uint8_t block[RF_SUPERBLOCK], codes[RF_SUPERBLOCK];
    float value[RF_SUPERBLOCK], read[RF_SUPERBLOCK];
    make(RF_SUPERBLOCK, 17);
    choose(layout, weights, n, block);
    rf_grid_read(layout, block, grids);
    for (size_t i = 0; i < n; i++)
        codes[i] =
            round_value(layout, &grids[i / RF_GRID_GROUP], 2 * (&x[0][0])[i] * 0.1f, &value[i]);
    rf_grid_put(layout, block, codes);
    rf_dequantize_f32(dtype, block, read, n);
    for (size_t i = 0; i < n; i++) {
        float most = fabsf(grids[i / RF_GRID_GROUP].base) +
                     (float)layout->last * fabsf(grids[i / RF_GRID_GROUP].scale);
        CHECK_MSG(fabsf(read[i] - value[i]) <= 1e-6f * most, "%s: value %zu is %g, not %g",
                  rf_dtype_info(dtype)->name, i, (double)read[i], (double)value[i]);
    }
}

/* The weighted squared error of the values of M rows of k, each rounded with its block's scales. */
static double weighted_error(enum rf_dtype dtype, size_t k, const float *chosen_for,
                             const float *importance)
{
    const struct rf_grid_layout *layout = rf_grid_layout(dtype);
    const struct rf_dtype_info *info = rf_dtype_info(dtype);
    uint8_t *blocks = malloc(rf_dtype_bytes(dtype, k));
    double sum = 0;
    for (size_t r = 0; r < M; r++) {
        const float *w = weights + r * k;
        size_t group = group_of(dtype) ? group_of(dtype) : k;
        rf_grid_begin_row(layout, w, chosen_for, k, blocks);
        for (size_t i = 0; i < k; i += group)
            rf_grid_choose(layout, w + i, chosen_for + i, group,
                           blocks + i / info->block_elems * info->block_bytes);
        for (size_t i = 0; i < k; i++) {
            struct rf_grid grids[RF_SUPERBLOCK / RF_GRID_GROUP];
            float value;
            rf_grid_read(layout, blocks + i / info->block_elems * info->block_bytes, grids);
            round_value(layout, &grids[i % info->block_elems / RF_GRID_GROUP], w[i], &value);
            sum += (double)importance[i] * pow((double)value - (double)w[i], 2);
        }
    }
    free(blocks);
    return sum;
}

/* Scales suit the weights that count, and all of them where they count alike. */
static void scales_follow_importance(enum rf_dtype dtype)
{
    enum { K = 512 };
    static const enum rf_cast_target targets[RF_DTYPE_LIMIT] = {
        [RF_MXFP4] = RF_TARGET_MXFP4,    [RF_Q4_0] = RF_TARGET_Q4_0,    [RF_Q4_1] = RF_TARGET_Q4,
        [RF_Q4_K] = RF_TARGET_Q4,        [RF_Q6_K] = RF_TARGET_Q6,      [RF_W4A8] = RF_TARGET_Q4_0,
        [RF_W4A8_G128] = RF_TARGET_Q4_0, [RF_W4A8_ROW] = RF_TARGET_Q4_0};
    enum rf_dtype cast = is_like_w4a8(dtype) ? RF_Q4_0 : dtype;
    float ones[K], importance[K], *values = malloc(M * K * sizeof *values);
    uint8_t *blocks = malloc(rf_dtype_bytes(cast, M * K));
    make(K, 23);
    for (size_t i = 0; i < M * K; i++) weights[i] *= 1 + (float)(i / K) / M;
    for (size_t i = 0; i < K; i++) {
        ones[i] = 1;
        importance[i] = i % 5 ? 0.01f : 4;
    }
    double fitted = weighted_error(dtype, K, importance, importance),
           alike = weighted_error(dtype, K, ones, importance),
           even = weighted_error(dtype, K, ones, ones), plain_cast = 0;
    /* MXFP4's scales are powers of two: few change. A scale for a row suits all weights. */
    CHECK_MSG(fitted < (dtype == RF_MXFP4 || dtype == RF_W4A8_ROW ? 1 : 0.95) * alike,
              "%s: weighted error %g, of scales for equal weights %g", rf_dtype_info(dtype)->name,
              fitted, alike);
    rf_cast_values(rf_kernels(rf_kernels_best_tier()), targets[dtype], RF_F32, weights, cast,
                   blocks, M * K);
    rf_dequantize_f32(cast, blocks, values, M * K);
    for (size_t i = 0; i < M * K; i++) plain_cast += pow((double)values[i] - (double)weights[i], 2);
    /* The scale of W4A8 is for four of Q4_0's blocks; a cast to Q6_K has scales for 16 values. */
    CHECK_MSG(even < (dtype == RF_W4A8_ROW                      ? 2.0
                      : is_like_w4a8(dtype) || dtype == RF_Q6_K ? 1.4
                                                                : 1.03) *
                         plain_cast,
              "%s: error %g, of a cast %g", rf_dtype_info(dtype)->name, even, plain_cast);
    free(values);
    free(blocks);
}

static void useless_inputs(void)
{
    enum { K = 64 };
    float *h = calloc((K + 1) * K, sizeof *h);
    struct rf_error error;
    for (size_t i = 0; i < K; i++) damping[i] = 0.01f;
    CHECK_INT(rf_gptq_factor(&gptq, h, K, damping, &error), 0); /* nothing ever came in */
    for (size_t i = 0; i < K; i++) CHECK(isfinite(h[i * K + i]) && h[i * K + i] > 0);
    /* Not positive definite without more damping than usual: 1 on the diagonal, 1.05 beside it. */
    for (size_t i = 0; i < K; i++)
        for (size_t j = 0; j < K; j++) h[i * K + j] = i == j ? 1.0f : i / 2 == j / 2 ? 1.05f : 0.0f;
    CHECK_INT(rf_gptq_factor(&gptq, h, K, damping, &error), 0);
    for (size_t i = 0; i < K; i += 2) {
        float l00 = sqrtf(1.1f), l10 = 1.05f / l00, l11 = sqrtf(1.1f - l10 * l10);
        CHECK(fabsf(h[i * K + i] - 1 / l00) < 1e-5f);
        CHECK(fabsf(h[(i + 1) * K + i] + l10 / (l00 * l11)) < 1e-4f);
        CHECK(fabsf(h[(i + 1) * K + i + 1] - 1 / l11) < 1e-4f);
    }
    for (size_t i = 0; i < K * K; i++) h[i] = NAN;
    CHECK_INT(rf_gptq_factor(&gptq, h, K, damping, &error), RF_ERR_UNSUPPORTED);
    free(h);
}

int main(void)
{
    static const enum rf_dtype types[] = {RF_MXFP4, RF_Q4_0, RF_Q4_1,      RF_W4A8,
                                          RF_Q4_K,  RF_Q6_K, RF_W4A8_G128, RF_W4A8_ROW};
    static struct rf_blas blas;
    struct rf_error error;
    if (rf_blas_load(&blas, 2, &error)) {
        fprintf(stderr, "skipped: %s\n", error.text);
        return SKIPPED;
    }
    struct rf_team *team;
    if (rf_team_of(&team, NULL, 2, &rf_system_allocator, &error)) return 1;
    gptq = (struct rf_gptq){&blas, team, &rf_system_allocator};
    the_factor_is_that_of_the_inverse(96);
    useless_inputs();
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        blocks_hold_the_rounded_values(types[i]);
        scales_follow_importance(types[i]);
        outputs_change_less(types[i], 256);
        outputs_change_less(types[i], 512);
        if (rf_dtype_info(types[i])->block_elems < RF_SUPERBLOCK) {
            outputs_change_less(types[i], types[i] == RF_W4A8_G128 ? 384 : 448);
            if (!is_like_w4a8(types[i])) as_plain_loops(types[i], 64);
        }
    }
    rf_team_free(team);
    return check_result();
}
