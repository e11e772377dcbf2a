#include "microkernels/avx2/attention_kv.h"

void rf_avx2_init_attention_kv(struct rf_kernels *kernels)
{
    kernels->attention_kv = attention_kv;
}
