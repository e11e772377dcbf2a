/* Linear layers on a CUDA device against the scalar reference: panels times rows of 8 and 16 bits
 * give its bits, part by part of k, and in BF16 all results are near; and each row has the same
 * bits whatever the number of rows, whether experts are grouped, and whether gates, rotations and
 * norms are parts of layers. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "check.h"
#include "device.h"
#include "gpu/kernels.h"
#include "microkernels/kernels.h"
#include "platform/cpu.h"

enum { MOST_ROWS = 100 };

static const int32_t row_counts[] = {1, 2, 7, 8, 9, 16, 17, 31, 33, 64, 65, MOST_ROWS};

static int has_wgmma, has_clusters;

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

/* Block b of a row counts nothing. */
static void drop(void *blocks, size_t b, int in_16)
{
    if (in_16) {
        struct rf_a16 *block = (struct rf_a16 *)blocks + b;
        block->d = block->d_sum = block->d_half[0] = block->d_half[1] = 0.0f;
    } else {
        struct rf_a8 *block = (struct rf_a8 *)blocks + b;
        block->d = block->d_sum = 0.0f;
    }
}

/* The reference's results without bias, [MOST_ROWS][m], for each part of k: the other parts' blocks
 * count nothing, because their scales are zero. The sums of the parts are added in order. */
static void reference(const struct layer *layer, int in_16, float *y)
{
    const struct rf_kernels *kernels = rf_kernels(RF_TIER_SCALAR);
    enum rf_operand operand = in_16 ? RF_OPERAND_A16 : RF_OPERAND_A8;
    size_t of_row = kernels->packed_bytes[operand](1, layer->k), pairs = (layer->k + 63) / 64,
           parts = (size_t)gpu_parts(layer->m), each = (pairs + parts - 1) / parts;
    char *x = host_memory(MOST_ROWS * of_row), *part = host_memory(MOST_ROWS * of_row);
    float *sums = host_memory(MOST_ROWS * layer->m * sizeof *sums);
    for (size_t i = 0; i < MOST_ROWS; i++)
        kernels->pack[operand](
            &(struct rf_pack_args){x, i, layer->k, layer->x + i * layer->k, 0, layer->k, 0});
    for (size_t p = 0; p < parts; p++) {
        memcpy(part, x, MOST_ROWS * of_row);
        for (size_t i = 0; i < MOST_ROWS; i++)
            for (size_t b = 0; b < layer->k / 32; b++)
                if (b / 2 / each != p) drop(part + i * of_row, b, in_16);
        const struct rf_linear_args args = {.y = sums,
                                            .ldy = layer->m,
                                            .w = layer->weights,
                                            .ldw = layer->ldw,
                                            .x = part,
                                            .m = layer->m,
                                            .n = MOST_ROWS,
                                            .k = layer->k};
        (in_16 ? kernels->linear_a16 : kernels->linear)[layer->format](&args);
        for (size_t i = 0; i < MOST_ROWS * layer->m; i++) y[i] = p ? y[i] + sums[i] : sums[i];
    }
    free(x);
    free(part);
    free(sums);
}

/* In double, of rows rounded to BF16; and how large the products are. */
static void reference_bf16(const struct layer *layer, double *y, double *size)
{
    const uint16_t *weights = layer->weights;
    for (size_t i = 0; i < MOST_ROWS; i++)
        for (size_t r = 0; r < layer->m; r++) {
            double sum = 0, squares = 0;
            for (size_t j = 0; j < layer->k; j++) {
                double product = (double)rf_bf16_to_f32(weights[r * layer->k + j]) *
                                 (double)rf_bf16_to_f32(rf_f32_to_bf16(layer->x[i * layer->k + j]));
                sum += product;
                squares += product * product;
            }
            y[i * layer->m + r] = sum;
            size[i * layer->m + r] = sqrt(squares);
        }
}

/* The form of rows that a pass over n of them takes. */
static struct gpu_rows rows_for(struct gpu_rows rows, int32_t n)
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
    struct gpu_rows *rows; /* in the host's memory */
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
        for (size_t j = 0; j < 32; j++) /* of four: 0, 2, 1, 3 */
            q[j] = to->rows->low ? in_16->q[j - j % 4 + (j % 4 >> 1 | (j & 1) << 1)] : in_8->q[j];
        put_block(to, b, q, to->rows->low ? in_16->d : in_8->d);
    }
    free(blocks);
}

/* Rows by expert: where each row comes from, or -1; the groups; and how many experts the layer's
 * outputs are cut into. */
struct by_expert {
    const int32_t *sources;
    const struct gpu_group *groups;
    int32_t n_groups, n_experts, rows; /* of the pass, at most */
};

/* The device's results for the first n rows, in parts of k; or for rows by expert, unless that is
 * NULL. */
