/* Attention over one chunk of F16 keys and values. Scores: 16 positions are 16 lanes (K is stored
 * so), summed over head_dim in order; values: 16 elements of the head are 16 lanes, summed over
 * positions in order. Tiles share loads and never change the order of a sum. */
#include <immintrin.h>
#include <math.h>

#include "microkernels/avx512/mask.h"
#include "microkernels/avx512/math.h"
#include "microkernels/avx512/tier.h"
#include "microkernels/x86.h"

enum {
    MAX_QUERIES = 6,  /* queries of a tile */
    SCORE_BLOCKS = 4, /* K blocks of a tile: 6 x 4 accumulators */
    VALUE_LANES = 4,  /* vectors of the head in a tile: 6 x 4 accumulators */
    ROWS_AHEAD = 48   /* prefetch distance in rows of V */
};

INLINE __m512 avx512_f16_load16(const uint16_t *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
}

/* Scores of nq queries over `blocks` K blocks from block b. */
INLINE void avx512_f16_scores(const struct rf_attention_args *args, size_t i, size_t b,
                              float (*score)[RF_ATTENTION_CHUNK], int nq, int blocks)
{
    size_t dim = args->head_dim;
    const uint16_t *k = args->k + b * RF_KV_BLOCK * dim;
    const float *q[MAX_QUERIES];
    __m512 acc[MAX_QUERIES * SCORE_BLOCKS];
#pragma GCC unroll 6
    for (int a = 0; a < nq; a++) q[a] = args->q[i + (size_t)a];
#pragma GCC unroll 24
    for (int t = 0; t < nq * blocks; t++) acc[t] = _mm512_setzero_ps();
    for (size_t j = 0; j < dim; j++) {
        __m512 keys[SCORE_BLOCKS];
#pragma GCC unroll 4
        for (int s = 0; s < blocks; s++) {
            const uint16_t *at = k + ((size_t)s * dim + j) * RF_KV_BLOCK;
            keys[s] = avx512_f16_load16(at);
            if (j % 2 == 0)
                _mm_prefetch((const char *)(at + (size_t)blocks * dim * RF_KV_BLOCK), _MM_HINT_T1);
        }
#pragma GCC unroll 6
        for (int a = 0; a < nq; a++) {
            __m512 value = _mm512_set1_ps(q[a][j]);
#pragma GCC unroll 4
            for (int s = 0; s < blocks; s++)
                acc[a * blocks + s] = _mm512_fmadd_ps(value, keys[s], acc[a * blocks + s]);
        }
    }
    __m512 scale = _mm512_set1_ps(args->scale);
#pragma GCC unroll 6
    for (int a = 0; a < nq; a++)
#pragma GCC unroll 4
        for (int s = 0; s < blocks; s++)
            _mm512_storeu_ps(score[a] + (b + (size_t)s) * RF_KV_BLOCK,
                             _mm512_mul_ps(acc[a * blocks + s], scale));
}

/* Replaces scores by weights exp(s - max), with zeros from `visible` to `padded`. */
static void avx512_f16_soften(float *score, size_t visible, size_t padded, float *max_out,
                              float *sum_out)
{
    __m512 max = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
    for (size_t p = 0; p < visible; p += 16) {
        __mmask16 mask = rf_mask16(visible - p);
        max = _mm512_mask_max_ps(max, mask, max, _mm512_loadu_ps(score + p));
    }
    __m512 top = _mm512_set1_ps(_mm512_reduce_max_ps(max));
    for (size_t p = 0; p < padded; p += 16) {
        __mmask16 mask = rf_mask16(p < visible ? visible - p : 0);
        __m512 weight =
            _mm512_maskz_mov_ps(mask, rf_exp_ps(_mm512_sub_ps(_mm512_loadu_ps(score + p), top)));
        _mm512_storeu_ps(score + p, weight);
        sum = _mm512_add_ps(sum, weight);
    }
    *max_out = _mm512_reduce_max_ps(max);
    *sum_out = _mm512_reduce_add_ps(sum);
}

