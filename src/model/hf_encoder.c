/* Folders of encoders: the names of their tensors, config.json, and the head of a reranker. hf.c
 * and safetensors.c call this. */
#include "model/hf_encoder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/arch.h"

static const char file[] = "config.json";

/* ---- names ---- */

static const struct pair {
    const char *gguf, *hf; /* without ".weight" and ".bias" */
} in_model[] = {{"token_embd", "embeddings.word_embeddings"},
                {"position_embd", "embeddings.position_embeddings"},
                {"token_types", "embeddings.token_type_embeddings"},
                {"token_embd_norm", "embeddings.LayerNorm"},
                {"token_embd_norm", "emb_ln"},
                {"token_embd", "embeddings.tok_embeddings"},
                {"token_embd_norm", "embeddings.norm"},
                {"output_norm", "final_norm"},
                {RF_CLS, "head.dense"},
                {RF_CLS_NORM, "head.norm"},
                {RF_CLS, "pooler.dense"},
                {RF_CLS, "classifier.dense"},
                {RF_CLS_OUT, "classifier.out_proj"},
                {RF_CLS_OUT, "classifier"}},
  in_layer[] = {{"attn_q", "attention.self.query"},
                {"attn_k", "attention.self.key"},
                {"attn_v", "attention.self.value"},
                {"attn_output", "attention.output.dense"},
                {"attn_output_norm", "attention.output.LayerNorm"},
                {"ffn_up", "intermediate.dense"},
                {"ffn_down", "output.dense"},
                {"layer_output_norm", "output.LayerNorm"}},
  in_nomic_layer[] = {{"attn_qkv", "attn.Wqkv"},     {"attn_output", "attn.out_proj"},
                      {"ffn_up", "mlp.fc11"},        {"ffn_gate", "mlp.fc12"},
                      {"ffn_down", "mlp.fc2"},       {"attn_output_norm", "norm1"},
                      {"layer_output_norm", "norm2"}},
  in_modern_layer[] = {{"attn_norm", "attn_norm"}, {"attn_qkv", "attn.Wqkv"},
                       {"attn_output", "attn.Wo"}, {"ffn_norm", "mlp_norm"},
                       {"ffn_up", "mlp.Wi"},       {"ffn_down", "mlp.Wo"}};

struct names {
    const struct pair *pairs;
    size_t n;
    const char *layer; /* what comes before the number of a layer */
};

static struct names layer_names(const struct rf_params *params)
{
    if (params->arch == RF_ARCH_NOMIC_BERT)
        return (struct names){in_nomic_layer, sizeof in_nomic_layer / sizeof *in_nomic_layer,
                              "encoder.layers."};
    if (params->arch == RF_ARCH_MODERN_BERT)
        return (struct names){in_modern_layer, sizeof in_modern_layer / sizeof *in_modern_layer,
                              "layers."};
    return (struct names){in_layer, sizeof in_layer / sizeof *in_layer, "encoder.layer."};
}

/* The other name of `stem`, `n` bytes; NULL: there is none. */
static const char *other_name(const struct pair *pairs, size_t n_pairs, const char *stem, size_t n,
                              int to_gguf)
{
    for (size_t i = 0; i < n_pairs; i++) {
        const char *from = to_gguf ? pairs[i].hf : pairs[i].gguf;
        if (strlen(from) == n && memcmp(from, stem, n) == 0)
            return to_gguf ? pairs[i].gguf : pairs[i].hf;
    }
    return NULL;
}

