/* Compares Riffle's kernels with those of libxsmm 1.17: a matrix that fits in the L2 cache times 1
 * to 128 rows, on one thread. First libxsmm's results are checked against a plain loop (kcheck does
 * that for Riffle's). Then, for each number of rows, all ways to multiply run in turn; figures are
 * medians of the rounds. Packing is not counted on either side. The last line tells whether the
 * number of rows changed a result's bits. The exit status is 1 if a result was wrong. */
#include <libxsmm.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/median.h"
#include "cpu/cpu.h"
#include "cpu/tiers.h"
#include "machine/peak.h"
#include "platform/clock.h"
#include "platform/cpu.h"
#include "platform/memory.h"

enum {
    M = 128, /* rows of weights, which are 768 KiB in F32 */
    K = 1536,
    MOST_ROWS = 128,
    TILE_ROWS = 16, /* x SCALED_MB integer sums are scaled at a time: they fit in the L1 cache */
    SCALED_MB = 64,
    ROUNDS = 15,
    MOST_WAYS = 6,
    MEMORY = 32 << 20
};
static const double ROUND_SECONDS = 1e-3, TOLERANCE = 1e-3;

/* A way to multiply: a column of a table. */
struct way {
    const char *name;
    void (*multiply)(const struct way *way, size_t n);
    const void *w, *x;
    void *y; /* [MOST_ROWS][M], the same for all ways */

    struct rf_peak_loop peak; /* an instruction's limit: as many operations on registers only */

    const struct rf_kernels *kernels; /* Riffle's */
    enum rf_format format;

    /* libxsmm's: w is [M/mb][K/kb][kb/v][mb][v] of elements of `bytes` each, v of which are four
     * bytes; x is [MOST_ROWS][K]. */
    size_t bytes, mb, kb;
    libxsmm_xmmfunction call;
    const float *scales;    /* [K/32][M]: of late scaling, where kb is 32 */
    const struct rf_a8 *a8; /* holds the scales of the rows */
    double unit;            /* unit of results that are integers; 0: they are F32 */
    const double *expected; /* [MOST_ROWS][M] */

    float first_row[M]; /* results of a call with one row */
    int bits_differ;    /* 1 if a call with more rows gave other bits */
};

/* All operands are allocated from one block and never freed. */
static void *take(char **memory, size_t bytes)
{
    void *part = *memory;
    *memory += (bytes + 63) & ~(size_t)63;
    return part;
}

/* -127/128 to 127/128. */
static float random_value(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)((*state >> 8) % 255) / 128 - 127.0f / 128;
}

/* ---- The ways ---- */

static void multiply_nothing(const struct way *way, size_t n)
{
    way->peak.run((uint64_t)(2.0 * M * K * (double)n / way->peak.operations));
}

/* Calls a kernel as the backend does: all rows with one piece of the weights after another. */
static void multiply_riffle(const struct way *way, size_t n)
{
    int bf16 = way->format == RF_FORMAT_BF16;
    size_t panel_bytes =
               bf16 ? RF_PANEL_ROWS * K * sizeof(uint16_t) : rf_panel_bytes(way->format, K),
           m;
    struct cpu_pieces pieces =
        rf_cpu_pieces(way->kernels, bf16, panel_bytes / RF_PANEL_ROWS, M, 1, n);
    for (size_t r = 0; r < M; r += m) {
        m = M - r < pieces.call ? M - r : pieces.call;
        const char *w = (const char *)way->w + r / RF_PANEL_ROWS * panel_bytes;
        size_t ldw = bf16 ? K : panel_bytes;
        struct rf_linear_args args = {(float *)way->y + r, M, w, ldw, way->x, m, n, K, NULL, 0};
        way->kernels->linear[way->format](&args);
    }
}

static void multiply_xsmm(const struct way *way, size_t n)
{
    (void)n; /* the call was generated for it */
    unsigned long long blocks = K / way->kb;
    for (size_t r = 0; r < M; r += way->mb)
        way->call.xmm((const char *)way->w + r * K * way->bytes, way->x, (float *)way->y + r,
                      &blocks);
}

#define WITH_AVX512 __attribute__((target("avx512f,fma,prefer-vector-width=512")))

/* Scales the sums of one group of k, [rows][SCALED_MB], and adds them to y. */
WITH_AVX512 static void add_scaled(float *restrict y, const int32_t *restrict sums,
                                   const float *restrict scales, const struct rf_a8 *restrict a8,
                                   size_t rows)
{
    for (size_t i = 0; i < rows; i++, y += M, sums += SCALED_MB, a8 += rf_a8_stride(K))
        for (size_t r = 0; r < SCALED_MB; r++)
            y[r] = fmaf((float)(sums[r] + a8->m128) * a8->d, scales[r], y[r]);
}

