/* Norms and copies to parts of wider rows on a CUDA device: the values of gpu_norm and of the
 * source bit by bit, in the rows' order or in a chosen one; the rest of the wider rows stays. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>

#include "device.h"
#include "gpu/kernels.h"
#include "layers.h"
#include "support/check.h"

enum { ROWS = 5, PICKED = 3 };

/* The host's norm, in double. */
static double normed(const float *x, const float *gain, size_t width, size_t j, double eps)
{
    double sum = 0;
    for (size_t i = 0; i < width; i++) sum += (double)x[i] * (double)x[i];
    return (double)x[j] / sqrt(sum / (double)width + eps) * (double)gain[j];
}

/* Counts values of a part that differ from `wanted` [n][width], and values beside it that changed.
 */
static void compare_part(const float *got, const float *before, const struct gpu_part *part,
                         size_t column, const float *wanted, size_t n, size_t *wrong,
                         size_t *changed)
{
    size_t width = (size_t)part->width, whole = (size_t)part->whole;
    for (size_t at = 0; at < ROWS * whole; at++) {
        size_t i = at / whole, j = at % whole;
        if (i < n && j >= column && j < column + width)
            *wrong += got[at] != wanted[i * width + j - column];
        else
            *changed += got[at] != before[at];
    }
}

/* has_gain: a norm. picked: of these rows, or NULL. */
static void check_part(size_t width, size_t whole, size_t column, int has_gain, int is_picked)
{
    static const int32_t picked[PICKED] = {0, 2, 4};
    const struct gpu_launch launch = {NULL, has_clusters};
    size_t n = is_picked ? PICKED : ROWS, wrong = 0, changed = 0, far = 0;
    float *x = host_memory(ROWS * width * sizeof *x), *gain = host_memory(width * sizeof *gain),
          *before = host_memory(ROWS * whole * sizeof *before),
          *got = host_memory(ROWS * whole * sizeof *got),
          *wanted = host_memory(ROWS * width * sizeof *wanted);
    for (size_t i = 0; i < ROWS * width; i++) x[i] = random_float() * 3;
    for (size_t i = 0; i < width; i++) gain[i] = 1 + random_float() / 4;
    for (size_t i = 0; i < ROWS * whole; i++) before[i] = random_float();
    float *device_x = device_memory(x, ROWS * width * sizeof *x),
          *device_gain = device_memory(gain, width * sizeof *gain),
          *out = device_memory(before, ROWS * whole * sizeof *out),
          *alone = device_memory(NULL, ROWS * width * sizeof *alone);
    int32_t *device_picked = device_memory(picked, sizeof picked);
    const struct gpu_rows rows = {
        .f32 = alone, .width = (int32_t)width, .pairs = (int32_t)(width + 63) / 64};
    const struct gpu_part part = {.out = out + column,
                                  .x = device_x,
                                  .gain = has_gain ? device_gain : NULL,
                                  .width = (int32_t)width,
                                  .whole = (int32_t)whole,
                                  .eps = 1e-5f};
    MUST_RUN(gpu_put_part(&launch, &part, is_picked ? device_picked : NULL, (int32_t)n));
    MUST_RUN(cudaMemcpy(got, out, ROWS * whole * sizeof *got, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; i++)
        memcpy(wanted + i * width, x + (is_picked ? (size_t)picked[i] : i) * width,
               width * sizeof *x);
    if (has_gain) {
        for (size_t at = 0; at < n * width; at++) {
            size_t from = is_picked ? (size_t)picked[at / width] : at / width;
            double exact = normed(x + from * width, gain, width, at % width, 1e-5);
            float value = got[at / width * whole + column + at % width];
            far += !(fabs((double)value - exact) <= 1e-6 * fabs(exact));
        }
        const struct gpu_norm_args norm = {.x = device_x,
                                           .gain = device_gain,
                                           .eps = 1e-5f,
                                           .picked = is_picked ? device_picked : NULL};
        MUST_RUN(gpu_norm(&launch, &rows, &norm, (int32_t)n));
        MUST_RUN(cudaMemcpy(wanted, alone, n * width * sizeof *wanted, cudaMemcpyDeviceToHost));
    }
    compare_part(got, before, &part, column, wanted, n, &wrong, &changed);
    CHECK_MSG(
        wrong == 0 && changed == 0 && far == 0,
        "%s of %zu values to column %zu of %zu%s: %zu have other bits, %zu are off, %zu beside "
        "them changed",
        has_gain ? "a norm" : "a copy", width, column, whole, is_picked ? ", picked" : "", wrong,
        far, changed);
    void *const memory[] = {device_x, device_gain, out, alone, device_picked};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) MUST_RUN(cudaFree(memory[i]));
    free(x);
    free(gain);
    free(before);
    free(got);
    free(wanted);
}

/* A norm of rows less their means, plus a bias, against the host's in double. */
static void check_centred(size_t width)
{
    const struct gpu_launch launch = {NULL, has_clusters};
    size_t n = ROWS * width, far = 0;
    float *x = host_memory(n * sizeof *x), *gain = host_memory(2 * width * sizeof *gain),
          *less = host_memory(width * sizeof *less), *got = host_memory(n * sizeof *got);
    for (size_t i = 0; i < n; i++) x[i] = 2 + random_float() * 3;
    for (size_t i = 0; i < 2 * width; i++) gain[i] = 1 + random_float() / 4;
    float *device_x = device_memory(x, n * sizeof *x),
          *device_gain = device_memory(gain, 2 * width * sizeof *gain),
          *out = device_memory(NULL, n * sizeof *out);
    const struct gpu_rows rows = {
        .f32 = out, .width = (int32_t)width, .pairs = (int32_t)(width + 63) / 64};
    const struct gpu_norm_args norm = {.x = device_x,
                                       .gain = device_gain,
                                       .bias = device_gain + width,
                                       .eps = 1e-5f,
                                       .is_centred = 1};
    MUST_RUN(gpu_norm(&launch, &rows, &norm, ROWS));
    MUST_RUN(cudaMemcpy(got, out, n * sizeof *got, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < ROWS; i++) {
        double mean = 0;
        for (size_t j = 0; j < width; j++) mean += (double)x[i * width + j] / (double)width;
        for (size_t j = 0; j < width; j++) less[j] = (float)((double)x[i * width + j] - mean);
        for (size_t j = 0; j < width; j++) {
            double exact = normed(less, gain, width, j, 1e-5) + (double)gain[width + j];
            far += !(fabs((double)got[i * width + j] - exact) <= 1e-5);
        }
    }
    CHECK_MSG(far == 0, "a norm of %zu values less their mean: %zu are off", width, far);
    MUST_RUN(cudaFree(device_x));
    MUST_RUN(cudaFree(device_gain));
    MUST_RUN(cudaFree(out));
    free(x);
    free(gain);
    free(less);
    free(got);
}

int main(void)
{
    static const size_t shapes[][3] = {
        {16, 32, 16}, {72, 144, 0}, {96, 288, 96}, {2048, 4096, 2048}, {9216, 27648, 18432}};
    if (!find_device()) return 77;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int kind = 0; kind < 4; kind++)
            check_part(shapes[s][0], shapes[s][1], shapes[s][2], kind / 2, kind % 2);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) check_centred(shapes[s][0]);
    return check_result();
}
