/* What the files of this tier share. They are compiled twice: with vpdpbusd's VEX form, for client
 * processors, and with its EVEX form on 256 bits (RF_EVEX_TWIN), for processors with AVX-512 VNNI
 * alone. */
#ifndef RF_MICROKERNELS_AVXVNNI_TIER_H
#define RF_MICROKERNELS_AVXVNNI_TIER_H

#include "microkernels/kernels.h"

#ifdef RF_EVEX_TWIN
#    define RF_DPBUSD _mm256_dpbusd_epi32
#    define rf_avxvnni_init rf_kernels_init_avxvnni_evex
#    define rf_avxvnni_init_attention_kv rf_avxvnni_evex_init_attention_kv
#else
#    define RF_DPBUSD _mm256_dpbusd_avx_epi32
#    define rf_avxvnni_init rf_kernels_init_avxvnni
#endif

void rf_avxvnni_init_attention_kv(struct rf_kernels *kernels);

#endif
