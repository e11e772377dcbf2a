/* Linear layers on a CUDA device against the scalar reference: panels times 8-bit rows give its
 * bits, part by part of k, and in BF16 all results are near; and each row has the same bits
 * whatever the number of rows. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "check.h"
#include "gpu/kernels.h"
#include "microkernels/kernels.h"
#include "platform/cpu.h"

enum { MOST_ROWS = 100 };

static const int32_t row_counts[] = {1, 2, 7, 8, 9, 16, 17, 31, 33, 64, 65, MOST_ROWS};

#define MUST_RUN(call)                                                    \
    do {                                                                  \
        cudaError_t status_ = (call);                                     \
        if (status_ != cudaSuccess) {                                     \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                    cudaGetErrorString(status_));                         \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

static uint32_t state = 1;

static uint32_t random_bits(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

static float random_float(void)
{
    return (float)random_bits() / (float)(1 << 23) - 1.0f;
}

static void *host_memory(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    if (!memory) exit(1);
    memset(memory, 0, bytes);
    return memory;
}

static void *device_memory(const void *data, size_t bytes)
{
    void *memory;
    MUST_RUN(cudaMalloc(&memory, bytes));
    MUST_RUN(data ? cudaMemcpy(memory, data, bytes, cudaMemcpyHostToDevice)
                  : cudaMemset(memory, 0xff, bytes));
    return memory;
}

/* A layer of m outputs and k inputs, and rows x. */
struct layer {
    size_t m, k;
    int format;
    float *x, *bias, *start; /* [MOST_ROWS][k]; [m]; what results are added to [MOST_ROWS][m] */
    void *weights;           /* as the reference takes them */
    size_t ldw;
    void *tiles; /* of the device */
};

/* Random codes; scales of 0.25 to 0.5 where they are F16 numbers, anything where they are small
 * integers. */
static void make_panels(struct layer *layer)
{
    const struct rf_panel_layout *layout = rf_panel_layout((enum rf_format)layer->format);
    size_t panels = rf_padded(layer->m) / RF_PANEL_ROWS,
           codes = layer->k / 32 * layout->block_bytes;
    layer->ldw = rf_panel_bytes((enum rf_format)layer->format, layer->k);
    uint8_t *data = layer->weights = host_memory(panels * layer->ldw);
    int below_64 = layer->format == RF_FORMAT_Q8_1 || layer->format == RF_FORMAT_Q8_K;
    size_t halves = layout->unit == 32                ? 0
                    : layer->format == RF_FORMAT_Q4_K ? 192
                    : layer->format == RF_FORMAT_Q6_K ? 256
                                                      : 512;
    for (size_t p = 0; p < panels; p++, data += layer->ldw) {
        for (size_t i = 0; i < codes; i++)
            data[i] = (uint8_t)(below_64 ? random_bits() & 63 : random_bits());
        uint8_t *unit = data + codes;
        for (size_t u = 0; u < layer->k / layout->unit; u++, unit += layout->scale_bytes)
            for (size_t i = 0; i < layout->scale_bytes; i++) {
                uint16_t half = rf_f32_to_f16(random_float() * 0.125f + 0.375f);
                unit[i] = (uint8_t)random_bits();
                if (layer->format == RF_FORMAT_MXFP4)
                    unit[i] = (uint8_t)(120 + random_bits() % 8);
                else if (i >= halves && i % 2 == 0) {
                    memcpy(unit + i, &half, sizeof half);
                    i++;
                }
            }
    }
}

