/* Linear layers on a CUDA device that do what is before and behind them: gates, rotations and
 * norms. Rows have the bits that the same operations give one by one, or are near them where a norm
 * is folded, and do not depend on the number of rows. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "device.h"
#include "layers.h"
#include "support/check.h"

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
        run_layer(&layer, GPU_NARROW_ROWS, NULL, parts[p], 0, 0, wanted);
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            size_t rows = (size_t)counts[c], off = 0;
            run_layer(&layer, counts[c], NULL, parts[p], 0, 0, got);
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
        run_layer(&layers[l], GPU_NARROW_ROWS, NULL, args.parts, 0, 0, few);
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
    const struct gpu_norm_args norm = {.x = from, .gain = from + n, .eps = 1e-6f};
    struct gpu_rows floats = {
        .f32 = device_memory(NULL, n * sizeof(float)), .width = width, .pairs = pairs};
    char *pieces[2] = {host_memory(bytes), host_memory(bytes)};
    for (int is_norm = 0; is_norm < 2; is_norm++) {
        for (int apart = 0; apart < 2; apart++) {
            struct gpu_rows x = {
                .pieces = device_memory(NULL, bytes), .width = width, .pairs = pairs};
            const struct gpu_rows *out = apart ? &floats : &x;
            MUST_RUN(is_norm ? gpu_norm(&launch, out, &norm, MOST_ROWS)
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

/* Checks all forms of tiles, for a device of 132 processors, in parts of even and odd lengths. */
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
    for (int format = RF_FORMAT_MXFP4; format < RF_DEVICE_FORMAT_COUNT; format++) {
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
        const struct gpu_norm_args norm = {
            .x = one->row.x, .gain = one->row.gain, .eps = one->row.eps};
        MUST_RUN(gpu_norm(&launch, &one->args.x, &norm, 1));
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
    for (int format = RF_FORMAT_BF16 + 1; format < RF_DEVICE_FORMAT_COUNT; format++) {
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
    if (!find_device()) return 77;
    check_gate();
    check_folded(61, 576);
    check_folded(GPU_FEW_ROWS + 32, 192);
    check_folded(3072, 1024);
    check_fold_next(1536, 320);
    check_fold_next(GPU_FEW_ROWS + 64, 192);
    check_rotation(6, 64);
    check_rotation(40, 128);
    check_ones();
    check_many_rows(RF_FORMAT_BF16, 3100, 544);
    if (has_wgmma) check_wide();
    return check_result();
}
