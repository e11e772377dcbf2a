/* Attention over one chunk. Scores: 16 positions are two vectors (K is stored so), summed over
 * head_dim in order; values: 8 elements of the head are 8 lanes, summed over positions in order.
 * Tiles share loads and never change the order of a sum. */
#include <immintrin.h>
#include <math.h>

#include "microkernels/avx2/math.h"
#include "microkernels/avx2/tier.h"
#include "microkernels/x86.h"

enum {
    MAX_QUERIES = 6, /* queries of a tile */
    MOST_PAIRS =
        6,     /* pairs of registers with sums: an FMA's result takes the time of eight others */
    STEP = 8,  /* elements of a K block between prefetches */
    SLAB = 512 /* elements of the head that are taken at a time */
};

/* The nearest BF16 numbers. */
INLINE __m256 round8(__m256 x)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    bits = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    return _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32((int)0xffff0000)));
}

static void avx2_copy_query(float *out, const float *q, size_t n, int bf16)
{
    for (size_t j = 0; j < n; j += 8) {
        __m256 x = _mm256_maskload_ps(q + j, rf_lanes(n - j));
        _mm256_storeu_ps(out + j, bf16 ? round8(x) : x);
    }
}

/* 16 floats, or sums of them. Of BF16 the first vector has the even ones, the second the odd ones:
 * one operation each. Sums are in this order until they are stored. */
struct pair {
    __m256 part[2];
};

INLINE __m256 avx2_load_part(const uint16_t *from, int part, int bf16)
{
    if (!bf16) return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + part * 8)));
    __m256i both = _mm256_loadu_si256((const __m256i *)from);
    /* No mask, which would take a register of its own. */
    return _mm256_castsi256_ps(part ? _mm256_blend_epi16(_mm256_setzero_si256(), both, 0xaa)
                                    : _mm256_slli_epi32(both, 16));
}

INLINE void avx2_store_sums(float *to, struct pair x, int bf16)
{
    __m256 a = x.part[0], b = x.part[1];
    if (bf16) {
        __m256 low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
        a = _mm256_permute2f128_ps(low, high, 0x20);
        b = _mm256_permute2f128_ps(low, high, 0x31);
    }
    _mm256_storeu_ps(to, a);
    _mm256_storeu_ps(to + 8, b);
}

INLINE struct pair avx2_load_sums(const float *from, int bf16)
{
    __m256 a = _mm256_loadu_ps(from), b = _mm256_loadu_ps(from + 8);
    if (!bf16) return (struct pair){{a, b}};
    __m256 low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
    return (struct pair){{_mm256_shuffle_ps(low, high, 0x88), _mm256_shuffle_ps(low, high, 0xdd)}};
}

/* Adds the products of number j of each of nq lists, `length` apart, with `width` times 16 values,
 * `apart` elements apart. Numbers of few lists stay in registers while values pass, else the other
 * way round: beside 12 sums there is room for three numbers and a vector, or for two vectors and a
 * number. */
INLINE void avx2_add_products(struct pair *sums, const float *lists, size_t length, size_t j,
                              const uint16_t *halves, size_t apart, int nq, int width, int bf16)
{
    __m256 number[MAX_QUERIES];
    const int step = width > 1 ? 1 : 2;
    UNROLL
    for (int a = 0; a < nq && width > 1; a++)
        number[a] = _mm256_broadcast_ss(lists + (size_t)a * length + j);
    UNROLL
    for (int v = 0; v < 2 * width; v += step) {
        const uint16_t *from = halves + (size_t)(v / 2) * apart;
        __m256 values = avx2_load_part(from, v % 2, bf16), second = values;
        if (width == 1) second = avx2_load_part(from, 1, bf16);
        UNROLL
        for (int a = 0; a < nq; a++) {
            struct pair *sum = &sums[a * width + v / 2];
            if (width == 1) number[a] = _mm256_broadcast_ss(lists + (size_t)a * length + j);
            sum->part[v % 2] = _mm256_fmadd_ps(number[a], values, sum->part[v % 2]);
            if (width == 1) sum->part[1] = _mm256_fmadd_ps(number[a], second, sum->part[1]);
        }
    }
}