static void layer_new(struct layer *layer, int format, size_t m, size_t k)
{
    *layer = (struct layer){.m = m, .k = k, .format = format};
    layer->x = host_memory(MOST_ROWS * k * sizeof(float));
    layer->bias = host_memory(m * sizeof(float));
    layer->start = host_memory(MOST_ROWS * m * sizeof(float));
    for (size_t i = 0; i < MOST_ROWS * k; i++) layer->x[i] = random_float();
    for (size_t i = 0; i < m; i++) layer->bias[i] = random_float();
    for (size_t i = 0; i < MOST_ROWS * m; i++) layer->start[i] = random_float();
    size_t panels = rf_padded(m) / RF_PANEL_ROWS;
    layer->tiles = device_memory(NULL, panels * gpu_layout(format, k).bytes);
    void *source;
    if (format == RF_FORMAT_BF16) {
        uint16_t *w = layer->weights = host_memory(m * k * sizeof *w);
        for (size_t i = 0; i < m * k; i++) w[i] = rf_f32_to_bf16(random_float());
        layer->ldw = k;
        source = device_memory(w, m * k * sizeof *w);
        MUST_RUN(gpu_tile_bf16(NULL, layer->tiles, source, m, k));
    } else {
        make_panels(layer);
        source = device_memory(layer->weights, panels * layer->ldw);
        MUST_RUN(gpu_tile_panels(NULL, layer->tiles, source, panels, layer->ldw, format, k));
    }
    MUST_RUN(cudaDeviceSynchronize());
    MUST_RUN(cudaFree(source));
}

static void layer_free(struct layer *layer)
{
    free(layer->x);
    free(layer->bias);
    free(layer->start);
    free(layer->weights);
    MUST_RUN(cudaFree(layer->tiles));
}

/* The reference's results without bias, [MOST_ROWS][m], for each part of k: the other parts' blocks
 * count nothing, because their scales are zero. The sums of the parts are added in order. */
static void reference_a8(const struct layer *layer, float *y)
{
    const struct rf_kernels *kernels = rf_kernels(RF_TIER_SCALAR);
    size_t stride = rf_a8_stride(layer->k), pairs = (layer->k + 63) / 64,
           parts = (size_t)gpu_parts(layer->m), each = (pairs + parts - 1) / parts;
    struct rf_a8 *x = host_memory(MOST_ROWS * stride * sizeof *x),
                 *part = host_memory(MOST_ROWS * stride * sizeof *x);
    float *sums = host_memory(MOST_ROWS * layer->m * sizeof *sums);
    for (size_t i = 0; i < MOST_ROWS; i++)
        kernels->pack[RF_OPERAND_A8](
            &(struct rf_pack_args){x, i, layer->k, layer->x + i * layer->k, 0, layer->k});
    for (size_t p = 0; p < parts; p++) {
        memcpy(part, x, MOST_ROWS * stride * sizeof *x);
        for (size_t i = 0; i < MOST_ROWS; i++)
            for (size_t b = 0; b < layer->k / 32; b++)
                if (b / 2 / each != p) part[i * stride + b].d = part[i * stride + b].d_sum = 0.0f;
        const struct rf_linear_args args = {.y = sums,
                                            .ldy = layer->m,
                                            .w = layer->weights,
                                            .ldw = layer->ldw,
                                            .x = part,
                                            .m = layer->m,
                                            .n = MOST_ROWS,
                                            .k = layer->k};
        kernels->linear[layer->format](&args);
        for (size_t i = 0; i < MOST_ROWS * layer->m; i++) y[i] = p ? y[i] + sums[i] : sums[i];
    }
    free(x);
    free(part);
    free(sums);
}

/* The weights [k][m], rounded to BF16. Of panels: the reference's products with rows of a unit
 * matrix, which are exact in 16 bits. */
