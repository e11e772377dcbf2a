/* Attention over one chunk. Scores: 16 positions are two vectors (K is stored so), summed over
 * head_dim in order; values: 8 elements of the head are 8 lanes, summed over positions in order.
 * Tiles share loads and never change the order of a sum. */
#include <immintrin.h>
#include <math.h>

#include "microkernels/avx2/math.h"
#include "microkernels/avx2/tier.h"
#include "microkernels/x86.h"

enum {
    MAX_QUERIES = 4, /* of a tile, with two accumulators each */
    SLAB = 512       /* elements of the head that are rounded at a time */
};

/* The nearest BF16 numbers. */
INLINE __m256 round8(__m256 x)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    bits = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    return _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32((int)0xffff0000)));
}

static void round_query(float *out, const float *q, size_t n)
{
    for (size_t j = 0; j < n; j += 8)
        _mm256_storeu_ps(out + j, round8(_mm256_maskload_ps(q + j, rf_lanes(n - j))));
}

INLINE __m256 load8(const uint16_t *from, int bf16)
{
    __m128i half = _mm_loadu_si128((const __m128i *)from);
    if (bf16) return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
    return _mm256_cvtph_ps(half);
}

/* Adds to the scores of nq queries over K block b the products of the n elements from `first`, of
 * which q has the queries'. */
INLINE void scores(const struct rf_attention_args *args, const float *const *q, size_t first,
                   size_t n, size_t b, float (*score)[RF_ATTENTION_CHUNK], int nq, int bf16)
{
    const uint16_t *k = args->k + (b * args->head_dim + first) * RF_KV_BLOCK;
    __m256 acc[MAX_QUERIES * 2];
#pragma GCC unroll 8
    for (int t = 0; t < 2 * nq; t++)
        acc[t] = first ? _mm256_loadu_ps(score[t / 2] + b * RF_KV_BLOCK + t % 2 * 8)
                       : _mm256_setzero_ps();
    for (size_t j = 0; j < n; j++) {
        __m256 low = load8(k + j * RF_KV_BLOCK, bf16), high = load8(k + j * RF_KV_BLOCK + 8, bf16);
#pragma GCC unroll 4
        for (int a = 0; a < nq; a++) {
            __m256 value = _mm256_broadcast_ss(q[a] + j);
            acc[2 * a] = _mm256_fmadd_ps(value, low, acc[2 * a]);
            acc[2 * a + 1] = _mm256_fmadd_ps(value, high, acc[2 * a + 1]);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < 2 * nq; t++)
        _mm256_storeu_ps(score[t / 2] + b * RF_KV_BLOCK + t % 2 * 8, acc[t]);
}

/* Replaces scores by weights exp(s - max), with zeros from `visible` to `padded`. */
INLINE void soften(float *score, float scale, size_t visible, size_t padded, float *max_out,
                   float *sum_out, int bf16)
{
    __m256 lowest = _mm256_set1_ps(-INFINITY), max = lowest, sum = _mm256_setzero_ps();
    __m256 factor = _mm256_set1_ps(scale);
    for (size_t p = 0; p < visible; p += 8) {
        __m256 lanes = _mm256_castsi256_ps(rf_lanes(visible - p));
        __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(score + p), factor);
        max = _mm256_max_ps(max, _mm256_blendv_ps(lowest, scaled, lanes));
    }
    *max_out = rf_max_ps(max);
    __m256 top = _mm256_set1_ps(*max_out);
    for (size_t p = 0; p < padded; p += 8) {
        __m256 lanes = _mm256_castsi256_ps(rf_lanes(p < visible ? visible - p : 0));
        __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(score + p), factor);
        __m256 weight = _mm256_and_ps(lanes, rf_exp_ps(_mm256_sub_ps(scaled, top)));
        if (bf16) weight = round8(weight);
        _mm256_storeu_ps(score + p, weight);
        sum = _mm256_add_ps(sum, weight);
    }
    *sum_out = rf_sum_ps(sum);
}

