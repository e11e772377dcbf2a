/* Casts against slow definitions in double: every exponent, every code, grids found again. */
#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "quant/cast.h"
#include "support/check.h"

static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

static const struct rf_kernels *kernels;

static double next_uniform(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(state >> 11) + 0.5) / 0x1p53;
}

static float next_normal(void)
{
    return (float)(sqrt(-2 * log(next_uniform())) * cos(6.283185307179586 * next_uniform()));
}

static float next_laplace(void)
{
    double u = next_uniform() - 0.5;
    return (float)((u < 0 ? 1 : -1) * log(1 - 2 * fabs(u)));
}

static double squared_error(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sum;
}

/* The nearest of E2M1's magnitudes, ties to the even code. */
static int nearest_e2m1(double a)
{
    int best = 0;
    for (int c = 1; c < 8; c++) {
        double off = fabs(e2m1[c] - a), least = fabs(e2m1[best] - a);
        if (off < least || (off == least && c % 2 == 0)) best = c;
    }
    return best;
}

/* Casts 32 values with the scale 2^exponent. */
static double mxfp4_with(const float *x, int exponent, float *values)
{
    for (int i = 0; i < 32; i++) {
        float magnitude = e2m1[nearest_e2m1(ldexp(fabs((double)x[i]), -exponent))];
        values[i] = copysignf(ldexpf(magnitude, exponent), x[i]);
    }
    return squared_error(values, x, 32);
}

static void mxfp4_is_the_definition(const float *x)
{
    uint8_t block[17];
    float got[32], wanted[32], next[32];
    float largest = 0;
    for (int i = 0; i < 32; i++) largest = fmaxf(largest, fabsf(x[i]));
    int exponent = ilogbf(largest) - 2;

    rf_cast_values(kernels, RF_TARGET_MXFP4_FLOOR, RF_F32, x, RF_MXFP4, block, 32);
    rf_dequantize_f32(RF_MXFP4, block, got, 32);
    double error = mxfp4_with(x, exponent, wanted), other = mxfp4_with(x, exponent + 1, next);
    CHECK_INT(block[0], exponent + 127);
    CHECK(squared_error(got, wanted, 32) == 0);

    rf_cast_values(kernels, RF_TARGET_MXFP4, RF_F32, x, RF_MXFP4, block, 32);
    rf_dequantize_f32(RF_MXFP4, block, got, 32);
    if (fabs(error - other) > 1e-5 * error) {
        CHECK_INT(block[0], exponent + 127 + (other < error));
        CHECK(squared_error(got, other < error ? next : wanted, 32) == 0);
    }
}

static void check_mxfp4(void)
{
    float x[32];
    for (int turn = 0; turn < 2000; turn++) {
        float scale = ldexpf(1, turn % 200 - 100);
        for (int i = 0; i < 32; i++) x[i] = scale * (turn % 2 ? next_normal() : next_laplace());
        mxfp4_is_the_definition(x);
        for (int i = 0; i < 32; i++)
            x[i] = scale * (float)((int)(next_uniform() * 65) - 32); /* ties */
        x[turn % 32] = 32 * scale;
        mxfp4_is_the_definition(x);
    }
    /* Values that are too small for a scale, and NaN. */
    static const float nothing[] = {0, -0.0f, 0x1p-140f, NAN};
    uint8_t block[17];
    for (int n = 0; n < 4; n++) {
        float got[32], zero[32] = {0};
        for (int i = 0; i < 32; i++) x[i] = nothing[n];
        rf_cast_values(kernels, RF_TARGET_MXFP4, RF_F32, x, RF_MXFP4, block, 32);
        rf_dequantize_f32(RF_MXFP4, block, got, 32);
        CHECK(squared_error(got, zero, 32) == 0);
        x[5] = INFINITY;
        rf_cast_values(kernels, RF_TARGET_MXFP4, RF_F32, x, RF_MXFP4, block, 32);
        rf_dequantize_f32(RF_MXFP4, block, got, 32);
        CHECK(isfinite(got[5]) && got[5] > 1e38f && got[6] == 0);
    }
}

/* The least squared error of 32 values on any grid of 16 steps that a fine search finds: `spread`
 * of their range, from `start` on. Symmetric ones have code 8 at zero. */