/* The prefix of names in models with a head. */
static const char *without_prefix(const char *name)
{
    static const char *const prefixes[] = {"bert.", "roberta.", "nomic_bert.", "model."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return name + strlen(prefixes[i]);
    return name;
}

static const char *last_of(const char *ending)
{
    return strcmp(ending, ".gamma") == 0  ? ".weight" /* of the oldest files */
           : strcmp(ending, ".beta") == 0 ? ".bias"
                                          : ending;
}

int rf_encoder_name(const struct rf_params *params, const char *name, int to_gguf, char *buffer,
                    size_t bytes)
{
    const struct names layers = layer_names(params);
    const char *before = to_gguf ? layers.layer : "blk.", *after = to_gguf ? "blk." : layers.layer;
    if (to_gguf) name = without_prefix(name);
    const char *ending = strrchr(name, '.');
    int is_layer = strncmp(name, before, strlen(before)) == 0;
    if (!ending) return 0;
    if (!is_layer) {
        const char *found = other_name(in_model, sizeof in_model / sizeof *in_model, name,
                                       (size_t)(ending - name), to_gguf);
        if (found) snprintf(buffer, bytes, "%s%s", found, last_of(ending));
        return found != NULL;
    }
    const char *number = name + strlen(before), *rest = strchr(number, '.');
    size_t digits = strspn(number, "0123456789");
    if (!rest || !digits || number + digits != rest || rest >= ending) return 0;
    const char *found =
        other_name(layers.pairs, layers.n, rest + 1, (size_t)(ending - rest - 1), to_gguf);
    if (!found) return 0;
    snprintf(buffer, bytes, "%s%.*s.%s%s", after, (int)digits, number, found, last_of(ending));
    return 1;
}

int rf_encoder_leaves_out(const struct rf_source *source, const char *name)
{
    static const char *const parts[] = {"cls.", "lm_head.", "embeddings.position_ids"};
    /* a modern-bert's head for training, which is a reranker's, too */
    static const char *const heads[] = {"decoder.", "head."};
    int is_modern =
        source->params.arch == RF_ARCH_MODERN_BERT && source->pooling != RF_POOLING_RANK;
    for (size_t i = 0; is_modern && i < sizeof heads / sizeof *heads; i++)
        if (strncmp(name, heads[i], strlen(heads[i])) == 0) return 1;
    int is_pooler = strncmp(without_prefix(name), "pooler.", strlen("pooler.")) == 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strncmp(without_prefix(name), parts[i], strlen(parts[i])) == 0) return 1;
    return is_pooler && source->pooling != RF_POOLING_RANK;
}

/* ---- config.json ---- */

/* A count under its name, or under the name that the first files of nomic-bert have. */
static int32_t count_of(struct rf_hf *hf, const char *key, const char *older, int32_t otherwise)
{
    return rf_hf_count(hf, hf->text, key, rf_hf_count(hf, hf->text, older, otherwise));
}

static void check_shape(struct rf_hf *hf)
{
    const int is_nomic = hf->reading.source->params.arch == RF_ARCH_NOMIC_BERT;
    struct rf_str act = rf_hf_string(hf, hf->text, "hidden_act"),
                  old = rf_hf_string(hf, hf->text, "activation_function"),
                  positions = rf_hf_string(hf, hf->text, "position_embedding_type");
    const char *wanted = is_nomic ? "silu" : "gelu";
    if (act.bytes && !rf_str_is(act, wanted))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "hidden_act is \"%.*s\"; of this architecture only %s is supported",
                    rf_shown(act), act.data, wanted);
    if (is_nomic && old.bytes && !rf_str_is(old, "swiglu"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "activation_function is \"%.*s\"; only swiglu is supported", rf_shown(old),
                    old.data);
    if (positions.bytes && !rf_str_is(positions, "absolute"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "position_embedding_type is \"%.*s\"; only absolute is supported",
                    rf_shown(positions), positions.data);
    if (rf_hf_flag(hf, hf->text, "is_decoder", 0))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "is_decoder is true; only encoders of this class can run");
}

/* The table of positions begins with rows for padding, up to that of the padding's id. */
static void read_position_offset(struct rf_hf *hf)
{
    struct rf_params *params = &hf->reading.source->params;
    double pad = rf_hf_number(hf, hf->text, "pad_token_id", 1);
    if (hf->reading.code) return;
    if (!(pad >= 0 && pad < params->n_ctx_train - 1))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "pad_token_id, %g, leaves no position of max_position_embeddings, %" PRId32,
                    pad, params->n_ctx_train);
    else
        hf->position_offset = (int32_t)pad + 1;
    params->n_ctx_train -= hf->position_offset;
}

/* Reads which layers have a window: by layer_types, else all but every n-th, the first included. */
static void read_modern_layers(struct rf_hf *hf)
{
    const struct rf_params *params = &hf->reading.source->params;
    const struct rf_arch_row *row = rf_arch_row(params->arch);
    int32_t period = rf_hf_count(hf, hf->text, "global_attn_every_n_layers", row->period);
    const struct rf_json *types = rf_json_get(hf->text, "layer_types");
    rf_hf_check_list(hf, types, "layer_types");
    uint8_t *flags = hf->reading.code ? NULL : rf_arch_own_flags(&hf->reading);
    for (int32_t i = 0; flags && i < params->n_layer; i++) {
        struct rf_str type = rf_json_text(rf_json_at(types, (size_t)i));
        int has_window = types ? rf_str_is(type, "sliding_attention") : i % period != 0;
        if (types && !has_window && !rf_str_is(type, "full_attention"))
            rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                        "layer_types[%" PRId32 "] is \"%.*s\"; sliding_attention and "
                        "full_attention are supported",
                        i, rf_shown(type), type.data);
        flags[i] = row->flags[!has_window];
    }
}

