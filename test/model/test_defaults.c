/* Parameters from config.json beside those of transformers' classes, most of all where the file is
 * silent (scripts/make_default_fixtures.py). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/hf.h"
#include "model/source.h"
#include "platform/memory.h"
#include "support/check.h"

enum { LEAST_CASES = 400 };

/* Both compute frequencies in F32: 4 roundings of 2^-24, and 2 of the divisor. */
static const double most_error = 8 / 16777216.0;

struct wanted {
    const char *name;
    const struct rf_json *values;
};

static double wanted_number(const struct wanted *wanted, const char *key)
{
    const struct rf_json *value = rf_json_get(wanted->values, key);
    double number = NAN;
    int flag;
    if (rf_json_bool(value, &flag)) return flag;
    CHECK_MSG(rf_json_number(value, &number), "%s: %s is missing", wanted->name, key);
    return number;
}

static void compare_number(const struct wanted *wanted, const char *key, double got)
{
    double expected = wanted_number(wanted, key);
    CHECK_MSG(fabs(got - expected) <= most_error * fabs(expected), "%s: %s is %.9g, not %.9g",
              wanted->name, key, got, expected);
}

static double one_if_0(float factor)
{
    return factor != 0 ? (double)factor : 1;
}

static void compare_deltas(const struct wanted *wanted, const struct rf_params *p)
{
    compare_number(wanted, "delta_keys", p->delta_keys);
    compare_number(wanted, "delta_values", p->delta_values);
    compare_number(wanted, "delta_key_dim", p->delta_key_dim);
    compare_number(wanted, "delta_value_dim", p->delta_value_dim);
}

static void compare_latents(const struct wanted *wanted, const struct rf_params *p)
{
    compare_number(wanted, "latent", p->latent);
    compare_number(wanted, "latent_q", p->latent_q);
    compare_number(wanted, "head_nope", p->head_nope);
    compare_number(wanted, "head_value", p->head_value);
    compare_number(wanted, "latent_eps", (double)p->latent_eps);
    compare_number(wanted, "expert_scale", (double)p->expert_scale);
    compare_number(wanted, "shared_whole", p->shared_whole);
    compare_number(wanted, "expert_groups", p->expert_groups);
    compare_number(wanted, "expert_groups_used", p->expert_groups_used);
}