static void run(const struct layer *layer, int32_t n, const struct by_expert *by, int parts,
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

static void check_layer(int format, int in_16, size_t m, size_t k)
{
    struct layer layer;
    const char *name = rf_panel_layout((enum rf_format)format)->name;
    layer_new(&layer, format, m, k);
    size_t n = MOST_ROWS * m;
    float *wanted = host_memory(n * sizeof *wanted), *got = host_memory(n * sizeof *got),
          *added = host_memory(n * sizeof *added);
    if (format == RF_FORMAT_BF16) {
        double *exact = host_memory(n * sizeof *exact), *size = host_memory(n * sizeof *size);
        reference_bf16(&layer, exact, size);
        run(&layer, MOST_ROWS, NULL, gpu_parts(m), in_16, 0, wanted);
        for (size_t i = 0; i < n; i++)
            CHECK_MSG(fabs((double)wanted[i] - exact[i]) <= 8e-6 * size[i] + 1e-30,
                      "%s, %zu x %zu: result %zu is %.9g, not %.9g", name, m, k, i,
                      (double)wanted[i], exact[i]);
        free(exact);
        free(size);
    } else {
        reference(&layer, in_16, wanted);
    }
    for (size_t c = 0; c < sizeof row_counts / sizeof *row_counts; c++) {
        size_t rows = (size_t)row_counts[c];
        run(&layer, row_counts[c], NULL, gpu_parts(m), in_16, 0, got);
        size_t off = 0;
        while (off < rows * m && got[off] == wanted[off]) off++;
        CHECK_MSG(off == rows * m,
                  "%s x %d bits, %zu x %zu, %zu rows: result %zu of row %zu is %.9g, not %.9g",
                  name, in_16 ? 16 : 8, m, k, rows, off % m, off / m, (double)got[off],
                  (double)wanted[off]);
        run(&layer, row_counts[c], NULL, gpu_parts(m), in_16, 1, added);
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

/* Passes over so many rows that wgmma takes them have the bits of few rows, in 8 and 16 parts. Rows
 * come again after MOST_ROWS; the reference has the first of them. */
static void check_many_rows(int format, size_t m, size_t k)
{
    static const int32_t counts[] = {65, 128, 129, 300, 512};
    static const int parts[] = {GPU_PARTS, GPU_MORE_PARTS};
    struct layer layer;
    layer_new(&layer, format, m, k);
    float *wanted = host_memory(GPU_NARROW_ROWS * m * sizeof *wanted),
          *got = host_memory(512 * m * sizeof *got);
    for (size_t p = 0; p < 2; p++) {
        run(&layer, GPU_NARROW_ROWS, NULL, parts[p], 0, 0, wanted);
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            size_t rows = (size_t)counts[c], off = 0;
            run(&layer, counts[c], NULL, parts[p], 0, 0, got);
            for (size_t i = 0; i < rows * m; i++) {
                size_t row = i / m % MOST_ROWS;
                off += row < GPU_NARROW_ROWS && got[i] != wanted[row * m + i % m];
            }
            CHECK_MSG(off == 0, "%s, %zu x %zu, %zu rows, %d parts: %zu results",
                      rf_panel_layout((enum rf_format)format)->name, m, k, rows, parts[p], off);
        }
    }
    free(wanted);
    free(got);
    layer_free(&layer);
}

/* ---- experts ---- */

enum { EXPERTS = 5, MOST_SORTED = EXPERTS * (MOST_ROWS + GPU_ROW_GROUP) };

/* Of n rows, expert e has those for which (i + e) % 3 is 0, but expert 3 none. */
static void group_rows(int32_t n, int32_t *sources, struct gpu_group *groups, struct by_expert *by)
{
    int32_t at = 0, most = gpu_group_rows(n);
    *by = (struct by_expert){.sources = sources, .groups = groups, .n_experts = EXPERTS, .rows = n};
    for (int32_t e = 0; e < EXPERTS; e++) {
        int32_t room = 0;
        for (int32_t i = 0; e != 3 && i < n; i++) {
            if ((i + e) % 3 != 0) continue;
            if (room == 0) groups[by->n_groups++] = (struct gpu_group){e, at, 0};
            groups[by->n_groups - 1].n++;
            sources[at++] = i;
            room = (room + 1) % most;
        }
        while (at % GPU_ROW_GROUP) sources[at++] = -1;
    }
    groups[by->n_groups++] = (struct gpu_group){0, 0, 0};
}

/* Rows of an expert have the bits that its matrix alone gives them. */
static void check_groups(int format, int in_16, size_t k)
{
    static int32_t sources[MOST_SORTED];
    static struct gpu_group groups[EXPERTS * MOST_ROWS];
    enum { M = 48 };
    struct layer layer;
    layer_new(&layer, format, EXPERTS * M, k);
    float *wanted = host_memory((size_t)MOST_ROWS * layer.m * sizeof *wanted),
          *got = host_memory((size_t)MOST_SORTED * M * sizeof *got);
    run(&layer, MOST_ROWS, NULL, GPU_PARTS, in_16, 0, wanted);
    for (size_t c = 0; c < sizeof row_counts / sizeof *row_counts; c++) {
        struct by_expert by;
        size_t off = 0;
        group_rows(row_counts[c], sources, groups, &by);
        const struct gpu_group *last = &groups[by.n_groups - 2];
        run(&layer, last->first + last->n, &by, GPU_PARTS, in_16, 0, got);
        for (int32_t g = 0; g < by.n_groups; g++)
            for (size_t i = 0; i < (size_t)groups[g].n * M; i++) {
                size_t row = (size_t)groups[g].first + i / M,
                       r = (size_t)groups[g].expert * M + i % M;
                off += got[row * M + i % M] !=
                       wanted[(size_t)sources[row] * layer.m + r] + layer.bias[r];
            }
        CHECK_MSG(off == 0, "%s x %d bits, experts, %d rows: %zu results have other bits",
                  rf_panel_layout((enum rf_format)format)->name, in_16 ? 16 : 8, row_counts[c],
                  off);
    }
    free(wanted);
    free(got);
    layer_free(&layer);
}

enum { MOST_EXPERTS = 128 };

/* The experts of a row: greater values first, of equal ones the lowest. */
static void rank_experts(const float *values, int32_t n, int32_t *ranked)
{
    for (int32_t e = 0; e < n; e++) {
        int32_t before = 0;
        for (int32_t o = 0; o < n; o++)
            before += values[o] > values[e] || (values[o] == values[e] && o < e);
        ranked[before] = e;
    }
}

/* Choices of n rows: the right experts and shares; each has a row, in a group of its expert. */
static void check_choice(int32_t n, int32_t n_expert, int32_t used, int norm)
{
    const struct gpu_launch launch = {NULL, 0};
    struct gpu_experts experts = {.n_expert = n_expert, .used = used, .norm = norm};
    size_t choices = (size_t)(n * used), rows = (size_t)gpu_expert_rows(&experts, n),
           n_groups = (size_t)gpu_expert_groups(&experts, n), wrong = 0, grouped = 0;
    float *routed = host_memory((size_t)(n * n_expert) * sizeof *routed);
    struct gpu_share *shares = host_memory(choices * sizeof *shares);
    int32_t *sources = host_memory(rows * sizeof *sources);
    struct gpu_group *groups = host_memory(n_groups * sizeof *groups);
    for (int32_t i = 0; i < n * n_expert; i++) routed[i] = rintf(random_float() * 20);
    float *values = device_memory(routed, (size_t)(n * n_expert) * sizeof *routed);
    experts.shares = device_memory(NULL, choices * sizeof *shares);
    experts.sources = device_memory(NULL, rows * sizeof *sources);
    experts.groups = device_memory(NULL, n_groups * sizeof *groups);
    MUST_RUN(gpu_choose_experts(&launch, &experts, values, n));
    MUST_RUN(cudaMemcpy(shares, experts.shares, choices * sizeof *shares, cudaMemcpyDeviceToHost));
    MUST_RUN(cudaMemcpy(sources, experts.sources, rows * sizeof *sources, cudaMemcpyDeviceToHost));
    MUST_RUN(cudaMemcpy(groups, experts.groups, n_groups * sizeof *groups, cudaMemcpyDeviceToHost));
    for (int32_t i = 0; i < n; i++) {
        const float *of_row = routed + i * n_expert;
        int32_t ranked[MOST_EXPERTS];
        double sum = 0;
        rank_experts(of_row, n_expert, ranked);
        for (int32_t r = 0; r < (norm ? used : n_expert); r++)
            sum += exp((double)of_row[ranked[r]]);
        for (int32_t r = 0; r < used; r++) {
            const struct gpu_share *share = &shares[i * used + r];
            int32_t expert = ranked[r];
            double wanted = exp((double)of_row[expert]) / sum;
            wrong += share->expert != expert || fabs((double)share->share - wanted) > 1e-5 ||
                     share->row < 0 || (size_t)share->row >= rows || sources[share->row] != i;
            for (size_t g = 0; g < n_groups; g++)
                grouped += groups[g].n > 0 && groups[g].expert == expert &&
                           groups[g].first <= share->row &&
                           share->row < groups[g].first + groups[g].n;
        }
    }
    for (size_t g = 0; g < n_groups; g++)
        wrong +=
            groups[g].n > gpu_group_rows(n) || (groups[g].n > 0 && groups[g].first % GPU_ROW_GROUP);
    for (size_t i = 0; i < rows; i++) choices -= sources[i] >= 0;
    CHECK_MSG(wrong == 0 && choices == 0 && grouped == (size_t)(n * used),
              "%d of %d experts for %d rows: %zu wrong, %zu without a row, %zu in a group", used,
              n_expert, n, wrong, choices, grouped);
    void *const memory[] = {values, experts.shares, experts.sources, experts.groups};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) MUST_RUN(cudaFree(memory[i]));
    free(routed);
    free(shares);
    free(sources);
    free(groups);
}

static void check_experts(void)
{
    static const int32_t rows[] = {1, 3, 8, 9, 40, 512},
                         counts[][2] = {{4, 2}, {5, 5}, {MOST_EXPERTS, 8}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            check_choice(rows[i], counts[c][0], counts[c][1], (i + c) % 2 == 0);
    for (int format = 0; format < RF_FORMAT_COUNT; format++) {
        check_groups(format, 0, 768);
        if (format) check_groups(format, 1, 768);
    }
}

/* ---- a gate behind two matrices ---- */

/* n rows through both layers and the gate of their results, in one launch or in two. */
static void run_gate(const struct layer *layers, int32_t n, int joined, void *gated, size_t bytes)
{
    const struct gpu_launch launch = {NULL, 0};
    int32_t m = (int32_t)layers->m, k = (int32_t)layers->k;
    size_t x_bytes = 2 * GPU_ROW_GROUP * layers->k * 2;
    uint16_t *x = host_memory(x_bytes);
    for (size_t i = 0; i < x_bytes / 2; i++) x[i] = rf_f32_to_bf16(layers->x[i]);
    float *y = device_memory(NULL, (size_t)n * 2 * layers->m * sizeof *y);
    struct gpu_linear args = {
        .format = layers->format,
        .n = n,
        .k = k,
        .n_matrices = 2,
        .parts = gpu_parts(2 * layers->m),
        .matrices = {{layers[0].tiles, device_memory(layers->bias, layers->m * 4), y, m, 0},
                     {layers[1].tiles, NULL, y + (size_t)n * layers->m, m, 0}},
        .x = {.bf16 = device_memory(x, x_bytes), .width = k, .pairs = k / 64},
        .gates = joined,
        .gated = {.bf16 = device_memory(NULL, bytes), .width = m, .pairs = m / 64}};
    const struct gpu_gate gate = {.gate = y, .up = y + (size_t)n * layers->m};
    CHECK(gpu_can_gate(&args));
    MUST_RUN(cudaMemset(args.gated.bf16, 0, bytes));
    MUST_RUN(gpu_linear(&launch, &args));
    if (!joined) MUST_RUN(gpu_gate(&launch, &args.gated, &gate, n));
    MUST_RUN(cudaMemcpy(gated, args.gated.bf16, bytes, cudaMemcpyDeviceToHost));
    MUST_RUN(cudaFree((void *)args.matrices[0].bias));
    MUST_RUN(cudaFree(args.x.bf16));
    MUST_RUN(cudaFree(args.gated.bf16));
    MUST_RUN(cudaFree(y));
    free(x);
}

static void check_gate(void)
{
    static const int32_t rows[] = {1, 7, 8, 9, 16};
    enum { M = GPU_FEW_ROWS / 2 + 64, K = 320 };
    struct layer layers[2];
    for (int l = 0; l < 2; l++) layer_new(&layers[l], RF_FORMAT_BF16, M, K);
    size_t bytes = 2 * GPU_ROW_GROUP * M * sizeof(uint16_t);
    uint16_t *apart = host_memory(bytes), *joined = host_memory(bytes);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        size_t nonzero = 0;
        run_gate(layers, rows[r], 0, apart, bytes);
        run_gate(layers, rows[r], 1, joined, bytes);
        for (size_t i = 0; i < bytes / 2; i++) nonzero += apart[i] != 0;
        CHECK(nonzero > (size_t)rows[r] * M / 2);
        CHECK_MSG(memcmp(apart, joined, bytes) == 0, "a gate of %d rows has other bits", rows[r]);
    }
    free(apart);
    free(joined);
    for (int l = 0; l < 2; l++) layer_free(&layers[l]);
}

/* ---- folded norms ---- */

/* The rows of a layer, times a gain; and what a folded norm needs beside them. */
struct folded {
    struct gpu_rows rows;
    struct gpu_fold fold;
    float *x;
};

static void folded_new(struct folded *folded, const struct layer *layer, const float *x, size_t k)
{
    size_t pairs = k / GPU_PAIR, rows = (MOST_ROWS + GPU_ROW_GROUP - 1) / GPU_ROW_GROUP * 8,
           bytes = rows * k * sizeof(uint16_t);
    *folded = (struct folded){
        .rows = {.bf16 = device_memory(NULL, bytes),
                 .arranged =
                     has_wgmma ? device_memory(NULL, gpu_arranged_bytes(rows, pairs)) : NULL,
                 .width = (int32_t)k,
                 .pairs = (int32_t)pairs},
        .fold = {.gain = device_memory(layer->bias, k * sizeof(float)),
                 .squares = device_memory(NULL, rows * k / GPU_SQUARES * sizeof(float)),
                 .scales = device_memory(NULL, rows * sizeof(float)),
                 .eps = 1e-5f},
        .x = device_memory(x, MOST_ROWS * k * sizeof(float))};
}

static void folded_free(struct folded *folded)
{
    void *const memory[] = {folded->rows.bf16,         folded->rows.arranged, folded->x,
                            (void *)folded->fold.gain, folded->fold.squares,  folded->fold.scales};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) MUST_RUN(cudaFree(memory[i]));
}

