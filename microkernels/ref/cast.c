#include "microkernels/cast.h"

#include "microkernels/ref/tier.h"

void rf_ref_init_cast(struct rf_kernels *kernels)
{
    rf_cast_init(kernels);
}
