#include "layers.h"

#include "base/half.h"
#include "device.h"
#include "microkernels/kernels.h"
#include "platform/cpu.h"

int has_wgmma, has_clusters;

int find_device(void)
{
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
        fprintf(stderr, "skipped: no CUDA device\n");
        return 0;
    }
    struct cudaDeviceProp properties;
    MUST_RUN(cudaGetDeviceProperties(&properties, 0));
    has_wgmma = gpu_has_wide(properties.major, properties.minor);
    has_clusters = properties.major >= 9;
    return 1;
}

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

void layer_new(struct layer *layer, int format, size_t m, size_t k)
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

void layer_free(struct layer *layer)
{
    free(layer->x);
    free(layer->bias);
    free(layer->start);
    free(layer->weights);
    MUST_RUN(cudaFree(layer->tiles));
}

struct gpu_rows rows_for(struct gpu_rows rows, int32_t n)
{
    if (n <= GPU_NARROW_ROWS) {
        rows.arranged = NULL;
        rows.pieces = NULL;
    }
    if (rows.arranged) rows.bf16 = NULL;
    if (rows.pieces) {
        rows.codes = NULL;
        rows.scales = rows.halves = NULL;
    }
    return rows;
}

/* A row as the device takes it. */
struct device_row {
    struct gpu_rows *rows; /* pointers into the host's memory */
    size_t row;
};

static void put_block(const struct device_row *to, size_t b, const int *q, float d)
{
    const struct gpu_rows *rows = to->rows;
    float sums[2] = {0.0f, 0.0f};
    size_t pairs = (size_t)rows->pairs, codes = gpu_row_place(to->row, pairs, b / 2) * 64,
           scales = gpu_row_place(to->row, pairs * 2, b) * 2;
    for (size_t j = 0; j < 32; j++) {
        size_t at = codes + j % 16 / 4 * 16 + b % 2 * 8 + j / 16 * 4 + j % 4;
        rows->codes[at] = (int8_t)(rows->low ? (q[j] - (q[j] & 255)) / 256 : q[j]);
        if (rows->low) rows->low[at] = (uint8_t)(q[j] & 255);
        sums[j / 16] += (float)q[j];
        if (rows->low) continue;
        uint16_t half = rf_f32_to_f16((float)q[j] * 512.0f);
        memcpy(rows->pieces + gpu_piece_code(to->row, pairs, b * 32 + j), &half, sizeof half);
    }
    const float of_sums[] = {sums[0] + sums[1], sums[0], sums[1]};
    char *numbers = rows->pieces + gpu_piece_scales(to->row, pairs, b);
    for (size_t i = 0; !rows->low && i < 3; i++) {
        float product = d * of_sums[i];
        memcpy(numbers + (i ? 56 + 8 * i : 8), &product, sizeof product);
    }
    if (!rows->low) memcpy(numbers, &d, sizeof d);
    rows->scales[scales] = d;
    rows->scales[scales + 1] = sums[0] + sums[1];
    rows->halves[scales] = sums[0];
    rows->halves[scales + 1] = sums[1];
}

static void put_row(const struct layer *layer, size_t i, const struct device_row *to)
{
    enum rf_operand operand = to->rows->low ? RF_OPERAND_A16 : RF_OPERAND_A8;
    const struct rf_kernels *kernels = rf_kernels(RF_TIER_SCALAR);
    void *blocks = host_memory(kernels->packed_bytes[operand](1, layer->k));
    kernels->pack[operand](
        &(struct rf_pack_args){blocks, 0, layer->k, layer->x + i * layer->k, 0, layer->k, 0});
    for (size_t b = 0; b < layer->k / 32; b++) {
        const struct rf_a16 *in_16 = (const struct rf_a16 *)blocks + b;
        const struct rf_a8 *in_8 = (const struct rf_a8 *)blocks + b;
        int q[32];
        for (size_t j = 0; j < 32; j++) /* order within each four: 0, 2, 1, 3 */
            q[j] = to->rows->low ? in_16->q[j - j % 4 + (j % 4 >> 1 | (j & 1) << 1)] : in_8->q[j];
        put_block(to, b, q, to->rows->low ? in_16->d : in_8->d);
    }
    free(blocks);
}

