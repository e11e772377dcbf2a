/* Weights in panels times 16-bit rows on AVX2: weights are dequantised, rounded to BF16 and kept as
 * F32 (the verifying half of QSpec).
 *
 * For one or two rows weights are decoded in registers; for more, once into the L1 cache. Every
 * result has one accumulator lane, which adds k in the order of packed rows, so that both give the
 * same bits. */
#include <immintrin.h>

#include "microkernels/avx2/decode.h"
#include "microkernels/avx2/tier.h"

enum {
    FEW_ROWS = 2,    /* for which weights are decoded in registers */
    MAX_PANELS = 2,  /* of such a tile */
    HALVES = 2,      /* vectors of weight rows of a panel */
    TILE_ROWS = 5,   /* rows of a tile of decoded weights; gcc spills sums of six */
    CHUNK = 8,       /* blocks that are decoded at a time: 16 KiB */
    MOST_ROWS = 512, /* rows whose sums wait for the next chunk */
    PREFETCH = 2048  /* prefetch distance in bytes of codes */
};

/* Weights s c + b of a group of 8 rows. */
struct group {
    __m256 s, b;
};

/* Part `part` of block t of a unit, for the rows from r, 0 or 8. The format's offset is a minimum,
 * too: s (c - offset) is exact in F32. */
INLINE struct group group_of(enum rf_format format, const uint8_t *unit, size_t t, int part,
                             size_t r, const uint8_t *numbers)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    struct group out;
    scale_of(format, unit, t, part, r, numbers, &out.s, &out.b);
    if (!layout->has_min) out.b = _mm256_mul_ps(out.s, _mm256_set1_ps((float)-layout->offset));
    if (format == RF_FORMAT_Q8_K)
        out.b = _mm256_mul_ps(out.b, _mm256_set1_ps(-32.0f)); /* see scale_of */
    return out;
}

/* v rounded to BF16, ties to even: Veltkamp's splitting, which agrees for every significand. */
INLINE __m256 round_bf16(__m256 v)
{
    __m256 scaled = _mm256_mul_ps(v, _mm256_set1_ps(65537.0f));
    return _mm256_add_ps(scaled, _mm256_sub_ps(v, scaled));
}

/* The weights of codes that are 2^bit times too great. */
INLINE __m256 weight(enum rf_format format, __m256 code, int bit, const struct group *group)
{
    __m256 s = group->s, unit = _mm256_set1_ps(1.0f / (float)(1 << bit));
    if (bit) s = _mm256_mul_ps(s, unit);
    if (format != RF_FORMAT_MXFP4) return round_bf16(_mm256_fmadd_ps(code, s, group->b));
    /* BF16 already; with great scales the product of the offset overflows. */
    __m256 offset = _mm256_set1_ps((float)(rf_panel_layout(format)->offset << bit));
    return _mm256_mul_ps(_mm256_sub_ps(code, offset), s);
}

/* The weights of four codes in each lane, in the order of packed rows: k = 0, 2, 1, 3. */
INLINE void weights_of(enum rf_format format, __m256i codes, const struct group *group,
                       __m256 to[4])
{
    __m256i first = _mm256_and_si256(codes, _mm256_set1_epi32(0xff)),
            third = _mm256_and_si256(codes, _mm256_set1_epi32(0xff0000)),
            second = _mm256_and_si256(codes, _mm256_set1_epi32(0xff00)),
            fourth = _mm256_srli_epi32(codes, 24);
    to[0] = weight(format, _mm256_cvtepi32_ps(first), 0, group);
    to[1] = weight(format, _mm256_cvtepi32_ps(third), 16, group);
    to[2] = weight(format, _mm256_cvtepi32_ps(second), 8, group);
    to[3] = weight(format, _mm256_cvtepi32_ps(fourth), 0, group);
}

INLINE void prefetch(const uint8_t *codes, size_t bytes)
{
    for (size_t line = 0; line < bytes; line += 64)
        _mm_prefetch((const char *)codes + PREFETCH + line, _MM_HINT_T0);
}

