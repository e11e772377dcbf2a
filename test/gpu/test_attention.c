/* Attention on a CUDA device: over 16 bits against sums in double, over quantised groups against
 * the scalar reference. Groups have the bits of rf_kv_quantize, and each row has the same bits
 * whatever the tiles. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "device.h"
#include "gpu/kernels.h"
#include "microkernels/kernels.h"
#include "microkernels/kv.h"
#include "platform/cpu.h"
#include "support/check.h"

enum { SPANS = 16, KV_HEADS = 2, MOST_ROWS = 20, MOST_DIM = 256 };

static int overlaps; /* the device can overlap kernels */

/* A layer's cache of n positions, of which the last `rows` ask. */
struct subject {
    int32_t n, rows, group, dim, window, quantised;
    int is_bf16;
    float cap;
    float *q, *sinks;                  /* [rows][heads][dim]; [heads] or NULL */
    float *k, *v;                      /* [KV head][n][dim], as the cache holds them */
    uint16_t *blocks;                  /* the device's layout, from the first position on */
    uint8_t *groups;                   /* the device's layout */
    size_t of_block, of_group, padded; /* elements, bytes */
    int32_t n_blocks, n_groups;
    struct gpu_heads heads;
    uint16_t *device_blocks;
    uint8_t *device_groups;
};

static uint16_t to_half(const struct subject *subject, float x)
{
    return subject->is_bf16 ? rf_f32_to_bf16(x) : rf_f32_to_f16(x);
}

static float from_half(const struct subject *subject, uint16_t x)
{
    return subject->is_bf16 ? rf_bf16_to_f32(x) : rf_f16_to_f32(x);
}

static void fill_blocks(struct subject *subject)
{
    size_t dim = (size_t)subject->dim, n = (size_t)subject->n;
    for (size_t h = 0; h < KV_HEADS; h++)
        for (size_t p = 0; p < n; p++)
            for (size_t j = 0; j < dim; j++) {
                uint16_t *plane = subject->blocks + p / GPU_KV_BLOCK * subject->of_block +
                                  h * 2 * GPU_KV_BLOCK * subject->padded;
                uint16_t *k = plane + p % GPU_KV_BLOCK * subject->padded + j,
                         *v = k + GPU_KV_BLOCK * subject->padded;
                size_t at = (h * n + p) * dim + j;
                *k = to_half(subject, random_float() * (j % 7 == 3 ? 4.0f : 1.0f));
                *v = to_half(subject, random_float());
                subject->k[at] = from_half(subject, *k);
                subject->v[at] = from_half(subject, *v);
            }
}

/* The processor's groups. */
static void quantise(const struct subject *subject, size_t g, uint8_t *group)
{
    static uint16_t k[RF_KV_GROUP * MOST_DIM], v[RF_KV_GROUP * MOST_DIM];
    size_t dim = (size_t)subject->dim, padded = subject->padded;
    for (size_t h = 0; h < KV_HEADS; h++) {
        memset(v, 0, sizeof v);
        for (size_t p = 0; p < RF_KV_GROUP; p++)
            for (size_t j = 0; j < dim; j++) {
                size_t at = (h * (size_t)subject->n + g * RF_KV_GROUP + p) * dim + j;
                k[(p / 16 * dim + j) * 16 + p % 16] = rf_f32_to_f16(subject->k[at]);
                v[p * padded + j] = rf_f32_to_f16(subject->v[at]);
            }
        uint8_t *lower = group + KV_HEADS * rf_kv_upper_bytes(padded);
        rf_kv_quantize(group + h * rf_kv_upper_bytes(padded),
                       subject->quantised == 8 ? lower + h * rf_kv_lower_bytes(padded) : NULL, k, v,
                       dim);
    }
}

