/* Compares Riffle's kernels of W4A8 (one scale for a row) with libxsmm 1.17's INT8 batch-reduce
 * kernels. libxsmm multiplies bytes, so a tile of panels is decoded before, and sums are converted
 * behind: "libxsmm" counts all of it, "decoded" only the products. All ways run in turn on one
 * thread; figures are of the least processor time of the rounds. The exit status is 1 if bits
 * differ. */
#include <immintrin.h>
#include <libxsmm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "cpu/cpu.h"
#include "cpu/tiers.h"
#include "machine/peak.h"
#include "platform/cpu.h"
#include "platform/memory.h"

enum {
    M = 256, /* rows of weights */
    MOST_K = 8192,
    MOST_ROWS = 512,
    TILE = 64, /* weight rows of a libxsmm call, 4 panels */
    PANELS = TILE / RF_PANEL_ROWS,
    PASS_ROWS = 128, /* rows of a libxsmm call */
    KB = 256,        /* values of k of a block of a batch */
    ROUNDS = 25,
    WAYS = 4,
    MEMORY = 48 << 20
};
static const double ROUND_SECONDS = 2e-3;

#define WITH_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,prefer-vector-width=512")))

struct layer {
    const struct rf_kernels *kernels;
    enum rf_format format;
    size_t k, n;
    const uint8_t *w;
    const char *x;
    float *y, *wanted;        /* [n][M] */
    uint8_t *decoded;         /* [k / 4][TILE][4] */
    int32_t *sums;            /* [PASS_ROWS][TILE] */
    libxsmm_xmmfunction call; /* PASS_ROWS or n rows */
    struct rf_peak_loop peak;
};

static void multiply_nothing(const struct layer *layer)
{
    layer->peak.run(
        (uint64_t)(2.0 * M * (double)layer->k * (double)layer->n / layer->peak.operations));
}

/* Calls a kernel as the backend does: all rows with one piece of the weights after another. */
static void multiply_riffle(const struct layer *layer)
{
    size_t bytes = rf_panel_bytes(layer->format, layer->k), m;
    struct cpu_pieces pieces =
        rf_cpu_pieces(layer->kernels, 0, bytes / RF_PANEL_ROWS, M, 1, layer->n);
    for (size_t r = 0; r < M; r += m) {
        m = M - r < pieces.call ? M - r : pieces.call;
        struct rf_linear_args args = {layer->y + r,
                                      M,
                                      layer->w + r / RF_PANEL_ROWS * bytes,
                                      bytes,
                                      layer->x,
                                      m,
                                      layer->n,
                                      layer->k,
                                      NULL,
                                      0};
        layer->kernels->linear[layer->format](&args);
    }
}

/* Codes of a panel as unsigned bytes: c, or a (c - 8) + 128. */
WITH_AVX512 static void decode_panel(const struct layer *layer, const uint8_t *panel, uint8_t *out)
{
    const __m512i nibble = _mm512_set1_epi8(15), middle = _mm512_set1_epi8((char)128);
    const uint8_t *scales = panel + layer->k / RF_BLOCK * 256;
    int has_groups = layer->format == RF_FORMAT_W4A8_G128;
    __m512i a = middle, offset = middle;
    __mmask64 is_negative = 0;
    for (size_t j = 0; j < layer->k; j += 8, out += 2 * TILE * 4) {
        __m512i both = _mm512_load_si512(panel + j * 8), low = _mm512_and_si512(both, nibble),
                high = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
        if (has_groups && j % RF_ROW_GROUP == 0) {
            a = _mm512_cvtepi8_epi32(_mm_load_si128(
                (const __m128i *)(const void *)(scales + j / RF_ROW_GROUP * RF_PANEL_ROWS)));
            is_negative = _mm512_movepi8_mask(_mm512_srai_epi32(a, 31));
            a = _mm512_abs_epi32(a);
            a = _mm512_or_si512(a, _mm512_slli_epi32(a, 16));
            offset = _mm512_or_si512(_mm512_slli_epi16(a, 3), _mm512_slli_epi16(a, 11));
        }
        if (has_groups) {
            low = _mm512_sub_epi8(_mm512_mullo_epi16(low, a), offset);
            high = _mm512_sub_epi8(_mm512_mullo_epi16(high, a), offset);
            low = _mm512_xor_si512(
                _mm512_mask_sub_epi8(low, is_negative, _mm512_setzero_si512(), low), middle);
            high = _mm512_xor_si512(
                _mm512_mask_sub_epi8(high, is_negative, _mm512_setzero_si512(), high), middle);
        }
        _mm512_store_si512(out, low);
        _mm512_store_si512(out + TILE * 4, high);
    }
}

