/* What the files of the reference share. */
#ifndef RF_MICROKERNELS_REF_TIER_H
#define RF_MICROKERNELS_REF_TIER_H

#include "microkernels/kernels.h"

void rf_ref_init_panels(struct rf_kernels *kernels);
/* The weight of row r (0 .. 15) of a panel and value j < k, rounded to BF16: what kernels multiply
 * by 16-bit rows. */
float rf_ref_panel_weight(enum rf_format format, const uint8_t *panel, size_t k, size_t r,
                          size_t j);

void rf_ref_init_attention_kv(struct rf_kernels *kernels);
void rf_ref_init_cast(struct rf_kernels *kernels);

#endif
