/* The rotations of a config.json: rope_scaling, rope_parameters (one, or one for each type of
 * layer), and what transformers' classes put in their place. hf_config.c calls it; rope.c has the
 * formulas. */
#include <math.h>
#include <string.h>

#include "model/arch.h"
#include "model/hf.h"
#include "model/rope.h"

static const char file[] = "config.json";

/* The objects that say how some layers rotate: a value is in the first one that has it. */
struct rotation {
    const struct rf_json *objects[2]; /* NULL: none */
    const struct rf_json *outer;      /* has `truncate` for all layers; or NULL */
    const struct rf_hf_rope *defaults;
    struct rf_rope *to;
    int32_t n_ctx; /* max_position_embeddings */
    int is_nested; /* the rotation of one type of layer */
    int has_type;  /* the class has set rope_type: the older `type` does not count */
};

/* The object that has the value; NULL: none has. */
static const struct rf_json *object_with(const struct rotation *rotation, const char *key)
{
    for (size_t i = 0; i < 2; i++)
        if (rf_json_get(rotation->objects[i], key)) return rotation->objects[i];
    return NULL;
}

static double rope_number(struct rf_hf *hf, const struct rotation *rotation, const char *key,
                          double otherwise)
{
    return rf_hf_number(hf, object_with(rotation, key), key, otherwise);
}

static double positive_or(double value, double otherwise)
{
    return value != 0 ? value : otherwise;
}

/* The factor of a scaling, which must be one. */
static double rope_factor(struct rf_hf *hf, const struct rotation *rotation, double otherwise)
{
    double factor = rope_number(hf, rotation, "factor", otherwise);
    if (!isfinite(factor) || factor <= 0)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "the factor of rope_scaling is %g; it must be finite and above 0", factor);
    return factor;
}

/* Positions that the model was first trained on: named beside the scaling by some files, which
 * counts more than what the scaling says. */
static int32_t original_context(struct rf_hf *hf, const struct rotation *rotation)
{
    static const char key[] = "original_max_position_embeddings";
    const struct rf_json *object = object_with(rotation, key);
    int32_t otherwise = rotation->n_ctx;
    if (!rotation->is_nested && rf_json_get(hf->text, key)) object = hf->text;
    if (rotation->defaults->original) { /* then the scaling's own does not count */
        otherwise = rotation->defaults->original;
        if (object != hf->text) object = NULL;
    }
    return rf_hf_count(hf, object, key, otherwise);
}

static void read_yarn(struct rf_hf *hf, const struct rotation *rotation)
{
    double original = original_context(hf, rotation);
    double factor = rope_factor(hf, rotation, rotation->n_ctx / original);
    double of_scores = rope_number(hf, rotation, "mscale", 0),
           of_all = rope_number(hf, rotation, "mscale_all_dim", 0);
    double magnitude = rf_yarn_magnitude(factor, 1);
    if (of_scores != 0 && of_all != 0)
        magnitude = rf_yarn_magnitude(factor, of_scores) / rf_yarn_magnitude(factor, of_all);
    /* transformers looks for `truncate` beside the rotations of all types of layers. */
    const struct rf_json *truncating =
        rotation->is_nested ? rotation->outer : object_with(rotation, "truncate");
    const struct rf_yarn yarn = {
        .factor = factor,
        .original = original,
        .beta_fast = positive_or(rope_number(hf, rotation, "beta_fast", 0), 32),
        .beta_slow = positive_or(rope_number(hf, rotation, "beta_slow", 0), 1),
        .is_whole = rf_hf_flag(hf, truncating, "truncate", 1),
        .magnitude = rope_number(hf, rotation, "attention_factor", magnitude)};
    rf_rope_yarn(&hf->reading, rotation->to, &yarn);
}

/* YaRN of a class whose configuration does not mention a rotation. */
static void read_default_yarn(struct rf_hf *hf, const struct rotation *rotation)
{
    struct rf_yarn yarn = *rotation->defaults->yarn;
    yarn.original =
        rf_hf_count(hf, hf->text, "original_max_position_embeddings", (int32_t)yarn.original);
    if (rotation->defaults->yarn_theta > 0)
        rotation->to->theta = (float)rotation->defaults->yarn_theta;
    if (yarn.magnitude == 0) yarn.magnitude = rf_yarn_magnitude(yarn.factor, 1);
    rf_rope_yarn(&hf->reading, rotation->to, &yarn);
}

static void read_llama3(struct rf_hf *hf, const struct rotation *rotation)
{
    const struct rf_llama3 llama3 = {.factor = rope_factor(hf, rotation, 1),
                                     .low_freq = rope_number(hf, rotation, "low_freq_factor", 0),
                                     .high_freq = rope_number(hf, rotation, "high_freq_factor", 0),
                                     .original = original_context(hf, rotation)};
    rf_rope_llama3(&hf->reading, rotation->to, &llama3);
}

