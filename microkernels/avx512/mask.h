/* Masks for the last, incomplete vector of a row. */
#ifndef RF_MICROKERNELS_AVX512_MASK_H
#define RF_MICROKERNELS_AVX512_MASK_H

#include <immintrin.h>
#include <stddef.h>

/* The first `left` of 16 lanes, all of them if left >= 16. */
static inline __mmask16 rf_mask16(size_t left)
{
    return (__mmask16)(left >= 16 ? 0xffffu : (1u << left) - 1u);
}

/* The same for lanes 16 .. 31. */
static inline __mmask16 rf_mask16_high(size_t left)
{
    return rf_mask16(left > 16 ? left - 16 : 0);
}

#endif
