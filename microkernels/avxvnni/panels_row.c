/* Formats with a scale for a row times 8-bit rows on AVX-VNNI. */
#include "microkernels/avxvnni/tier.h"

#include "microkernels/avx2/panels_row.h"

void rf_avxvnni_init_panels_row(struct rf_kernels *kernels)
{
    init_panels_row(kernels);
}
