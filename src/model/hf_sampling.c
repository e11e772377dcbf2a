/* Reads the recommended sampling from generation_config.json. */
#include <math.h>

#include "model/hf.h"

/* NaN where the key is missing or null. */
static double recommended(struct rf_hf *hf, const char *key)
{
    static const char file[] = "generation_config.json";
    const struct rf_json *found = rf_json_get(hf->generation_config, key);
    double value = NAN;
    if (!found) return NAN;
    if (!rf_json_number(found, &value))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s is not a number", key);
    hf->reading.source->sampling.from = file;
    return value;
}

void rf_hf_read_sampling(struct rf_hf *hf)
{
    /* Many files have values although transformers, told not to sample, does not use them. */
    int samples = 1;
    if (rf_json_bool(rf_json_get(hf->generation_config, "do_sample"), &samples) && !samples) {
        hf->reading.source->sampling =
            (struct rf_recommended_sampling){NULL, NAN, NAN, NAN, NAN, NAN, NAN};
        return;
    }
    struct rf_recommended_sampling *sampling = &hf->reading.source->sampling;
    sampling->temperature = recommended(hf, "temperature");
    sampling->top_k = recommended(hf, "top_k");
    sampling->top_p = recommended(hf, "top_p");
    sampling->min_p = recommended(hf, "min_p");
    sampling->repeat_penalty = recommended(hf, "repetition_penalty");
    sampling->repeat_last_n = NAN;
}