static const int32_t joined_counts[] = {1, 7, 8, 9, 16};
enum { JOINED_COUNTS = sizeof joined_counts / sizeof *joined_counts };

/* A norm in the layer behind it is near the norm itself, and gives a row the same bits in passes of
 * all sizes. The layer's inputs are as wide as its bias is long, which is the gain. */
static void check_folded(size_t m, size_t k)
{
    const struct gpu_launch launch = {NULL, has_clusters};
    struct layer layer, gains;
    struct folded folded;
    layer_new(&layer, RF_FORMAT_BF16, m, k);
    layer_new(&gains, RF_FORMAT_BF16, k, GPU_PAIR);
    folded_new(&folded, &gains, layer.x, k);
    size_t n = MOST_ROWS * m;
    float *wanted = host_memory(n * sizeof *wanted), *got = host_memory(n * sizeof *got),
          *y = device_memory(NULL, n * sizeof *y);
    float *bias = device_memory(layer.bias, m * sizeof *bias);
    struct gpu_linear args = {.format = RF_FORMAT_BF16,
                              .k = (int32_t)k,
                              .n_matrices = 1,
                              .parts = gpu_parts(m),
                              .matrices = {{layer.tiles, bias, y, (int32_t)m, 0}},
                              .fold = folded.fold};
    for (size_t c = sizeof row_counts / sizeof *row_counts; c-- > 0;) {
        size_t rows = (size_t)row_counts[c], off = 0;
        args.n = row_counts[c];
        args.x = rows_for(folded.rows, args.n);
        MUST_RUN(gpu_fold_norm(&launch, &args.x, folded.x, &folded.fold, args.n));
        MUST_RUN(gpu_linear(&launch, &args));
        MUST_RUN(cudaMemcpy(got, y, rows * m * sizeof *got, cudaMemcpyDeviceToHost));
        if (rows == MOST_ROWS) memcpy(wanted, got, n * sizeof *got);
        while (off < rows * m && got[off] == wanted[off]) off++;
        CHECK_MSG(off == rows * m, "folded norm, %zu x %zu, %zu rows: result %zu", m, k, rows, off);
    }
    const uint16_t *weights = layer.weights;
    for (size_t i = 0; i < MOST_ROWS; i += 33)
        for (size_t r = 0; r < m; r++) {
            const float *x = layer.x + i * k;
            double squares = 0, sum = 0, size = 0;
            for (size_t j = 0; j < k; j++) {
                double product = (double)rf_bf16_to_f32(weights[r * k + j]) *
                                 (double)rf_bf16_to_f32(rf_f32_to_bf16(x[j] * gains.bias[j]));
                squares += (double)x[j] * (double)x[j];
                sum += product;
                size += product * product;
            }
            double scale = 1 / sqrt(squares / (double)k + 1e-5);
            CHECK(fabs((double)wanted[i * m + r] - sum * scale - (double)layer.bias[r]) <=
                  1e-5 * sqrt(size) * scale + 1e-7);
        }
    MUST_RUN(cudaFree(y));
    MUST_RUN(cudaFree(bias));
    free(wanted);
    free(got);
    folded_free(&folded);
    layer_free(&layer);
    layer_free(&gains);
}

