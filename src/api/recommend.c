/* Sampling that suits a model. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/handles.h"

/* For models that recommend nothing: lively, without tokens that make no sense. */
static const struct rf_sampling general = {.temperature = 0.7f,
                                           .top_k = 40,
                                           .top_p = 0.95f,
                                           .min_p = 0.05f,
                                           .repeat_penalty = 1.0f,
                                           .repeat_last_n = 64};

/* A whole number, or one that every check refuses. */
static int32_t whole(double value)
{
    return value >= INT32_MIN && value <= INT32_MAX ? (int32_t)value : INT32_MIN;
}

static void note(riffle_model *model, const char *relation, const char *text)
{
    size_t length = strlen(model->sampling_source);
    snprintf(model->sampling_source + length, sizeof model->sampling_source - length, "%s%s",
             relation, text);
}

/* Takes values that are in range. A file with others must stay usable, so they are only noted. */
static void consider(riffle_model *model, struct rf_sampling *with)
{
    struct rf_error error;
    if (rf_sampling_check(with, &error)) {
        note(model, "; ignored: ", error.text);
        *with = model->sampling;
    }
    model->sampling = *with;
}

void rf_recommend_sampling(riffle_model *model)
{
    const struct rf_recommended_sampling *file = &model->source->sampling;
    struct rf_sampling with = general;
    model->sampling = general;
    note(model, "", file->from ? file->from : "general values, as the file recommends none");
    if (!file->from) return;
    if (!isnan(file->temperature)) with.temperature = (float)file->temperature;
    consider(model, &with);
    if (!isnan(file->top_k)) with.top_k = whole(file->top_k);
    consider(model, &with);
    if (!isnan(file->top_p)) with.top_p = (float)file->top_p;
    consider(model, &with);
    if (!isnan(file->min_p)) with.min_p = (float)file->min_p;
    consider(model, &with);
    if (!isnan(file->repeat_penalty)) with.repeat_penalty = (float)file->repeat_penalty;
    consider(model, &with);
    if (!isnan(file->repeat_last_n)) with.repeat_last_n = whole(file->repeat_last_n);
    consider(model, &with);
}

int riffle_model_get_sampling(const riffle_model *model, riffle_sampling *sampling,
                              size_t sampling_size, const char **source)
{
    if (!model || !sampling)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", model ? "sampling" : "model");
    const struct rf_sampling *chosen = &model->sampling;
    riffle_sampling found = {.struct_size = sampling_size,
                             .temperature = chosen->temperature,
                             .top_k = chosen->top_k,
                             .top_p = chosen->top_p,
                             .min_p = chosen->min_p,
                             .repeat_penalty = chosen->repeat_penalty,
                             .repeat_last_n = chosen->repeat_last_n};
    rf_api_give(sampling, sampling_size, &found, sizeof found);
    if (source) *source = model->sampling_source;
    return model->source->sampling.from != NULL;
}
