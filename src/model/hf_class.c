/* The table of transformers' classes, one row each. hf_config.c reads a config.json by a row. */
#include "model/hf_class.h"

#include <stdio.h>

#include "model/reader.h"
#include "model/rope.h"

#define ATTENTION_BIAS .qkv_bias = "attention_bias", .has_o_bias = 1
#define PLAIN_ROPE     \
    {                  \
        .theta = 10000 \
    }

static const struct rf_yarn gpt_oss_yarn = {
    .factor = 32, .original = 4096, .beta_fast = 32, .beta_slow = 1};

static const struct rf_hf_class classes[] = {
    {.name = "LlamaForCausalLM",
     .model_type = "llama",
     .arch = RF_ARCH_LLAMA,
     .n_layer = 32,
     .n_embd = 4096,
     .n_ff = 11008,
     .n_head = 32,
     .n_ctx = 2048,
     .rope = PLAIN_ROPE,
     ATTENTION_BIAS,
     .mlp_bias = "mlp_bias"},
    {.name = "MistralForCausalLM",
     .model_type = "mistral",
     .arch = RF_ARCH_LLAMA,
     .n_layer = 32,
     .n_embd = 4096,
     .n_ff = 14336,
     .n_head = 32,
     .n_head_kv = 8,
     .n_ctx = 131072,
     .rope = PLAIN_ROPE,
     .window = 4096,
     .windows = RF_HF_WINDOW_ALL},
    {.name = "MixtralForCausalLM",
     .model_type = "mixtral",
     .arch = RF_ARCH_LLAMA,
     .n_layer = 32,
     .n_embd = 4096,
     .n_ff = 14336,
     .n_head = 32,
     .n_head_kv = 8,
     .n_ctx = 131072,
     .rms_eps = 1e-5,
     .rope = {.theta = 1e6},
     .windows = RF_HF_WINDOW_ALL,
     .n_expert = 8,
     .n_expert_used = 2},
    {.name = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .arch = RF_ARCH_QWEN2,
     .n_layer = 32,
     .n_embd = 4096,
     .n_ff = 22016,
     .n_head = 32,
     .n_head_kv = 32,
     .n_ctx = 32768,
     .rope = PLAIN_ROPE,
     .window = 4096,
     .asks_for_window = 1,
     .windows = RF_HF_WINDOW_LATE,
     .n_window_layers = 28},
    {.name = "Qwen3ForCausalLM",
     .model_type = "qwen3",
     .arch = RF_ARCH_QWEN3,
     .n_layer = 32,
     .n_embd = 4096,
     .n_ff = 22016,
     .n_head = 32,
     .n_head_kv = 32,
     .head_dim = 128,
     .n_ctx = 32768,
     .rope = PLAIN_ROPE,
     .window = 4096,
     .asks_for_window = 1,
     .windows = RF_HF_WINDOW_LATE,
     .n_window_layers = 28,
     ATTENTION_BIAS},
    {.name = "Qwen3MoeForCausalLM",
     .model_type = "qwen3_moe",
     .arch = RF_ARCH_QWEN3MOE,
     .n_layer = 24,
     .n_embd = 2048,
     .n_ff = 6144,
     .n_head = 32,
     .n_head_kv = 4,
     .n_ctx = 32768,
     .rope = PLAIN_ROPE,
     .window = 4096,
     .asks_for_window = 1,
     .windows = RF_HF_WINDOW_ALL,
     ATTENTION_BIAS,
     .n_expert = 128,
     .n_expert_used = 8,
     .n_ff_expert = 768},
    {.name = "Qwen2MoeForCausalLM",
     .model_type = "qwen2_moe",
     .arch = RF_ARCH_QWEN2MOE,
     .n_layer = 24,
     .n_embd = 2048,
     .n_ff = 5632,
     .n_head = 16,
     .n_head_kv = 16,
     .n_ctx = 32768,
     .rope = PLAIN_ROPE,
     .window = 4096,
     .asks_for_window = 1,
     .windows = RF_HF_WINDOW_EARLY_EVEN,
     .n_window_layers = 28,
     .qkv_bias = "qkv_bias",
     .has_bias = 1,
     .n_expert = 60,
     .n_expert_used = 4,
     .n_ff_expert = 1408,
     .n_ff_shared = 5632},
    {.name = "GptOssForCausalLM",
     .model_type = "gpt_oss",
     .arch = RF_ARCH_GPT_OSS,
     .n_layer = 36,
     .n_embd = 2880,
     .n_ff = 2880,
     .n_head = 64,
     .n_head_kv = 8,
     .head_dim = 64,
     .n_ctx = 131072,
     .rms_eps = 1e-5,
     .rope = {.theta = 150000, .yarn = &gpt_oss_yarn},
     .window = 128,
     .windows = RF_HF_WINDOW_PERIOD,
     ATTENTION_BIAS,
     .has_bias = 1,
     .n_expert = 128,
     .n_expert_used = 4},
    {.name = "GraniteForCausalLM",
     .model_type = "granite",
     .arch = RF_ARCH_GRANITE,
     .n_layer = 32,
     .n_embd = 4096,
     .n_ff = 11008,
     .n_head = 32,
     .n_ctx = 2048,
     .rope = PLAIN_ROPE,
     ATTENTION_BIAS,
     .mlp_bias = "mlp_bias"},
    {.name = "Olmo2ForCausalLM",
     .model_type = "olmo2",
     .arch = RF_ARCH_OLMO2,
     .n_layer = 32,
     .n_embd = 4096,
     .n_ff = 11008,
     .n_head = 32,
     .n_ctx = 2048,
     .rms_eps = 1e-5,
     .rope = PLAIN_ROPE,
     ATTENTION_BIAS},
    {.name = "Olmo3ForCausalLM",
     .model_type = "olmo3",
     .arch = RF_ARCH_OLMO2,
     .n_layer = 32,
     .n_embd = 4096,
     .n_ff = 11008,
     .n_head = 32,
     .n_ctx = 2048,
     .rms_eps = 1e-5,
     .rope = {.theta = 500000, .local = 500000},
     .window = 4096,
     .windows = RF_HF_WINDOW_PERIOD,
     ATTENTION_BIAS},
    {.name = "SmolLM3ForCausalLM",
     .model_type = "smollm3",
     .arch = RF_ARCH_SMOLLM3,
     .n_layer = 36,
     .n_embd = 2048,
     .n_ff = 11008,
     .n_head = 16,
     .n_head_kv = 4,
     .n_ctx = 32768,
     .rope = {.theta = 2e6},
     .asks_for_window = 1,
     .windows = RF_HF_WINDOW_NO_ROPE,
     .is_tied = 1,
     ATTENTION_BIAS,
     .mlp_bias = "mlp_bias"},
    {.name = "Phi3ForCausalLM",
     .model_type = "phi3",
     .arch = RF_ARCH_PHI3,
     .n_layer = 32,
     .n_embd = 3072,
     .n_ff = 8192,
     .n_head = 32,
     .n_ctx = 4096,
     .rms_eps = 1e-5,
     .partial_rotation = 1,
     .rope = {.theta = 10000, .original = 4096},
     .windows = RF_HF_WINDOW_ALL},
    {.name = "Gemma2ForCausalLM",
     .model_type = "gemma2",
     .arch = RF_ARCH_GEMMA2,
     .n_layer = 26,
     .n_embd = 2304,
     .n_ff = 9216,
     .n_head = 8,
     .n_head_kv = 4,
     .head_dim = 256,
     .n_ctx = 8192,
     .rope = PLAIN_ROPE,
     .score_cap = 50,
     .logit_cap = 30,
     .window = 4096,
     .windows = RF_HF_WINDOW_PERIOD,
     .is_tied = 1,
     ATTENTION_BIAS},
    {.name = "Lfm2ForCausalLM",
     .model_type = "lfm2",
     .arch = RF_ARCH_LFM2,
     .n_layer = 32,
     .n_embd = 2560,
     .n_ff = 12288,
     .n_head = 32,
     .n_head_kv = 8,
     .n_ctx = 128000,
     .rms_eps = 1e-5,
     .eps_key = "norm_eps",
     .rope = {.theta = 1e6},
     .is_tied = 1,
     .conv_rows = 3},
    {.name = "Lfm2MoeForCausalLM",
     .model_type = "lfm2_moe",
     .arch = RF_ARCH_LFM2MOE,
     .n_layer = 32,
     .n_embd = 2048,
     .n_ff = 7168,
     .n_head = 32,
     .n_head_kv = 8,
     .n_ctx = 128000,
     .rms_eps = 1e-5,
     .eps_key = "norm_eps",
     .rope = {.theta = 1e6},
     .is_tied = 1,
     .n_expert = 32,
     .n_expert_used = 4,
     .n_ff_expert = 1792,
     .norms_experts = 1,
     .conv_rows = 3},
#define GEMMA3                                                                                \
    .arch = RF_ARCH_GEMMA3, .n_layer = 26, .n_embd = 2304, .n_ff = 9216, .n_head = 8,         \
    .n_head_kv = 4, .head_dim = 256, .n_ctx = 131072, .rope = {.theta = 1e6}, .window = 4096, \
    .windows = RF_HF_WINDOW_PERIOD, .reads_period = 1, .is_tied = 1, ATTENTION_BIAS
    {.name = "Gemma3ForCausalLM", .model_type = "gemma3_text", GEMMA3},
    {.name = "Gemma3ForConditionalGeneration", .model_type = "gemma3", .has_vision = 1, GEMMA3},
};