/* A list of divisors of the frequencies, which longrope has two of. */
static const float *read_factors(struct rf_hf *hf, const struct rotation *rotation, const char *key)
{
    size_t n = (size_t)hf->reading.source->params.rope_dim / 2;
    const struct rf_json *list = rf_json_get(object_with(rotation, key), key);
    float *factors = rf_keep(&hf->reading, n, sizeof *factors, "rope factors");
    if (rf_json_count(list) != n)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s is not a list of %zu numbers", key, n);
    for (size_t i = 0; !hf->reading.code && i < n; i++) {
        double factor = 0;
        if (!rf_json_number(rf_json_at(list, i), &factor) || !isfinite(factor) || factor <= 0)
            rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s[%zu] is not a number above 0", key,
                        i);
        factors[i] = (float)factor;
    }
    return factors;
}

/* transformers, modeling_rope_utils.py, _compute_longrope_parameters. */
static void read_longrope(struct rf_hf *hf, const struct rotation *rotation)
{
    struct rf_params *params = &hf->reading.source->params;
    if (rotation->to == &params->rope_local)
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "the rotation of sliding_attention is longrope, which only runs in all layers "
                    "or in those of full_attention");
    rotation->to->factors = read_factors(hf, rotation, "short_factor");
    params->rope_long_factors = read_factors(hf, rotation, "long_factor");
    params->n_ctx_short = original_context(hf, rotation);
    double longer =
        rope_factor(hf, rotation, (double)rotation->n_ctx / (double)params->n_ctx_short);
    double magnitude = 1;
    if (longer > 1 && params->n_ctx_short > 1)
        magnitude = sqrt(1 + log(longer) / log((double)params->n_ctx_short));
    rotation->to->magnitude = (float)rope_number(hf, rotation, "attention_factor", magnitude);
}

static void read_dynamic(struct rf_hf *hf, const struct rotation *rotation)
{
    struct rf_params *params = &hf->reading.source->params;
    double factor = rope_factor(hf, rotation, 1);
    rotation->to->ntk_factor = (float)factor;
    rotation->to->ntk_from = rotation->n_ctx;
    if (rotation->to == &params->rope) rf_rope_lengthen(params, factor * rotation->n_ctx);
    if (params->rope_dim < 4)
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "rope_scaling is of type \"dynamic\", which needs heads of 4 rotated elements "
                    "at least, not %d",
                    params->rope_dim);
}

/* transformers, modeling_rope_utils.py, _compute_proportional_rope_parameters: the pairs behind a
 * part of a head do not turn. 1e30 is what llama.cpp's converter writes of them. */
static void keep_still(struct rf_hf *hf, struct rf_rope *to, double part, double factor)
{
    size_t n = (size_t)hf->reading.source->params.rope_dim / 2;
    float *factors = rf_keep(&hf->reading, n, sizeof *factors, "rope factors");
    if (!(part > 0 && part <= 1))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "partial_rotary_factor is %g; it must be above 0 and at most 1", part);
    for (size_t i = 0; !hf->reading.code && i < n; i++)
        factors[i] = i < (size_t)(part * (double)n) ? (float)factor : 1e30f;
    to->factors = factors;
}

static void read_proportional(struct rf_hf *hf, const struct rotation *rotation)
{
    if (rotation->to != &hf->reading.source->params.rope || !rotation->is_nested)
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "rope_type is \"proportional\", which only runs in layers of full_attention");
    keep_still(hf, rotation->to, rope_number(hf, rotation, "partial_rotary_factor", 1),
               rope_factor(hf, rotation, 1));
}