/* A layer leaves what the norm behind it needs, as the norm's own kernel does. */
static void check_fold_next(size_t m, size_t k)
{
    const struct gpu_launch launch = {NULL, has_clusters};
    struct layer layer;
    struct folded of_layer, of_norm;
    layer_new(&layer, RF_FORMAT_BF16, m, k);
    size_t n = GPU_FOLDED_ROWS * m, squares = n / GPU_SQUARES;
    uint16_t *x = host_memory(GPU_FOLDED_ROWS * k * sizeof *x);
    for (size_t i = 0; i < GPU_FOLDED_ROWS * k; i++) x[i] = rf_f32_to_bf16(layer.x[i]);
    void *rows = device_memory(x, GPU_FOLDED_ROWS * k * sizeof *x);
    for (size_t c = 0; c < JOINED_COUNTS; c++) {
        float *sums[2];
        uint16_t *normed[2];
        folded_new(&of_layer, &layer, layer.start, m);
        folded_new(&of_norm, &layer, layer.start, m);
        size_t used = (size_t)joined_counts[c];
        const struct gpu_linear args = {
            .format = RF_FORMAT_BF16,
            .n = joined_counts[c],
            .k = (int32_t)k,
            .n_matrices = 1,
            .accumulate = 1,
            .parts = gpu_parts(m),
            .matrices = {{layer.tiles, NULL, of_layer.x, (int32_t)m, 0}},
            .x = {.bf16 = rows, .width = (int32_t)k, .pairs = (int32_t)k / GPU_PAIR},
            .next = of_layer.fold,
            .normed = of_layer.rows};
        CHECK(gpu_can_fold_next(&args));
        MUST_RUN(gpu_linear(&launch, &args));
        const struct gpu_rows out = rows_for(of_norm.rows, args.n);
        MUST_RUN(gpu_fold_norm(&launch, &out, of_layer.x, &of_norm.fold, args.n));
        const struct folded *const both[] = {&of_layer, &of_norm};
        for (int i = 0; i < 2; i++) {
            sums[i] = host_memory(squares * sizeof(float));
            normed[i] = host_memory(n * sizeof(uint16_t));
            MUST_RUN(cudaMemcpy(sums[i], both[i]->fold.squares, squares * sizeof(float),
                                cudaMemcpyDeviceToHost));
            MUST_RUN(cudaMemcpy(normed[i], both[i]->rows.bf16, n * sizeof(uint16_t),
                                cudaMemcpyDeviceToHost));
        }
        size_t off = 0;
        for (size_t i = 0; i < used * m; i++) {
            size_t at =
                gpu_row_place(i / m, m / RF_BLOCK, i % m / RF_BLOCK) * RF_BLOCK + i % RF_BLOCK;
            off += normed[0][at] != normed[1][at] || normed[0][at] == 0xffff;
        }
        CHECK_MSG(memcmp(sums[0], sums[1], used * m / GPU_SQUARES * sizeof(float)) == 0 && off == 0,
                  "%zu x %zu, %zu rows: the next norm, %zu off", m, k, used, off);
        for (int i = 0; i < 2; i++) {
            free(sums[i]);
            free(normed[i]);
        }
        folded_free(&of_layer);
        folded_free(&of_norm);
    }
    MUST_RUN(cudaFree(rows));
    free(x);
    layer_free(&layer);
}

/* ---- many rows on wgmma ---- */

/* Layers of several matrices behind a folded norm, of n rows of MOST_ROWS: all results, or the gate
 * of the first two in one launch or in two. */
struct wide {
    struct layer layers[GPU_MATRICES], gains;
    int n_layers, gates, joined;
    size_t k;
};

