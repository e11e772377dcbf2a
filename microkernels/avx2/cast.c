/* Casts of weights, compiled for AVX2. */
#define RF_NAMED(kernel) avx2_##kernel
#include "microkernels/cast.h"

#include "microkernels/avx2/tier.h"

void rf_avx2_init_cast(struct rf_kernels *kernels)
{
    rf_cast_init(kernels);
}