/* Value 2v + t of a packed row, in all lanes. */
INLINE __m256 broadcast(const uint16_t *x, size_t v, int t)
{
    int32_t both;
    __builtin_memcpy(&both, x + 2 * v, sizeof both);
    __m256i lanes = _mm256_set1_epi32(both);
    return _mm256_castsi256_ps(t ? _mm256_and_si256(lanes, _mm256_set1_epi32((int)0xffff0000))
                                 : _mm256_slli_epi32(lanes, 16));
}

/* A block of a packed row as F32. */
INLINE void widen(const uint16_t *x, float to[RF_BLOCK])
{
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        __m128i eight = _mm_load_si128((const __m128i *)(const void *)x + v);
        __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(eight), 16);
        _mm256_store_ps(to + 8 * v, _mm256_castsi256_ps(wide));
    }
}

/* Adds the products of part `part` of a panel's block and nr rows. Halves take turns, since each
 * sum waits for its last addition. acc is [half][row]. */
INLINE void add_part(enum rf_format format, const uint8_t *codes, int part,
                     const struct group groups[HALVES], float (*rows)[RF_BLOCK], int nr,
                     __m256 *acc)
{
    __m256i four[HALVES][4];
#pragma GCC unroll 2
    for (int half = 0; half < HALVES; half++) decode(format, codes + 32 * half, part, four[half]);
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++)
#pragma GCC unroll 2
        for (int half = 0; half < HALVES; half++) {
            __m256 weights[4], *to = acc + half * nr;
            weights_of(format, four[half][v], &groups[half], weights);
#pragma GCC unroll 2
            for (int a = 0; a < nr; a++)
#pragma GCC unroll 4
                for (int t = 0; t < 4; t++)
                    to[a] = _mm256_fmadd_ps(
                        weights[t], _mm256_broadcast_ss(&rows[a][16 * part + 4 * v + t]), to[a]);
        }
}

/* The halves of panels first, first + step, ... (np of them) times nr rows. */
INLINE void tile(const struct rf_linear_args *args, enum rf_format format, size_t first,
                 size_t step, int np, int nr)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    size_t blocks = args->k / RF_BLOCK, stride = rf_a16_stride(args->k), gap = step * args->ldw,
           per_unit = layout->unit / RF_BLOCK;
    const uint16_t *x = args->x;
    const uint8_t *codes_at = (const uint8_t *)args->w + first * args->ldw,
                  *scales_at = codes_at + blocks * layout->block_bytes;
    _Alignas(32) uint8_t numbers[MAX_PANELS][256];
    _Alignas(32) float rows[FEW_ROWS][RF_BLOCK];
    __m256 acc[MAX_PANELS * HALVES * FEW_ROWS];
#pragma GCC unroll 8
    for (int t = 0; t < 2 * np * nr; t++) acc[t] = _mm256_setzero_ps();
    for (size_t block = 0; block < blocks; block++, x += RF_BLOCK) {
        for (int a = 0; a < nr; a++) widen(x + (size_t)a * stride, rows[a]);
#pragma GCC unroll 2
        for (int p = 0; p < np; p++) {
            const uint8_t *codes = codes_at + (size_t)p * gap + block * layout->block_bytes,
                          *unit =
                              scales_at + (size_t)p * gap + block / per_unit * layout->scale_bytes;
            prefetch(codes, layout->block_bytes);
            if (format == RF_FORMAT_Q4_K && block % 8 == 0) unpack_q4k(unit, numbers[p]);
#pragma GCC unroll 2
            for (int part = 0; part < 2; part++) {
                struct group groups[HALVES];
#pragma GCC unroll 2
                for (int half = 0; half < HALVES; half++)
                    groups[half] = group_of(format, unit, block % per_unit, part, 8 * (size_t)half,
                                            numbers[p]);
                add_part(format, codes, part, groups, rows, nr, acc + HALVES * p * nr);
            }
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < 2 * np * nr; t++) {
        size_t half = (size_t)(t / nr);
        store(args, (first + half / 2 * step) * RF_PANEL_ROWS + half % 2 * 8, (size_t)(t % nr),
              acc[t]);
    }
}