/* Late scaling, as needed for Q8_0 and MXFP4: the exact sum of 32 products is converted to F32 and
 * scaled. */
static void multiply_xsmm_scaled(const struct way *way, size_t n)
{
    _Alignas(64) int32_t sums[TILE_ROWS * SCALED_MB];
    const uint8_t *w = way->w;
    const int8_t *x = way->x;
    float *y = way->y;
    unsigned long long one = 1;
    size_t tile = n < TILE_ROWS ? n : TILE_ROWS;
    memset(y, 0, n * M * sizeof *y);
    for (size_t r = 0; r < M; r += SCALED_MB)
        for (size_t i = 0; i < n; i += tile)
            for (size_t g = 0; g < K / RF_BLOCK; g++) {
                way->call.xmm(w + r * K + g * RF_BLOCK * SCALED_MB, x + i * K + g * RF_BLOCK, sums,
                              &one);
                add_scaled(y + i * M + r, sums, way->scales + g * M + r,
                           way->a8 + i * rf_a8_stride(K) + g, tile);
            }
}

/* Generates the way's call for n rows. 0 where libxsmm has none. */
static int dispatch(struct way *way, size_t n)
{
    typedef libxsmm_blasint number;
    number rows = (number)(way->scales && n > TILE_ROWS ? TILE_ROWS : n), mb = (number)way->mb,
           kb = (number)way->kb;
    number ldx = K, ldy = way->scales ? mb : M, bytes = (number)way->bytes, block = mb * kb * bytes,
           step = kb * bytes;
    int flags = LIBXSMM_GEMM_FLAG_BETA_0 | (bytes < 4 ? LIBXSMM_GEMM_FLAG_VNNI_A : 0),
        none = LIBXSMM_PREFETCH_NONE;
    float one = 1, zero = 0;
    int int_one = 1, int_zero = 0;
    if (bytes == 4)
        way->call.smrs = libxsmm_smmdispatch_reducebatch_strd(mb, rows, kb, block, step, &mb, &ldx,
                                                              &ldy, &one, &zero, &flags, &none);
    else if (bytes == 2)
        way->call.bsmrs = libxsmm_bsmmdispatch_reducebatch_strd(
            mb, rows, kb, block, step, &mb, &ldx, &ldy, &one, &zero, &flags, &none);
    else
        way->call.usbimrs = libxsmm_usbimmdispatch_reducebatch_strd(
            mb, rows, kb, block, step, &mb, &ldx, &ldy, &int_one, &int_zero, &flags, &none);
    return way->call.xmm != NULL;
}

static const void *pack_blocks(char **memory, const void *w, size_t bytes, size_t mb, size_t kb)
{
    size_t v = 4 / bytes;
    char *packed = take(memory, M * K * bytes);
    for (size_t r = 0; r < M; r++)
        for (size_t j = 0; j < K; j++) {
            size_t group = (r / mb * (K / kb) + j / kb) * (kb / v) + j % kb / v;
            memcpy(packed + ((group * mb + r % mb) * v + j % v) * bytes,
                   (const char *)w + (r * K + j) * bytes, bytes);
        }
    return packed;
}

/* The products of the rows with the weights plus `offset`. */
static const double *plain_loop(char **memory, const float *w, float offset, const float *x)
{
    double *y = take(memory, MOST_ROWS * M * sizeof *y);
    for (size_t i = 0; i < MOST_ROWS; i++)
        for (size_t r = 0; r < M; r++) {
            double sum = 0;
            for (size_t j = 0; j < K; j++)
                sum += (double)(w[r * K + j] + offset) * (double)x[i * K + j];
            y[i * M + r] = sum;
        }
    return y;
}

/* ---- Measuring ---- */

static double time_passes(const struct way *way, size_t n, size_t passes)
{
    way->multiply(way, n); /* warms up: the cache holds another way's weights */
    double start = rf_clock_seconds();
    for (size_t pass = 0; pass < passes; pass++) way->multiply(way, n);
    return (rf_clock_seconds() - start) / (double)passes;
}

static int is_right(const struct way *way, size_t n)
{
    memset(way->y, 0xff, n * M * sizeof(float));
    way->multiply(way, n);
    for (size_t i = 0; i < n * M; i++) {
        double y = way->unit > 0 ? way->unit * ((const int32_t *)way->y)[i]
                                 : (double)((const float *)way->y)[i];
        if (!(fabs(y - way->expected[i]) <= TOLERANCE)) return 0;
    }
    return 1;
}

/* Measures 1e9 operations per second for each way; 0 for those that are missing or wrong. Returns
 * the number of wrong ones. */