static double best_grid_error(const float *x, int symmetric)
{
    double low = x[0], high = x[0], best = INFINITY;
    for (int i = 1; i < 32; i++) {
        low = fmin(low, x[i]);
        high = fmax(high, x[i]);
    }
    double extreme = -low > high ? low : high;
    for (int a = 0; a < 60; a++)
        for (int b = 0; b < (symmetric ? 1 : 40); b++) {
            double scale =
                       symmetric ? -extreme / (6.0 + 0.06 * a) : (high - low) / (10.0 + 0.12 * a),
                   sum = 0;
            double minimum = symmetric ? -8 * scale : low + (b - 10) * 0.1 * scale;
            for (int i = 0; i < 32; i++) {
                double q = fmin(15, fmax(0, nearbyint((x[i] - minimum) / scale)));
                sum += pow(x[i] - (minimum + scale * q), 2);
            }
            best = fmin(best, sum);
        }
    return best;
}

/* The least squared error of 16 values on any symmetric grid of 64 steps that a fine search finds.
 */
static double best_of_64_steps(const float *x)
{
    double extreme = 0, best = INFINITY;
    for (int i = 0; i < 16; i++)
        if (fabsf(x[i]) > fabs(extreme)) extreme = (double)x[i];
    for (int a = 0; a < 200; a++) {
        double scale = -extreme / (28 + 0.04 * a), sum = 0;
        for (int i = 0; i < 16; i++) {
            double q = fmin(31, fmax(-32, nearbyint((double)x[i] / scale)));
            sum += pow((double)x[i] - scale * q, 2);
        }
        best = fmin(best, sum);
    }
    return best;
}

/* The squared error of x in that type and back, over the sum of squares. */
static double relative_error(enum rf_cast_target target, enum rf_dtype dtype, const float *x,
                             size_t n)
{
    uint8_t *blocks = malloc(2 * n);
    float *values = malloc(n * sizeof *values);
    if (!blocks || !values) exit(1);
    rf_cast_values(kernels, target, RF_F32, x, dtype, blocks, n);
    rf_dequantize_f32(dtype, blocks, values, n);
    double error = squared_error(values, x, n), size = 0;
    for (size_t i = 0; i < n; i++) size += (double)x[i] * x[i];
    free(blocks);
    free(values);
    return error / size;
}

enum { N = 256 * 64 };

/* Close to what a fine search finds; and each type better than the one with fewer means. */
static void check_grids(const char *name, float (*next)(void))
{
    static float x[N];
    double size = 0, affine = 0, symmetric = 0, fine = 0;
    for (size_t i = 0; i < N; i++) {
        x[i] = 0.02f * next();
        size += (double)x[i] * x[i];
    }
    for (size_t i = 0; i < N; i += 32) {
        affine += best_grid_error(x + i, 0) / size;
        symmetric += best_grid_error(x + i, 1) / size;
    }
    for (size_t i = 0; i < N; i += 16) fine += best_of_64_steps(x + i) / size;
    double floor = relative_error(RF_TARGET_MXFP4_FLOOR, RF_MXFP4, x, N);
    double best = relative_error(RF_TARGET_MXFP4, RF_MXFP4, x, N);
    double q4_0 = relative_error(RF_TARGET_Q4_0, RF_Q4_0, x, N);
    double q4_1 = relative_error(RF_TARGET_Q4, RF_Q4_1, x, N);
    double q4_k = relative_error(RF_TARGET_Q4, RF_Q4_K, x, N);
    double q6_k = relative_error(RF_TARGET_Q6, RF_Q6_K, x, N);
    double q8_0 = relative_error(RF_TARGET_Q6, RF_Q8_0, x, N);
    printf("%s: mxfp4 floor %.4f, best %.4f, q4_0 %.4f (search %.4f), q4_1 %.4f (search %.4f), "
           "q4_k %.4f, q6_k %.4f (search %.4f), q8_0 %.4f\n",
           name, sqrt(floor), sqrt(best), sqrt(q4_0), sqrt(symmetric), sqrt(q4_1), sqrt(affine),
           sqrt(q4_k), sqrt(q6_k), sqrt(fine), sqrt(q8_0));
    CHECK(best < floor && q4_0 < best && q4_k < q4_0 && q4_1 < q4_k);
    CHECK_MSG(q4_0 < 1.05 * symmetric, "%s: q4_0 %.3e, search %.3e", name, q4_0, symmetric);
    CHECK_MSG(q4_1 < 1.08 * affine, "%s: q4_1 %.3e, search %.3e", name, q4_1, affine);
    CHECK_MSG(q6_k < 1.08 * fine, "%s: q6_k %.3e, search %.3e", name, q6_k, fine);
    CHECK(q6_k < q4_k / 14 && q8_0 < q6_k / 8);
}

/* Weights that were on a grid and were widened to BF16 are found again but for what F16 and BF16
 * round. */
