/* BF16 weights times packed rows with shifts and FMA.
 *
 * A BF16 value is the upper half of an F32. Sixteen weights are one load; a shift gives the even
 * ones as F32, a mask the odd ones. Rows are packed to match: of every 16 values, rounded to BF16,
 * the 8 even ones as F32, then the 8 odd ones. Every result has one accumulator of 8 lanes. Lane l
 * adds 16c + 2l, then 16c + 2l + 1, over c in order, and one fixed tree adds the lanes. Tiles only
 * share loads. */
#include <immintrin.h>
#include <string.h>

#include "base/half.h"
#include "microkernels/avx2/tier.h"
#include "microkernels/x86.h"

enum {
    MAX_TILE = 12,   /* accumulators of a tile: 16 registers minus operands */
    FEW_ROWS = 4,    /* rows of a tile */
    PIECE = 12,      /* weight rows read again, from a cache, for each tile's rows */
    MOST_ROWS = 128, /* rows that pass from a cache for each piece */
    PREFETCH = 3072  /* prefetch distance in a stream of weights, in bytes */
};

/* An odd number of cache lines, so that rows of 2^n values do not share the same cache sets. */
static size_t row_floats(size_t k)
{
    return ((k + 15) / 16 | 1) * 16;
}

static size_t avx2_packed_bytes_bf16(size_t n, size_t k)
{
    return n * row_floats(k) * sizeof(float);
}

static void avx2_pack_bf16(const struct rf_pack_args *args)
{
    size_t k = args->k;
    const float *x = args->x;
    float *to = (float *)args->packed + args->row * row_floats(k);
    memset(to, 0, row_floats(k) * sizeof(float));
    for (size_t j = 0; j < k; j++)
        to[j / 16 * 16 + j % 2 * 8 + j % 16 / 2] = rf_bf16_to_f32(rf_f32_to_bf16(x[j]));
}

/* The sums of the lanes of a, b, c, d: 128-bit halves, then rf_sum4's tree. */
INLINE __m128 avx2_linear_sum4(__m256 a, __m256 b, __m256 c, __m256 d)
{
    __m128 a4 = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    __m128 b4 = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    __m128 c4 = _mm_add_ps(_mm256_castps256_ps128(c), _mm256_extractf128_ps(c, 1));
    __m128 d4 = _mm_add_ps(_mm256_castps256_ps128(d), _mm256_extractf128_ps(d, 1));
    return rf_sum4(a4, b4, c4, d4);
}

/* Writes the lane sums of `count` (1..4) results of weights r, r + step, ... */
INLINE void avx2_linear_finish(const struct rf_linear_args *args, float *y, size_t r, size_t step,
                               const __m256 *acc, int count)
{
    __m256 zero = _mm256_setzero_ps();
    __m128 sum = avx2_linear_sum4(acc[0], count > 1 ? acc[1] : zero, count > 2 ? acc[2] : zero,
                                  count > 3 ? acc[3] : zero);
    rf_store4(args, y, r, step, sum, count);
}

/* acc += w * x, in assembly, because gcc would move sums from register to register, and keep other
 * rows in registers than those that are meant to be there. */
INLINE void add_product(__m256 *acc, __m256 w, __m256 x)
{
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(*acc) : "x"(w), "x"(x));
}

/* The same with a row that stays in memory. */
INLINE void add_product_from(__m256 *acc, __m256 w, const float *x)
{
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(*acc) : "x"(w), "m"(*(const __m256 *)(const void *)x));
}

/* Hides from the compiler that it has read weights before. It has no registers to keep them in. */
INLINE const uint16_t *avx2_linear_opaque(const uint16_t *w)
{
    __asm__("" : "+r"(w));
    return w;
}

/* Adds the products of one group of 16 of mr weight rows (ldw apart) and nr packed rows (stride
 * floats apart): of the even ones, then of the odd ones, so that few operands are in registers at a
 * time. */
INLINE void avx2_linear_group(__m256 *acc, const uint16_t *w, size_t ldw, const float *x,
                              size_t stride, int mr, int nr)
{
#pragma GCC unroll 2
    for (int h = 0; h < 16; h += 8) {
        __m256 rows[2]; /* the others stay in memory */
        w = avx2_linear_opaque(w);
#pragma GCC unroll 2
        for (int b = 0; b < nr && b < 2; b++) rows[b] = _mm256_load_ps(x + (size_t)b * stride + h);
#pragma GCC unroll 4
        for (int a = 0; a < mr; a++) {
            __m256i both = _mm256_loadu_si256((const __m256i *)(w + (size_t)a * ldw)),
                    half = h == 0 ? _mm256_slli_epi32(both, 16)
                                  : _mm256_and_si256(both, _mm256_set1_epi32((int)0xffff0000));
#pragma GCC unroll 4
            for (int b = 0; b < nr; b++)
                if (b < 2)
                    add_product(&acc[b * mr + a], _mm256_castsi256_ps(half), rows[b]);
                else
                    add_product_from(&acc[b * mr + a], _mm256_castsi256_ps(half),
                                     x + (size_t)b * stride + h);
        }
    }
}

