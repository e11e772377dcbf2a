/* Macros and sums that the x86 tiers share. */
#ifndef RF_MICROKERNELS_X86_H
#define RF_MICROKERNELS_X86_H

#include <immintrin.h>

#include "microkernels/kernels.h"

#define INLINE static inline __attribute__((always_inline))
/* A function that is compiled once, without knowledge of its callers. */
#if defined __clang__
#    define APART __attribute__((noinline))
#else
#    define APART __attribute__((noipa))
#endif

/* Unrolls the following loop, which has few steps over registers. clang does not unroll if it is
 * told more steps than there are. */
#if defined __clang__
#    define UNROLL _Pragma("clang loop unroll(full)")
#else
#    define UNROLL _Pragma("GCC unroll 16")
#endif

/* Sums of integers are to be made in the order of the source: gcc would make several at a time of
 * one, which take more registers than there are. */
#define IN_ORDER(sum) __asm__("" : "+x"(sum))

/* The sums of the lanes of a, b, c, d, each by the same tree: pairs (0,2) and (1,3), then both. */
INLINE __m128 rf_sum4(__m128 a, __m128 b, __m128 c, __m128 d)
{
    __m128 ab = _mm_add_ps(_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
    __m128 cd = _mm_add_ps(_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
    return _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab));
}

/* Writes `count` (1..4) results of weights r, r + step, ... */
INLINE void rf_store4(const struct rf_linear_args *args, float *y, size_t r, size_t step,
                      __m128 sum, int count)
{
    float sums[4];
    _mm_storeu_ps(sums, sum);
#pragma GCC unroll 4
    for (int t = 0; t < count; t++) {
        size_t at = r + (size_t)t * step;
        float value = sums[t];
        if (args->bias) value += args->bias[at];
        y[at] = args->accumulate ? y[at] + value : value;
    }
}

#endif
