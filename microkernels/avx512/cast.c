#include "microkernels/cast.h"

#include "microkernels/avx512/tier.h"

void rf_avx512_init_cast(struct rf_kernels *kernels)
{
    rf_cast_init(kernels);
}