void run_layer(const struct layer *layer, int32_t n, const struct by_expert *by, int parts,
               int in_16, int adds, float *y)
{
    /* Some kernels take clusters where launches overlap. */
    const struct gpu_launch launch = {NULL, has_clusters && !adds};
    size_t m = by ? layer->m / (size_t)by->n_experts : layer->m;
    int32_t pairs = (int32_t)(layer->k + 63) / 64, k = (int32_t)layer->k;
    size_t bytes = (size_t)n * m * sizeof *y,
           all =
               (size_t)(n + GPU_ROW_GROUP - 1) / GPU_ROW_GROUP * GPU_ROW_GROUP * (size_t)pairs * 64,
           scales = all / 32 * 2 * sizeof(float);
    struct gpu_rows host = {.bf16 = host_memory(all * sizeof *host.bf16),
                            .arranged = host_memory(gpu_arranged_bytes((size_t)n, (size_t)pairs)),
                            .codes = host_memory(all),
                            .low = in_16 ? host_memory(all) : NULL,
                            .scales = host_memory(scales),
                            .halves = host_memory(scales),
                            .pieces = host_memory(gpu_pieces_bytes((size_t)n, (size_t)pairs)),
                            .width = k,
                            .pairs = pairs};
    for (size_t i = 0; i < (size_t)n; i++) {
        const struct device_row row = {&host, i};
        if (by && by->sources[i] < 0) continue;
        size_t from = by ? (size_t)by->sources[i] : i % MOST_ROWS;
        for (size_t j = 0, groups = (size_t)pairs * 2; j < layer->k; j++)
            host.bf16[gpu_row_place(i, groups, j / 32) * 32 + j % 32] =
                host.arranged[gpu_arranged_place(i, groups, j)] =
                    rf_f32_to_bf16(layer->x[from * layer->k + j]);
        if (layer->format != RF_FORMAT_BF16) put_row(layer, from, &row);
    }
    const struct gpu_rows x = {
        .bf16 = device_memory(host.bf16, all * sizeof *host.bf16),
        .arranged = has_wgmma && !by
                        ? device_memory(host.arranged, gpu_arranged_bytes((size_t)n, (size_t)pairs))
                        : NULL,
        .codes = device_memory(host.codes, all),
        .low = in_16 ? device_memory(host.low, all) : NULL,
        .scales = device_memory(host.scales, scales),
        .halves = device_memory(host.halves, scales),
        .pieces = has_wgmma && !by && !in_16
                      ? device_memory(host.pieces, gpu_pieces_bytes((size_t)n, (size_t)pairs))
                      : NULL,
        .width = k,
        .pairs = pairs};
    float *bias = device_memory(layer->bias, layer->m * sizeof *bias),
          *result = device_memory(adds ? layer->start : NULL, bytes);
    void *groups = by ? device_memory(by->groups, (size_t)by->n_groups * sizeof *by->groups) : NULL;
    const struct gpu_linear args = {
        .format = layer->format,
        .n = by ? by->rows : n,
        .k = k,
        .n_matrices = 1,
        .accumulate = adds,
        .parts = parts,
        .matrices = {{layer->tiles, adds || by ? bias : NULL, result, (int32_t)m,
                      m / RF_PANEL_ROWS * gpu_layout(layer->format, layer->k).bytes}},
        .x = rows_for(x, n),
        .groups = groups,
        .n_groups = by ? by->n_groups : 0};
    MUST_RUN(gpu_linear(&launch, &args));
    MUST_RUN(cudaMemcpy(y, result, bytes, cudaMemcpyDeviceToHost));
    void *const memory[] = {x.bf16,   x.arranged, x.codes, x.low,  x.scales,
                            x.halves, x.pieces,   bias,    result, groups};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) MUST_RUN(cudaFree(memory[i]));
    free(host.bf16);
    free(host.arranged);
    free(host.codes);
    free(host.low);
    free(host.scales);
    free(host.halves);
    free(host.pieces);
}
