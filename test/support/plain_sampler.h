/* The sampler as plainly as can be: everything is sorted, summed and entered into the race. */
#ifndef RF_TEST_PLAIN_SAMPLER_H
#define RF_TEST_PLAIN_SAMPLER_H

#include "infer/sampler.h"

/* The probabilities p[n] that the cuts and the temperature leave of logits[n], without a penalty.
 * Temperature 0 is refused by a p of nothing but zeros. */
void plain_probabilities(const struct rf_sampling *sampling, const float *logits, int32_t n,
                         double *p);

/* The token that wins the race at `position`. */
int32_t plain_choice(uint64_t seed, int32_t position, const double *p, int32_t n);

#endif