static void subject_new(struct subject *subject)
{
    size_t dim = (size_t)subject->dim, n = (size_t)subject->n,
           heads = KV_HEADS * (size_t)subject->group, rows = (size_t)subject->rows;
    size_t padded = subject->padded = rf_padded(dim);
    subject->n_blocks = (subject->n + GPU_KV_BLOCK - 1) / GPU_KV_BLOCK;
    subject->n_groups = subject->quantised ? subject->n / RF_KV_GROUP : 0;
    subject->of_block = KV_HEADS * 2 * GPU_KV_BLOCK * padded;
    subject->of_group = KV_HEADS * (rf_kv_upper_bytes(padded) +
                                    (subject->quantised == 8 ? rf_kv_lower_bytes(padded) : 0));
    subject->q = host_memory(rows * heads * dim * sizeof(float));
    subject->k = host_memory(KV_HEADS * n * dim * sizeof(float));
    subject->v = host_memory(KV_HEADS * n * dim * sizeof(float));
    for (size_t i = 0; i < rows * heads * dim; i++) subject->q[i] = random_float() * 2.0f;
    size_t bytes = (size_t)subject->n_blocks * subject->of_block * sizeof(uint16_t);
    subject->blocks = host_memory(bytes);
    memset(subject->blocks, 0xff, bytes); /* NaN where nothing was written */
    for (size_t p = 0; p < (size_t)subject->n_blocks * KV_HEADS * 2 * GPU_KV_BLOCK; p++)
        memset(subject->blocks + p * padded, 0, padded * sizeof(uint16_t));
    fill_blocks(subject);
    for (size_t p = n; p < (size_t)subject->n_blocks * GPU_KV_BLOCK; p++)
        for (size_t h = 0; h < 2 * KV_HEADS; h++) /* never read */
            memset(subject->blocks + p / GPU_KV_BLOCK * subject->of_block +
                       (h * GPU_KV_BLOCK + p % GPU_KV_BLOCK) * padded,
                   0xff, padded * sizeof(uint16_t));
    subject->groups = host_memory((size_t)subject->n_groups * subject->of_group + 1);
    for (size_t g = 0; g < (size_t)subject->n_groups; g++)
        quantise(subject, g, subject->groups + g * subject->of_group);
    subject->heads = (struct gpu_heads){.n_head = (int32_t)heads,
                                        .n_head_kv = KV_HEADS,
                                        .dim = subject->dim,
                                        .padded = (int32_t)padded,
                                        .is_bf16 = subject->is_bf16,
                                        .spans = SPANS,
                                        .quantised = subject->quantised,
                                        .planes = KV_HEADS,
                                        .upper_bytes = (int32_t)rf_kv_upper_bytes(padded),
                                        .lower_bytes = (int32_t)rf_kv_lower_bytes(padded)};
    subject->device_blocks = device_memory(subject->blocks, bytes);
    subject->device_groups = device_memory(NULL, (size_t)subject->n_groups * subject->of_group + 1);
}

static void subject_free(struct subject *subject)
{
    free(subject->q);
    free(subject->k);
    free(subject->v);
    free(subject->blocks);
    free(subject->groups);
    MUST_RUN(cudaFree(subject->device_blocks));
    MUST_RUN(cudaFree(subject->device_groups));
}

/* The state of a query so far: sums of values, and of weights. */
struct sums {
    double values[MOST_DIM], weights;
};

/* The groups that a row reads quantised, by the processor's kernel; `first`: the first position
 * that it sees. Returns the first position behind them. */
