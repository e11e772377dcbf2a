/* Compiles the sources of AVX-512 kernels for processors with AVX2 alone (test_kcheck): takes the
 * place of the compiler's header there. The intrinsics are SIMDe's, and below what SIMDe 0.7.4 does
 * not have, or does not do as the processor: by lanes, as Intel's Software Developer's Manual,
 * volume 2, defines them. AVX2's intrinsics stay the processor's own. */
#ifndef RF_TEST_WIDE_IMMINTRIN_H
#define RF_TEST_WIDE_IMMINTRIN_H

#include_next <immintrin.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
#define SIMDE_NO_INLINE /* else compilers take minutes */
#include <assert.h>
#include <math.h>
#include <simde/x86/avx512.h>
#include <string.h>

#define WIDE static __attribute__((noinline, unused))

typedef union {
    __m512 ps;
    __m512d pd;
    __m512i si;
    __m256 half_ps[2];
    float f32[16];
    double f64[8];
    int32_t i32[16];
    uint16_t u16[32];
} wide;

WIDE wide wide_ps(__m512 a)
{
    return (wide){.ps = a};
}

WIDE wide wide_si(__m512i a)
{
    return (wide){.si = a};
}

/* ---- loads and stores under masks: other lanes are not touched ---- */

WIDE __m512 wide_maskz_loadu_ps(__mmask16 mask, const void *from)
{
    wide r = {.f32 = {0}};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) memcpy(&r.f32[i], (const char *)from + 4 * i, 4);
    return r.ps;
}

WIDE void wide_mask_storeu_ps(void *to, __mmask16 mask, __m512 a)
{
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) memcpy((char *)to + 4 * i, &wide_ps(a).f32[i], 4);
}

WIDE __m512i wide_maskz_loadu_epi16(__mmask32 mask, const void *from)
{
    wide r = {.f32 = {0}};
    for (int i = 0; i < 32; i++)
        if (mask >> i & 1) memcpy(&r.u16[i], (const char *)from + 2 * i, 2);
    return r.si;
}

WIDE __m256i wide256_maskz_loadu_epi16(__mmask16 mask, const void *from)
{
    uint16_t r[16] = {0};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) memcpy(&r[i], (const char *)from + 2 * i, 2);
    return _mm256_loadu_si256((const __m256i *)(const void *)r);
}

WIDE void wide256_mask_storeu_epi16(void *to, __mmask16 mask, __m256i a)
{
    uint16_t lanes[16];
    memcpy(lanes, &a, sizeof lanes);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) memcpy((char *)to + 2 * i, &lanes[i], 2);
}

WIDE __m128 wide128_maskz_loadu_ps(__mmask8 mask, const void *from)
{
    float r[4] = {0};
    for (int i = 0; i < 4; i++)
        if (mask >> i & 1) memcpy(&r[i], (const char *)from + 4 * i, 4);
    return _mm_loadu_ps(r);
}

WIDE void wide128_mask_storeu_ps(void *to, __mmask8 mask, __m128 a)
{
    float lanes[4];
    memcpy(lanes, &a, sizeof lanes);
    for (int i = 0; i < 4; i++)
        if (mask >> i & 1) memcpy((char *)to + 4 * i, &lanes[i], 4);
}

WIDE void wide_i32scatter_epi32(void *to, __m512i at, __m512i a, int scale)
{
    for (int i = 0; i < 16; i++)
        memcpy((char *)to + wide_si(at).i32[i] * scale, &wide_si(a).i32[i], 4);
}

/* ---- one rounding, where SIMDe has two ---- */

WIDE __m512 wide_fmadd_ps(__m512 a, __m512 b, __m512 c)
{
    wide x = wide_ps(a), y = wide_ps(b), z = wide_ps(c);
    for (int h = 0; h < 2; h++)
        z.half_ps[h] = _mm256_fmadd_ps(x.half_ps[h], y.half_ps[h], z.half_ps[h]);
    return z.ps;
}

