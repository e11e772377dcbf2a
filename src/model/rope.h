/* Scalings of the rotary embedding that files ask for, as the forward pass takes them: a divisor of
 * each pair's frequency, and a magnitude of all. Both containers call these with the parameters
 * checked (rf_params_check); a failure is the reading's. */
#ifndef RF_MODEL_ROPE_H
#define RF_MODEL_ROPE_H

#include "model/reader.h"

/* Llama 3.1's scaling: wavelengths up to original / high_freq positions stay, those from original /
 * low_freq on rotate slower by `factor`, and in between the two are blended. */
struct rf_llama3 {
    double factor, low_freq, high_freq;
    double original; /* positions that the model was first trained on */
};
void rf_rope_llama3(struct rf_reading *reading, struct rf_rope *rope,
                    const struct rf_llama3 *llama3);

/* YaRN (Peng, Quesnelle, Fan and Shippole 2023, section 3.2): a pair that turns more than beta_fast
 * times in `original` positions keeps its frequency, one that turns less than beta_slow times
 * rotates slower by `factor`, with a ramp over the pairs between. */
struct rf_yarn {
    double factor;
    double original; /* positions that the model was first trained on */
    double beta_fast, beta_slow;
    int is_whole;     /* the ramp's ends are rounded outwards to whole pairs */
    double magnitude; /* factor of cosines and sines */
};
/* Scales by YaRN; the global rotation's also raises the length that the model is trained for to
 * factor * original. */
void rf_rope_yarn(struct rf_reading *reading, struct rf_rope *rope, const struct rf_yarn *yarn);
/* Raises the length that the model is trained for to n_ctx, if that is more. */
void rf_rope_lengthen(struct rf_params *params, double n_ctx);
/* The paper's magnitude (section 3.3), with a weight of the logarithm, usually 1. */
double rf_yarn_magnitude(double factor, double weight);

#endif
