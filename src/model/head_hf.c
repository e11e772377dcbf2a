/* A draft head in a safetensors folder, in the layout of EAGLE's repository (midlayer.*) or of
 * `speculators` (transformer_layer_config, layers.0.*), whose layer is a llama's; or in the
 * target's own folder (mtp.*). head.c gives it to open.c as a reader. */
#include <inttypes.h>
#include <stdio.h>

#include "model/head_reader.h"
#include "model/hf_class.h"

static const char file[] = "config.json";
static const char layer_ids[] = "eagle_aux_hidden_state_layer_ids";

/* Names of tensors, those of the layer without its prefix; "": it is not needed. */
static const struct {
    const char *gguf, *hf;
    int in_layer;
} head_names[] = {
    {"fc.weight", "fc.weight", 0},
    {"enc.output_norm.weight", "input_norm.weight", 0},
    {"output_norm.weight", "norm.weight", 0},
    {"output.weight", "lm_head.weight", 0},
    {"token_embd.weight", "embed_tokens.weight", 0},
    {RF_HF_IDS, RF_HF_IDS, 0},
    {"", "t2d", 0},
    {"", "verifier_lm_head.weight", 0}, /* the target's, for training */
    {"", "verifier_norm.weight", 0},
    {"blk.0.attn_norm.weight", "input_layernorm.weight", 1},
    {"blk.0.attn_norm_2.weight", "hidden_norm.weight", 1},
    {"blk.0.attn_q.weight", "self_attn.q_proj.weight", 1},
    {"blk.0.attn_k.weight", "self_attn.k_proj.weight", 1},
    {"blk.0.attn_v.weight", "self_attn.v_proj.weight", 1},
    {"blk.0.attn_output.weight", "self_attn.o_proj.weight", 1},
    {"blk.0.attn_q.bias", "self_attn.q_proj.bias", 1},
    {"blk.0.attn_k.bias", "self_attn.k_proj.bias", 1},
    {"blk.0.attn_v.bias", "self_attn.v_proj.bias", 1},
    {"blk.0.attn_output.bias", "self_attn.o_proj.bias", 1},
    {"blk.0.ffn_norm.weight", "post_attention_layernorm.weight", 1},
    {"blk.0.ffn_gate.weight", "mlp.gate_proj.weight", 1},
    {"blk.0.ffn_up.weight", "mlp.up_proj.weight", 1},
    {"blk.0.ffn_down.weight", "mlp.down_proj.weight", 1},
};
enum { N_HEAD_NAMES = sizeof head_names / sizeof *head_names };

static int skip_prefix(const char **name, const char *prefix)
{
    int has = strncmp(*name, prefix, strlen(prefix)) == 0;
    if (has) *name += strlen(prefix);
    return has;
}

static int gguf_head_name(const char *name, char *buffer, size_t bytes)
{
    skip_prefix(&name, "model.");
    int in_layer = skip_prefix(&name, "midlayer.") || skip_prefix(&name, "layers.0.");
    for (size_t i = 0; i < N_HEAD_NAMES; i++)
        if (head_names[i].in_layer == in_layer && strcmp(name, head_names[i].hf) == 0) {
            snprintf(buffer, bytes, "%s", head_names[i].gguf);
            return 1;
        }
    return 0;
}

static void show_head_name(const char *name, const char *prefix, char *buffer, size_t bytes)
{
    for (size_t i = 0; i < N_HEAD_NAMES; i++)
        if (strcmp(name, head_names[i].gguf) == 0) {
            snprintf(buffer, bytes, "%s%s", head_names[i].in_layer ? prefix : "", head_names[i].hf);
            return;
        }
    snprintf(buffer, bytes, "%s", name);
}

static void show_eagle_name(const struct rf_params *params, const char *name, char *buffer,
                            size_t bytes)
{
    (void)params;
    show_head_name(name, "midlayer.", buffer, bytes);
}

static void show_speculators_name(const struct rf_params *params, const char *name, char *buffer,
                                  size_t bytes)
{
    (void)params;
    show_head_name(name, "layers.0.", buffer, bytes);
}

