/* What the files of the reference share. */
#ifndef RF_MICROKERNELS_REF_TIER_H
#define RF_MICROKERNELS_REF_TIER_H

#include "microkernels/kernels.h"

void rf_ref_init_panels(struct rf_kernels *kernels);
void rf_ref_init_attention_kv(struct rf_kernels *kernels);
void rf_ref_init_cast(struct rf_kernels *kernels);

#endif
