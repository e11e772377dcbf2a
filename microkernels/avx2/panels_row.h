/* Formats with a scale for a row times 8-bit rows on 256 bits. With RF_DPBUSD as vpdpbusd, else
 * with vpmaddubsw: 32 values of k are eight pairs of products with codes up to 15, which 16 bits
 * hold. */
#include "microkernels/avx2/decode.h"
#include "microkernels/avx2/math.h"
#include "microkernels/x86.h"

typedef __m256i integers;
enum {
    LANES = 8,
    TILE = 2,
    TILE_ROWS = 4,
    TILE_SUMS = 12,
    DECODED_TILE = 2,
    DECODE_K = 512,
    PASS_ROWS = 128,
    DECODES_ALL = 1
};

#ifdef RF_DPBUSD
enum { DECODED_ROWS = 6, MOST_IN_REGISTERS = 23, FOR_TWO = 4 }; /* eight sums hide the latency */
#    define SCALED_CODES 1
/* Though some of twelve sums are spilled, one tile is faster than two. */
#    define FIVE_AND_SIX(FORMAT) STREAM(5, 2, FORMAT) STREAM(6, 2, FORMAT)
#else
enum { DECODED_ROWS = 4, MOST_IN_REGISTERS = 24, FOR_TWO = 2 }; /* a sum has one of 16 bits, too */
#    define SCALED_CODES 0
#    define FIVE_AND_SIX(FORMAT)
#endif
#define EACH_TILE_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define EACH_FEW_ROWS(FORMAT)  \
    STREAM(1, 4, FORMAT)       \
    STREAM(2, FOR_TWO, FORMAT) \
    STREAM(3, 2, FORMAT)       \
    STREAM(4, 2, FORMAT)       \
    FIVE_AND_SIX(FORMAT)

INLINE integers v_load(const void *at)
{
    return _mm256_load_si256((const __m256i *)at);
}

INLINE void v_store(void *at, integers v)
{
    _mm256_store_si256((__m256i *)at, v);
}

INLINE integers v_and(integers v)
{
    return _mm256_and_si256(v, _mm256_set1_epi8(15));
}

INLINE integers v_srl4(integers v)
{
    return _mm256_srli_epi16(v, 4);
}

INLINE integers v_add(integers a, integers b)
{
    return _mm256_add_epi32(a, b);
}

INLINE integers v_mul(integers a, integers b)
{
    return _mm256_mullo_epi32(a, b);
}

INLINE integers v_set(int32_t value)
{
    return _mm256_set1_epi32(value);
}

INLINE integers v_zero(void)
{
    return _mm256_setzero_si256();
}

INLINE integers v_widen(const uint8_t *bytes)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)bytes));
}

/* A group's integers a for codes c: |a| (c or 15 - c) and what is added to it. Products of bytes
 * are below 256, so two of them do not meet in a word. */
struct row_factor {
    integers flip, times, offset;
};

INLINE struct row_factor v_factor(const uint8_t *scales)
{
    __m256i a = v_widen(scales), sign = _mm256_srai_epi32(a, 31), most = _mm256_abs_epi32(a);
    most = _mm256_or_si256(most, _mm256_slli_epi32(most, 16));
    __m256i bytes = _mm256_or_si256(most, _mm256_slli_epi16(most, 8)),
            eight = _mm256_slli_epi16(most, 3);
    eight = _mm256_or_si256(eight, _mm256_slli_epi16(eight, 8));
    eight = _mm256_sub_epi8(eight, _mm256_and_si256(sign, bytes));
    return (struct row_factor){v_and(sign), most,
                               _mm256_sub_epi8(_mm256_set1_epi8((char)128), eight)};
}

INLINE integers v_scaled(integers codes, const struct row_factor *factor)
{
    codes = _mm256_mullo_epi16(_mm256_xor_si256(codes, factor->flip), factor->times);
    return _mm256_add_epi8(codes, factor->offset);
}

#ifdef RF_DPBUSD
INLINE integers v_begin(integers sum)
{
    return sum;
}

INLINE integers v_step(integers part, integers codes, integers q)
{
    return RF_DPBUSD(part, codes, q);
}

INLINE integers v_end(integers sum, integers part)
{
    (void)sum;
    return part;
}
#else
INLINE integers v_begin(integers sum)
{
    (void)sum;
    return _mm256_setzero_si256();
}

INLINE integers v_step(integers part, integers codes, integers q)
{
    part = _mm256_add_epi16(part, _mm256_maddubs_epi16(codes, q));
    IN_ORDER(part);
    return part;
}

INLINE integers v_end(integers sum, integers part)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(part, _mm256_set1_epi16(1)));
}
#endif

INLINE void row_finish(const struct rf_linear_args *args, size_t i, size_t first, float d,
                       const float *scales, integers sum)
{
    __m256i lanes = rf_lanes(args->m - first);
    float *y = args->y + i * args->ldy + first;
    __m256 value = _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(d)),
                                 _mm256_load_ps(scales));
    if (args->bias) value = _mm256_add_ps(value, _mm256_maskload_ps(args->bias + first, lanes));
    if (args->accumulate) value = _mm256_add_ps(_mm256_maskload_ps(y, lanes), value);
    _mm256_maskstore_ps(y, lanes, value);
}

#include "microkernels/panels_row.h"
