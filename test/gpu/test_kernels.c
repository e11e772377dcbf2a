/* Linear layers on a CUDA device against the scalar reference: panels times rows of 8 and 16 bits
 * give its bits, part by part of k, and in BF16 all results are near; and each row has the same
 * bits whatever the number of rows, and whether experts are grouped. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "device.h"
#include "layers.h"
#include "microkernels/kernels.h"
#include "platform/cpu.h"
#include "support/check.h"

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
        run_layer(&layer, MOST_ROWS, NULL, gpu_parts(m), in_16, 0, wanted);
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
        run_layer(&layer, row_counts[c], NULL, gpu_parts(m), in_16, 0, got);
        size_t off = 0;
        while (off < rows * m && got[off] == wanted[off]) off++;
        CHECK_MSG(off == rows * m,
                  "%s x %d bits, %zu x %zu, %zu rows: result %zu of row %zu is %.9g, not %.9g",
                  name, in_16 ? 16 : 8, m, k, rows, off % m, off / m, (double)got[off],
                  (double)wanted[off]);
        run_layer(&layer, row_counts[c], NULL, gpu_parts(m), in_16, 1, added);
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

/* ---- experts ---- */

enum { EXPERTS = 5, MOST_SORTED = EXPERTS * (MOST_ROWS + GPU_ROW_GROUP) };

/* Gives expert e the rows i of n for which (i + e) % 3 is 0, but expert 3 none. */
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
    run_layer(&layer, MOST_ROWS, NULL, GPU_PARTS, in_16, 0, wanted);
    for (size_t c = 0; c < sizeof row_counts / sizeof *row_counts; c++) {
        struct by_expert by;
        size_t off = 0;
        group_rows(row_counts[c], sources, groups, &by);
        const struct gpu_group *last = &groups[by.n_groups - 2];
        run_layer(&layer, last->first + last->n, &by, GPU_PARTS, in_16, 0, got);
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
    for (int format = 0; format < RF_DEVICE_FORMAT_COUNT; format++) {
        check_groups(format, 0, 768);
        if (format) check_groups(format, 1, 768);
    }
}

int main(void)
{
    static const size_t shapes[][2] = {{16, 256}, {7, 256}, {61, 512}, {129, 1536}, {100, 4864}};
    if (!find_device()) return 77;
    for (int format = 0; format < RF_DEVICE_FORMAT_COUNT; format++)
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
    check_experts();
    return check_result();
}