static void compare_numbers(const struct wanted *wanted, const struct rf_params *p, int is_tied)
{
    const struct {
        const char *key;
        double got;
    } numbers[] = {
        {"n_layer", p->n_layer},
        {"n_embd", p->n_embd},
        {"n_head", p->n_head},
        {"n_head_kv", p->n_head_kv},
        {"head_dim", p->head_dim},
        {"n_ctx", p->n_ctx_train},
        {"rms_eps", (double)p->rms_eps},
        {"is_tied", is_tied},
        {"qkv_bias", p->fused & RF_FUSED_QKV ? 0 : p->qkv_bias},
        {"o_bias", p->o_bias},
        {"ffn_bias", p->ffn_bias},
        {"embedding_scale", one_if_0(p->embedding_scale)},
        {"residual_scale", one_if_0(p->residual_scale)},
        {"logit_scale", one_if_0(p->logit_scale)},
        {"attention_scale",
         p->attention_scale > 0 ? (double)p->attention_scale : 1 / sqrt((double)p->head_dim)},
        {"attention_cap", (double)p->attention_cap},
        {"logit_cap", (double)p->logit_cap},
        {"n_expert", p->n_expert},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        compare_number(wanted, numbers[i].key, numbers[i].got);
    if (p->delta_values) compare_deltas(wanted, p);
    if (p->latent) compare_latents(wanted, p);
    compare_number(wanted, "n_ff", p->n_ff_dense ? p->n_ff_dense : p->n_ff);
    int grows = rf_json_get(wanted->values, "temperature") != NULL;
    CHECK_INT(p->temperature != 0, grows);
    if (grows) {
        compare_number(wanted, "temperature", (double)p->temperature);
        compare_number(wanted, "temperature_step", p->temperature_step);
    }
    if (!p->n_expert) return;
    compare_number(wanted, "n_expert_used", p->n_expert_used);
    compare_number(wanted, "expert_norm", p->expert_norm);
    compare_number(wanted, "n_ff_expert", p->n_ff);
    compare_number(wanted, "n_ff_shared", p->n_ff_shared);
    compare_number(wanted, "gate_limit", (double)p->gate_limit);
    compare_number(wanted, "gate_alpha", (double)p->gate_alpha);
}

/* w: a window; n, N: no rotation, with and without a window; c: a convolution; d: the delta
 * rule. */
static char letter_of_layer(const struct rf_params *p, int32_t i)
{
    int flags = rf_layer_flags(p, i);
    int window = p->window > 0 && flags & RF_LAYER_WINDOW, still = flags & RF_LAYER_NO_ROPE;
    if (flags & (RF_LAYER_CONV | RF_LAYER_DELTA)) return flags & RF_LAYER_CONV ? 'c' : 'd';
    if (still) return window ? 'n' : 'N';
    return window ? 'w' : '.';
}

static void compare_layers(const struct wanted *wanted, const struct rf_params *p)
{
    struct rf_str layers = rf_json_text(rf_json_get(wanted->values, "layers")),
                  local = rf_json_text(rf_json_get(wanted->values, "local"));
    int has_window = 0;
    CHECK_INT((int64_t)layers.bytes, p->n_layer);
    for (int32_t i = 0; i < p->n_layer && (size_t)i < layers.bytes; i++) {
        int flags = rf_layer_flags(p, i), is_local = local.data[(size_t)i % local.bytes] == 'l';
        char got = letter_of_layer(p, i);
        has_window |= p->window > 0 && flags & RF_LAYER_WINDOW;
        CHECK_MSG(got == layers.data[i], "%s: layer %d is %c, not %c", wanted->name, i, got,
                  layers.data[i]);
        CHECK_MSG(!(flags & RF_LAYER_LOCAL_ROPE) == !is_local, "%s: rotation of layer %d",
                  wanted->name, i);
    }
    compare_number(wanted, "window", has_window ? p->window : 0);
    if (!rf_n_states(p, p->n_layer)) return;
    compare_number(wanted, "conv_rows", p->conv_rows);
    if (!p->delta_values) compare_number(wanted, "conv_bias", p->conv_bias);
}

/* Pairs [index, frequency], at a position. */
static void compare_frequencies(const struct wanted *wanted, const struct rf_json *pairs,
                                const struct rf_params *p, enum rf_frequencies set,
                                int32_t position)
{
    double growth = rf_rope_growth(rf_rope_of(p, set), position);
    for (size_t k = 0; k < rf_json_count(pairs); k++) {
        int64_t i = -1;
        double expected = NAN;
        CHECK(rf_json_integer(rf_json_at(rf_json_at(pairs, k), 0), &i) &&
              rf_json_number(rf_json_at(rf_json_at(pairs, k), 1), &expected));
        double got = rf_rope_frequency(p, set, (int32_t)i) *
                     pow(growth, -2.0 * (double)i / (p->rope_dim - 2));
        CHECK_MSG(fabs(got - expected) <= most_error * expected,
                  "%s: set %d, frequency %d at %d is %.9g, not %.9g", wanted->name, set, (int)i,
                  position, got, expected);
    }
    CHECK(rf_json_count(pairs) > 0);
}

static void compare_rotation(const struct wanted *wanted, const struct rf_json *rotation,
                             const struct rf_params *p, enum rf_frequencies set)
{
    const struct wanted one = {wanted->name, rotation};
    const struct rf_json *longer = rf_json_get(rotation, "long");
    compare_number(&one, "pairs", p->rope_dim / 2);
    compare_number(&one, "magnitude", (double)rf_rope_of(p, set)->magnitude);
    compare_frequencies(wanted, rf_json_get(rotation, "some"), p, set, 0);
    if (set == RF_ROPE_GLOBAL) CHECK_INT(p->rope_long_factors != NULL, longer != NULL);
    if (longer) {
        compare_number(&one, "short_text", rf_rope_short_text(p));
        compare_frequencies(wanted, longer, p, RF_ROPE_LONG, 0);
    }
    if (rf_json_get(rotation, "position"))
        compare_frequencies(wanted, rf_json_get(rotation, "there"), p, set,
                            (int32_t)wanted_number(&one, "position"));
    CHECK_INT(rf_rope_of(p, set)->ntk_factor != 0, rf_json_get(rotation, "position") != NULL);
}

static void check_defaults(char *line)
{
    struct rf_source *source;
    struct rf_error error = {.text = ""};
    if (rf_source_new(&source, &rf_system_allocator, &error)) exit(1);
    struct rf_hf hf = {.reading = rf_reading_of(source, "folder", &error)};
    struct rf_json *document =
        rf_json_parse(&hf.reading, "fixture", (struct rf_str){line, strlen(line)});
    const struct wanted wanted = {rf_json_text(rf_json_get(document, "name")).data,
                                  rf_json_get(document, "wanted")};
    hf.config = (struct rf_json *)rf_json_get(document, "config");
    if (!hf.reading.code) rf_hf_read_params(&hf);
    CHECK_MSG(hf.reading.code == 0, "%s: %s", wanted.name, error.text);
    if (!hf.reading.code) {
        const struct rf_json *rotations = rf_json_get(wanted.values, "rotations");
        compare_numbers(&wanted, &source->params, hf.is_tied);
        compare_layers(&wanted, &source->params);
        for (size_t i = 0; i < rf_json_count(rotations); i++)
            compare_rotation(&wanted, rf_json_at(rotations, i), &source->params,
                             (enum rf_frequencies)i);
        CHECK(rf_json_count(rotations) > 0);
    }
    rf_json_free(document);
    rf_arena_free(&hf.reading.arena);
    rf_source_close(source);
}

int main(void)
{
    static char line[65536];
    FILE *file = fopen("config/transformers.jsonl", "r");
    int n = 0;
    for (; file && fgets(line, sizeof line, file); n++) check_defaults(line);
    if (file) fclose(file);
    CHECK_MSG(n >= LEAST_CASES, "only %d cases", n);
    return check_result();
}