const struct rf_hf_class *rf_hf_class_of_type(struct rf_str model_type)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (rf_str_is(model_type, classes[i].model_type)) return &classes[i];
    return NULL;
}

static struct rf_str class_name(const struct rf_hf *hf)
{
    return rf_json_text(rf_json_at(rf_json_get(hf->config, "architectures"), 0));
}

int rf_hf_is_head(const struct rf_hf *hf)
{
    return rf_json_get(hf->config, "draft_vocab_size") ||
           rf_json_get(hf->config, "speculators_model_type") ||
           strstr(class_name(hf).data, "Eagle3");
}

const struct rf_hf_class *rf_hf_find_class(struct rf_hf *hf)
{
    struct rf_str name = class_name(hf);
    struct rf_str type = rf_hf_string(hf, hf->config, "model_type");
    size_t n = sizeof classes / sizeof *classes, used = 0;
    for (size_t i = 0; i < n; i++)
        if (name.bytes ? rf_str_is(name, classes[i].name) : rf_str_is(type, classes[i].model_type))
            return hf->reading.code ? NULL : &classes[i];
    if (!name.bytes) name = type;
    if (!name.bytes)
        rf_bad_part(&hf->reading, "config.json", RF_ERR_FORMAT, "architectures is missing");
    char known[512];
    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 classes[i].model_type);
    rf_bad_part(&hf->reading, "config.json", RF_ERR_UNSUPPORTED,
                "the architecture \"%.*s\" is not known; these are, by their model_type: %s",
                rf_shown(name), name.data, known);
    return NULL;
}
