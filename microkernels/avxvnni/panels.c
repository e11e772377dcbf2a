/* Weights in panels on AVX-VNNI. */
#include "microkernels/avxvnni/tier.h"

#include "microkernels/avx2/panels.h"

void rf_avxvnni_init(struct rf_kernels *kernels)
{
    init_panels(kernels);
    rf_avxvnni_init_panels_a16(kernels);
    rf_avxvnni_init_panels_row(kernels);
    rf_avxvnni_init_attention_kv(kernels);
}
