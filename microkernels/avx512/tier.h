/* Declarations that the files of the AVX-512 tier share: one function for each file, which enters
 * its kernels in the tier's table. */
#ifndef RF_MICROKERNELS_AVX512_TIER_H
#define RF_MICROKERNELS_AVX512_TIER_H

#include "microkernels/kernels.h"

/* amx calls these, too: it makes its rows from theirs. */
rf_pack_fn rf_avx512_pack_a8, rf_avx512_pack_a16;

void rf_avx512_init_linear(struct rf_kernels *kernels);
void rf_avx512_init_panels(struct rf_kernels *kernels);
void rf_avx512_init_panels_a16(struct rf_kernels *kernels);
void rf_avx512_init_panels_row(struct rf_kernels *kernels);
void rf_avx512_init_attention(struct rf_kernels *kernels);
void rf_avx512_init_attention_bf16(struct rf_kernels *kernels);
void rf_avx512_init_attention_kv(struct rf_kernels *kernels);
void rf_avx512_init_rows(struct rf_kernels *kernels);
void rf_avx512_init_cast(struct rf_kernels *kernels);

#endif
