/* Casts of weights, compiled for AVX-512. */
#define RF_NAMED(kernel) avx512_##kernel
#include "microkernels/cast.h"

#include "microkernels/avx512/tier.h"

void rf_avx512_init_cast(struct rf_kernels *kernels)
{
    rf_cast_init(kernels);
}
