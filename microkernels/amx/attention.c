/* Attention over one chunk of BF16 keys and values with tdpbf16ps. Queries, and later weights, are
 * operand A; keys and values, in pairs of elements of the head or of positions, are operand B. A
 * tile computes its rows independently, and each sum runs in one order for any number of queries.
 * That order is not vdpbf16ps's, so one query, too, runs on tiles. */
#include <immintrin.h>
#include <math.h>

#include "microkernels/amx/tier.h"
#include "microkernels/avx512/attention_bf16.h"

enum {
    SIDE = 16,                 /* rows of A, lanes of B, pairs of k in a tile */
    DEPTH = 32,                /* values of k in a tile */
    LANES = 4,                 /* blocks of 16 lanes that share A: tiles 0 to 3 have their sums */
    QUERIES = 64,              /* queries that share B */
    SLAB = RF_ATTENTION_CHUNK, /* values of k in memory at a time */
    STEPS = SLAB / DEPTH,
    WIDTH = SLAB + DEPTH, /* row of A in memory: no power of 2 */
    ROW_BYTES = 64,
    AHEAD = 64 /* prefetch distance in vectors of 16 keys or values */
};

struct operands {
    _Alignas(64) uint16_t a[QUERIES][WIDTH];
    _Alignas(64) uint16_t b[LANES][STEPS][SIDE][DEPTH];
    float score[QUERIES][RF_ATTENTION_CHUNK + SIDE];
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t steps_of(size_t k)
{
    return (k + DEPTH - 1) / DEPTH;
}

/* ---- operands ---- */

/* B of `lanes` blocks of lanes: n vectors, which are `stride` elements apart, and the blocks
 * `block`. Zeros follow up to a whole tile: what lies there may be no number. */
INLINE void take_b(struct operands *o, const uint16_t *from, size_t n, size_t stride, size_t block,
                   size_t lanes)
{
    const __m256i zero = _mm256_setzero_si256();
    for (size_t k = 0; k < steps_of(n) * DEPTH; k += 2)
        for (size_t lane = 0; lane < lanes; lane++) {
            const uint16_t *at = from + k * stride + lane * block;
            __m256i first = k < n ? _mm256_loadu_si256((const __m256i *)at) : zero;
            __m256i second = k + 1 < n ? _mm256_loadu_si256((const __m256i *)(at + stride)) : zero;
            _mm_prefetch((const char *)(at + AHEAD * stride), _MM_HINT_T0);
            _mm_prefetch((const char *)(at + (AHEAD + 1) * stride), _MM_HINT_T0);
            _mm512_store_si512(o->b[lane][k / DEPTH][k % DEPTH / 2], pairs(first, second));
        }
}

/* n elements of a query, rounded, with zeros up to a whole tile. */
static void take_query(uint16_t *a, const float *q, size_t n)
{
    for (size_t j = 0; j < steps_of(n) * DEPTH; j += 16) {
        __m512 x = _mm512_maskz_loadu_ps(rf_mask16(j < n ? n - j : 0), q + j);
        _mm256_storeu_si256((__m256i *)(a + j), (__m256i)_mm512_cvtneps_pbh(x));
    }
}

/* ---- products ---- */

/* Tiles 0 to 3: sums [query][lane]; 4: A; 5 to 7: B. */
static void amx_attention_configure(size_t rows)
{
    struct rf_tile_config config = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        config.rows[t] = t < 5 ? (uint8_t)rows : SIDE;
        config.row_bytes[t] = ROW_BYTES;
    }
    _tile_loadconfig(&config);
}

/* Sums over `steps` tiles of k for up to 16 queries from `row`, 16 floats a block of lanes. `adds`:
 * to what is there. */
