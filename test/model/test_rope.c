/* Scalings of the rotary embedding, from config.json to frequencies, beside transformers'
 * (scripts/make_rope_fixtures.py). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/hf.h"
#include "platform/memory.h"
#include "support/check.h"

/* Both compute in F32: 4 roundings of 2^-24, and 2 of the divisor. */
static const double most_error = 6 / 16777216.0;

static double frequency_of(const struct rf_params *params, int32_t i)
{
    double frequency = pow((double)params->rope.theta, -2.0 * i / params->rope_dim);
    if (params->rope.factors) frequency /= (double)params->rope.factors[i];
    return frequency * (double)params->rope.scale;
}

static double number_of(const struct rf_json *value)
{
    double number = NAN;
    CHECK(rf_json_number(value, &number));
    return number;
}

static void compare(const struct rf_params *params, const struct rf_json *wanted)
{
    const struct rf_json *frequencies = rf_json_get(wanted, "inv_freq");
    const char *name = rf_json_text(rf_json_get(wanted, "name")).data;
    CHECK_INT((int64_t)rf_json_count(frequencies), params->rope_dim / 2);
    for (int32_t i = 0; i < params->rope_dim / 2; i++) {
        double expected = number_of(rf_json_at(frequencies, (size_t)i)),
               got = frequency_of(params, i);
        CHECK_MSG(fabs(got - expected) <= most_error * expected,
                  "%s: frequency %d is %.9g, not %.9g", name, i, got, expected);
    }
    double expected = number_of(rf_json_get(wanted, "attention_factor"));
    CHECK_MSG(fabs((double)params->rope.magnitude - expected) <= most_error * expected,
              "%s: the attention factor is %g, not %g", name, (double)params->rope.magnitude,
              expected);
}

static void check_line(char *line)
{
    struct rf_source *source;
    struct rf_error error = {.text = ""};
    if (rf_source_new(&source, &rf_system_allocator, &error)) exit(1);
    struct rf_hf hf = {.reading = rf_reading_of(source, "folder", &error)};
    struct rf_json *document =
        rf_json_parse(&hf.reading, "fixture", (struct rf_str){line, strlen(line)});
    hf.config = (struct rf_json *)rf_json_get(document, "config");
    if (!hf.reading.code) rf_hf_read_params(&hf);
    CHECK_MSG(hf.reading.code == 0, "%s", error.text);
    if (!hf.reading.code) compare(&source->params, document);
    rf_json_free(document);
    rf_arena_free(&hf.reading.arena);
    rf_source_close(source);
}

int main(void)
{
    static char line[65536];
    FILE *file = fopen("rope/transformers.jsonl", "r");
    int n = 0;
    for (; file && fgets(line, sizeof line, file); n++) check_line(line);
    if (file) fclose(file);
    CHECK_INT(n, 16);
    return check_result();
}