static int32_t reference_groups(const struct subject *subject, const float *q, size_t h,
                                int32_t position, int32_t first, struct sums *sums)
{
    size_t padded = subject->padded;
    int32_t n = gpu_cut_of(&subject->heads, position).groups, begin = first / RF_KV_GROUP,
            within = first % RF_KV_GROUP;
    struct rf_kv_group groups[RF_KV_SPAN * 64];
    float out[MOST_DIM + 2];
    if (begin >= n) return n * RF_KV_GROUP;
    for (int32_t g = begin; g < n; g++) {
        const uint8_t *group = subject->groups + (size_t)g * subject->of_group,
                      *lower = group + KV_HEADS * rf_kv_upper_bytes(padded) +
                               h * rf_kv_lower_bytes(padded);
        groups[g - begin] = rf_kv_group_at(group + h * rf_kv_upper_bytes(padded),
                                           subject->quantised == 8 ? lower : NULL, padded);
    }
    const struct rf_attention_kv_args args = {.q = &q,
                                              .first = &within,
                                              .n_q = 1,
                                              .groups = groups,
                                              .n_groups = (size_t)(n - begin),
                                              .head_dim = (size_t)subject->dim,
                                              .scale = 1 / sqrtf((float)subject->dim),
                                              .cap = subject->cap,
                                              .out = out,
                                              .ldo = padded + 2};
    rf_kernels(RF_TIER_SCALAR)->attention_kv(&args);
    double weight = exp((double)out[padded]);
    sums->weights += weight * (double)out[padded + 1];
    for (int32_t j = 0; j < subject->dim; j++) sums->values[j] += weight * (double)out[j];
    return n * RF_KV_GROUP;
}

static void reference(const struct subject *subject, size_t row, size_t head, double *out)
{
    size_t dim = (size_t)subject->dim, h = head / (size_t)subject->group;
    int32_t position = subject->n - subject->rows + (int32_t)row;
    const float *q = subject->q + (row * KV_HEADS * (size_t)subject->group + head) * dim;
    int32_t first = subject->window > 0 ? position + 1 - subject->window : 0;
    double cap = (double)subject->cap;
    struct sums sums = {.weights = subject->sinks ? exp((double)subject->sinks[head]) : 0};
    if (first < 0) first = 0;
    int32_t begin = reference_groups(subject, q, h, position, first, &sums);
    for (int32_t p = begin > first ? begin : first; p <= position; p++) {
        size_t at = (h * (size_t)subject->n + (size_t)p) * dim;
        double score = 0;
        for (size_t j = 0; j < dim; j++) score += (double)q[j] * (double)subject->k[at + j];
        score /= sqrt((double)dim);
        if (cap > 0) score = cap * tanh(score / cap);
        double weight = exp(score);
        sums.weights += weight;
        for (size_t j = 0; j < dim; j++) sums.values[j] += weight * (double)subject->v[at + j];
    }
    for (size_t j = 0; j < dim; j++) out[j] = sums.values[j] / sums.weights;
}

static int32_t make_tiles(const struct subject *subject, int32_t most, struct gpu_tile *tiles)
{
    int32_t n = 0, first = subject->n - subject->rows;
    for (int32_t i = 0; i < subject->rows; i++) {
        struct gpu_cut cut = gpu_cut_of(&subject->heads, first + i), last = {0};
        if (n) last = gpu_cut_of(&subject->heads, first + tiles[n - 1].first);
        if (n && tiles[n - 1].n < most && cut.span == last.span && cut.groups == last.groups)
            tiles[n - 1].n++;
        else
            tiles[n++] = (struct gpu_tile){i, 1};
    }
    return n;
}

/* Merging to pieces leaves those of the results. */
static void check_pieces(const struct gpu_launch *launch, const struct gpu_attention *args,
                         const struct gpu_rows *results, int32_t n)
{
    size_t bytes = gpu_pieces_bytes((size_t)n, (size_t)results->pairs);
    char *pieces[2];
    for (int apart = 0; apart < 2; apart++) {
        const struct gpu_rows out = {
            .pieces = device_memory(NULL, bytes), .width = results->width, .pairs = results->pairs};
        MUST_RUN(apart ? gpu_copy(launch, &out, results->f32, n)
                       : gpu_merge(launch, args, &out, n));
        pieces[apart] = host_memory(bytes);
        MUST_RUN(cudaMemcpy(pieces[apart], out.pieces, bytes, cudaMemcpyDeviceToHost));
        MUST_RUN(cudaFree(out.pieces));
    }
    CHECK_MSG(memcmp(pieces[0], pieces[1], bytes) == 0, "pieces of %d rows", n);
    free(pieces[0]);
    free(pieces[1]);
}