/* Phi3's class takes two older names for longrope, and knows no other scaling. */
static struct rf_str type_in_phi3(struct rf_hf *hf, struct rf_str type)
{
    if (rf_str_is(type, "su") || rf_str_is(type, "yarn")) return rf_str_of("longrope");
    if (!rf_str_is(type, "longrope"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "rope_scaling is of type \"%.*s\"; a phi3 model can only have longrope",
                    rf_shown(type), type.data);
    return type;
}

/* The factor of scores of latent attention beside a scaling (transformers, yarn_apply_mscale). */
static void grow_scores(struct rf_hf *hf, const struct rotation *rotation)
{
    struct rf_params *params = &hf->reading.source->params;
    double weight = rope_number(hf, rotation, "mscale_all_dim", 0);
    if (!params->latent || weight == 0) return;
    float grown = (float)rf_yarn_magnitude(rope_factor(hf, rotation, 1), weight);
    params->attention_scale *= grown * grown;
}

static void read_rotation(struct rf_hf *hf, const struct rotation *rotation)
{
    static const struct {
        const char *type;
        void (*read)(struct rf_hf *hf, const struct rotation *rotation);
    } types[] = {{"llama3", read_llama3},
                 {"yarn", read_yarn},
                 {"longrope", read_longrope},
                 {"dynamic", read_dynamic},
                 {"proportional", read_proportional}};
    struct rf_str type = {"", 0};
    for (size_t i = 0; i < 2 && !type.bytes; i++)
        type = rf_hf_string(hf, rotation->objects[i], "rope_type");
    for (size_t i = 0; i < 2 && !type.bytes && !rotation->has_type; i++)
        type = rf_hf_string(hf, rotation->objects[i], "type");
    rotation->to->theta =
        (float)rope_number(hf, rotation, "rope_theta", (double)rotation->to->theta);
    if (type.bytes == 0 || rf_str_is(type, "default")) return;
    grow_scores(hf, rotation);
    if (hf->reading.source->params.arch == RF_ARCH_PHI3) type = type_in_phi3(hf, type);
    if (rf_str_is(type, "linear")) {
        rotation->to->scale = (float)(1 / rope_factor(hf, rotation, 1));
        return;
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (rf_str_is(type, types[i].type)) {
            types[i].read(hf, rotation);
            return;
        }
    rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                "rope_scaling is of type \"%.*s\"; default, linear, llama3, yarn, longrope and "
                "dynamic are supported",
                rf_shown(type), type.data);
}

static void refuse_nested(struct rf_hf *hf, const struct rf_json *parameters)
{
    struct rf_str key;
    const struct rf_json *value;
    for (void *at = NULL; rf_json_next(parameters, &at, &key, &value);)
        if (rf_json_is_object(value))
            rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                        "rope_parameters has a rotation of its own for \"%.*s\"; a %s model has "
                        "one for all layers",
                        rf_shown(key), key.data, hf->reading.source->params.arch_name);
}

static const struct rf_json *layer_object(struct rf_hf *hf, const struct rf_json *parameters,
                                          const char *layers)
{
    const struct rf_json *found = rf_json_get(parameters, layers);
    if (found && !rf_json_is_object(found))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s of rope_parameters is no JSON object",
                    layers);
    return found;
}

/* A class whose layers with a window rotate in their own way. rope_scaling is that of the other
 * layers, and of rope_parameters only the objects of the two types of layers count. */
static void read_two_rotations(struct rf_hf *hf, const struct rf_hf_rope *defaults,
                               const struct rf_json *scaling, const struct rf_json *parameters)
{
    struct rf_params *params = &hf->reading.source->params;
    struct rotation global = {.objects = {scaling, layer_object(hf, parameters, "full_attention")},
                              .outer = parameters,
                              .defaults = defaults,
                              .to = &params->rope,
                              .n_ctx = params->n_ctx_train,
                              .is_nested = 1};
    struct rotation local = global;
    global.has_type = !global.objects[1];
    local.objects[0] = layer_object(hf, parameters, "sliding_attention");
    local.objects[1] = NULL;
    local.to = &params->rope_local;
    if (defaults->local == 0)
        params->rope_local.theta = (float)rf_hf_number(hf, hf->text, "rope_local_base_freq",
                                                       (double)params->rope_local.theta);
    read_rotation(hf, &global);
    read_rotation(hf, &local);
    if (params->arch == RF_ARCH_GEMMA4 && !parameters) keep_still(hf, &params->rope, 0.25, 1);
}

/* How queries grow with their position, which is stated beside the rotation. */
static void read_temperature(struct rf_hf *hf, const struct rotation *rotation)
{
    struct rf_params *params = &hf->reading.source->params;
    const struct rf_hf_rope *defaults = rotation->defaults;
    int is_silent = !rotation->objects[0] && defaults->yarn;
    params->temperature = (float)rope_number(hf, rotation, "llama_4_scaling_beta",
                                             is_silent ? defaults->temperature : 0);
    params->temperature_step =
        is_silent ? (int32_t)defaults->yarn->original : original_context(hf, rotation);
}

void rf_hf_read_rope(struct rf_hf *hf, const struct rf_hf_rope *defaults)
{
    struct rf_params *params = &hf->reading.source->params;
    const struct rf_json *parameters = rf_hf_object(hf, "rope_parameters"),
                         *scaling = rf_hf_object(hf, "rope_scaling");
    void *at = NULL;
    struct rf_str key;
    const struct rf_json *value;
    if (!rf_json_next(scaling, &at, &key, &value)) scaling = NULL; /* {} counts as missing */
    params->rope.theta = (float)rf_hf_number(hf, hf->text, "rope_theta", defaults->theta);
    if (params->rope_local.theta > 0) {
        read_two_rotations(hf, defaults, scaling, parameters);
        return;
    }
    const struct rotation rotation = {.objects = {scaling ? scaling : parameters},
                                      .defaults = defaults,
                                      .to = &params->rope,
                                      .n_ctx = params->n_ctx_train};
    refuse_nested(hf, rotation.objects[0]);
    if (defaults->temperature > 0) read_temperature(hf, &rotation);
    if (!rotation.objects[0] && defaults->yarn)
        read_default_yarn(hf, &rotation);
    else
        read_rotation(hf, &rotation);
}
