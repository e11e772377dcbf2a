/* Weights in panels on AVX-VNNI. Compiled twice: with vpdpbusd's VEX form, for client processors,
 * and with its EVEX form on 256 bits (RF_EVEX_TWIN), for processors with AVX-512 VNNI alone. */
#ifdef RF_EVEX_TWIN
#    define RF_DPBUSD _mm256_dpbusd_epi32
#    define INIT rf_kernels_init_avxvnni_evex
#else
#    define RF_DPBUSD _mm256_dpbusd_avx_epi32
#    define INIT rf_kernels_init_avxvnni
#endif
#include "microkernels/avx2/panels.h"

void INIT(struct rf_kernels *kernels)
{
    init_panels(kernels);
}