WITH_AVX512 static void convert(const struct layer *layer, size_t first, size_t i, size_t n)
{
    size_t bytes = rf_panel_bytes(layer->format, layer->k), row = rf_a8_row_bytes(layer->k);
    int times = layer->format == RF_FORMAT_W4A8_G128 ? 16 : 1;
    for (size_t r = 0; r < n; r++) {
        const struct rf_a8_row *head =
            (const struct rf_a8_row *)(const void *)(layer->x + (i + r) * row);
        __m512i start = _mm512_set1_epi32(times * head->m8);
        for (size_t p = 0; p < PANELS; p++) {
            const uint8_t *d = layer->w + (first / RF_PANEL_ROWS + p) * bytes +
                               rf_panel_tail_at(layer->format, layer->k);
            __m512i sum = _mm512_add_epi32(
                _mm512_load_si512(layer->sums + r * TILE + p * RF_PANEL_ROWS), start);
            __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(head->d));
            _mm512_storeu_ps(layer->y + (i + r) * M + first + p * RF_PANEL_ROWS,
                             _mm512_mul_ps(v, _mm512_load_ps(d)));
        }
    }
}

static void multiply_rows(const struct layer *layer, size_t i)
{
    unsigned long long blocks = layer->k / KB;
    const char *x = layer->x + i * rf_a8_row_bytes(layer->k);
    layer->call.xmm(layer->decoded,
                    rf_a8_row_codes((const struct rf_a8_row *)(const void *)x, layer->k),
                    layer->sums, &blocks);
}

static size_t rows_at_once(const struct layer *layer)
{
    return layer->n < PASS_ROWS ? layer->n : PASS_ROWS;
}

static void multiply_xsmm(const struct layer *layer)
{
    size_t bytes = rf_panel_bytes(layer->format, layer->k), rows = rows_at_once(layer);
    for (size_t r = 0; r < M; r += TILE) {
        for (size_t p = 0; p < PANELS; p++)
            decode_panel(layer, layer->w + (r / RF_PANEL_ROWS + p) * bytes,
                         layer->decoded + p * RF_PANEL_ROWS * 4);
        for (size_t i = 0; i < layer->n; i += rows) {
            multiply_rows(layer, i);
            convert(layer, r, i, rows);
        }
    }
}

static void multiply_decoded(const struct layer *layer)
{
    for (size_t r = 0; r < M; r += TILE)
        for (size_t i = 0; i < layer->n; i += rows_at_once(layer)) multiply_rows(layer, i);
}

static void (*const ways[WAYS])(const struct layer *layer) = {multiply_nothing, multiply_riffle,
                                                              multiply_xsmm, multiply_decoded};

static double processor_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double time_passes(const struct layer *layer, size_t way, size_t passes)
{
    ways[way](layer);
    double start = processor_seconds();
    for (size_t pass = 0; pass < passes; pass++) ways[way](layer);
    return (processor_seconds() - start) / (double)passes;
}

/* One line of a table. Returns 1 if libxsmm's bits are others, or it has no kernel. */
static int measure(struct layer *layer)
{
    double least[WAYS];
    size_t passes[WAYS];
    libxsmm_blasint tile = TILE, rows = (libxsmm_blasint)rows_at_once(layer), kb = KB,
                    ldx = (libxsmm_blasint)rf_a8_row_bytes(layer->k);
    int flags = LIBXSMM_GEMM_FLAG_BETA_0 | LIBXSMM_GEMM_FLAG_VNNI_A, none = LIBXSMM_PREFETCH_NONE,
        one = 1, zero = 0;
    layer->call.usbimrs = libxsmm_usbimmdispatch_reducebatch_strd(
        tile, rows, kb, TILE * KB, KB, &tile, &ldx, &tile, &one, &zero, &flags, &none);
    if (!layer->call.xmm) return 1;
    size_t bytes = layer->n * M * sizeof *layer->y;
    multiply_riffle(layer);
    memcpy(layer->wanted, layer->y, bytes);
    memset(layer->y, 0xff, bytes);
    multiply_xsmm(layer);
    int differs = memcmp(layer->wanted, layer->y, bytes) != 0;
    for (size_t w = 0; w < WAYS; w++) {
        least[w] = time_passes(layer, w, 1);
        passes[w] = (size_t)(ROUND_SECONDS / least[w]) + 1;
    }
    for (int round = 0; round < ROUNDS; round++)
        for (size_t w = 0; w < WAYS; w++) {
            double seconds = time_passes(layer, w, passes[w]);
            least[w] = seconds < least[w] ? seconds : least[w];
        }
    printf("%4zu", layer->n);
    for (size_t w = 0; w < WAYS; w++)
        printf("%12.1f", 2e-9 * M * (double)layer->k * (double)layer->n / least[w]);
    printf("%s\n", differs ? "  other bits" : "");
    return differs;
}

