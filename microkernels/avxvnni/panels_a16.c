/* Weights in panels times 16-bit rows on AVX-VNNI. */
#include "microkernels/avxvnni/tier.h"

#include "microkernels/avx2/panels_a16.h"

void rf_avxvnni_init_panels_a16(struct rf_kernels *kernels)
{
    init_panels_a16(kernels);
}