/* All panels times nr <= FEW_ROWS rows. Panels are cut into np parts, each read from end to end.
 */
INLINE void stream(const struct rf_linear_args *args, enum rf_format format, int nr)
{
    size_t panels = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS, part = panels / MAX_PANELS;
    for (size_t p = 0; p < part; p++) tile(args, format, p, part, MAX_PANELS, nr);
    for (size_t p = part * MAX_PANELS; p < panels; p++) tile(args, format, p, 1, 1, nr);
}

/* CHUNK blocks of a panel: for each value of packed rows, the weights of 16 rows. Sums are
 * [row][half][8]. */
struct chunk {
    _Alignas(32) float weights[CHUNK * RF_BLOCK][HALVES][8];
    size_t values;
};

/* Decodes blocks begin .. end - 1 of a panel. */
typedef void decode_fn(const uint8_t *panel, size_t k, size_t begin, size_t end,
                       float (*weights)[HALVES][8]);

INLINE void decode_chunk(enum rf_format format, const uint8_t *panel, size_t k, size_t begin,
                         size_t end, float (*weights)[HALVES][8])
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    const uint8_t *scales_at = panel + k / RF_BLOCK * layout->block_bytes;
    size_t per_unit = layout->unit / RF_BLOCK;
    _Alignas(32) uint8_t numbers[256];
    if (format == RF_FORMAT_Q4_K)
        unpack_q4k(scales_at + begin / per_unit * layout->scale_bytes, numbers);
    for (size_t block = begin; block < end; block++) {
        const uint8_t *codes = panel + block * layout->block_bytes,
                      *unit = scales_at + block / per_unit * layout->scale_bytes;
        prefetch(codes, layout->block_bytes);
#pragma GCC unroll 4
        for (int part = 0; part < 4; part++) {
            int half = part % 2;
            struct group group =
                group_of(format, unit, block % per_unit, part / 2, 8 * (size_t)half, numbers);
            __m256i four[4];
            decode(format, codes + 32 * half, part / 2, four);
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++) {
                __m256 w[4];
                weights_of(format, four[v], &group, w);
#pragma GCC unroll 4
                for (int t = 0; t < 4; t++)
                    _mm256_store_ps(weights[16 * (part / 2) + 4 * v + t][half], w[t]);
            }
        }
        weights += RF_BLOCK;
    }
}

/* Hides from the compiler that it has read a pair before. It has no registers to keep them in. */
INLINE const uint16_t *opaque(const uint16_t *x)
{
    __asm__("" : "+r"(x));
    return x;
}

/* Adds the products of a chunk and nr rows to their sums. */
INLINE void chunk_tile(const struct chunk *chunk, const uint16_t *x, size_t stride, int nr,
                       int first, float (*sums)[HALVES][8])
{
    __m256 acc[TILE_ROWS][HALVES];
#pragma GCC unroll 5
    for (int a = 0; a < nr; a++)
#pragma GCC unroll 2
        for (int h = 0; h < HALVES; h++)
            acc[a][h] = first ? _mm256_setzero_ps() : _mm256_load_ps(sums[a][h]);
    for (size_t v = 0; v < chunk->values / 2; v++)
#pragma GCC unroll 2
        for (int t = 0; t < 2; t++) {
            const float(*weights)[8] = chunk->weights[2 * v + (size_t)t];
            __m256 low = _mm256_load_ps(weights[0]), high = _mm256_load_ps(weights[1]);
            x = opaque(x);
#pragma GCC unroll 5
            for (int a = 0; a < nr; a++) {
                __m256 value = broadcast(x + (size_t)a * stride, v, t);
                acc[a][0] = _mm256_fmadd_ps(low, value, acc[a][0]);
                acc[a][1] = _mm256_fmadd_ps(high, value, acc[a][1]);
            }
        }
#pragma GCC unroll 5
    for (int a = 0; a < nr; a++)
#pragma GCC unroll 2
        for (int h = 0; h < HALVES; h++) _mm256_store_ps(sums[a][h], acc[a][h]);
}