/* All rows in tiles of up to `most`. The groups are quantised on the way. */
static void run(const struct subject *subject, int32_t most, int overlap, float *out)
{
    const struct gpu_launch launch = {NULL, overlap};
    struct gpu_row rows[MOST_ROWS];
    struct gpu_tile tiles[MOST_ROWS];
    size_t width = KV_HEADS * (size_t)(subject->group * subject->dim), n = (size_t)subject->rows,
           n_groups = (size_t)subject->n_groups, n_blocks = (size_t)subject->n_blocks;
    int32_t n_tiles = make_tiles(subject, most, tiles), first = subject->n - subject->rows;
    struct gpu_group_job *jobs = host_memory((n_groups + 1) * sizeof *jobs);
    void **blocks = host_memory(n_blocks * sizeof *blocks),
         **groups = host_memory((n_groups + 1) * sizeof *groups);
    for (int32_t i = 0; i < subject->rows; i++)
        rows[i] = (struct gpu_row){
            .position = first + i, .slot = first + i, .first = first, .map = GPU_NO_MAP};
    for (size_t b = 0; b < n_blocks; b++)
        blocks[b] = subject->device_blocks + b * subject->of_block;
    for (size_t g = 0; g < n_groups; g++) {
        groups[g] = subject->device_groups + g * subject->of_group;
        jobs[g] = (struct gpu_group_job){(int32_t)g, 0, 0, subject->quantised == 8};
    }
    int32_t parts = 0;
    for (int32_t i = 0; i < subject->rows; i++) {
        struct gpu_cut cut = gpu_cut_of(&subject->heads, first + i);
        if (parts < cut.parts) parts = cut.parts;
    }
    void *const memory[] = {
        device_memory(rows, n * sizeof *rows),
        device_memory(tiles, (size_t)n_tiles * sizeof *tiles),
        device_memory(blocks, n_blocks * sizeof *blocks),
        device_memory(groups, (n_groups + 1) * sizeof *groups),
        device_memory(jobs, (n_groups + 1) * sizeof *jobs),
        device_memory(subject->q, n * width * sizeof(float)),
        device_memory(NULL, n * width / (size_t)subject->dim * (size_t)parts *
                                (subject->padded + 2) * sizeof(float)),
        device_memory(NULL, n * width * sizeof(float)),
        device_memory(subject->sinks, KV_HEADS * (size_t)subject->group * sizeof *subject->sinks)};
    const struct gpu_attention args = {
        .heads = subject->heads,
        .pass = {.rows = memory[0], .tiles = memory[1], .blocks = memory[2], .groups = memory[3]},
        .q = memory[5],
        .partials = memory[6],
        .parts = parts,
        .n_tiles = n_tiles,
        .queries = most * subject->group,
        .window = subject->window,
        .scale = 1 / sqrtf((float)subject->dim),
        .cap = subject->cap,
        .sinks = subject->sinks ? memory[8] : NULL,
        .has_spans = n_groups > 0};
    const struct gpu_rows results = {
        .f32 = memory[7], .width = (int32_t)width, .pairs = (int32_t)(width + 63) / 64};
    if (n_groups) MUST_RUN(gpu_quantise(&launch, &args, memory[4], (int32_t)n_groups));
    if (n_groups) MUST_RUN(gpu_attention_kv(&launch, &args));
    MUST_RUN(gpu_attention(&launch, &args));
    MUST_RUN(gpu_merge(&launch, &args, &results, subject->rows));
    check_pieces(&launch, &args, &results, subject->rows);
    MUST_RUN(cudaMemcpy(out, results.f32, n * width * sizeof *out, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) MUST_RUN(cudaFree(memory[i]));
    free(jobs);
    free(blocks);
    free(groups);
}

/* The device's groups are the processor's. */
static void check_groups(const struct subject *subject)
{
    size_t bytes = (size_t)subject->n_groups * subject->of_group, off = 0;
    uint8_t *got = host_memory(bytes + 1);
    MUST_RUN(cudaMemcpy(got, subject->device_groups, bytes, cudaMemcpyDeviceToHost));
    while (off < bytes && got[off] == subject->groups[off]) off++;
    CHECK_MSG(off == bytes, "groups of %d bits, %d dimensions: byte %zu of %zu differs",
              subject->quantised, subject->dim, off, subject->of_group);
    free(got);
}

static void check_subject(struct subject subject)
{
    subject_new(&subject);
    size_t dim = (size_t)subject.dim, heads = KV_HEADS * (size_t)subject.group,
           floats = (size_t)subject.rows * heads * dim;
    float *wanted = host_memory(floats * sizeof *wanted), *got = host_memory(floats * sizeof *got);
    double exact[MOST_DIM], tolerance = subject.quantised ? 4e-3 : subject.is_bf16 ? 2e-4 : 2e-5;
    run(&subject, 1, 0, wanted);
    if (subject.quantised) check_groups(&subject);
    for (size_t row = 0; row<(size_t)subject.rows; row += subject.n> 2000 ? 9 : 3)
        for (size_t head = row % heads; head < heads; head += 3) {
            double off = 0, size = 0;
            reference(&subject, row, head, exact);
            for (size_t j = 0; j < dim; j++) {
                off += pow((double)wanted[(row * heads + head) * dim + j] - exact[j], 2);
                size += pow(exact[j], 2);
            }
            CHECK_MSG(off <= tolerance * tolerance * size,
                      "%d dimensions, %d positions, %d heads of queries, window %d, %d bits: row "
                      "%zu, head %zu is off by %.1e",
                      subject.dim, subject.n, subject.group, subject.window,
                      subject.quantised ? subject.quantised : 16, row, head, sqrt(off / size));
        }
    static const int32_t tiles[] = {2, 3, GPU_TILE_ROWS};
    for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++) {
        run(&subject, tiles[t], overlaps, got);
        CHECK_MSG(memcmp(got, wanted, floats * sizeof *got) == 0,
                  "%d dimensions, %d positions, %d bits: other bits in tiles of %d rows",
                  subject.dim, subject.n, subject.quantised, tiles[t]);
    }
    free(wanted);
    free(got);
    subject_free(&subject);
}

