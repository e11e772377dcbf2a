/* Turns a file's scaling of the rotary embedding into divisors of each pair's frequency. The
 * papers in rope.h have the formulas; caches and kernels take only the resulting angles. */
#include "model/rope.h"

#include <math.h>

static const double two_pi = 6.28318530717958647692;

double rf_rope_frequency(const struct rf_params *params, enum rf_frequencies set, int32_t i)
{
    const struct rf_rope *rope = rf_rope_of(params, set);
    const float *factors = set == RF_ROPE_LONG ? params->rope_long_factors : rope->factors;
    double frequency = pow((double)rope->theta, -2.0 * i / rf_rope_dim(params, set));
    if (factors) frequency /= (double)factors[i];
    return frequency * (double)rope->scale;
}

static float *factors_new(struct rf_reading *reading)
{
    size_t n = (size_t)reading->source->params.rope_dim / 2;
    return reading->code ? NULL : rf_keep(reading, n, sizeof(float), "rope factors");
}

/* transformers, modeling_rope_utils.py, _compute_llama3_parameters. */
void rf_rope_llama3(struct rf_reading *reading, struct rf_rope *rope,
                    const struct rf_llama3 *llama3)
{
    const struct rf_params *params = &reading->source->params;
    double factor = llama3->factor, low = llama3->low_freq, high = llama3->high_freq;
    if (!(low > 0 && high > low && isfinite(high)) || llama3->original <= 0)
        rf_bad(reading, RF_ERR_FORMAT,
               "the llama3 scaling needs 0 < low_freq_factor < high_freq_factor and "
               "original_max_position_embeddings");
    float *factors = factors_new(reading);
    for (int32_t i = 0; factors && i < params->rope_dim / 2; i++) {
        double wavelength = two_pi * pow((double)rope->theta, 2.0 * i / params->rope_dim);
        double divisor = 1;
        if (wavelength > llama3->original / low) {
            divisor = factor;
        } else if (wavelength >= llama3->original / high) {
            double smooth = (llama3->original / wavelength - low) / (high - low);
            divisor = 1 / ((1 - smooth) / factor + smooth);
        }
        factors[i] = (float)divisor;
    }
    rope->factors = factors;
}

double rf_yarn_magnitude(double factor, double weight)
{
    return factor <= 1 ? 1 : 0.1 * weight * log(factor) + 1;
}

/* The pair, as a real number, that turns so often in the original context. */
static double pair_turning(int32_t rope_dim, const struct rf_rope *rope, double original,
                           double turns)
{
    return rope_dim * log(original / (turns * two_pi)) / (2 * log((double)rope->theta));
}

/* The first and last pair of the ramp. Where one lies outside of what a head has, transformers and
 * llama.cpp disagree about an empty ramp, so there must be one. */
static void find_ramp(struct rf_reading *reading, const struct rf_rope *rope,
                      const struct rf_yarn *yarn, double *low, double *high)
{
    int32_t rope_dim = reading->source->params.rope_dim;
    *low = pair_turning(rope_dim, rope, yarn->original, yarn->beta_fast);
    *high = pair_turning(rope_dim, rope, yarn->original, yarn->beta_slow);
    if (yarn->is_whole) {
        *low = floor(*low);
        *high = ceil(*high);
    }
    *low = fmax(*low, 0);
    *high = fmin(*high, rope_dim - 1);
    if (!(*low <= *high))
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "the YaRN scaling from %g positions with beta_fast %g and beta_slow %g leaves no "
               "ramp between the frequencies of %d elements",
               yarn->original, yarn->beta_fast, yarn->beta_slow, rope_dim);
    if (*low == *high) *high += 0.001; /* transformers and llama.cpp do so */
}

static int is_at_least(double value, double least)
{
    return isfinite(value) && value >= least;
}

void rf_rope_lengthen(struct rf_params *params, double n_ctx)
{
    if (floor(n_ctx) > params->n_ctx_train)
        params->n_ctx_train = n_ctx < INT32_MAX ? (int32_t)n_ctx : INT32_MAX;
}

/* transformers, modeling_rope_utils.py, _compute_yarn_parameters. */
void rf_rope_yarn(struct rf_reading *reading, struct rf_rope *rope, const struct rf_yarn *yarn)
{
    struct rf_params *params = &reading->source->params;
    double low = 0, high = 0;
    if (!is_at_least(yarn->factor, 1) || !is_at_least(yarn->original, 1) ||
        !(yarn->beta_slow > 0) ||
        !(yarn->beta_fast > yarn->beta_slow && isfinite(yarn->beta_fast)) ||
        !(yarn->magnitude > 0 && isfinite(yarn->magnitude)) || !(rope->theta > 1))
        rf_bad(reading, RF_ERR_FORMAT,
               "the YaRN scaling needs a factor from 1 on, 0 < beta_slow < beta_fast, an attention "
               "factor above 0 and a base frequency (theta) above 1");
    else
        find_ramp(reading, rope, yarn, &low, &high);
    float *factors = factors_new(reading);
    for (int32_t i = 0; factors && i < params->rope_dim / 2; i++) {
        double slowed = fmin(fmax((i - low) / (high - low), 0), 1);
        factors[i] = (float)(1 / (slowed / yarn->factor + (1 - slowed)));
    }
    if (!factors) return;
    rope->factors = factors;
    rope->magnitude = (float)yarn->magnitude;
    if (rope != &params->rope) return;
    rf_rope_lengthen(params, yarn->factor * yarn->original);
}