INLINE void multiply_tile(const struct operands *o, size_t row, size_t steps, float *out,
                          size_t ldo, int adds, int lanes)
{
    size_t bytes = ldo * sizeof *out;
    if (adds) {
        _tile_loadd(0, out, bytes);
        if (lanes > 1) _tile_loadd(1, out + 16, bytes);
        if (lanes > 2) _tile_loadd(2, out + 32, bytes);
        if (lanes > 3) _tile_loadd(3, out + 48, bytes);
    } else {
        _tile_zero(0);
        if (lanes > 1) _tile_zero(1);
        if (lanes > 2) _tile_zero(2);
        if (lanes > 3) _tile_zero(3);
    }
    for (size_t s = 0; s < steps; s++) {
        _tile_loadd(4, o->a[row] + s * DEPTH, sizeof o->a[0]);
        _tile_loadd(5, o->b[0][s], ROW_BYTES);
        _tile_dpbf16ps(0, 4, 5);
        if (lanes > 1) _tile_loadd(6, o->b[1][s], ROW_BYTES);
        if (lanes > 1) _tile_dpbf16ps(1, 4, 6);
        if (lanes > 2) _tile_loadd(7, o->b[2][s], ROW_BYTES);
        if (lanes > 2) _tile_dpbf16ps(2, 4, 7);
        if (lanes > 3) _tile_loadd(5, o->b[3][s], ROW_BYTES);
        if (lanes > 3) _tile_dpbf16ps(3, 4, 5);
    }
    _tile_stored(0, out, bytes);
    if (lanes > 1) _tile_stored(1, out + 16, bytes);
    if (lanes > 2) _tile_stored(2, out + 32, bytes);
    if (lanes > 3) _tile_stored(3, out + 48, bytes);
}

/* All nq queries with `lanes` blocks of lanes. */
static void amx_attention_multiply(const struct operands *o, size_t nq, size_t steps, float *out,
                                   size_t ldo, int adds, size_t lanes)
{
    for (size_t i = 0; i < nq; i += SIDE) {
        float *to = out + i * ldo;
        if (i == 0 || nq - i < SIDE) amx_attention_configure(least(nq - i, SIDE));
        switch (lanes) {
        case 1: multiply_tile(o, i, steps, to, ldo, adds, 1); break;
        case 2: multiply_tile(o, i, steps, to, ldo, adds, 2); break;
        case 3: multiply_tile(o, i, steps, to, ldo, adds, 3); break;
        default: multiply_tile(o, i, steps, to, ldo, adds, LANES); break;
        }
    }
}

/* ---- attention ---- */

/* Products of nq queries from i on with the first `limit` positions. */
static void take_scores(struct operands *o, const struct rf_attention_args *args, size_t i,
                        size_t nq, size_t limit)
{
    size_t dim = args->head_dim, blocks = (limit + RF_KV_BLOCK - 1) / RF_KV_BLOCK;
    for (size_t first = 0; first < dim; first += SLAB) {
        size_t n = least(dim - first, SLAB);
        for (size_t a = 0; a < nq; a++) take_query(o->a[a], args->q[i + a] + first, n);
        for (size_t b = 0, lanes; b < blocks; b += lanes) {
            lanes = least(blocks - b, LANES);
            take_b(o, args->k + (b * dim + first) * RF_KV_BLOCK, n, RF_KV_BLOCK, dim * RF_KV_BLOCK,
                   lanes);
            amx_attention_multiply(o, nq, steps_of(n), o->score[0] + b * RF_KV_BLOCK,
                                   sizeof o->score[0] / sizeof(float), first > 0, lanes);
        }
    }
}

static void amx_attention_queries(struct operands *o, const struct rf_attention_args *args,
                                  size_t i, size_t nq)
{
    size_t limit = 0, padded = rf_padded(args->head_dim);
    for (size_t a = i; a < i + nq; a++)
        if ((size_t)args->visible[a] > limit) limit = (size_t)args->visible[a];
    take_scores(o, args, i, nq, limit);
    for (size_t a = 0; a < nq; a++) {
        size_t first = args->first ? (size_t)args->first[i + a] : 0;
        float *tail = args->out + (i + a) * args->ldo + padded;
        rf_limit_scores(o->score[a], rf_padded(limit), first, args->scale, args->cap);
        soften(o->score[a], o->a[a], args->scale, (size_t)args->visible[i + a],
               steps_of(limit) * DEPTH, tail, tail + 1);
    }
    for (size_t d = 0, lanes; d < padded; d += lanes * SIDE) {
        lanes = least((padded - d) / SIDE, LANES);
        take_b(o, args->v + d, limit, padded, SIDE, lanes);
        amx_attention_multiply(o, nq, steps_of(limit), args->out + i * args->ldo + d, args->ldo, 0,
                               lanes);
    }
}

static void amx_attention_bf16(const struct rf_attention_args *args)
{
    struct operands o;
    for (size_t i = 0; i < args->n_q; i += QUERIES)
        amx_attention_queries(&o, args, i, least(args->n_q - i, QUERIES));
    _tile_release();
}

void rf_amx_init_attention(struct rf_kernels *kernels)
{
    kernels->attention_bf16 = amx_attention_bf16;
}