/* Argument: the only number of dimensions to check, for slow tools. */
int main(int argc, char **argv)
{
    static float sinks[64];
    int32_t only = argc > 1 ? (int32_t)strtol(argv[1], NULL, 10) : 0;
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
        fprintf(stderr, "skipped: no CUDA device\n");
        return 77;
    }
    struct cudaDeviceProp properties;
    MUST_RUN(cudaGetDeviceProperties(&properties, 0));
    overlaps = properties.major >= 9;
    for (int i = 0; i < 64; i++) sinks[i] = random_float() * 4;
    static const int32_t dims[] = {8, 40, 64, 80, 128, 200, 256}, groups[] = {1, 3, 7, 12, 2, 7, 1},
                         kinds[] = {0, 8, 4};
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            if (only && dims[d] != only) continue;
            struct subject subject = {.n = 700,
                                      .rows = MOST_ROWS,
                                      .group = groups[d],
                                      .dim = dims[d],
                                      .quantised = kinds[k]};
            check_subject(subject);
            subject.n = 397; /* rows on both sides of a group's end */
            subject.window = 150;
            subject.is_bf16 = !kinds[k];
            check_subject(subject);
            subject.n = 1100;
            subject.window = 500;
            subject.cap = 20;
            subject.sinks = sinks;
            check_subject(subject);
            subject.n = subject.rows = 15;
            check_subject(subject);
        }
    if (only) return check_result();
    /* Spans get longer here. */
    check_subject(
        (struct subject){.n = GPU_CHUNK * SPANS + 9, .rows = MOST_ROWS, .group = 7, .dim = 128});
    check_subject((struct subject){
        .n = GPU_CHUNK * SPANS + 9, .rows = MOST_ROWS, .group = 7, .dim = 64, .quantised = 8});
    return check_result();
}