static struct wide wide_new(const size_t *rows, int n_layers, size_t k)
{
    struct wide wide = {.n_layers = n_layers, .k = k};
    for (int l = 0; l < n_layers; l++) layer_new(&wide.layers[l], RF_FORMAT_BF16, rows[l], k);
    layer_new(&wide.gains, RF_FORMAT_BF16, k, GPU_PAIR);
    return wide;
}

static void wide_free(struct wide *wide)
{
    for (int l = 0; l < wide->n_layers; l++) layer_free(&wide->layers[l]);
    layer_free(&wide->gains);
}

static void *run_wide(const struct wide *wide, int32_t n, size_t *bytes)
{
    const struct gpu_launch launch = {NULL, has_clusters};
    struct folded folded;
    float *y[GPU_MATRICES];
    size_t m = wide->layers[0].m, rows = 0, at = 0;
    folded_new(&folded, &wide->gains, wide->layers[0].x, wide->k);
    struct gpu_linear args = {.format = RF_FORMAT_BF16,
                              .n = n,
                              .k = (int32_t)wide->k,
                              .n_matrices = wide->n_layers,
                              .x = rows_for(folded.rows, n),
                              .fold = folded.fold,
                              .gates = wide->gates && wide->joined};
    for (int l = 0; l < wide->n_layers; l++) {
        const struct layer *layer = &wide->layers[l];
        y[l] = device_memory(NULL, (size_t)n * layer->m * sizeof(float));
        rows += layer->m;
        args.matrices[l] = (struct gpu_matrix){
            layer->tiles, l == 1 ? NULL : device_memory(layer->bias, layer->m * sizeof(float)),
            y[l], (int32_t)layer->m, 0};
    }
    args.parts = gpu_parts(rows);
    if (wide->gates)
        args.gated = (struct gpu_rows){
            .arranged = device_memory(NULL, gpu_arranged_bytes((size_t)n, m / GPU_PAIR)),
            .width = (int32_t)m,
            .pairs = (int32_t)m / GPU_PAIR};
    *bytes = wide->gates ? gpu_arranged_bytes((size_t)n, m / GPU_PAIR)
                         : (size_t)n * rows * sizeof(float);
    char *results = host_memory(*bytes);
    MUST_RUN(gpu_fold_norm(&launch, &args.x, folded.x, &folded.fold, n));
    if (wide->gates) CHECK(gpu_can_gate(&args));
    MUST_RUN(gpu_linear(&launch, &args));
    const struct gpu_gate gate = {.gate = y[0], .up = y[1]};
    if (wide->gates && !wide->joined) MUST_RUN(gpu_gate(&launch, &args.gated, &gate, n));
    if (wide->gates)
        MUST_RUN(cudaMemcpy(results, args.gated.arranged, *bytes, cudaMemcpyDeviceToHost));
    for (int l = 0; l < wide->n_layers; l++) {
        size_t of = (size_t)n * wide->layers[l].m * sizeof(float);
        if (!wide->gates) MUST_RUN(cudaMemcpy(results + at, y[l], of, cudaMemcpyDeviceToHost));
        at += of;
        MUST_RUN(cudaFree(y[l]));
        MUST_RUN(cudaFree((void *)args.matrices[l].bias));
    }
    MUST_RUN(cudaFree(args.gated.arranged));
    folded_free(&folded);
    return results;
}

/* Each matrix has the bits that few rows give it. */
static void check_wide_matrices(size_t q, size_t kv, size_t last, size_t k)
{
    static const int32_t counts[] = {65, MOST_ROWS};
    const size_t rows[] = {q, kv, last};
    struct wide wide = wide_new(rows, 3, k);
    size_t few_bytes, bytes;
    float *few = run_wide(&wide, GPU_NARROW_ROWS, &few_bytes);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        float *many = run_wide(&wide, counts[c], &bytes), *of_few = few, *of_many = many;
        for (int l = 0; l < 3; l++) {
            CHECK_MSG(memcmp(of_few, of_many, GPU_NARROW_ROWS * rows[l] * sizeof *few) == 0,
                      "matrix %d of %zu, %zu, %zu x %zu, %d rows", l, q, kv, last, k, counts[c]);
            of_few += GPU_NARROW_ROWS * rows[l];
            of_many += (size_t)counts[c] * rows[l];
        }
        free(many);
    }
    free(few);
    wide_free(&wide);
}

/* Panels in one launch, of rows that the device packs, have the bits of each matrix alone times few
 * rows. */
