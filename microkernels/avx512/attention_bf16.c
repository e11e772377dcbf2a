/* Attention over one chunk of BF16 keys and values with vdpbf16ps, which takes pairs: of elements
 * of the head for scores, of positions for values. Sums run in the order of the pairs. Tiles share
 * loads and never change the order of a sum. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "microkernels/avx512/attention_bf16.h"
#include "microkernels/avx512/tier.h"

enum {
    MAX_QUERIES = 6,  /* queries of a tile */
    SCORE_BLOCKS = 4, /* K blocks of a tile: 6 x 4 accumulators */
    VALUE_LANES = 4,  /* vectors of the head in a tile: 6 x 4 accumulators */
    SLAB = 512,       /* elements of the head that are rounded at a time */
    ROWS_AHEAD = 48   /* prefetch distance in rows of V */
};

/* Queries of a tile: a slab of their elements, scores, and weights. */
struct tile_state {
    _Alignas(64) uint16_t q[MAX_QUERIES][SLAB];
    float score[MAX_QUERIES][RF_ATTENTION_CHUNK];
    uint16_t weight[MAX_QUERIES][RF_ATTENTION_CHUNK];
};

INLINE __m512bh pair_of(const uint16_t *two)
{
    int32_t pair;
    memcpy(&pair, two, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
}

INLINE __m256i avx512_bf16_load16(const uint16_t *from)
{
    return _mm256_loadu_si256((const __m256i *)from);
}

/* Rounds n elements of a query, with a zero after an odd number. */
static void avx512_bf16_round_query(uint16_t *out, const float *q, size_t n)
{
    for (size_t j = 0; j < n; j += 16)
        _mm256_store_si256((__m256i *)(out + j), (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(
                                                     rf_mask16(n - j), q + j)));
}

/* Adds to the scores of nq queries over `blocks` K blocks from block b the products of the n
 * elements from `first`. */
INLINE void avx512_bf16_scores(const struct rf_attention_args *args, struct tile_state *tile,
                               size_t b, size_t first, size_t n, int nq, int blocks)
{
    size_t dim = args->head_dim;
    const uint16_t *k = args->k + (b * dim + first) * RF_KV_BLOCK;
    __m512 acc[MAX_QUERIES * SCORE_BLOCKS];
#pragma GCC unroll 6
    for (int a = 0; a < nq; a++)
#pragma GCC unroll 4
        for (int s = 0; s < blocks; s++)
            acc[a * blocks + s] =
                first ? _mm512_loadu_ps(tile->score[a] + (b + (size_t)s) * RF_KV_BLOCK)
                      : _mm512_setzero_ps();
    for (size_t j = 0; j < n; j += 2) {
        __m512bh keys[SCORE_BLOCKS];
#pragma GCC unroll 4
        for (int s = 0; s < blocks; s++) {
            const uint16_t *at = k + ((size_t)s * dim + j) * RF_KV_BLOCK;
            keys[s] = (__m512bh)pairs(avx512_bf16_load16(at),
                                      j + 1 < n ? avx512_bf16_load16(at + RF_KV_BLOCK)
                                                : _mm256_setzero_si256());
            _mm_prefetch((const char *)(at + (size_t)blocks * dim * RF_KV_BLOCK), _MM_HINT_T1);
        }
#pragma GCC unroll 6
        for (int a = 0; a < nq; a++) {
            __m512bh two = pair_of(tile->q[a] + j);
#pragma GCC unroll 4
            for (int s = 0; s < blocks; s++)
                acc[a * blocks + s] = _mm512_dpbf16_ps(acc[a * blocks + s], keys[s], two);
        }
    }
#pragma GCC unroll 6
    for (int a = 0; a < nq; a++)
#pragma GCC unroll 4
        for (int s = 0; s < blocks; s++)
            _mm512_storeu_ps(tile->score[a] + (b + (size_t)s) * RF_KV_BLOCK, acc[a * blocks + s]);
}

/* Weighted sums of `lanes` vectors of V from element d, for nq queries. */
INLINE void avx512_bf16_values(const struct rf_attention_args *args, const struct tile_state *tile,
                               size_t i, size_t d, size_t limit, int nq, int lanes)
{
    size_t stride = rf_padded(args->head_dim);
    __m512 acc[MAX_QUERIES * VALUE_LANES];
#pragma GCC unroll 24
    for (int t = 0; t < nq * lanes; t++) acc[t] = _mm512_setzero_ps();
    for (size_t p = 0; p < limit; p += 2) {
        const uint16_t *v = args->v + p * stride + d;
        __m512bh rows[VALUE_LANES];
#pragma GCC unroll 4
        for (int s = 0; s < lanes; s++) {
            const uint16_t *at = v + (size_t)s * 16;
            rows[s] = (__m512bh)pairs(avx512_bf16_load16(at), p + 1 < limit
                                                                  ? avx512_bf16_load16(at + stride)
                                                                  : _mm256_setzero_si256());
            _mm_prefetch((const char *)(at + ((size_t)(s % 2) + ROWS_AHEAD) * stride), _MM_HINT_T1);
        }
#pragma GCC unroll 6
        for (int a = 0; a < nq; a++) {
            __m512bh two = pair_of(tile->weight[a] + p);
#pragma GCC unroll 4
            for (int s = 0; s < lanes; s++)
                acc[a * lanes + s] = _mm512_dpbf16_ps(acc[a * lanes + s], rows[s], two);
        }
    }
#pragma GCC unroll 6
    for (int a = 0; a < nq; a++)
#pragma GCC unroll 4
        for (int s = 0; s < lanes; s++)
            _mm512_storeu_ps(args->out + (i + (size_t)a) * args->ldo + d + (size_t)s * 16,
                             acc[a * lanes + s]);
}

INLINE void avx512_bf16_queries(const struct rf_attention_args *args, size_t i, int nq)
{
    struct tile_state tile;
    size_t limit = 0, dim = args->head_dim, padded = rf_padded(dim);
    for (int a = 0; a < nq; a++)
        if ((size_t)args->visible[i + (size_t)a] > limit)
            limit = (size_t)args->visible[i + (size_t)a];
    size_t blocks = (limit + RF_KV_BLOCK - 1) / RF_KV_BLOCK;
    for (size_t j = 0; j < dim; j += SLAB) {
        size_t n = dim - j < SLAB ? dim - j : SLAB, b = 0;
        for (int a = 0; a < nq; a++)
            avx512_bf16_round_query(tile.q[a], args->q[i + (size_t)a] + j, n);
        for (; b + SCORE_BLOCKS <= blocks; b += SCORE_BLOCKS)
            avx512_bf16_scores(args, &tile, b, j, n, nq, SCORE_BLOCKS);
        for (; b < blocks; b++) avx512_bf16_scores(args, &tile, b, j, n, nq, 1);
    }
    for (int a = 0; a < nq; a++) {
        size_t first = args->first ? (size_t)args->first[i + (size_t)a] : 0;
        float *tail = args->out + (i + (size_t)a) * args->ldo + padded;
        rf_limit_scores(tile.score[a], blocks * RF_KV_BLOCK, first, args->scale, args->cap);
        soften(tile.score[a], tile.weight[a], args->scale, (size_t)args->visible[i + (size_t)a],
               blocks * RF_KV_BLOCK, tail, tail + 1);
    }
    size_t d = 0;
    for (; d + VALUE_LANES * 16 <= padded; d += VALUE_LANES * 16)
        avx512_bf16_values(args, &tile, i, d, limit, nq, VALUE_LANES);
    for (; d < padded; d += 16) avx512_bf16_values(args, &tile, i, d, limit, nq, 1);
}

static void avx512_attention_bf16(const struct rf_attention_args *args)
{
    size_t i = 0;
    for (; i + MAX_QUERIES <= args->n_q; i += MAX_QUERIES)
        avx512_bf16_queries(args, i, MAX_QUERIES);
    switch (args->n_q - i) {
    case 1: avx512_bf16_queries(args, i, 1); break;
    case 2: avx512_bf16_queries(args, i, 2); break;
    case 3: avx512_bf16_queries(args, i, 3); break;
    case 4: avx512_bf16_queries(args, i, 4); break;
    case 5: avx512_bf16_queries(args, i, 5); break;
    default: break;
    }
}

void rf_avx512_init_attention_bf16(struct rf_kernels *kernels)
{
    kernels->attention_bf16 = avx512_attention_bf16;
}