/* Weighted sums of 16 elements of V from element d, for nq queries. */
INLINE void values(const struct rf_attention_args *args, size_t i, size_t d,
                   float (*score)[RF_ATTENTION_CHUNK], size_t limit, int nq, int bf16)
{
    size_t stride = rf_padded(args->head_dim);
    const uint16_t *v = args->v + d;
    __m256 acc[MAX_QUERIES * 2];
#pragma GCC unroll 8
    for (int t = 0; t < nq * 2; t++) acc[t] = _mm256_setzero_ps();
    for (size_t p = 0; p < limit; p++) {
        __m256 low = load8(v + p * stride, bf16), high = load8(v + p * stride + 8, bf16);
#pragma GCC unroll 4
        for (int a = 0; a < nq; a++) {
            __m256 weight = _mm256_broadcast_ss(score[a] + p);
            acc[2 * a] = _mm256_fmadd_ps(weight, low, acc[2 * a]);
            acc[2 * a + 1] = _mm256_fmadd_ps(weight, high, acc[2 * a + 1]);
        }
    }
#pragma GCC unroll 4
    for (int a = 0; a < nq; a++) {
        float *out = args->out + (i + (size_t)a) * args->ldo + d;
        _mm256_storeu_ps(out, acc[2 * a]);
        _mm256_storeu_ps(out + 8, acc[2 * a + 1]);
    }
}

INLINE void queries(const struct rf_attention_args *args, size_t i, int nq, int bf16)
{
    float score[MAX_QUERIES][RF_ATTENTION_CHUNK], rounded[MAX_QUERIES][SLAB];
    const float *q[MAX_QUERIES];
    size_t limit = 0, dim = args->head_dim, padded = rf_padded(args->head_dim);
    for (int a = 0; a < nq; a++)
        if ((size_t)args->visible[i + (size_t)a] > limit)
            limit = (size_t)args->visible[i + (size_t)a];
    size_t blocks = (limit + RF_KV_BLOCK - 1) / RF_KV_BLOCK;
    for (size_t j = 0; j < dim; j += SLAB) {
        size_t n = dim - j < SLAB ? dim - j : SLAB;
        for (int a = 0; a < nq; a++) {
            q[a] = args->q[i + (size_t)a] + j;
            if (!bf16) continue;
            round_query(rounded[a], q[a], n);
            q[a] = rounded[a];
        }
        for (size_t b = 0; b < blocks; b++) scores(args, q, j, n, b, score, nq, bf16);
    }
    for (int a = 0; a < nq; a++) {
        size_t first = args->first ? (size_t)args->first[i + (size_t)a] : 0;
        float *tail = args->out + (i + (size_t)a) * args->ldo + padded;
        rf_limit_scores(score[a], blocks * RF_KV_BLOCK, first, args->scale, args->cap);
        soften(score[a], args->scale, (size_t)args->visible[i + (size_t)a], blocks * RF_KV_BLOCK,
               tail, tail + 1, bf16);
    }
    for (size_t d = 0; d < padded; d += 16) values(args, i, d, score, limit, nq, bf16);
}

INLINE void attention(const struct rf_attention_args *args, int bf16)
{
    size_t i = 0;
    for (; i + MAX_QUERIES <= args->n_q; i += MAX_QUERIES) queries(args, i, MAX_QUERIES, bf16);
    switch (args->n_q - i) {
    case 1: queries(args, i, 1, bf16); break;
    case 2: queries(args, i, 2, bf16); break;
    case 3: queries(args, i, 3, bf16); break;
    default: break;
    }
}

static void attention_f16(const struct rf_attention_args *args)
{
    attention(args, 0);
}

static void attention_bf16(const struct rf_attention_args *args)
{
    attention(args, 1);
}

void rf_avx2_init_attention(struct rf_kernels *kernels)
{
    kernels->attention_f16 = attention_f16;
    kernels->attention_bf16 = attention_bf16;
}