static int measure(struct way *ways, size_t n_ways, size_t n, double *rates)
{
    double seconds[MOST_WAYS][ROUNDS];
    size_t passes[MOST_WAYS] = {0};
    int wrong = 0;
    for (size_t w = 0; w < n_ways; w++) {
        struct way *way = &ways[w];
        int is_there = !way->bytes || dispatch(way, n),
            right = is_there && (!way->bytes || is_right(way, n));
        if (right)
            passes[w] = (size_t)(ROUND_SECONDS / time_passes(way, n, 1)) + 1;
        else
            printf("%s, %zu rows: %s\n", way->name, n, is_there ? "wrong" : "no kernel");
        wrong += is_there && !right;
        if (right && way->y && n == 1) memcpy(way->first_row, way->y, sizeof way->first_row);
        if (right && way->y && memcmp(way->first_row, way->y, sizeof way->first_row) != 0)
            way->bits_differ = 1;
    }
    for (int round = 0; round < ROUNDS; round++)
        for (size_t w = 0; w < n_ways; w++)
            if (passes[w]) seconds[w][round] = time_passes(&ways[w], n, passes[w]);
    for (size_t w = 0; w < n_ways; w++) {
        rates[w] = 0;
        if (!passes[w]) continue;
        rates[w] = 2e-9 * M * K * (double)n / rf_median(seconds[w], ROUNDS);
    }
    return wrong;
}

static int print_table(const char *title, struct way *ways, size_t n_ways)
{
    static const size_t row_counts[] = {1, 2, 4, 8, 16, 64, 128};
    int wrong = 0;
    printf("\n%s, 1e9 operations a second\nrows", title);
    for (size_t w = 0; w < n_ways; w++) printf("%22s", ways[w].name);
    printf("\n");
    for (size_t c = 0; c < sizeof row_counts / sizeof *row_counts; c++) {
        double rates[MOST_WAYS];
        wrong += measure(ways, n_ways, row_counts[c], rates);
        printf("%4zu", row_counts[c]);
        for (size_t w = 0; w < n_ways; w++) printf("%22.1f", rates[w]);
        printf("\n");
    }
    printf("bits of the first row");
    for (size_t w = 1; w < n_ways; w++)
        printf("%*s", w == 1 ? 27 : 22, ways[w].bits_differ ? "differ" : "the same");
    printf("\n");
    return wrong;
}

/* ---- The tables ---- */

static struct way peak_way(enum rf_peak peak)
{
    struct way way = {.name = rf_peak_name(peak), .multiply = multiply_nothing};
    rf_peak_find(peak, &way.peak);
    return way;
}

/* w and x are integers / 128, so BF16 and 8 bits represent them exactly; x has a 127 in each block
 * of 32. */
struct operands {
    float *w, *x, *y;
    const double *expected;
};

static struct way riffle_way(char **memory, const char *name, int tier, enum rf_format format,
                             const void *w, const struct operands *operands)
{
    const struct rf_kernels *kernels = rf_cpu_kernels(tier);
    enum rf_operand form = rf_operand_of(format);
    void *x = take(memory, kernels->packed_bytes[form](MOST_ROWS, K));
    for (size_t i = 0; i < MOST_ROWS; i++)
        kernels->pack[form](&(struct rf_pack_args){x, i, K, operands->x + i * K, 0, K, 0});
    return (struct way){
        name, multiply_riffle, w, x, operands->y, .kernels = kernels, .format = format};
}

static struct way xsmm_way(char **memory, const char *name, size_t bytes, size_t mb, size_t kb,
                           const void *w, const void *x, const struct operands *operands)
{
    struct way way = {name, multiply_xsmm, pack_blocks(memory, w, bytes, mb, kb),
                      x,    operands->y,   .bytes = bytes};
    way.mb = mb;
    way.kb = kb;
    way.expected = operands->expected;
    return way;
}

static int compare_bf16(char *memory, const struct operands *operands)
{
    uint16_t *w = take(&memory, M * K * sizeof *w), *x = take(&memory, MOST_ROWS * K * sizeof *x);
    rf_cpu_kernels(RF_TIER_AVX512)->f32_to_bf16(w, operands->w, M * K);
    rf_cpu_kernels(RF_TIER_AVX512)->f32_to_bf16(x, operands->x, MOST_ROWS * K);
    struct way ways[] = {
        peak_way(RF_PEAK_DPBF16),
        riffle_way(&memory, "riffle BF16", RF_TIER_AVX512, RF_FORMAT_BF16, w, operands),
        xsmm_way(&memory, "libxsmm 64x64", sizeof *w, 64, 64, w, x, operands),
        xsmm_way(&memory, "libxsmm 64x256", sizeof *w, 64, 256, w, x, operands)};
    return print_table("BF16 on AVX-512", ways, sizeof ways / sizeof *ways);
}