static void *take(char **memory, size_t bytes)
{
    void *part = *memory;
    *memory += (bytes + 63) & ~(size_t)63;
    return part;
}

static int compare(char *memory, enum rf_format format, size_t k)
{
    static const size_t row_counts[] = {1, 4, 8, 16, 32, 64, 128, 256, 512};
    struct layer layer = {rf_cpu_kernels(RF_TIER_AVX512), format, k, 0};
    size_t bytes = rf_panel_bytes(format, k), tail = rf_panel_tail_at(format, k);
    uint8_t *w = take(&memory, M / RF_PANEL_ROWS * bytes);
    char *x = take(&memory, layer.kernels->packed_bytes[RF_OPERAND_A8_ROW](MOST_ROWS, k));
    float *values = take(&memory, k * sizeof *values);
    uint32_t state = 1;
    for (size_t p = 0; p < M / RF_PANEL_ROWS; p++, w += bytes) {
        for (size_t i = 0; i < tail; i++)
            w[i] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
        for (size_t i = k / 2 * RF_PANEL_ROWS; i < tail; i++)
            w[i] = (uint8_t)(int8_t)(w[i] % 2 ? w[i] % 15 + 1 : -(w[i] % 15) - 1);
        for (size_t r = 0; r < RF_PANEL_ROWS; r++)
            ((float *)(void *)(w + tail))[r] = 0.001f * (float)(r + 1);
    }
    layer.w = w - M / RF_PANEL_ROWS * bytes;
    layer.x = x;
    for (size_t i = 0; i < MOST_ROWS; i++) {
        for (size_t j = 0; j < k; j++)
            values[j] = (float)((state = state * 1664525u + 1013904223u) >> 8) - 8388608.0f;
        layer.kernels->pack[RF_OPERAND_A8_ROW](&(struct rf_pack_args){x, i, k, values, 0, k, 0});
    }
    layer.y = take(&memory, MOST_ROWS * M * sizeof *layer.y);
    layer.wanted = take(&memory, MOST_ROWS * M * sizeof *layer.y);
    layer.decoded = take(&memory, TILE * k);
    layer.sums = take(&memory, PASS_ROWS * TILE * sizeof *layer.sums);
    rf_peak_find(RF_PEAK_DPBUSD_512, &layer.peak);
    printf("\n%s, %d x %zu, 1e9 operations a second\nrows    vpdpbusd      riffle     libxsmm     "
           "decoded\n",
           rf_panel_layout(format)->name, M, k);
    int wrong = 0;
    for (size_t c = 0; c < sizeof row_counts / sizeof *row_counts; c++) {
        layer.n = row_counts[c];
        wrong += measure(&layer);
    }
    return wrong;
}

int main(void)
{
    static const size_t ks[] = {1536, 4096, MOST_K};
    struct rf_error error;
    char *block = rf_malloc(&rf_system_allocator, MEMORY, 1, "operands", &error);
    int wrong = 0;
    if (!block || !rf_cpu_has_tier(RF_TIER_AVX512)) {
        fprintf(stderr, "bench_libxsmm_rows: %s\n", block ? "no AVX-512 here" : error.text);
        return 1;
    }
    printf("libxsmm %s for %s, one thread\n", LIBXSMM_VERSION, libxsmm_get_target_arch());
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++)
        wrong +=
            compare(block, RF_FORMAT_W4A8_G128, ks[i]) + compare(block, RF_FORMAT_W4A8_ROW, ks[i]);
    rf_free(&rf_system_allocator, block);
    return wrong > 0;
}