/* Weighted sums of `lanes` vectors of V from element d, for nq queries. */
INLINE void avx512_f16_values(const struct rf_attention_args *args, size_t i, size_t d,
                              float (*score)[RF_ATTENTION_CHUNK], size_t limit, int nq, int lanes)
{
    size_t stride = rf_padded(args->head_dim);
    const uint16_t *v = args->v + d;
    __m512 acc[MAX_QUERIES * VALUE_LANES];
#pragma GCC unroll 24
    for (int t = 0; t < nq * lanes; t++) acc[t] = _mm512_setzero_ps();
    for (size_t p = 0; p < limit; p++) {
        __m512 row[VALUE_LANES];
#pragma GCC unroll 4
        for (int s = 0; s < lanes; s++) row[s] = avx512_f16_load16(v + p * stride + (size_t)s * 16);
#pragma GCC unroll 2
        for (int s = 0; s < lanes; s += 2)
            _mm_prefetch((const char *)(v + (p + ROWS_AHEAD) * stride + (size_t)s * 16),
                         _MM_HINT_T1);
#pragma GCC unroll 6
        for (int a = 0; a < nq; a++) {
            __m512 weight = _mm512_set1_ps(score[a][p]);
#pragma GCC unroll 4
            for (int s = 0; s < lanes; s++)
                acc[a * lanes + s] = _mm512_fmadd_ps(weight, row[s], acc[a * lanes + s]);
        }
    }
#pragma GCC unroll 6
    for (int a = 0; a < nq; a++)
#pragma GCC unroll 4
        for (int s = 0; s < lanes; s++)
            _mm512_storeu_ps(args->out + (i + (size_t)a) * args->ldo + d + (size_t)s * 16,
                             acc[a * lanes + s]);
}

INLINE void avx512_f16_queries(const struct rf_attention_args *args, size_t i, int nq)
{
    float score[MAX_QUERIES][RF_ATTENTION_CHUNK];
    size_t limit = 0, padded = rf_padded(args->head_dim);
    for (int a = 0; a < nq; a++)
        if ((size_t)args->visible[i + (size_t)a] > limit)
            limit = (size_t)args->visible[i + (size_t)a];
    size_t blocks = (limit + RF_KV_BLOCK - 1) / RF_KV_BLOCK, b = 0;
    for (; b + SCORE_BLOCKS <= blocks; b += SCORE_BLOCKS)
        avx512_f16_scores(args, i, b, score, nq, SCORE_BLOCKS);
    for (; b < blocks; b++) avx512_f16_scores(args, i, b, score, nq, 1);
    for (int a = 0; a < nq; a++) {
        size_t first = args->first ? (size_t)args->first[i + (size_t)a] : 0;
        float *tail = args->out + (i + (size_t)a) * args->ldo + padded;
        rf_limit_scores(score[a], blocks * RF_KV_BLOCK, first, 1.0f, args->cap);
        avx512_f16_soften(score[a], (size_t)args->visible[i + (size_t)a], blocks * RF_KV_BLOCK,
                          tail, tail + 1);
    }
    size_t d = 0;
    for (; d + VALUE_LANES * 16 <= padded; d += VALUE_LANES * 16)
        avx512_f16_values(args, i, d, score, limit, nq, VALUE_LANES);
    for (; d < padded; d += 16) avx512_f16_values(args, i, d, score, limit, nq, 1);
}

static void avx512_attention_f16(const struct rf_attention_args *args)
{
    size_t i = 0;
    for (; i + MAX_QUERIES <= args->n_q; i += MAX_QUERIES) avx512_f16_queries(args, i, MAX_QUERIES);
    switch (args->n_q - i) {
    case 1: avx512_f16_queries(args, i, 1); break;
    case 2: avx512_f16_queries(args, i, 2); break;
    case 3: avx512_f16_queries(args, i, 3); break;
    case 4: avx512_f16_queries(args, i, 4); break;
    case 5: avx512_f16_queries(args, i, 5); break;
    default: break;
    }
}

void rf_avx512_init_attention(struct rf_kernels *kernels)
{
    kernels->attention_f16 = avx512_attention_f16;
}
