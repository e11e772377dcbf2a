/* Attention over quantised groups on AVX-VNNI. */
#include "microkernels/avxvnni/tier.h"

#include "microkernels/avx2/attention_kv.h"

void rf_avxvnni_init_attention_kv(struct rf_kernels *kernels)
{
    kernels->attention_kv = RF_NAMED(attention_kv);
}