static void multiply_chunk(const struct chunk *chunk, const uint16_t *x, size_t stride, size_t n,
                           int first, float (*sums)[HALVES][8])
{
    for (; n >= TILE_ROWS; n -= TILE_ROWS, x += TILE_ROWS * stride, sums += TILE_ROWS)
        chunk_tile(chunk, x, stride, TILE_ROWS, first, sums);
    switch (n) {
    case 1: chunk_tile(chunk, x, stride, 1, first, sums); break;
    case 2: chunk_tile(chunk, x, stride, 2, first, sums); break;
    case 3: chunk_tile(chunk, x, stride, 3, first, sums); break;
    case 4: chunk_tile(chunk, x, stride, 4, first, sums); break;
    default: break;
    }
}

/* A panel times rows i .. i + n - 1, n <= MOST_ROWS. */
static void multiply_panel(const struct rf_linear_args *args, decode_fn *decode_panel, size_t panel,
                           size_t i, size_t n)
{
    _Alignas(32) float sums[MOST_ROWS][HALVES][8];
    struct chunk chunk;
    size_t blocks = args->k / RF_BLOCK, stride = rf_a16_stride(args->k);
    const uint16_t *x = (const uint16_t *)args->x + i * stride;
    for (size_t begin = 0; begin < blocks; begin += CHUNK) {
        size_t end = begin + CHUNK < blocks ? begin + CHUNK : blocks;
        chunk.values = (end - begin) * RF_BLOCK;
        decode_panel((const uint8_t *)args->w + panel * args->ldw, args->k, begin, end,
                     chunk.weights);
        multiply_chunk(&chunk, x + begin * RF_BLOCK, stride, n, begin == 0, sums);
    }
    for (size_t a = 0; a < n; a++)
        for (int h = 0; h < HALVES; h++)
            store(args, panel * RF_PANEL_ROWS + 8 * (size_t)h, i + a, _mm256_load_ps(sums[a][h]));
}

static void walk(const struct rf_linear_args *args, decode_fn *decode_panel)
{
    for (size_t i = 0; i < args->n; i += MOST_ROWS)
        for (size_t panel = 0; panel * RF_PANEL_ROWS < args->m; panel++)
            multiply_panel(args, decode_panel, panel, i,
                           args->n - i < MOST_ROWS ? args->n - i : MOST_ROWS);
}

#define LINEAR(name, FORMAT, ...)                                                       \
    static void decode_##name(const uint8_t *panel, size_t k, size_t begin, size_t end, \
                              float(*weights)[HALVES][8])                               \
    {                                                                                   \
        decode_chunk(RF_FORMAT_##FORMAT, panel, k, begin, end, weights);                \
    }                                                                                   \
    static void linear_##name##_a16(const struct rf_linear_args *args)                  \
    {                                                                                   \
        switch (args->n) {                                                              \
        case 1: stream(args, RF_FORMAT_##FORMAT, 1); break;                             \
        case FEW_ROWS: stream(args, RF_FORMAT_##FORMAT, FEW_ROWS); break;               \
        default: walk(args, decode_##name); break;                                      \
        }                                                                               \
    }
RF_EACH_PANEL_FORMAT(LINEAR)

void rf_avx2_init_panels_a16(struct rf_kernels *kernels)
{
#define SET(name, FORMAT, ...) kernels->linear_a16[RF_FORMAT_##FORMAT] = linear_##name##_a16;
    RF_EACH_PANEL_FORMAT(SET)
#undef SET
}