static void check_widened(enum rf_dtype dtype, enum rf_cast_target target, int scale_at,
                          int minimum_at)
{
    enum { BLOCKS = 64 };
    static uint8_t blocks[BLOCKS * 144];
    static uint16_t wide[256 * BLOCKS];
    static float x[256 * BLOCKS];
    const struct rf_dtype_info *info = rf_dtype_info(dtype);
    size_t n = BLOCKS * info->block_elems;
    for (size_t i = 0; i < BLOCKS * info->block_bytes; i++)
        blocks[i] = (uint8_t)(256 * next_uniform());
    for (size_t i = 0; i < BLOCKS; i++) {
        uint16_t d = rf_f32_to_f16((float)(0.001 + 0.01 * next_uniform()));
        memcpy(blocks + i * info->block_bytes + scale_at, &d, sizeof d);
        d = rf_f32_to_f16(
            (float)((dtype == RF_Q4_K ? 7.5 : -7.5) * (0.001 + 0.01 * next_uniform())));
        memcpy(blocks + i * info->block_bytes + minimum_at, &d, sizeof d);
        /* Encoders leave 63 as the greatest scale and minimum. */
        if (dtype == RF_Q4_K)
            blocks[i * info->block_bytes + 4] = blocks[i * info->block_bytes + 8] = 63;
    }
    rf_dequantize_bf16(dtype, blocks, wide, n);
    for (size_t i = 0; i < n; i++) x[i] = rf_bf16_to_f32(wide[i]);
    double off = sqrt(relative_error(target, dtype, x, n));
    CHECK_MSG(off < 5e-3, "%s, widened to BF16 and cast, is off by %.2e", info->name, off);
}

/* The same for files that ggml wrote: each group has a code at the end of the range, one group the
 * scale -128. */
static void check_widened_q6_k(void)
{
    enum { BLOCKS = 64, BYTES = 210 };
    static uint8_t blocks[BLOCKS * BYTES];
    static uint16_t wide[256 * BLOCKS];
    static float x[256 * BLOCKS];
    for (size_t i = 0; i < sizeof blocks; i++) blocks[i] = (uint8_t)(256 * next_uniform());
    for (uint8_t *block = blocks; block < blocks + sizeof blocks; block += BYTES) {
        uint16_t d = rf_f32_to_f16((float)(0.001 + 0.01 * next_uniform()));
        memcpy(block + 208, &d, sizeof d);
        block[192 + (size_t)(16 * next_uniform())] = 128;
        /* Byte 0 of 16 has the first codes of two groups, byte 0 of 32 the upper bits of four. */
        for (size_t i = 0; i < 128; i += 16) block[i] = 0;
        for (size_t i = 128; i < 192; i += 16) block[i] = 0;
    }
    rf_dequantize_bf16(RF_Q6_K, blocks, wide, 256 * BLOCKS);
    for (size_t i = 0; i < 256 * BLOCKS; i++) x[i] = rf_bf16_to_f32(wide[i]);
    double off = sqrt(relative_error(RF_TARGET_Q6, RF_Q6_K, x, 256 * BLOCKS));
    CHECK_MSG(off < 5e-3, "Q6_K, widened to BF16 and cast, is off by %.2e", off);
}

/* ggml: d = max / 127; each value rounded half away from zero. */
static void check_q8_0(void)
{
    for (int turn = 0; turn < 500; turn++) {
        float x[32], largest = 0;
        uint8_t block[34];
        for (int i = 0; i < 32; i++) {
            x[i] = turn % 2 ? next_normal() : (float)((int)(next_uniform() * 255) - 127) * 0.5f;
            largest = fmaxf(largest, fabsf(x[i]));
        }
        rf_cast_values(kernels, RF_TARGET_Q8_0, RF_F32, x, RF_Q8_0, block, 32);
        uint16_t d = rf_f32_to_f16(largest / 127);
        CHECK(memcmp(block, &d, sizeof d) == 0);
        for (int i = 0; i < 32; i++)
            CHECK_INT((int8_t)block[2 + i], (int)roundf(x[i] * (1 / (largest / 127))));
    }
}

/* ---- W4A8_G128 ---- */

enum { GROUP = 128, ROW = 17 * 128, GROUP_BYTES = 67 };

/* The least squared error of 128 values on symmetric grids of 16 steps of either sign. */
static double best_group_error(const float *x)
{
    double most = 0, best = INFINITY;
    for (int i = 0; i < GROUP; i++) most = fmax(most, fabs((double)x[i]));
    for (int a = -300; a <= 300; a++) {
        double scale = (a < 0 ? -1 : 1) * most / (6 + 0.02 * abs(a)), sum = 0;
        for (int i = 0; i < GROUP; i++)
            sum += pow(x[i] - scale * fmin(7, fmax(-8, nearbyint(x[i] / scale))), 2);
        best = fmin(best, sum);
    }
    return best;
}

