/* Shared by avx512 and amx: formats with a scale for a row. */
#ifndef RF_MICROKERNELS_AVX512_PANELS_ROW_H
#define RF_MICROKERNELS_AVX512_PANELS_ROW_H

#include "microkernels/avx512/mask.h"
#include "microkernels/x86.h"

/* Kernels for any number of rows. */
extern rf_linear_fn *const rf_avx512_linear_row[RF_FORMAT_COUNT];

/* Results of activation row i and up to 16 weight rows, from row `first` on. */
INLINE void row_finish(const struct rf_linear_args *args, size_t i, size_t first, float d,
                       const float *scales, __m512i sum)
{
    size_t left = args->m - first;
    __mmask16 lanes = rf_mask16(left);
    float *y = args->y + i * args->ldy + first;
    __m512 value = _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(d)),
                                 _mm512_load_ps(scales));
    if (args->bias) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(lanes, args->bias + first));
    if (args->accumulate) value = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, y), value);
    _mm512_mask_storeu_ps(y, lanes, value);
}

#endif