static void check_wide_panels(int format, const size_t *rows, size_t k)
{
    const struct gpu_launch launch = {NULL, has_clusters};
    struct layer layers[GPU_MATRICES];
    size_t pairs = (k + 63) / 64, all = rows[0] + rows[1] + rows[2];
    struct gpu_rows x = {.pieces = device_memory(NULL, gpu_pieces_bytes(MOST_ROWS, pairs)),
                         .width = (int32_t)k,
                         .pairs = (int32_t)pairs};
    struct gpu_linear args = {.format = format,
                              .n = MOST_ROWS,
                              .k = (int32_t)k,
                              .n_matrices = GPU_MATRICES,
                              .parts = gpu_parts(all),
                              .x = x};
    for (int l = 0; l < GPU_MATRICES; l++) {
        layer_new(&layers[l], format, rows[l], k);
        memcpy(layers[l].x, layers[0].x, MOST_ROWS * k * sizeof(float));
        args.matrices[l] =
            (struct gpu_matrix){.tiles = layers[l].tiles,
                                .y = device_memory(NULL, MOST_ROWS * rows[l] * sizeof(float)),
                                .rows = (int32_t)rows[l]};
    }
    float *from = device_memory(layers[0].x, MOST_ROWS * k * sizeof *from);
    MUST_RUN(gpu_copy(&launch, &x, from, MOST_ROWS));
    MUST_RUN(gpu_linear(&launch, &args));
    for (int l = 0; l < GPU_MATRICES; l++) {
        size_t n = GPU_NARROW_ROWS * rows[l], off = 0;
        float *few = host_memory(n * sizeof *few), *many = host_memory(n * sizeof *many);
        run(&layers[l], GPU_NARROW_ROWS, NULL, args.parts, 0, 0, few);
        MUST_RUN(cudaMemcpy(many, args.matrices[l].y, n * sizeof *many, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < n; i++) off += few[i] != many[i];
        CHECK_MSG(off == 0, "%s, matrix %d of %zu, %zu, %zu x %zu: %zu results",
                  rf_panel_layout((enum rf_format)format)->name, l, rows[0], rows[1], rows[2], k,
                  off);
        free(few);
        free(many);
        MUST_RUN(cudaFree(args.matrices[l].y));
        layer_free(&layers[l]);
    }
    MUST_RUN(cudaFree(x.pieces));
    MUST_RUN(cudaFree(from));
}

/* Gates and norms that leave pieces leave those of their results. */
static void check_pieces(int32_t width)
{
    const struct gpu_launch launch = {NULL, 0};
    int32_t pairs = (width + 63) / 64;
    size_t n = (size_t)MOST_ROWS * (size_t)width,
           bytes = gpu_pieces_bytes(MOST_ROWS, (size_t)pairs);
    float *values = host_memory(2 * n * sizeof *values);
    for (size_t i = 0; i < 2 * n; i++) values[i] = random_float();
    float *from = device_memory(values, 2 * n * sizeof *from);
    const struct gpu_gate gate = {.gate = from, .up = from + n};
    struct gpu_rows floats = {
        .f32 = device_memory(NULL, n * sizeof(float)), .width = width, .pairs = pairs};
    char *pieces[2] = {host_memory(bytes), host_memory(bytes)};
    for (int is_norm = 0; is_norm < 2; is_norm++) {
        for (int apart = 0; apart < 2; apart++) {
            struct gpu_rows x = {
                .pieces = device_memory(NULL, bytes), .width = width, .pairs = pairs};
            const struct gpu_rows *out = apart ? &floats : &x;
            MUST_RUN(is_norm ? gpu_norm(&launch, out, from, from + n, 1e-6f, NULL, MOST_ROWS)
                             : gpu_gate(&launch, out, &gate, MOST_ROWS));
            if (apart) MUST_RUN(gpu_copy(&launch, &x, floats.f32, MOST_ROWS));
            MUST_RUN(cudaMemcpy(pieces[apart], x.pieces, bytes, cudaMemcpyDeviceToHost));
            MUST_RUN(cudaFree(x.pieces));
        }
        CHECK_MSG(memcmp(pieces[0], pieces[1], bytes) == 0, "pieces of a %s of width %d",
                  is_norm ? "norm" : "gate", width);
    }
    for (int i = 0; i < 2; i++) free(pieces[i]);
    MUST_RUN(cudaFree(floats.f32));
    MUST_RUN(cudaFree(from));
    free(values);
}

/* A gate within the layer has the bits of one behind it. */
static void check_wide_gate(size_t m, size_t k)
{
    const size_t rows[] = {m, m};
    struct wide wide = wide_new(rows, 2, k);
    size_t bytes, groups = m / RF_BLOCK, off = 0, nonzero = 0;
    wide.gates = 1;
    uint16_t *apart = run_wide(&wide, MOST_ROWS, &bytes);
    wide.joined = 1;
    uint16_t *joined = run_wide(&wide, MOST_ROWS, &bytes);
    for (size_t i = 0; i < MOST_ROWS * m; i++) {
        size_t at = gpu_arranged_place(i / m, groups, i % m);
        off += apart[at] != joined[at] || joined[at] == 0xffff;
        nonzero += apart[at] != 0;
    }
    CHECK_MSG(off == 0 && nonzero > MOST_ROWS * m / 2, "a gate of %zu x %zu: %zu values", m, k,
              off);
    free(apart);
    free(joined);
    wide_free(&wide);
}

/* Of all forms of tiles, on a device of 132 processors, and in parts of even and odd lengths. */
static void check_wide(void)
{
    static const size_t rows[] = {1500, 2048, 3000, 3550, 4096, 4600, 6144, 8192},
                        gated[] = {64, 1024, 2048, 3072, 4160}, of_panels[] = {300, 61, 129};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_many_rows(RF_FORMAT_BF16, rows[i], 1056);
    check_many_rows(RF_FORMAT_BF16, 4608, 72);
    check_many_rows(RF_FORMAT_BF16, 37, 4160);
    check_many_rows(RF_FORMAT_BF16, 8192, 3584);
    check_wide_matrices(300, 61, 61, 448);
    check_wide_matrices(3584, 512, 512, 960);
    for (size_t i = 0; i < sizeof gated / sizeof *gated; i++) check_wide_gate(gated[i], 320);
    for (int format = RF_FORMAT_MXFP4; format < RF_FORMAT_COUNT; format++) {
        check_many_rows(format, 37, 4352);
        check_many_rows(format, 1600, 512);
        check_many_rows(format, 4616, 768);
        check_wide_panels(format, of_panels, 1280);
    }
    check_many_rows(RF_FORMAT_Q4_K, 8192, 3584);
    check_many_rows(RF_FORMAT_Q8_0, 4000, 1056);
    check_pieces(96);
    check_pieces(2944);
    check_pieces(12352);
}

/* ---- rotations behind q, k and v ---- */

enum { KV_HEADS = 2, ROTATED_K = 192 };

/* One layer's q, k and v of n rows, and their rotation, in one launch or in two: q, then the
 * cache's block. */
static void run_rotation(const struct layer *layers, int32_t heads, int32_t dim, int32_t n,
                         int joined, int is_bf16, void *q, void *block)
{
    const struct gpu_launch launch = {NULL, 0};
    enum { ROWS = 2 * GPU_ROW_GROUP };
    struct gpu_row places[ROWS];
    uint16_t x[ROWS * ROTATED_K];
    float *turns = host_memory((size_t)(ROWS * 2 * dim) * sizeof *turns), *y[3];
    size_t block_bytes = (size_t)(2 * KV_HEADS * GPU_KV_BLOCK * dim) * 2;
    void *cache = device_memory(NULL, block_bytes), *of_cache = device_memory(&cache, sizeof cache);
    for (int32_t i = 0; i < ROWS; i++)
        places[i] = (struct gpu_row){.position = 3 * i, .slot = 100 - i, .map = GPU_NO_MAP};
    for (size_t i = 0; i < ROWS * ROTATED_K; i++) x[i] = rf_f32_to_bf16(layers->x[i]);
    for (int i = 0; i < ROWS * 2 * dim; i++) turns[i] = sinf((float)i);
    for (int l = 0; l < 3; l++) y[l] = device_memory(NULL, layers[l].m * (size_t)n * sizeof(float));
    struct gpu_linear args = {
        .format = RF_FORMAT_BF16,
        .n = n,
        .k = ROTATED_K,
        .n_matrices = 3,
        .parts = gpu_parts(layers[0].m + layers[1].m + layers[2].m),
        .x = {.bf16 = device_memory(x, sizeof x),
              .width = ROTATED_K,
              .pairs = ROTATED_K / GPU_PAIR},
        .rotates = joined,
        .rope = {.heads = {heads, KV_HEADS, dim, dim, is_bf16},
                 .pass = {.rows = device_memory(places, sizeof places), .blocks = of_cache},
                 .q = y[0],
                 .k = y[1],
                 .v = y[2],
                 .rotations = device_memory(turns, (size_t)(ROWS * 2 * dim) * sizeof *turns),
                 .half = dim / 2,
                 .rope_dim = dim,
                 .is_neox = 1,
                 .is_local = 1}};
    for (int l = 0; l < 3; l++)
        args.matrices[l] = (struct gpu_matrix){
            layers[l].tiles, l < 2 ? device_memory(layers[l].bias, layers[l].m * 4) : NULL, y[l],
            (int32_t)layers[l].m, 0};
    CHECK(gpu_can_rotate(&args));
    MUST_RUN(gpu_linear(&launch, &args));
    if (!joined) MUST_RUN(gpu_rope_store(&launch, &args.rope, n));
    MUST_RUN(cudaMemcpy(q, y[0], layers[0].m * (size_t)n * sizeof(float), cudaMemcpyDeviceToHost));
    MUST_RUN(cudaMemcpy(block, cache, block_bytes, cudaMemcpyDeviceToHost));
    void *const memory[] = {cache,
                            of_cache,
                            y[0],
                            y[1],
                            y[2],
                            args.x.bf16,
                            (void *)args.rope.pass.rows,
                            (void *)args.rope.rotations,
                            (void *)args.matrices[0].bias,
                            (void *)args.matrices[1].bias};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) MUST_RUN(cudaFree(memory[i]));
    free(turns);
}

