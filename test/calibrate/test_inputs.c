/* Inputs of calibrating: H and its damping by their definition in plain loops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/inputs.h"
#include "platform/memory.h"
#include "support/check.h"

enum { K = 12, ROWS = 700 /* more than are squared at a time */ };

static float rows[ROWS][K];

/* The lower triangle of a row-major c += a^T a. */
static void plain_ssyrk(int order, int uplo, int trans, int n, int k, float alpha, const float *a,
                        int lda, float beta, float *c, int ldc)
{
    (void)order, (void)uplo, (void)trans, (void)alpha, (void)beta;
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            for (int r = 0; r < k; r++) c[i * ldc + j] += a[r * lda + i] * a[r * lda + j];
}

static const struct rf_blas blas = {.ssyrk = plain_ssyrk};

static void gather(struct inputs *inputs, const float *factors)
{
    rf_inputs_clear(inputs);
    for (size_t i = 0; i < ROWS; i++) rf_inputs_add(inputs, &blas, rows[i], factors);
    rf_inputs_finish(inputs, &blas);
}

static int near(double a, double b)
{
    return fabs(a - b) <= 1e-4 * fabs(b) + 1e-3;
}

static void hessian_is_the_sum(const struct inputs *inputs)
{
    for (size_t i = 0; i < K; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t r = 0; r < ROWS; r++) sum += (double)rows[r][i] * (double)rows[r][j];
            CHECK(near((double)inputs->hessian[i * K + j], sum));
        }
}

/* If all rows have one energy, damping is k / n of the diagonal and a hundredth of its mean. */
static void damps_the_diagonal(struct inputs *inputs)
{
    double diagonal[K] = {0}, mean = 0;
    for (size_t r = 0; r < ROWS; r++) {
        double energy = 0;
        for (size_t i = 0; i < K; i++) energy += (double)rows[r][i] * (double)rows[r][i];
        for (size_t i = 0; i < K; i++) rows[r][i] /= (float)sqrt(energy);
        for (size_t i = 0; i < K; i++) diagonal[i] += (double)rows[r][i] * (double)rows[r][i];
    }
    for (size_t i = 0; i < K; i++) mean += diagonal[i] / K;
    gather(inputs, NULL);
    for (size_t i = 0; i < K; i++)
        CHECK(near((double)inputs->damping[i], diagonal[i] * K / ROWS + 0.01 * mean));
}

/* A row a thousand times as large adds nothing but its share of the typical energy. */
static void massive_rows_count_as_others(struct inputs *inputs)
{
    float before[K];
    memcpy(before, inputs->damping, sizeof before);
    for (size_t i = 0; i < K; i++) rows[5][i] *= 1000;
    gather(inputs, NULL);
    for (size_t i = 0; i < K; i++)
        CHECK(near((double)inputs->damping[i], (double)before[i] * pow(1e6, 1.0 / ROWS)));
    for (size_t i = 0; i < K; i++) rows[5][i] /= 1000;
}

static void factors_are_of_columns(struct inputs *inputs)
{
    float factors[K], scaled[K], wanted[K * K];
    for (size_t i = 0; i < K; i++) factors[i] = 0.5f + 0.25f * (float)i;
    rf_inputs_clear(inputs);
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t i = 0; i < K; i++) scaled[i] = rows[r][i] * factors[i];
        rf_inputs_add(inputs, &blas, scaled, NULL);
    }
    rf_inputs_finish(inputs, &blas);
    memcpy(wanted, inputs->hessian, sizeof wanted);
    memcpy(scaled, inputs->damping, sizeof scaled);
    gather(inputs, factors);
    CHECK(!memcmp(inputs->hessian, wanted, sizeof wanted));
    CHECK(!memcmp(inputs->damping, scaled, sizeof scaled));
}

static void nothing_is_damped(struct inputs *inputs)
{
    static const float zeros[K];
    rf_inputs_clear(inputs);
    rf_inputs_add(inputs, &blas, zeros, NULL);
    rf_inputs_finish(inputs, &blas);
    for (size_t i = 0; i < K; i++)
        CHECK(inputs->hessian[i * K + i] == 0 && inputs->damping[i] == 1);
}

int main(void)
{
    struct rf_error error;
    struct inputs inputs, wide;
    for (size_t r = 0; r < ROWS; r++)
        for (size_t i = 0; i < K; i++)
            rows[r][i] = (float)((r * 7919 + i * 104729) % 201) / 100 - 1 + 0.1f * (float)i;
    CHECK(!rf_inputs_new(&inputs, K, ROWS, &rf_system_allocator, &error));
    CHECK(inputs.every == 1);
    gather(&inputs, NULL);
    hessian_is_the_sum(&inputs);
    factors_are_of_columns(&inputs);
    damps_the_diagonal(&inputs);
    massive_rows_count_as_others(&inputs);
    nothing_is_damped(&inputs);
    rf_inputs_free(&inputs, &rf_system_allocator);
    CHECK(!rf_inputs_new(&wide, 2048, 1 << 18, &rf_system_allocator, &error));
    CHECK(wide.every == 4); /* 2048 x 2^18 is 3.6 times 150 million */
    rf_inputs_free(&wide, &rf_system_allocator);
    return check_result();
}