/* Prefetches STEP elements of the K block after the one at `at`, and as many of V. With few
 * queries it would take longer than the products. */
INLINE void avx2_prefetch_step(const struct rf_attention_args *args, size_t at)
{
    enum { LINE = 64 / sizeof(uint16_t) };
    const uint16_t *k = args->k + args->head_dim * RF_KV_BLOCK + at, *v = args->v + at;
    for (size_t i = 0; i < STEP * RF_KV_BLOCK; i += LINE) {
        _mm_prefetch((const char *)(k + i), _MM_HINT_T0);
        _mm_prefetch((const char *)(v + i), _MM_HINT_T1);
    }
}

/* Adds to the scores of nq queries over `width` K blocks from b on the products of the n elements
 * from `first`, of which q has the queries'. `is_new`: the chunk is in no cache yet. */
INLINE void avx2_attention_scores(const struct rf_attention_args *args, const float *q,
                                  size_t first, size_t n, size_t b,
                                  float (*score)[RF_ATTENTION_CHUNK], int is_new, int nq, int width,
                                  int bf16)
{
    const size_t block = args->head_dim * RF_KV_BLOCK;
    const uint16_t *k = args->k + b * block + first * RF_KV_BLOCK;
    struct pair sums[MOST_PAIRS];
    UNROLL
    for (int t = 0; t < nq * width; t++)
        sums[t] =
            first ? avx2_load_sums(score[t / width] + (b + (size_t)(t % width)) * RF_KV_BLOCK, bf16)
                  : (struct pair){{_mm256_setzero_ps(), _mm256_setzero_ps()}};
    for (size_t j = 0, end; j < n; j = end) {
        end = n - j < STEP ? n : j + STEP;
        if (is_new && width == 1) avx2_prefetch_step(args, b * block + (first + j) * RF_KV_BLOCK);
        for (; j < end; j++)
            avx2_add_products(sums, q, SLAB, j, k + j * RF_KV_BLOCK, block, nq, width, bf16);
    }
    UNROLL
    for (int t = 0; t < nq * width; t++)
        avx2_store_sums(score[t / width] + (b + (size_t)(t % width)) * RF_KV_BLOCK, sums[t], bf16);
}

INLINE __m256 avx2_weigh(float *score, __m256 factor, __m256 top, __m256 lanes, int bf16)
{
    __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(score), factor);
    __m256 weight = _mm256_and_ps(lanes, rf_exp_ps(_mm256_sub_ps(scaled, top)));
    if (bf16) weight = round8(weight);
    _mm256_storeu_ps(score, weight);
    return weight;
}

/* Replaces scores by weights exp(s - max), with zeros from `visible` to `padded`. */
INLINE void avx2_attention_soften(float *score, float scale, size_t visible, size_t padded,
                                  float *max_out, float *sum_out, int bf16)
{
    const __m256 all = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
    __m256 lowest = _mm256_set1_ps(-INFINITY), max = lowest, sum = _mm256_setzero_ps();
    __m256 factor = _mm256_set1_ps(scale);
    size_t p = 0;
    for (; p + 8 <= visible; p += 8)
        max = _mm256_max_ps(max, _mm256_mul_ps(_mm256_loadu_ps(score + p), factor));
    if (p < visible) {
        __m256 lanes = _mm256_castsi256_ps(rf_lanes(visible - p));
        __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(score + p), factor);
        max = _mm256_max_ps(max, _mm256_blendv_ps(lowest, scaled, lanes));
    }
    *max_out = rf_max_ps(max);
    __m256 top = _mm256_set1_ps(*max_out);
    for (p = 0; p + 8 <= visible; p += 8)
        sum = _mm256_add_ps(sum, avx2_weigh(score + p, factor, top, all, bf16));
    for (; p < padded; p += 8) {
        __m256 lanes = _mm256_castsi256_ps(rf_lanes(p < visible ? visible - p : 0));
        sum = _mm256_add_ps(sum, avx2_weigh(score + p, factor, top, lanes, bf16));
    }
    *sum_out = rf_sum_ps(sum);
}

