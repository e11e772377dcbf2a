/* Instructions and names that the files of this tier share. They are compiled twice: with the VEX
 * forms of vpdpbusd and vpdpwssd, for client processors, and with their EVEX forms on 256 bits
 * (RF_EVEX_TWIN), for processors with AVX-512 VNNI alone. */
#ifndef RF_MICROKERNELS_AVXVNNI_TIER_H
#define RF_MICROKERNELS_AVXVNNI_TIER_H

#include "microkernels/kernels.h"

#ifdef RF_EVEX_TWIN
#    define RF_DPBUSD _mm256_dpbusd_epi32
#    define RF_DPWSSD _mm256_dpwssd_epi32
#    define RF_NAMED(kernel) avxvnni_evex_##kernel
#    define rf_avxvnni_init rf_kernels_init_avxvnni_evex
#    define rf_avxvnni_init_attention_kv rf_avxvnni_evex_init_attention_kv
#    define rf_avxvnni_init_panels_a16 rf_avxvnni_evex_init_panels_a16
#    define rf_avxvnni_init_panels_row rf_avxvnni_evex_init_panels_row
#else
#    define RF_DPBUSD _mm256_dpbusd_avx_epi32
#    define RF_DPWSSD _mm256_dpwssd_avx_epi32
#    define RF_NAMED(kernel) avxvnni_##kernel
#    define rf_avxvnni_init rf_kernels_init_avxvnni
#endif

void rf_avxvnni_init_attention_kv(struct rf_kernels *kernels);
void rf_avxvnni_init_panels_a16(struct rf_kernels *kernels);
void rf_avxvnni_init_panels_row(struct rf_kernels *kernels);

#endif