static void check_rotation(int32_t heads, int32_t dim)
{
    struct layer layers[3];
    for (int l = 0; l < 3; l++)
        layer_new(&layers[l], RF_FORMAT_BF16, (size_t)(dim * (l ? KV_HEADS : heads)), ROTATED_K);
    size_t q_bytes = layers[0].m * GPU_FOLDED_ROWS * sizeof(float),
           block_bytes = (size_t)(2 * KV_HEADS * GPU_KV_BLOCK * dim) * 2;
    void *q[2], *block[2];
    for (int i = 0; i < 2; i++) {
        q[i] = host_memory(q_bytes);
        block[i] = host_memory(block_bytes);
    }
    for (size_t c = 0; c < JOINED_COUNTS; c++) {
        for (int joined = 0; joined < 2; joined++)
            run_rotation(layers, heads, dim, joined_counts[c], joined, c % 2, q[joined],
                         block[joined]);
        CHECK_MSG(memcmp(q[0], q[1], layers[0].m * (size_t)joined_counts[c] * 4) == 0,
                  "%d rows: q has other bits", joined_counts[c]);
        CHECK_MSG(memcmp(block[0], block[1], block_bytes) == 0, "%d rows: other keys or values",
                  joined_counts[c]);
    }
    for (int i = 0; i < 2; i++) {
        free(q[i]);
        free(block[i]);
    }
    for (int l = 0; l < 3; l++) layer_free(&layers[l]);
}

/* ---- one row of 8 bits, with what is before and behind its layer in one launch ---- */

enum { ONE_K = 1280 };

/* A layer of up to three matrices, and a row of 8 bits that is the norm of another one. */
struct one {
    struct gpu_linear args;
    struct gpu_unnormed row;
    char *x;
};

static size_t bytes_of_8(size_t width)
{
    return GPU_ROW_GROUP * (width + 2 * (width / RF_BLOCK * 2 * sizeof(float)));
}

static struct gpu_rows rows_in(char *memory, size_t width)
{
    size_t codes = GPU_ROW_GROUP * width, scales = codes / RF_BLOCK * 2 * sizeof(float);
    return (struct gpu_rows){.codes = (int8_t *)memory,
                             .scales = (float *)(void *)(memory + codes),
                             .halves = (float *)(void *)(memory + codes + scales),
                             .width = (int32_t)width,
                             .pairs = (int32_t)(width / GPU_PAIR)};
}

static struct one one_new(const struct layer *layers, int n)
{
    size_t k = layers->k, rows = 0;
    struct one one = {.row = {device_memory(layers->x, k * sizeof(float)),
                              device_memory(layers->x + k, k * sizeof(float)), 1e-5f},
                      .x = device_memory(NULL, bytes_of_8(k))};
    one.args = (struct gpu_linear){
        .format = layers->format, .n = 1, .k = (int32_t)k, .n_matrices = n, .x = rows_in(one.x, k)};
    for (int l = 0; l < n; l++) {
        size_t bytes = layers[l].m * sizeof(float);
        rows += layers[l].m;
        one.args.matrices[l] =
            (struct gpu_matrix){layers[l].tiles, device_memory(layers[l].bias, bytes),
                                device_memory(layers[l].start, bytes), (int32_t)layers[l].m, 0};
    }
    one.args.parts = gpu_parts(rows);
    return one;
}

static void one_free(struct one *one)
{
    MUST_RUN(cudaFree((void *)one->row.x));
    MUST_RUN(cudaFree((void *)one->row.gain));
    MUST_RUN(cudaFree(one->x));
    for (int l = 0; l < one->args.n_matrices; l++) {
        MUST_RUN(cudaFree((void *)one->args.matrices[l].bias));
        MUST_RUN(cudaFree(one->args.matrices[l].y));
    }
}

/* The norm, by the layer or before it. */
static void run_norm(struct one *one, int joined)
{
    const struct gpu_launch launch = {NULL, 0};
    if (joined) {
        one->args.unnormed = one->row;
        CHECK(gpu_can_norm(&one->args));
    } else {
        MUST_RUN(gpu_norm(&launch, &one->args.x, one->row.x, one->row.gain, one->row.eps, NULL, 1));
    }
}

/* Copies of what each kind of layer leaves, of *bytes. */
static void *run_one_added(struct one *one, int joined, size_t *bytes)
{
    const struct gpu_launch launch = {NULL, 0};
    *bytes = (size_t)one->args.matrices[0].rows * sizeof(float);
    void *results = host_memory(*bytes);
    one->args.accumulate = 1;
    run_norm(one, joined);
    MUST_RUN(gpu_linear(&launch, &one->args));
    MUST_RUN(cudaMemcpy(results, one->args.matrices[0].y, *bytes, cudaMemcpyDeviceToHost));
    return results;
}

static void *run_one_gate(struct one *one, int joined, size_t *bytes)
{
    const struct gpu_launch launch = {NULL, 0};
    const struct gpu_gate gate = {.gate = one->args.matrices[0].y, .up = one->args.matrices[1].y};
    size_t m = (size_t)one->args.matrices[0].rows;
    *bytes = bytes_of_8(m);
    char *results = host_memory(*bytes), *gated = device_memory(results, *bytes);
    one->args.gated = rows_in(gated, m);
    CHECK(gpu_can_gate(&one->args));
    one->args.gates = joined;
    run_norm(one, joined);
    MUST_RUN(gpu_linear(&launch, &one->args));
    if (!joined) MUST_RUN(gpu_gate(&launch, &one->args.gated, &gate, 1));
    MUST_RUN(cudaMemcpy(results, gated, *bytes, cudaMemcpyDeviceToHost));
    MUST_RUN(cudaFree(gated));
    return results;
}