/* Reads what a modern-bert's head of classification reads and computes. */
static void read_modern_head(struct rf_hf *hf)
{
    struct rf_str pooling = rf_hf_string(hf, hf->text, "classifier_pooling"),
                  act = rf_hf_string(hf, hf->text, "classifier_activation");
    hf->reading.source->params.cls_mean = rf_str_is(pooling, "mean");
    if (pooling.bytes && !rf_str_is(pooling, "mean") && !rf_str_is(pooling, "cls"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "classifier_pooling is \"%.*s\"; cls and mean are supported", rf_shown(pooling),
                    pooling.data);
    if (act.bytes && !rf_str_is(act, "gelu"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "classifier_activation is \"%.*s\"; only gelu is supported", rf_shown(act),
                    act.data);
}

/* Reads what only modern-bert's configuration has. */
static void read_modern(struct rf_hf *hf, const struct rf_hf_class *class, struct rf_hf_rope *rope)
{
    static const char *const biases[] = {"attention_bias", "mlp_bias", "norm_bias"};
    struct rf_params *params = &hf->reading.source->params;
    struct rf_str act = rf_hf_string(hf, hf->text, "hidden_activation");
    if (rf_str_is(act, "silu"))
        params->gelu = params->gelu_exact = 0;
    else if (act.bytes && !rf_str_is(act, "gelu"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "hidden_activation is \"%.*s\"; gelu and silu are supported", rf_shown(act),
                    act.data);
    for (size_t i = 0; i < sizeof biases / sizeof *biases; i++)
        if (rf_hf_flag(hf, hf->text, biases[i], 0))
            rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                        "%s is true, which is not supported in a modern-bert", biases[i]);
    if (rf_json_get(hf->text, "rope_scaling"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "rope_scaling is not supported in a modern-bert");
    params->window = rf_hf_count(hf, hf->text, "local_attention", class->window);
    rope->theta = rf_hf_number(hf, hf->text, "global_rope_theta", rope->theta);
    rope->local = rf_hf_number(hf, hf->text, "local_rope_theta", rope->local);
    params->rope_local.theta = (float)rope->local;
    read_modern_head(hf);
    if (!hf->reading.code) read_modern_layers(hf);
}

/* Sizes as the classes have them where the file is silent. */
void rf_hf_read_encoder(struct rf_hf *hf, const struct rf_hf_class *class)
{
    struct rf_params *params = &hf->reading.source->params;
    rf_arch_begin(params, rf_arch_row(class->arch));
    check_shape(hf);
    params->rope_style = RF_ROPE_NEOX;
    params->n_layer = count_of(hf, "num_hidden_layers", "n_layer", class->n_layer);
    params->n_embd = count_of(hf, "hidden_size", "n_embd", class->n_embd);
    params->n_ff = count_of(hf, "intermediate_size", "n_inner", class->n_ff);
    params->n_head = params->n_head_kv =
        count_of(hf, "num_attention_heads", "n_head", class->n_head);
    params->n_ctx_train = count_of(hf, "max_position_embeddings", "n_positions", class->n_ctx);
    if (class->skips_positions) read_position_offset(hf);
    params->rms_eps = (float)rf_hf_number(
        hf, hf->text, "layer_norm_eps",
        rf_hf_number(hf, hf->text, class->eps_key ? class->eps_key : "layer_norm_epsilon",
                     class->rms_eps));
    params->qkv_bias = params->o_bias = params->ffn_bias = params->no_gate;
    hf->is_tied = 1;
    if (hf->reading.code) return;
    if (params->n_embd % params->n_head)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "num_attention_heads, %" PRId32 ", does not divide hidden_size, %" PRId32,
                    params->n_head, params->n_embd);
    params->head_dim = params->rope_dim = params->n_embd / params->n_head;
    struct rf_hf_rope rope = class->rope;
    rope.theta = rf_hf_number(hf, hf->text, "rotary_emb_base", rope.theta);
    params->rope.theta = (float)rope.theta;
    rf_params_check(&hf->reading);
    if (!hf->reading.code && class->arch == RF_ARCH_MODERN_BERT) read_modern(hf, class, &rope);
    if (!hf->reading.code && !params->positions) rf_hf_read_rope(hf, &rope);
    if (!hf->reading.code) rf_arch_end(&hf->reading);
    struct rf_str name = rf_json_text(rf_json_at(rf_json_get(hf->config, "architectures"), 0));
    if (name.bytes && rf_ends_with(name.data, "ForSequenceClassification"))
        hf->reading.source->pooling = RF_POOLING_RANK;
    if (!hf->reading.code) rf_params_check(&hf->reading);
}