/* mr weight rows, r and every step-th after it, times nr packed rows from i. `ahead`: prefetch
 * distance in bytes. */
INLINE void avx2_linear_tile(const struct rf_linear_args *args, size_t r, size_t step, size_t i,
                             int mr, int nr, size_t ahead)
{
    size_t stride = row_floats(args->k), whole = args->k / 16, left = args->k % 16,
           gap = step * args->ldw;
    const uint16_t *w = (const uint16_t *)args->w + r * args->ldw;
    const float *x = (const float *)args->x + i * stride;
    __m256 acc[MAX_TILE];
#pragma GCC unroll 12
    for (int t = 0; t < mr * nr; t++) acc[t] = _mm256_setzero_ps();
    size_t c = 0;
    for (; c + 2 <= whole; c += 2) {
        /* Two groups are a cache line. */
#pragma GCC unroll 4
        for (int a = 0; a < mr && ahead; a++)
            _mm_prefetch((const char *)(w + (size_t)a * gap + c * 16) + ahead, _MM_HINT_T1);
        avx2_linear_group(acc, w + c * 16, gap, x + c * 16, stride, mr, nr);
        avx2_linear_group(acc, w + c * 16 + 16, gap, x + c * 16 + 16, stride, mr, nr);
    }
    if (c < whole) avx2_linear_group(acc, w + c * 16, gap, x + c * 16, stride, mr, nr);
    if (left) {
        /* AVX2 has no masked load of 16-bit elements, and the last row ends where the file may end.
         */
        uint16_t tail[4][16] = {{0}};
        for (int a = 0; a < mr; a++)
            memcpy(tail[a], w + (size_t)a * gap + whole * 16, left * sizeof(uint16_t));
        avx2_linear_group(acc, tail[0], 16, x + whole * 16, stride, mr, nr);
    }
#pragma GCC unroll 4
    for (int b = 0; b < nr; b++)
        avx2_linear_finish(args, args->y + (i + (size_t)b) * args->ldy, r, step, acc + b * mr, mr);
}

/* All weight rows times nr packed rows from i. Weight rows are cut into mr parts, each read from
 * end to end: memory is fastest with a few long streams. */
INLINE void avx2_linear_stream(const struct rf_linear_args *args, size_t i, int mr, int nr,
                               size_t ahead)
{
    size_t part = args->m / (size_t)mr, rest = part * (size_t)mr;
    for (size_t r = 0; r < part; r++) avx2_linear_tile(args, r, part, i, mr, nr, ahead);
    for (; rest + 2 <= args->m; rest += 2) avx2_linear_tile(args, rest, 1, i, 2, nr, ahead);
    if (rest < args->m) avx2_linear_tile(args, rest, 1, i, 1, nr, ahead);
}

/* All weight rows times n <= FEW_ROWS packed rows from i. */
INLINE void avx2_linear_few(const struct rf_linear_args *args, size_t i, size_t n, size_t ahead)
{
    switch (n) {
    case 1: avx2_linear_stream(args, i, 4, 1, ahead); break;
    case 2: avx2_linear_stream(args, i, 4, 2, ahead); break;
    case 3: avx2_linear_stream(args, i, 3, 3, ahead); break;
    case FEW_ROWS: avx2_linear_stream(args, i, 3, FEW_ROWS, ahead); break;
    default: break;
    }
}

/* All weight rows times rows i .. i + n - 1. */
static void avx2_linear_some(const struct rf_linear_args *args, size_t i, size_t n)
{
    struct rf_linear_args piece = *args;
    for (size_t r = 0; r < args->m; r += PIECE) {
        piece.m = args->m - r < PIECE ? args->m - r : PIECE;
        piece.w = (const uint16_t *)args->w + r * args->ldw;
        piece.y = args->y + r;
        piece.bias = args->bias ? args->bias + r : NULL;
        /* The first tiles prefetch the next piece. Five rows are 3 and 2, as one alone would take
         * as long as two. */
        for (size_t done = 0, count; done < n; done += count) {
            size_t left = n - done;
            count = left == FEW_ROWS + 1 ? 3 : left < FEW_ROWS ? left : FEW_ROWS;
            avx2_linear_few(&piece, i + done, count,
                            done ? 0 : PIECE * args->ldw * sizeof(uint16_t));
        }
    }
}

static void avx2_linear_bf16(const struct rf_linear_args *args)
{
    if (args->n <= FEW_ROWS) {
        avx2_linear_few(args, 0, args->n, PREFETCH);
        return;
    }
    for (size_t i = 0; i < args->n; i += MOST_ROWS)
        avx2_linear_some(args, i, args->n - i < MOST_ROWS ? args->n - i : MOST_ROWS);
}

void rf_avx2_init_linear(struct rf_kernels *kernels)
{
    kernels->packed_bytes[RF_OPERAND_BF16] = avx2_packed_bytes_bf16;
    kernels->pack[RF_OPERAND_BF16] = avx2_pack_bf16;
    kernels->linear[RF_FORMAT_BF16] = avx2_linear_bf16;
}