/* Weighted sums of `width` times 16 elements of V from element d, for nq queries. */
INLINE void avx2_attention_values(const struct rf_attention_args *args, size_t i, size_t d,
                                  const float *weights, size_t limit, int nq, int width, int bf16)
{
    size_t stride = rf_padded(args->head_dim);
    struct pair sums[MOST_PAIRS];
    UNROLL
    for (int t = 0; t < nq * width; t++)
        sums[t] = (struct pair){{_mm256_setzero_ps(), _mm256_setzero_ps()}};
    for (size_t p = 0; p < limit; p++)
        avx2_add_products(sums, weights, RF_ATTENTION_CHUNK, p, args->v + p * stride + d, 16, nq,
                          width, bf16);
    UNROLL
    for (int t = 0; t < nq * width; t++)
        avx2_store_sums(args->out + (i + (size_t)(t / width)) * args->ldo + d + t % width * 16,
                        sums[t], bf16);
}

/* `width`: blocks of K, or of 16 elements of V, that few queries take at a time. */
INLINE void avx2_attention_queries(const struct rf_attention_args *args, size_t i, int nq,
                                   int width, int bf16)
{
    float score[MAX_QUERIES][RF_ATTENTION_CHUNK], q[MAX_QUERIES][SLAB];
    size_t limit = 0, dim = args->head_dim, padded = rf_padded(args->head_dim);
    size_t wide = (size_t)width;
    for (int a = 0; a < nq; a++)
        if ((size_t)args->visible[i + (size_t)a] > limit)
            limit = (size_t)args->visible[i + (size_t)a];
    size_t blocks = (limit + RF_KV_BLOCK - 1) / RF_KV_BLOCK;
    for (size_t j = 0; j < dim; j += SLAB) {
        size_t n = dim - j < SLAB ? dim - j : SLAB, b = 0;
        for (int a = 0; a < nq; a++) avx2_copy_query(q[a], args->q[i + (size_t)a] + j, n, bf16);
        for (; width > 1 && b + wide <= blocks; b += wide)
            avx2_attention_scores(args, q[0], j, n, b, score, i == 0, nq, width, bf16);
        for (; b < blocks; b++)
            avx2_attention_scores(args, q[0], j, n, b, score, i == 0, nq, 1, bf16);
    }
    for (int a = 0; a < nq; a++) {
        size_t first = args->first ? (size_t)args->first[i + (size_t)a] : 0;
        float *tail = args->out + (i + (size_t)a) * args->ldo + padded;
        rf_limit_scores(score[a], blocks * RF_KV_BLOCK, first, args->scale, args->cap);
        avx2_attention_soften(score[a], args->scale, (size_t)args->visible[i + (size_t)a],
                              blocks * RF_KV_BLOCK, tail, tail + 1, bf16);
    }
    size_t d = 0;
    for (; width > 1 && d + 16 * wide <= padded; d += 16 * wide)
        avx2_attention_values(args, i, d, score[0], limit, nq, width, bf16);
    for (; d < padded; d += 16) avx2_attention_values(args, i, d, score[0], limit, nq, 1, bf16);
}

INLINE void avx2_attention(const struct rf_attention_args *args, int bf16)
{
    size_t tiles = (args->n_q + MAX_QUERIES - 1) / MAX_QUERIES;
    for (size_t i = 0, n; i < args->n_q; i += n, tiles--) {
        n = (args->n_q - i + tiles - 1) / tiles;
        switch (n) {
        case 1: avx2_attention_queries(args, i, 1, 4, bf16); break;
        case 2: avx2_attention_queries(args, i, 2, 2, bf16); break;
        case 3: avx2_attention_queries(args, i, 3, 2, bf16); break;
        case 4: avx2_attention_queries(args, i, 4, 1, bf16); break;
        case 5: avx2_attention_queries(args, i, 5, 1, bf16); break;
        default: avx2_attention_queries(args, i, MAX_QUERIES, 1, bf16); break;
        }
    }
}

static void avx2_attention_f16(const struct rf_attention_args *args)
{
    avx2_attention(args, 0);
}

static void avx2_attention_bf16(const struct rf_attention_args *args)
{
    avx2_attention(args, 1);
}

void rf_avx2_init_attention(struct rf_kernels *kernels)
{
    kernels->attention_f16 = avx2_attention_f16;
    kernels->attention_bf16 = avx2_attention_bf16;
}