static int compare_f32(char *memory, const struct operands *operands)
{
    const float *w = operands->w, *x = operands->x;
    uint16_t *w16 = take(&memory, M * K * sizeof *w16);
    rf_cpu_kernels(RF_TIER_AVX2)->f32_to_bf16(w16, w, M * K);
    struct way ways[] = {
        peak_way(RF_PEAK_FMA_256),
        riffle_way(&memory, "riffle BF16", RF_TIER_AVX2, RF_FORMAT_BF16, w16, operands),
        xsmm_way(&memory, "libxsmm F32 32x64", sizeof *w, 32, 64, w, x, operands),
        xsmm_way(&memory, "libxsmm F32 64x256", sizeof *w, 64, 256, w, x, operands)};
    return print_table("BF16 beside F32 on AVX2", ways, sizeof ways / sizeof *ways);
}

/* Codes and scales for Riffle's panels: moderate values in every format. */
static const void *make_panels(char **memory, enum rf_format format)
{
    size_t bytes = M / RF_PANEL_ROWS * rf_panel_bytes(format, K);
    char *panels = take(memory, bytes);
    for (size_t i = 0; i < bytes; i++) panels[i] = (char)(0x2c + i * 37 % 251 % 8);
    return panels;
}

static int compare_integers(char *memory, const struct operands *operands)
{
    const void *q8_0 = make_panels(&memory, RF_FORMAT_Q8_0),
               *mxfp4 = make_panels(&memory, RF_FORMAT_MXFP4);
    float *scales = take(&memory, K / RF_BLOCK * M * sizeof *scales);
    uint8_t *w = take(&memory, M * K);
    int8_t *x = take(&memory, MOST_ROWS * K);
    for (size_t i = 0; i < K / RF_BLOCK * M; i++) scales[i] = 1.0f / 128;
    for (size_t i = 0; i < M * K; i++) w[i] = (uint8_t)(128 + 128 * operands->w[i]);
    for (size_t i = 0; i < MOST_ROWS * K; i++) x[i] = (int8_t)(128 * operands->x[i]);
    struct way ways[] = {
        peak_way(RF_PEAK_DPBUSD_512),
        riffle_way(&memory, "riffle MXFP4", RF_TIER_AVX512, RF_FORMAT_MXFP4, mxfp4, operands),
        riffle_way(&memory, "riffle Q8_0", RF_TIER_AVX512, RF_FORMAT_Q8_0, q8_0, operands),
        xsmm_way(&memory, "libxsmm 64x32 scaled", 1, SCALED_MB, RF_BLOCK, w, x, operands),
        xsmm_way(&memory, "libxsmm 64x256 raw", 1, 64, 256, w, x, operands)};
    ways[3].multiply = multiply_xsmm_scaled;
    ways[3].scales = scales;
    ways[3].a8 = ways[1].x;
    ways[4].unit = 1.0 / (128 * 128);
    ways[4].expected = plain_loop(&memory, operands->w, 1, operands->x);
    return print_table("8 bits on AVX-512", ways, sizeof ways / sizeof *ways);
}

int main(void)
{
    struct rf_error error;
    char *block = rf_malloc(&rf_system_allocator, MEMORY, 1, "operands", &error), *memory = block;
    if (!block) {
        fprintf(stderr, "bench_libxsmm: %s\n", error.text);
        return 1;
    }
    struct operands operands;
    operands.w = take(&memory, M * K * sizeof(float));
    operands.x = take(&memory, MOST_ROWS * K * sizeof(float));
    operands.y = take(&memory, MOST_ROWS * M * sizeof(float));
    uint32_t state = 1;
    for (size_t i = 0; i < M * K; i++) operands.w[i] = random_value(&state);
    for (size_t i = 0; i < MOST_ROWS * K; i++)
        operands.x[i] = i % RF_BLOCK ? random_value(&state) : 127.0f / 128;
    operands.expected = plain_loop(&memory, operands.w, 0, operands.x);

    int wrong = 0;
    printf("libxsmm %s for %s; %d x %d weights, one thread\n", LIBXSMM_VERSION,
           libxsmm_get_target_arch(), M, K);
    if (rf_cpu_has_tier(RF_TIER_AVX512))
        wrong += compare_bf16(memory, &operands) + compare_integers(memory, &operands);
    if (rf_cpu_has_tier(RF_TIER_AVX2)) {
        libxsmm_set_target_archid(LIBXSMM_X86_AVX2);
        wrong += compare_f32(memory, &operands);
    }
    rf_free(&rf_system_allocator, block);
    return wrong > 0;
}