/* q, then the cache's block. */
static void *run_one_rotation(struct one *one, int joined, size_t *bytes)
{
    const struct gpu_launch launch = {NULL, 0};
    const struct gpu_row place = {.position = 3, .slot = 100, .map = GPU_NO_MAP};
    int32_t kv = one->args.matrices[1].rows, dim = kv / KV_HEADS;
    size_t q = (size_t)one->args.matrices[0].rows * sizeof(float),
           block = (size_t)(2 * GPU_KV_BLOCK * kv) * sizeof(uint16_t);
    void *cache = device_memory(NULL, block), *blocks = device_memory(&cache, sizeof cache),
         *places = device_memory(&place, sizeof place);
    float *turns = host_memory((size_t)(2 * dim) * sizeof *turns);
    for (int i = 0; i < 2 * dim; i++) turns[i] = sinf((float)i);
    float *rotations = device_memory(turns, (size_t)(2 * dim) * sizeof *turns);
    one->args.rope =
        (struct gpu_rope){.heads = {one->args.matrices[0].rows / dim, KV_HEADS, dim, dim, 1},
                          .pass = {.rows = places, .blocks = blocks},
                          .q = one->args.matrices[0].y,
                          .k = one->args.matrices[1].y,
                          .v = one->args.matrices[2].y,
                          .rotations = rotations,
                          .half = dim / 2,
                          .rope_dim = dim,
                          .is_neox = 1,
                          .is_local = 1};
    CHECK(gpu_can_rotate(&one->args));
    one->args.rotates = joined;
    run_norm(one, joined);
    MUST_RUN(gpu_linear(&launch, &one->args));
    if (!joined) MUST_RUN(gpu_rope_store(&launch, &one->args.rope, 1));
    *bytes = q + block;
    char *results = host_memory(*bytes);
    MUST_RUN(cudaMemcpy(results, one->args.rope.q, q, cudaMemcpyDeviceToHost));
    MUST_RUN(cudaMemcpy(results + q, cache, block, cudaMemcpyDeviceToHost));
    void *const memory[] = {cache, blocks, places, rotations};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) MUST_RUN(cudaFree(memory[i]));
    free(turns);
    return results;
}

/* Layers of these rows: what they leave in one launch has the bits of several. */
static void check_one(void *(*run_as)(struct one *, int, size_t *), int format, const size_t *rows,
                      size_t k)
{
    struct layer layers[GPU_MATRICES];
    void *results[2];
    size_t bytes = 0, nonzero = 0;
    int n = 0;
    for (; n < GPU_MATRICES && rows[n]; n++) layer_new(&layers[n], format, rows[n], k);
    for (int joined = 0; joined < 2; joined++) {
        struct one one = one_new(layers, n);
        results[joined] = run_as(&one, joined, &bytes);
        one_free(&one);
    }
    for (size_t i = 0; i < bytes; i++) nonzero += ((const uint8_t *)results[0])[i] != 0;
    CHECK(nonzero > rows[0] / 4); /* half of the gates are nearly 0 */
    CHECK_MSG(memcmp(results[0], results[1], bytes) == 0,
              "one row, format %d, %d matrices, %zu x %zu: other bits", format, n, rows[0], k);
    for (int joined = 0; joined < 2; joined++) free(results[joined]);
    for (int l = 0; l < n; l++) layer_free(&layers[l]);
}

static void check_ones(void)
{
    static const size_t few[3] = {60}, many[3] = {GPU_FEW_ROWS + 20},
                        gates[3] = {GPU_FEW_ROWS / 2 + 64, GPU_FEW_ROWS / 2 + 64},
                        heads[3] = {384, 128, 128}, more_heads[3] = {5120, 256, 256};
    for (int format = RF_FORMAT_BF16 + 1; format < RF_FORMAT_COUNT; format++) {
        size_t unit = rf_panel_layout((enum rf_format)format)->unit;
        if (gpu_has_small_groups(format)) continue;
        check_one(run_one_added, format, few, unit > 32 ? ONE_K : ONE_K + GPU_PAIR);
        check_one(run_one_added, format, many, ONE_K);
        check_one(run_one_gate, format, gates, 768);
        check_one(run_one_rotation, format, heads, ONE_K);
        check_one(run_one_rotation, format, more_heads, ONE_K);
    }
    check_one(run_one_gate, RF_FORMAT_Q4_K, gates, 1536);
    check_one(run_one_added, RF_FORMAT_Q4_0, few, 8192);
}

int main(void)
{
    static const size_t shapes[][2] = {{16, 256}, {7, 256}, {61, 512}, {129, 1536}, {100, 4864}};
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
        fprintf(stderr, "skipped: no CUDA device\n");
        return 77;
    }
    struct cudaDeviceProp properties;
    MUST_RUN(cudaGetDeviceProperties(&properties, 0));
    has_wgmma = gpu_has_wide(properties.major, properties.minor);
    has_clusters = properties.major >= 9;
    for (int format = 0; format < RF_FORMAT_COUNT; format++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            size_t unit = format ? rf_panel_layout((enum rf_format)format)->unit : 1;
            size_t m = shapes[s][0], k = shapes[s][1];
            check_layer(format, 0, m, unit <= 32 && s % 2 ? k - 32 : k);
            if (format) check_layer(format, 1, m, k);
        }
    check_layer(RF_FORMAT_BF16, 0, 61, 72);
    check_layer(RF_FORMAT_BF16, 0, GPU_FEW_ROWS + 20, 192);
    check_layer(RF_FORMAT_Q4_K, 0, GPU_FEW_ROWS + 20, 768);
    check_layer(RF_FORMAT_Q8_0, 0, GPU_FEW_ROWS + 20, 544);
    check_layer(RF_FORMAT_BF16, 0, 3100, 544);
    check_layer(RF_FORMAT_BF16, 0, 2064, 2080);
    check_layer(RF_FORMAT_Q4_K, 0, 8200, 512);
    check_layer(RF_FORMAT_MXFP4, 0, 8192, 544);
    check_many_rows(RF_FORMAT_BF16, 3100, 544);
    if (has_wgmma) check_wide();
    check_experts();
    check_gate();
    check_folded(61, 576);
    check_folded(GPU_FEW_ROWS + 32, 192);
    check_folded(3072, 1024);
    check_fold_next(1536, 320);
    check_fold_next(GPU_FEW_ROWS + 64, 192);
    check_rotation(6, 64);
    check_rotation(40, 128);
    check_ones();
    return check_result();
}