static float *weights_of(const struct layer *layer)
{
    const struct rf_kernels *kernels = rf_kernels(RF_TIER_SCALAR);
    float *weights = host_memory(layer->k * layer->m * sizeof *weights),
          *unit = host_memory(layer->k * sizeof *unit);
    void *packed = host_memory(kernels->packed_bytes[RF_OPERAND_A16](1, layer->k));
    for (size_t j = 0; j < layer->k; j++) {
        float *y = weights + j * layer->m;
        const struct rf_linear_args args = {.y = y,
                                            .ldy = layer->m,
                                            .w = layer->weights,
                                            .ldw = layer->ldw,
                                            .x = packed,
                                            .m = layer->m,
                                            .n = 1,
                                            .k = layer->k};
        unit[j] = 1.0f;
        if (layer->format != RF_FORMAT_BF16) {
            kernels->pack[RF_OPERAND_A16](
                &(struct rf_pack_args){packed, 0, layer->k, unit, 0, layer->k});
            kernels->linear_a16[layer->format](&args);
        }
        unit[j] = 0.0f;
        for (size_t r = 0; r < layer->m; r++)
            y[r] = layer->format == RF_FORMAT_BF16
                       ? rf_bf16_to_f32(((const uint16_t *)layer->weights)[r * layer->k + j])
                       : rf_bf16_to_f32(rf_f32_to_bf16(y[r]));
    }
    free(unit);
    free(packed);
    return weights;
}

/* In double, of rows rounded to BF16; and how large the products are. */
static void reference_bf16(const struct layer *layer, double *y, double *size)
{
    float *weights = weights_of(layer);
    for (size_t i = 0; i < MOST_ROWS; i++)
        for (size_t r = 0; r < layer->m; r++) {
            double sum = 0, squares = 0;
            for (size_t j = 0; j < layer->k; j++) {
                double product = (double)weights[j * layer->m + r] *
                                 (double)rf_bf16_to_f32(rf_f32_to_bf16(layer->x[i * layer->k + j]));
                sum += product;
                squares += product * product;
            }
            y[i * layer->m + r] = sum;
            size[i * layer->m + r] = sqrt(squares);
        }
    free(weights);
}

/* The device's results for the first n rows. */
static void run(const struct layer *layer, int32_t n, int in_16, int adds, float *y)
{
    const struct gpu_launch launch = {NULL, 0};
    int32_t pairs = (int32_t)(layer->k + 63) / 64, k = (int32_t)layer->k;
    size_t padded = (size_t)pairs * 64, bytes = (size_t)n * layer->m * sizeof *y;
    struct gpu_rows x = {.width = k, .pairs = pairs};
    uint16_t *bf16 = host_memory((size_t)n * padded * sizeof *bf16);
    int8_t *codes = host_memory((size_t)n * padded);
    struct scale {
        float d;
        int16_t sums[2]; /* of all codes, of the second half */
    } *scales = host_memory((size_t)n * padded / 32 * sizeof *scales);
    for (size_t i = 0; i < (size_t)n; i++) {
        for (size_t j = 0; j < layer->k; j++)
            bf16[i * padded + j] = rf_f32_to_bf16(layer->x[i * layer->k + j]);
        if (layer->format == RF_FORMAT_BF16) continue;
        struct rf_a8 *blocks = host_memory(rf_a8_stride(layer->k) * sizeof *blocks);
        rf_kernels(RF_TIER_SCALAR)
            ->pack[RF_OPERAND_A8](blocks, 0, layer->x + i * layer->k, layer->k);
        for (size_t b = 0; b < layer->k / 32; b++) {
            struct scale *scale = &scales[i * padded / 32 + b];
            scale->d = blocks[b].d;
            for (size_t j = 0; j < 32; j++) {
                codes[i * padded + b / 2 * 64 + j % 16 / 4 * 16 + b % 2 * 8 + j / 16 * 4 + j % 4] =
                    blocks[b].q[j];
                scale->sums[0] = (int16_t)(scale->sums[0] + blocks[b].q[j]);
                if (j >= 16) scale->sums[1] = (int16_t)(scale->sums[1] + blocks[b].q[j]);
            }
        }
        free(blocks);
    }
    x.bf16 = device_memory(bf16, (size_t)n * padded * sizeof *bf16);
    x.codes = device_memory(codes, (size_t)n * padded);
    x.scales = device_memory(scales, (size_t)n * padded / 32 * sizeof *scales);
    float *bias = device_memory(layer->bias, layer->m * sizeof *bias),
          *result = device_memory(adds ? layer->start : NULL, bytes);
    const struct gpu_linear args = {
        .format = layer->format,
        .n = n,
        .k = k,
        .n_matrices = 1,
        .accumulate = adds,
        .in_16 = in_16,
        .parts = gpu_parts(layer->m),
        .matrices = {{layer->tiles, adds ? bias : NULL, result, (int32_t)layer->m}},
        .x = x};
    MUST_RUN(gpu_linear(&launch, &args));
    MUST_RUN(cudaMemcpy(y, result, bytes, cudaMemcpyDeviceToHost));
    void *const memory[] = {x.bf16, x.codes, x.scales, bias, result};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) MUST_RUN(cudaFree(memory[i]));
    free(bf16);
    free(codes);
    free(scales);
}

