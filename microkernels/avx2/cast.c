#include "microkernels/cast.h"

#include "microkernels/avx2/tier.h"

void rf_avx2_init_cast(struct rf_kernels *kernels)
{
    rf_cast_init(kernels);
}