WIDE __m512 wide_fnmadd_ps(__m512 a, __m512 b, __m512 c)
{
    wide x = wide_ps(a), y = wide_ps(b), z = wide_ps(c);
    for (int h = 0; h < 2; h++)
        z.half_ps[h] = _mm256_fnmadd_ps(x.half_ps[h], y.half_ps[h], z.half_ps[h]);
    return z.ps;
}

WIDE __m512 wide_scalef_ps(__m512 a, __m512 b)
{
    wide x = wide_ps(a), y = wide_ps(b);
    for (int i = 0; i < 16; i++) {
        float n = fminf(fmaxf(floorf(y.f32[i]), -1000.0f), 1000.0f);
        x.f32[i] = y.f32[i] != y.f32[i] ? y.f32[i] : ldexpf(x.f32[i], (int)n);
    }
    return x.ps;
}

/* ---- conversions ---- */

WIDE __m512 wide_cvtepi32_ps(__m512i a)
{
    wide r = wide_si(a);
    for (int i = 0; i < 16; i++) r.f32[i] = (float)r.i32[i];
    return r.ps;
}

/* To the nearest integer, ties to even; what does not fit, and NaN, becomes INT32_MIN. */
WIDE __m512i wide_cvtps_epi32(__m512 a)
{
    wide r = wide_ps(a);
    for (int i = 0; i < 16; i++) {
        float n = nearbyintf(r.f32[i]);
        r.i32[i] = n >= -0x1p31f && n < 0x1p31f ? (int32_t)n : INT32_MIN;
    }
    return r.si;
}

WIDE __m512i wide_maskz_cvtps_epi32(__mmask16 mask, __m512 a)
{
    wide r = wide_si(wide_cvtps_epi32(a));
    for (int i = 0; i < 16; i++)
        if (!(mask >> i & 1)) r.i32[i] = 0;
    return r.si;
}

WIDE __m512 wide_cvtph_ps(__m256i a)
{
    wide r;
    r.half_ps[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(a));
    r.half_ps[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1));
    return r.ps;
}

WIDE __m256i wide_cvtps_ph(__m512 a)
{
    wide x = wide_ps(a);
    return _mm256_set_m128i(_mm256_cvtps_ph(x.half_ps[1], _MM_FROUND_TO_NEAREST_INT),
                            _mm256_cvtps_ph(x.half_ps[0], _MM_FROUND_TO_NEAREST_INT));
}

WIDE __m512d wide_cvtps_pd(__m256 a)
{
    wide r;
    float lanes[8];
    memcpy(lanes, &a, sizeof lanes);
    for (int i = 0; i < 8; i++) r.f64[i] = (double)lanes[i];
    return r.pd;
}

#define WIDE_EXTEND(name, from, lane)                     \
    WIDE __m512i wide_##name(from a)                      \
    {                                                     \
        wide r;                                           \
        lane lanes[sizeof a / sizeof(lane)];              \
        memcpy(lanes, &a, sizeof lanes);                  \
        for (int i = 0; i < 16; i++) r.i32[i] = lanes[i]; \
        return r.si;                                      \
    }
WIDE_EXTEND(cvtepi8_epi32, __m128i, int8_t)
WIDE_EXTEND(cvtepu8_epi32, __m128i, uint8_t)
WIDE_EXTEND(cvtepu16_epi32, __m256i, uint16_t)

WIDE __m128i wide_cvtepi32_epi8(__m512i a)
{
    uint8_t lanes[16];
    for (int i = 0; i < 16; i++) lanes[i] = (uint8_t)wide_si(a).i32[i];
    return _mm_loadu_si128((const __m128i *)(const void *)lanes);
}

WIDE __m256i wide_cvtepi32_epi16(__m512i a)
{
    uint16_t lanes[16];
    for (int i = 0; i < 16; i++) lanes[i] = (uint16_t)wide_si(a).i32[i];
    return _mm256_loadu_si256((const __m256i *)(const void *)lanes);
}