static void check_layer(int format, int in_16, size_t m, size_t k)
{
    struct layer layer;
    const char *name = rf_panel_layout((enum rf_format)format)->name;
    layer_new(&layer, format, m, k);
    size_t n = MOST_ROWS * m;
    float *wanted = host_memory(n * sizeof *wanted), *got = host_memory(n * sizeof *got),
          *added = host_memory(n * sizeof *added);
    if (format == RF_FORMAT_BF16 || in_16) {
        double *exact = host_memory(n * sizeof *exact), *size = host_memory(n * sizeof *size);
        reference_bf16(&layer, exact, size);
        run(&layer, MOST_ROWS, in_16, 0, wanted);
        for (size_t i = 0; i < n; i++)
            CHECK_MSG(fabs((double)wanted[i] - exact[i]) <= 8e-6 * size[i] + 1e-30,
                      "%s in 16 bits, %zu x %zu: result %zu is %.9g, not %.9g", name, m, k, i,
                      (double)wanted[i], exact[i]);
        free(exact);
        free(size);
    } else {
        reference_a8(&layer, wanted);
    }
    for (size_t c = 0; c < sizeof row_counts / sizeof *row_counts; c++) {
        size_t rows = (size_t)row_counts[c];
        run(&layer, row_counts[c], in_16, 0, got);
        size_t off = 0;
        while (off < rows * m && got[off] == wanted[off]) off++;
        CHECK_MSG(off == rows * m,
                  "%s, %zu x %zu, %zu rows: result %zu of row %zu is %.9g, not %.9g", name, m, k,
                  rows, off % m, off / m, (double)got[off], (double)wanted[off]);
        run(&layer, row_counts[c], in_16, 1, added);
        for (off = 0; off < rows * m; off++)
            if (added[off] != layer.start[off] + (wanted[off] + layer.bias[off % m])) break;
        CHECK_MSG(off == rows * m, "%s, %zu x %zu, %zu rows, added: result %zu", name, m, k, rows,
                  off);
    }
    free(wanted);
    free(got);
    free(added);
    layer_free(&layer);
}

int main(void)
{
    static const size_t shapes[][2] = {{16, 256}, {7, 256}, {61, 512}, {129, 1536}, {100, 4864}};
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
        fprintf(stderr, "skipped: no CUDA device\n");
        return 77;
    }
    for (int format = 0; format < RF_FORMAT_COUNT; format++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            size_t unit = format ? rf_panel_layout((enum rf_format)format)->unit : 1;
            size_t m = shapes[s][0], k = shapes[s][1];
            check_layer(format, 0, m, unit <= 32 && s % 2 ? k - 32 : k);
            if (format && k <= 512) check_layer(format, 1, m, k);
        }
    check_layer(RF_FORMAT_BF16, 0, 61, 72);
    check_layer(RF_FORMAT_BF16, 0, GPU_FEW_ROWS + 20, 192);
    check_layer(RF_FORMAT_Q4_K, 0, GPU_FEW_ROWS + 20, 768);
    check_layer(RF_FORMAT_Q8_0, 0, GPU_FEW_ROWS + 20, 544);
    return check_result();
}