static void check_kind(struct rf_hf *hf)
{
    struct rf_str kind = rf_hf_string(hf, hf->config, "speculators_model_type");
    if (!rf_hf_is_head(hf))
        rf_bad(&hf->reading, RF_ERR_UNSUPPORTED,
               "is not a draft head: config.json has neither draft_vocab_size nor "
               "speculators_model_type, and architectures does not name Eagle3");
    if (kind.bytes && !rf_str_is(kind, "eagle3"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "a draft head of the kind \"%.*s\"; only eagle3 is supported", rf_shown(kind),
                    kind.data);
}

/* The layer's parameters. Files may state the target's number of layers, or the target's type. */
static void read_layer_params(struct rf_hf *hf)
{
    const struct rf_hf_class *llama = rf_hf_class_of_type(rf_str_of("llama"));
    struct rf_params *params = &hf->reading.source->params;
    struct rf_str type = rf_hf_string(hf, hf->text, "model_type");
    if (hf->text != hf->config && type.bytes && !rf_str_is(type, "llama"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "the layer is a %.*s's (transformer_layer_config); only a llama's is supported",
                    rf_shown(type), type.data);
    if (hf->reading.code) return;
    rf_hf_read_params_of(hf, llama);
    params->n_layer = 1;
    hf->is_tied = 0; /* lm_head has other rows than the embeddings */
}

static void read_layer_list(struct rf_hf *hf, const struct rf_json *list, int64_t *layers)
{
    int is_good = rf_json_count(list) == RF_HEAD_TAPS;
    for (size_t i = 0; is_good && i < RF_HEAD_TAPS; i++)
        is_good = rf_json_integer(rf_json_at(list, i), &layers[i]);
    if (!is_good)
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED, "%s is not a list of %d layers",
                    layer_ids, RF_HEAD_TAPS);
}

static int is_empty_list(const struct rf_json *value)
{
    return rf_json_is_array(value) && rf_json_count(value) == 0;
}

/* The layers whose inputs are read. Beside the other keys files name these; in eagle_config, where
 * SGLang and SpecForge look, they name the layers before these. Else EAGLE's rule holds. */
static void read_layers_read(struct rf_hf *hf, struct rf_head_reading *of)
{
    int64_t n_layer = of->target->params.n_layer;
    const struct rf_json *inputs = rf_json_get(hf->config, layer_ids),
                         *outputs = rf_json_get(rf_json_get(hf->config, "eagle_config"), layer_ids);
    if (inputs && !is_empty_list(inputs)) {
        read_layer_list(hf, inputs, of->layers);
    } else if (outputs && !is_empty_list(outputs)) {
        read_layer_list(hf, outputs, of->layers);
        for (int i = 0; i < RF_HEAD_TAPS; i++)
            if (of->layers[i] < INT64_MAX) of->layers[i]++;
    } else {
        const int64_t rule[RF_HEAD_TAPS] = {2, n_layer / 2, n_layer - 3};
        memcpy(of->layers, rule, sizeof rule);
    }
}

static void read_stated(struct rf_hf *hf, struct rf_head_reading *of)
{
    struct rf_head_file *head = of->head;
    head->n_embd_target = rf_hf_count(hf, hf->config, "target_hidden_size", 0);
    head->n_vocab_target = rf_hf_count(hf, hf->text, "vocab_size", 0);
    of->n_vocab = rf_hf_count(hf, hf->config, "draft_vocab_size", 0);
    head->norm_before_residual = rf_hf_flag(hf, hf->config, "norm_before_residual", 0);
    head->norm_before_fc = rf_hf_flag(hf, hf->config, "norm_before_fc", 0);
    read_layers_read(hf, of);
}

/* A name as the target's folder has it. */
static void show_mtp_name(const struct rf_params *params, const char *name, char *buffer,
                          size_t bytes)
{
    static const char prefix[] = "model.layers.";
    char of_layer[256];
    const char *rest = strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') : NULL;
    if (rest && rf_hf_mtp_shown(rest + 1, buffer, bytes)) return;
    rf_hf_tensor_name(params, name, of_layer, sizeof of_layer);
    rest = strncmp(of_layer, prefix, strlen(prefix)) == 0 ? strchr(of_layer + strlen(prefix), '.')
                                                          : NULL;
    snprintf(buffer, bytes, "%s%s", rest ? "mtp.layers.0" : "", rest ? rest : of_layer);
}

/* The head in a folder of a model that may have one. */
static void read_mtp_folder(struct rf_hf *hf, struct rf_head_reading *of)
{
    struct rf_reading *reading = &hf->reading;
    reading->shown_name = show_mtp_name;
    rf_hf_read_params(hf);
    rf_mtp_begin(of, reading, 1);
    if (!reading->code) {
        hf->mtp_layer = of->head->mtp_layer;
        rf_safetensors_read(hf);
    }
    if (!reading->code && hf->adds_one) rf_norms_add_one(reading);
    rf_mtp_check(of, reading);
}

/* Whether config.json is of a model that may have one. */
static int may_have_mtp(struct rf_hf *hf)
{
    const struct rf_hf_class *class =
        rf_hf_class_of_type(rf_hf_string(hf, hf->config, "model_type"));
    return class && rf_knows_mtp(class->arch) && !rf_hf_is_head(hf);
}

static void read_eagle_folder(struct rf_hf *hf, struct rf_head_reading *of)
{
    struct rf_reading *reading = &hf->reading;
    const struct rf_json *layer = rf_json_get(hf->config, "transformer_layer_config");
    reading->shown_name = layer ? show_speculators_name : show_eagle_name;
    hf->text = layer ? layer : hf->config;
    hf->head_name = gguf_head_name;
    if (!reading->code && !rf_json_is_object(hf->text))
        rf_bad_part(reading, file, RF_ERR_FORMAT, "is not a JSON object, or its layer is none");
    if (!reading->code) check_kind(hf);
    if (!reading->code) read_layer_params(hf);
    if (!reading->code && rf_head_new(of, reading)) read_stated(hf, of);
    if (!reading->code) rf_safetensors_read(hf);
    of->ids = hf->ids;
    of->n_ids = hf->n_ids;
    of->are_offsets = 1;
    rf_head_check(of, reading);
}

int rf_head_read_folder(struct rf_source *source, const struct rf_hf_files *files, void *user,
                        struct rf_error *error)
{
    struct rf_head_reading *of = user;
    struct rf_hf hf = {.reading = rf_reading_of(source, files->folder, error), .files = files};
    struct rf_reading *reading = &hf.reading;
    source->container = "safetensors";
    if (!files->config.data) rf_bad(reading, RF_ERR_IO, "config.json is missing");
    if (!reading->code) hf.config = rf_json_parse(reading, file, files->config);
    if (!reading->code && !rf_json_is_object(hf.config))
        rf_bad_part(reading, file, RF_ERR_FORMAT, "is not a JSON object, or its layer is none");
    if (!reading->code && may_have_mtp(&hf))
        read_mtp_folder(&hf, of);
    else
        read_eagle_folder(&hf, of);
    rf_json_free(hf.config);
    rf_arena_free(&reading->arena);
    return reading->code;
}