/* A row has one number, groups have integers that loading takes, and codes are the nearest. */
static void row_is_valid(const float *x, const uint8_t *blocks)
{
    for (size_t g = 0; g < ROW / GROUP; g++) {
        const uint8_t *block = blocks + g * GROUP_BYTES;
        int a = (int8_t)block[2];
        float values[GROUP];
        uint16_t half;
        memcpy(&half, block, sizeof half);
        CHECK(memcmp(block, blocks, sizeof half) == 0 && a != 0 && abs(a) <= 15);
        rf_dequantize_f32(RF_W4A8_G128, block, values, GROUP);
        double scale = (double)rf_f16_to_f32(half) / 16 * a;
        for (size_t i = 0; i < GROUP && scale != 0; i++) {
            double code = fmin(7, fmax(-8, x[g * GROUP + i] / scale));
            CHECK(fabs(values[i] / scale - code) < 0.5 + 1e-4);
        }
    }
}

static void check_rows(const char *name, float (*next)(void))
{
    enum { ROWS = 24 };
    static float x[ROWS * ROW], values[ROWS * ROW], again[ROWS * ROW];
    static uint8_t blocks[ROWS * ROW / GROUP * GROUP_BYTES];
    double error = 0, best = 0;
    for (size_t i = 0; i < ROWS * ROW; i++)
        x[i] = (i / GROUP % 7 ? 0.02f : 0.005f) * (1 + 0.1f * (float)(i / GROUP % 5)) * next();
    rf_cast_rows(kernels, RF_TARGET_W4A8_G128, RF_F32, x, RF_W4A8_G128, blocks, ROWS, ROW);
    rf_dequantize_f32(RF_W4A8_G128, blocks, values, ROWS * ROW);
    for (size_t r = 0; r < ROWS; r++)
        row_is_valid(x + r * ROW, blocks + r * ROW / GROUP * GROUP_BYTES);
    for (size_t i = 0; i < ROWS * ROW; i += GROUP) {
        error += squared_error(values + i, x + i, GROUP);
        best += best_group_error(x + i);
    }
    printf("%s: w4a8_g128 %.3e, any scales %.3e\n", name, error, best);
    CHECK_MSG(error < 1.06 * best, "%s: w4a8_g128 %.3e, any scales %.3e", name, error, best);
    /* Values on such a grid are found again. */
    rf_cast_rows(kernels, RF_TARGET_W4A8_G128, RF_F32, values, RF_W4A8_G128, blocks, ROWS, ROW);
    rf_dequantize_f32(RF_W4A8_G128, blocks, again, ROWS * ROW);
    double off = squared_error(again, values, ROWS * ROW);
    CHECK_MSG(off < 0.01 * error, "%s: cast twice, off by %.3e", name, off);
}

/* Rows of zeros, of numbers too small or large for F16, and with what is no number. */
static void check_hard_rows(void)
{
    static const float hard[] = {0, 1e-12f, 1e30f, INFINITY, NAN};
    static float x[ROW], values[ROW];
    static uint8_t blocks[ROW / GROUP * GROUP_BYTES];
    for (size_t h = 0; h < sizeof hard / sizeof *hard; h++) {
        for (size_t i = 0; i < ROW; i++) x[i] = i % 2 ? hard[h] : -hard[h];
        x[5] = 1e-9f;
        rf_cast_rows(kernels, RF_TARGET_W4A8_G128, RF_F32, x, RF_W4A8_G128, blocks, 1, ROW);
        rf_dequantize_f32(RF_W4A8_G128, blocks, values, ROW);
        for (size_t i = 0; i < ROW; i++) CHECK(isfinite(values[i]));
        for (size_t i = 0; i < ROW; i += GROUP_BYTES)
            CHECK(memcmp(blocks, blocks + i / GROUP * GROUP_BYTES, 2) == 0);
    }
    CHECK(values[6] == 0);
}

