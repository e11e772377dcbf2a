/* Declarations that the files of the reference share. */
#ifndef RF_MICROKERNELS_REF_TIER_H
#define RF_MICROKERNELS_REF_TIER_H

#include <math.h>

#include "microkernels/kernels.h"

void rf_ref_init_panels(struct rf_kernels *kernels);
void rf_ref_init_panels_row(struct rf_kernels *kernels);
void rf_ref_init_attention_kv(struct rf_kernels *kernels);
void rf_ref_init_cast(struct rf_kernels *kernels);

/* Q4_K and Q6_K times rows of RF_OPERAND_A16_SUPER; the reference's own table takes A16. */
extern rf_linear_fn *const rf_ref_linear_a16_super[RF_FORMAT_COUNT];

/* A score under a cap, or as it is where the cap is 0. */
static inline float rf_capped(float score, float cap)
{
    return cap > 0 ? cap * tanhf(score / cap) : score;
}

#endif
