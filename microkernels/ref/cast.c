/* Casts of weights in plain C; the other tiers compile the same source for their vectors. */
#define RF_NAMED(kernel) ref_##kernel
#include "microkernels/cast.h"

#include "microkernels/ref/tier.h"

void rf_ref_init_cast(struct rf_kernels *kernels)
{
    rf_cast_init(kernels);
}
