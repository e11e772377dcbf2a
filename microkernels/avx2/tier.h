/* Declarations that the files of the AVX2 tier share: one function for each file, which enters its
 * kernels in the tier's table. */
#ifndef RF_MICROKERNELS_AVX2_TIER_H
#define RF_MICROKERNELS_AVX2_TIER_H

#include "microkernels/kernels.h"

void rf_avx2_init_linear(struct rf_kernels *kernels);
void rf_avx2_init_panels(struct rf_kernels *kernels);
void rf_avx2_init_panels_a16(struct rf_kernels *kernels);
void rf_avx2_init_panels_row(struct rf_kernels *kernels);
void rf_avx2_init_attention(struct rf_kernels *kernels);
void rf_avx2_init_attention_kv(struct rf_kernels *kernels);
void rf_avx2_init_rows(struct rf_kernels *kernels);
void rf_avx2_init_cast(struct rf_kernels *kernels);

#endif
