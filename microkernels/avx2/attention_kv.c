/* Attention over quantised groups on AVX2, with 16-bit sums of byte products. */
#define RF_NAMED(kernel) avx2_##kernel
#include "microkernels/avx2/attention_kv.h"

#include "microkernels/avx2/tier.h"

void rf_avx2_init_attention_kv(struct rf_kernels *kernels)
{
    kernels->attention_kv = avx2_attention_kv;
}
