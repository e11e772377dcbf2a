/* The recommended sampling of a model: the values of its file, as far as they are in range, over
 * general ones. Chosen once, when the model is opened. */
#include "engine/recommend.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* General values, for models that recommend nothing: lively, without tokens that make no sense. */
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

static void note_source(struct rf_engine *engine, const char *relation, const char *text)
{
    size_t length = strlen(engine->sampling_source);
    snprintf(engine->sampling_source + length, sizeof engine->sampling_source - length, "%s%s",
             relation, text);
}

/* Takes values that are in range. A file with others must stay usable, so they are only noted. */
static void consider_sampling(struct rf_engine *engine, struct rf_sampling *with)
{
    struct rf_error error;
    if (rf_sampling_check(with, &error)) {
        note_source(engine, "; ignored: ", error.text);
        *with = engine->sampling;
    }
    engine->sampling = *with;
}

void rf_recommend_sampling(struct rf_engine *engine)
{
    const struct rf_recommended_sampling *file = &engine->source->sampling;
    struct rf_sampling with = general;
    engine->sampling = general;
    note_source(engine, "",
                file->from ? file->from : "general values, as the file recommends none");
    if (!file->from) return;
    if (!isnan(file->temperature)) with.temperature = (float)file->temperature;
    consider_sampling(engine, &with);
    if (!isnan(file->top_k)) with.top_k = whole(file->top_k);
    consider_sampling(engine, &with);
    if (!isnan(file->top_p)) with.top_p = (float)file->top_p;
    consider_sampling(engine, &with);
    if (!isnan(file->min_p)) with.min_p = (float)file->min_p;
    consider_sampling(engine, &with);
    if (!isnan(file->repeat_penalty)) with.repeat_penalty = (float)file->repeat_penalty;
    consider_sampling(engine, &with);
    if (!isnan(file->repeat_last_n)) with.repeat_last_n = whole(file->repeat_last_n);
    consider_sampling(engine, &with);
}