/* BF16: to nearest, ties to even; subnormal numbers are 0, NaN is quiet. */
WIDE uint16_t wide_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x) return (uint16_t)(bits >> 16 | 0x40);
    if ((bits & 0x7f800000) == 0) return (uint16_t)(bits >> 16 & 0x8000);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

WIDE __m256i wide_cvtneps_pbh(__m512 a)
{
    uint16_t lanes[16];
    for (int i = 0; i < 16; i++) lanes[i] = wide_bf16(wide_ps(a).f32[i]);
    return _mm256_loadu_si256((const __m256i *)(const void *)lanes);
}

WIDE __m512i wide_cvtne2ps_pbh(__m512 high, __m512 low)
{
    wide r;
    for (int i = 0; i < 16; i++) {
        r.u16[i] = wide_bf16(wide_ps(low).f32[i]);
        r.u16[16 + i] = wide_bf16(wide_ps(high).f32[i]);
    }
    return r.si;
}

/* Each lane: both products are added by FMA, that of the odd elements first; subnormal numbers are
 * 0 before and after each step. */
WIDE float wide_no_subnormal(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

WIDE float wide_from_bf16(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float r;
    memcpy(&r, &bits, sizeof r);
    return wide_no_subnormal(r);
}

WIDE __m512 wide_dpbf16_ps(__m512 sum, __m512i a, __m512i b)
{
    wide r = wide_ps(sum), x = wide_si(a), y = wide_si(b);
    for (int i = 0; i < 16; i++) {
        float s = wide_no_subnormal(r.f32[i]);
        for (int odd = 1; odd >= 0; odd--)
            s = wide_no_subnormal(
                fmaf(wide_from_bf16(x.u16[2 * i + odd]), wide_from_bf16(y.u16[2 * i + odd]), s));
        r.f32[i] = s;
    }
    return r.ps;
}

/* ---- tiles ---- */

struct wide_tiles {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config;
    uint8_t rows[8][16][64];
};
static _Thread_local struct wide_tiles wide_tiles;

WIDE void wide_tile_loadconfig(const void *from)
{
    memset(&wide_tiles, 0, sizeof wide_tiles);
    memcpy(&wide_tiles.config, from, sizeof wide_tiles.config);
}

WIDE void wide_tile_release(void)
{
    memset(&wide_tiles, 0, sizeof wide_tiles);
}

WIDE void wide_tile_zero(int tile)
{
    memset(wide_tiles.rows[tile], 0, sizeof wide_tiles.rows[tile]);
}

WIDE void wide_tile_loadd(int tile, const void *from, size_t stride)
{
    wide_tile_zero(tile);
    for (int i = 0; i < wide_tiles.config.rows[tile]; i++)
        memcpy(wide_tiles.rows[tile][i], (const char *)from + (size_t)i * stride,
               wide_tiles.config.row_bytes[tile]);
}

WIDE void wide_tile_stored(int tile, void *to, size_t stride)
{
    for (int i = 0; i < wide_tiles.config.rows[tile]; i++)
        memcpy((char *)to + (size_t)i * stride, wide_tiles.rows[tile][i],
               wide_tiles.config.row_bytes[tile]);
}

/* Each element gets the sum of two sums by FMA, of even and of odd elements; subnormal numbers are
 * 0 before and after each step. */
WIDE void wide_tile_dpbf16ps(int sum, int a, int b)
{
    for (int i = 0; i < wide_tiles.config.rows[sum]; i++)
        for (int j = 0; j < wide_tiles.config.row_bytes[sum] / 4; j++) {
            float total, of[2] = {0.0f, 0.0f};
            for (int k = 0; k < wide_tiles.config.row_bytes[a] / 2; k++) {
                uint16_t x, y;
                memcpy(&x, wide_tiles.rows[a][i] + 2 * k, sizeof x);
                memcpy(&y, wide_tiles.rows[b][k / 2] + 4 * j + k % 2 * 2, sizeof y);
                of[k % 2] =
                    wide_no_subnormal(fmaf(wide_from_bf16(x), wide_from_bf16(y), of[k % 2]));
            }
            memcpy(&total, wide_tiles.rows[sum][i] + 4 * j, sizeof total);
            total = wide_no_subnormal(wide_no_subnormal(total) + wide_no_subnormal(of[0] + of[1]));
            memcpy(wide_tiles.rows[sum][i] + 4 * j, &total, sizeof total);
        }
}

/* Bytes of a and of b, each signed or not. */
WIDE void wide_tile_bytes(int sum, int a, int b, int signed_a, int signed_b)
{
    int words = wide_tiles.config.row_bytes[sum] / 4, quads = wide_tiles.config.row_bytes[a] / 4;
    assert(wide_tiles.config.rows[a] == wide_tiles.config.rows[sum]);
    assert(wide_tiles.config.rows[b] == quads);
    assert(wide_tiles.config.row_bytes[b] == wide_tiles.config.row_bytes[sum]);
    for (int i = 0; i < wide_tiles.config.rows[sum]; i++)
        for (int j = 0; j < words; j++) {
            int32_t total;
            memcpy(&total, wide_tiles.rows[sum][i] + 4 * j, sizeof total);
            for (int k = 0; k < 4 * quads; k++) {
                uint8_t x = wide_tiles.rows[a][i][k], y = wide_tiles.rows[b][k / 4][4 * j + k % 4];
                total += (signed_a ? (int8_t)x : x) * (signed_b ? (int8_t)y : y);
            }
            memcpy(wide_tiles.rows[sum][i] + 4 * j, &total, sizeof total);
        }
}

/* ---- sums and greatest lanes, by the tree of gcc's header ---- */

#define WIDE_REDUCE(name, argument, member, lane, n, op)                             \
    WIDE lane wide_reduce_##name(argument a)                                         \
    {                                                                                \
        lane lanes[n];                                                               \
        memcpy(lanes, &a, sizeof lanes);                                             \
        for (int half = n / 2; half; half /= 2)                                      \
            for (int i = 0; i < half; i++) lanes[i] = op(lanes[i], lanes[half + i]); \
        return lanes[0];                                                             \
    }
#define WIDE_ADD(a, b) ((a) + (b))
WIDE_REDUCE(add_ps, __m512, f32, float, 16, WIDE_ADD)
WIDE_REDUCE(max_ps, __m512, f32, float, 16, fmaxf)
WIDE_REDUCE(add_pd, __m512d, f64, double, 8, WIDE_ADD)
WIDE_REDUCE(add_epi32, __m512i, i32, int32_t, 16, WIDE_ADD)

/* ---- the rest ---- */

WIDE __m256 wide_extractf32x8_ps(__m512 a, int i)
{
    return wide_ps(a).half_ps[i];
}

/* The one comparison that the kernels use: _CMP_GT_OQ. */
WIDE __mmask16 wide_mask_gt_ps_mask(__mmask16 mask, __m512 a, __m512 b)
{
    __mmask16 r = 0;
    for (int i = 0; i < 16; i++) r |= (__mmask16)((wide_ps(a).f32[i] > wide_ps(b).f32[i]) << i);
    return r & mask;
}

WIDE __m512 wide_shuffle_f32x4(__m512 a, __m512 b, int which)
{
    wide from[2] = {wide_ps(a), wide_ps(b)}, r;
    for (int i = 0; i < 16; i++) r.f32[i] = from[i / 8].f32[(which >> i / 4 * 2 & 3) * 4 + i % 4];
    return r.ps;
}

WIDE __m512 wide_permute_ps(__m512 a, int which)
{
    wide from = wide_ps(a), r;
    for (int i = 0; i < 16; i++) r.f32[i] = from.f32[i - i % 4 + (which >> i % 4 * 2 & 3)];
    return r.ps;
}

WIDE __m512i wide_srai_epi32(__m512i a, unsigned by)
{
    wide r = wide_si(a);
    for (int i = 0; i < 16; i++) r.i32[i] >>= by;
    return r.si;
}

#undef _mm512_i32scatter_epi32
#define _mm512_i32scatter_epi32 wide_i32scatter_epi32
#undef _mm512_permute_ps
#define _mm512_permute_ps wide_permute_ps
#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4 wide_shuffle_f32x4
#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#undef _tile_dpbusd
#undef _tile_dpbsud
#undef _tile_dpbssd
#define _tile_loadconfig wide_tile_loadconfig
#define _tile_release wide_tile_release
#define _tile_zero wide_tile_zero
#define _tile_loadd wide_tile_loadd
#define _tile_stored(tile, to, stride) wide_tile_stored(tile, to, stride)
#define _tile_dpbf16ps wide_tile_dpbf16ps
#define _tile_dpbusd(sum, a, b) wide_tile_bytes(sum, a, b, 0, 1)
#define _tile_dpbsud(sum, a, b) wide_tile_bytes(sum, a, b, 1, 0)
#define _tile_dpbssd(sum, a, b) wide_tile_bytes(sum, a, b, 1, 1)
#undef _mm512_fmadd_ps
#undef _mm512_fnmadd_ps
#undef _mm512_scalef_ps
#undef _mm512_dpbf16_ps
#undef _mm512_cvtepi8_epi32
#define _mm512_maskz_loadu_ps wide_maskz_loadu_ps
#define _mm512_mask_storeu_ps wide_mask_storeu_ps
#define _mm512_maskz_loadu_epi16 wide_maskz_loadu_epi16
#define _mm256_maskz_loadu_epi16 wide256_maskz_loadu_epi16
#define _mm256_mask_storeu_epi16 wide256_mask_storeu_epi16
#define _mm_maskz_loadu_ps wide128_maskz_loadu_ps
#define _mm_mask_storeu_ps wide128_mask_storeu_ps
#define _mm512_fmadd_ps wide_fmadd_ps
#define _mm512_fnmadd_ps wide_fnmadd_ps
#define _mm512_scalef_ps wide_scalef_ps
#define _mm512_cvtepi32_ps wide_cvtepi32_ps
#define _mm512_cvtps_epi32 wide_cvtps_epi32
#define _mm512_maskz_cvtps_epi32 wide_maskz_cvtps_epi32
#define _mm512_cvtph_ps wide_cvtph_ps
#define _mm512_cvtps_ph(a, rounding) wide_cvtps_ph(a)
#define _mm512_cvtps_pd wide_cvtps_pd
#define _mm512_cvtepi8_epi32 wide_cvtepi8_epi32
#define _mm512_cvtepu8_epi32 wide_cvtepu8_epi32
#define _mm512_cvtepu16_epi32 wide_cvtepu16_epi32
#define _mm512_cvtepi32_epi8 wide_cvtepi32_epi8
#define _mm512_cvtepi32_epi16 wide_cvtepi32_epi16
#define _mm512_cvtneps_pbh(a) ((__m256bh)wide_cvtneps_pbh(a))
#define _mm512_cvtne2ps_pbh(high, low) ((__m512bh)wide_cvtne2ps_pbh(high, low))
#define _mm512_dpbf16_ps(sum, a, b) wide_dpbf16_ps(sum, (__m512i)(a), (__m512i)(b))
#define _mm512_reduce_add_ps wide_reduce_add_ps
#define _mm512_reduce_max_ps wide_reduce_max_ps
#define _mm512_reduce_add_pd wide_reduce_add_pd
#define _mm512_reduce_add_epi32 wide_reduce_add_epi32
#define _mm512_mask_cmp_ps_mask(mask, a, b, how) wide_mask_##how(mask, a, b)
#define wide_mask__CMP_GT_OQ wide_mask_gt_ps_mask
#define _mm512_extractf32x8_ps wide_extractf32x8_ps
#define _mm512_srai_epi32 wide_srai_epi32

#endif