static void check_types(void)
{
    static const struct {
        enum rf_cast_target target;
        enum rf_dtype from;
        int k;
        enum rf_dtype to;
    } cases[] = {
        {RF_TARGET_MXFP4, RF_BF16, 96, RF_MXFP4},
        {RF_TARGET_MXFP4, RF_F32, 72, RF_F32},
        {RF_TARGET_MXFP4, RF_Q4_K, 256, RF_Q4_K},
        {RF_TARGET_MXFP4, RF_Q4_0, 32, RF_Q4_0},
        {RF_TARGET_MXFP4, RF_Q4_1, 32, RF_MXFP4},
        {RF_TARGET_MXFP4, RF_MXFP4, 32, RF_MXFP4},
        {RF_TARGET_MXFP4, RF_Q6_K, 256, RF_MXFP4},
        {RF_TARGET_MXFP4_FLOOR, RF_F16, 64, RF_MXFP4},
        {RF_TARGET_Q4, RF_F16, 512, RF_Q4_K},
        {RF_TARGET_Q4, RF_F16, 544, RF_Q4_1},
        {RF_TARGET_Q4, RF_Q4_1, 544, RF_Q4_1},
        {RF_TARGET_Q4, RF_Q5_0, 544, RF_Q4_1},
        {RF_TARGET_Q4, RF_Q8_0, 100 * 256, RF_Q4_K},
        {RF_TARGET_Q8_0, RF_Q6_K, 256, RF_Q6_K},
        {RF_TARGET_Q8_0, RF_BF16, 32, RF_Q8_0},
        {RF_TARGET_Q4_0, RF_Q8_0, 32, RF_Q4_0},
        {RF_TARGET_Q6, RF_BF16, 512, RF_Q6_K},
        {RF_TARGET_Q6, RF_BF16, 576, RF_Q8_0},
        {RF_TARGET_Q6, RF_Q8_0, 512, RF_Q6_K},
        {RF_TARGET_Q6, RF_Q8_0, 576, RF_Q8_0},
        {RF_TARGET_Q6, RF_Q6_K, 512, RF_Q6_K},
        {RF_TARGET_Q6, RF_Q5_0, 512, RF_Q5_0},
        {RF_TARGET_W4A8_G128, RF_BF16, 384, RF_W4A8_G128},
        {RF_TARGET_W4A8_G128, RF_Q8_0, 131072, RF_W4A8_G128},
        {RF_TARGET_W4A8_G128, RF_F32, 131072 + 128, RF_Q4_0},
        {RF_TARGET_W4A8_G128, RF_F16, 192, RF_Q4_0},
        {RF_TARGET_W4A8_G128, RF_Q4_K, 256, RF_Q4_K},
        {RF_TARGET_BF16, RF_F16, 7, RF_BF16},
        {RF_TARGET_BF16, RF_Q4_K, 256, RF_BF16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_MSG(rf_cast_type(cases[i].target, cases[i].from, cases[i].k) == cases[i].to,
                  "case %zu", i);
}

/* Other types are cast as the floats that they stand for, in stretches that are not visible. */
static void check_sources(void)
{
    enum { LONG = 1024 * 2 + 256 };
    static float x[LONG];
    static uint8_t wide[LONG * 34 / 32 + 1], a[LONG], b[LONG];
    for (size_t i = 0; i < LONG; i++) x[i] = next_normal();
    rf_cast_values(kernels, RF_TARGET_Q8_0, RF_F32, x, RF_Q8_0, wide + 1, LONG);
    rf_dequantize_f32(RF_Q8_0, wide + 1, x, LONG);
    static const enum rf_dtype to[] = {RF_MXFP4, RF_Q4_K, RF_Q4_1, RF_Q6_K};
    static const enum rf_cast_target targets[] = {RF_TARGET_MXFP4, RF_TARGET_Q4, RF_TARGET_Q4,
                                                  RF_TARGET_Q6};
    for (size_t t = 0; t < sizeof to / sizeof *to; t++) {
        enum rf_cast_target target = targets[t];
        rf_cast_values(kernels, target, RF_Q8_0, wide + 1, to[t], a, LONG);
        rf_cast_values(kernels, target, RF_F32, x, to[t], b, LONG);
        const struct rf_dtype_info *info = rf_dtype_info(to[t]);
        CHECK(memcmp(a, b, LONG / info->block_elems * info->block_bytes) == 0);
    }
    rf_cast_values(kernels, RF_TARGET_BF16, RF_Q8_0, wide + 1, RF_Q8_0, a, 64);
    CHECK(memcmp(a, wide + 1, 2 * 34) == 0);
}

int main(void)
{
    kernels = rf_kernels(rf_kernels_best_tier());
    check_types();
    check_mxfp4();
    check_q8_0();
    check_grids("normal", next_normal);
    check_grids("laplace", next_laplace);
    check_widened(RF_Q4_K, RF_TARGET_Q4, 0, 2);
    check_widened(RF_Q4_1, RF_TARGET_Q4, 0, 2);
    check_widened_q6_k();
    check_rows("normal", next_normal);
    check_rows("laplace", next_laplace);
    check_hard_rows();
    check_sources();
    return check_result();
}
