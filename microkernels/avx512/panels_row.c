/* Formats with a scale for a row times 8-bit rows (vpdpbusd on 512 bits). Beside the 24 products of
 * a tile, decoding a vector of codes takes three operations on ports that products leave free. Many
 * rows still gain by codes that are decoded before, in tiles that load less. */
#include "microkernels/avx512/panels_row.h"

#include "microkernels/avx512/tier.h"

#define RF_NAMED(kernel) avx512_##kernel

typedef __m512i integers;
enum {
    LANES = 16,
    TILE_ROWS = 12,
    TILE = 2,
    TILE_SUMS = 24,
    DECODED_ROWS = 6,
    DECODED_TILE = 4,
    DECODE_K = 1024, /* 64 KiB in the second-level cache */
    PASS_ROWS = 256,
    MOST_IN_REGISTERS = 64,
    DECODES_ALL = 0
};
#define SCALED_CODES 1

#define EACH_TILE_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#define EACH_FEW_ROWS(FORMAT) \
    STREAM(1, 4, FORMAT)      \
    STREAM(2, 4, FORMAT)      \
    STREAM(3, 4, FORMAT)      \
    STREAM(4, 4, FORMAT)      \
    STREAM(5, 2, FORMAT)      \
    STREAM(6, 2, FORMAT)      \
    STREAM(7, 2, FORMAT)      \
    STREAM(8, 2, FORMAT)      \
    STREAM(9, 2, FORMAT)      \
    STREAM(10, 2, FORMAT)     \
    STREAM(11, 2, FORMAT)     \
    STREAM(12, 2, FORMAT)

INLINE integers v_load(const void *at)
{
    return _mm512_load_si512(at);
}

INLINE void v_store(void *at, integers v)
{
    _mm512_store_si512(at, v);
}

INLINE integers v_and(integers v)
{
    return _mm512_and_si512(v, _mm512_set1_epi8(15));
}

INLINE integers v_srl4(integers v)
{
    return _mm512_srli_epi16(v, 4);
}

INLINE integers v_add(integers a, integers b)
{
    return _mm512_add_epi32(a, b);
}

INLINE integers v_mul(integers a, integers b)
{
    return _mm512_mullo_epi32(a, b);
}

INLINE integers v_set(int32_t value)
{
    return _mm512_set1_epi32(value);
}

INLINE integers v_zero(void)
{
    return _mm512_setzero_si512();
}

INLINE integers v_widen(const uint8_t *bytes)
{
    return _mm512_cvtepi8_epi32(_mm_load_si128((const __m128i *)(const void *)bytes));
}

/* A group's integers a for codes c: |a| (c or 15 - c) and what is added to it. Products of bytes
 * are below 256, so two of them do not meet in a word. */
struct row_factor {
    integers flip, times, offset;
};

INLINE struct row_factor v_factor(const uint8_t *scales)
{
    __m512i a = v_widen(scales), sign = _mm512_srai_epi32(a, 31), most = _mm512_abs_epi32(a);
    most = _mm512_or_si512(most, _mm512_slli_epi32(most, 16));
    __m512i bytes = _mm512_or_si512(most, _mm512_slli_epi16(most, 8)),
            eight = _mm512_slli_epi16(most, 3);
    eight = _mm512_or_si512(eight, _mm512_slli_epi16(eight, 8));
    eight = _mm512_sub_epi8(eight, _mm512_and_si512(sign, bytes));
    return (struct row_factor){v_and(sign), most,
                               _mm512_sub_epi8(_mm512_set1_epi8((char)128), eight)};
}

INLINE integers v_scaled(integers codes, const struct row_factor *factor)
{
    codes = _mm512_mullo_epi16(_mm512_xor_si512(codes, factor->flip), factor->times);
    return _mm512_add_epi8(codes, factor->offset);
}

INLINE integers v_begin(integers sum)
{
    return sum;
}

INLINE integers v_step(integers part, integers codes, integers q)
{
    return _mm512_dpbusd_epi32(part, codes, q);
}

INLINE integers v_end(integers sum, integers part)
{
    (void)sum;
    return part;
}

#include "microkernels/panels_row.h"

rf_linear_fn *const rf_avx512_linear_row[RF_FORMAT_COUNT] = {
#define ENTRY(name, FORMAT, ...) [RF_FORMAT_##FORMAT] = avx512_linear_##name##_a8,
    RF_EACH_ROW_FORMAT(ENTRY)
#undef ENTRY
};

void rf_avx512_init_panels_row(struct rf_kernels *kernels)
{
    init_panels_row(kernels);
}
