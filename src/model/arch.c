/* The table of architectures, one row each: a GGUF name, traits, and the flags of its layers.
 * Both containers' readers begin with a row (rf_arch_begin) and end with it (rf_arch_end). A new
 * architecture starts here. */
#include "model/arch.h"

#include <math.h>

const struct rf_arch_row rf_arch_rows[] = {
    {.arch = RF_ARCH_LLAMA, /* mixtral is a llama with experts */
     .name = "llama",
     .gguf_rope = RF_ROPE_NORM,
     .keys = RF_KEYS_WINDOW | RF_KEYS_EXPERTS | RF_KEYS_LLAMA3 | RF_KEYS_LONGROPE,
     .traits = {.expert_norm = 1}},
    {.arch = RF_ARCH_QWEN2,
     .name = "qwen2",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_WINDOW,
     .traits = {.qkv_bias = 1}},
    {.arch = RF_ARCH_QWEN3,
     .name = "qwen3",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_WINDOW,
     .traits = {.qk_norm = 1}},
    {.arch = RF_ARCH_QWEN3MOE,
     .name = "qwen3moe",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_WINDOW | RF_KEYS_EXPERTS,
     .traits = {.qk_norm = 1, .expert_norm = 1}},
    {.arch = RF_ARCH_QWEN2MOE,
     .name = "qwen2moe",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_WINDOW | RF_KEYS_EXPERTS | RF_KEYS_SHARED,
     .traits = {.qkv_bias = 1}},
    {.arch = RF_ARCH_GPT_OSS,
     .name = "gpt-oss",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_WINDOW | RF_KEYS_EXPERTS,
     .traits = {.qkv_bias = 1,
                .o_bias = 1,
                .attn_sinks = 1,
                .expert_norm = 1,
                .expert_bias = 1,
                .gate_alpha = 1.702f,
                .gate_limit = 7},
     .flags = {RF_LAYER_WINDOW, 0},
     .period = 2,
     .odd_one = 1,
     .yarn_is_exact = 1},
    {.arch = RF_ARCH_GRANITE,
     .name = "granite",
     .gguf_rope = RF_ROPE_NORM,
     .keys = RF_KEYS_SCALES | RF_KEYS_LLAMA3 | RF_KEYS_LONGROPE},
    {.arch = RF_ARCH_GRANITEHYBRID, /* Granite 4's hybrids, and Bamba as GGUF has it */
     .name = "granitehybrid",
     .gguf_rope = RF_ROPE_NORM,
     .keys = RF_KEYS_SCALES | RF_KEYS_EXPERTS | RF_KEYS_SHARED | RF_KEYS_MAMBA,
     .traits = {.expert_norm = 1,
                .shared_whole = 1,
                .is_mamba = 1,
                .fused = RF_FUSED_GATE_UP | RF_FUSED_SHARED | RF_FUSED_MAMBA}},
#define NEMOTRON_H                                                               \
    .no_gate = 1, .relu2 = 1, .one_branch = 1, .is_mamba = 1, .shared_whole = 1, \
    .fused = RF_FUSED_MAMBA
    {.arch = RF_ARCH_NEMOTRON_H,
     .name = "nemotron_h",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_MAMBA,
     .traits = {NEMOTRON_H}},
    {.arch = RF_ARCH_NEMOTRON_H_MOE,
     .name = "nemotron_h_moe",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_MAMBA | RF_KEYS_EXPERTS | RF_KEYS_SHARED,
     .traits = {NEMOTRON_H, .expert_norm = 1, .expert_sigmoid = 1, .expert_least = 1e-20f,
                .expert_choice_bias = 1}},
    {.arch = RF_ARCH_DEEPSEEK2, /* DeepSeek V2 and V3, GLM 4.7 Flash */
     .name = "deepseek2",
     .gguf_rope = RF_ROPE_NORM,
     .keys = RF_KEYS_EXPERTS | RF_KEYS_SHARED | RF_KEYS_LATENT,
     .traits = {.expert_least = 1e-20f}},
    {.arch = RF_ARCH_OLMO2,
     .name = "olmo2", /* OLMo 3 is one with a window */
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_WINDOW,
     .traits = {.qk_norm = 1, .qk_norm_rows = 1, .post_norm = 1, .no_input_norm = 1},
     .flags = {RF_LAYER_WINDOW | RF_LAYER_LOCAL_ROPE, 0},
     .period = 4,
     .odd_one = 3,
     .by_window = 1},
    {.arch = RF_ARCH_SMOLLM3,
     .name = "smollm3",
     .gguf_rope = RF_ROPE_NORM,
     .keys = RF_KEYS_WINDOW,
     .flags = {0, RF_LAYER_NO_ROPE | RF_LAYER_WINDOW},
     .period = 4,
     .odd_one = 3},
    {.arch = RF_ARCH_PHI3,
     .name = "phi3",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_WINDOW | RF_KEYS_LONGROPE,
     .traits = {.fused = RF_FUSED_QKV | RF_FUSED_GATE_UP}},
    {.arch = RF_ARCH_GEMMA2,
     .name = "gemma2",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_CAPS | RF_KEYS_WINDOW,
     .traits = {.post_norm = 1, .gelu = 1},
     .flags = {RF_LAYER_WINDOW, 0},
     .period = 2,
     .odd_one = 1,
     .sqrt_embedding = 1,
     .n_layer_27b = 46},
    {.arch = RF_ARCH_LFM2,
     .name = "lfm2",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_WINDOW | RF_KEYS_CONV,
     .traits = {.qk_norm = 1}},
    {.arch = RF_ARCH_LFM2MOE,
     .name = "lfm2moe",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_WINDOW | RF_KEYS_CONV | RF_KEYS_EXPERTS,
     .traits = {.qk_norm = 1,
                .expert_norm = 1,
                .expert_sigmoid = 1,
                .expert_least = 1e-6f,
                .expert_choice_bias = 1}},
    {.arch = RF_ARCH_QWEN35,
     .name = "qwen35",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_DELTA,
     .traits = {.qk_norm = 1, .attn_gate = 1},
     .flags = {RF_LAYER_DELTA, 0},
     .period = 4,
     .odd_one = 3},
    {.arch = RF_ARCH_QWEN35MOE,
     .name = "qwen35moe",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_DELTA | RF_KEYS_EXPERTS | RF_KEYS_SHARED,
     .traits = {.qk_norm = 1, .attn_gate = 1, .expert_norm = 1},
     .flags = {RF_LAYER_DELTA, 0},
     .period = 4,
     .odd_one = 3},
    {.arch = RF_ARCH_QWEN3NEXT,
     .name = "qwen3next",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_DELTA | RF_KEYS_EXPERTS | RF_KEYS_SHARED,
     .traits = {.qk_norm = 1, .attn_gate = 1, .expert_norm = 1, .fused = RF_FUSED_DELTA},
     .flags = {RF_LAYER_DELTA, 0},
     .period = 4,
     .odd_one = 3},
    {.arch = RF_ARCH_GEMMA3,
     .name = "gemma3",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_CAPS | RF_KEYS_WINDOW,
     .traits = {.qk_norm = 1, .post_norm = 1, .gelu = 1, .rope_local.theta = 10000},
     .flags = {RF_LAYER_WINDOW | RF_LAYER_LOCAL_ROPE, 0},
     .period = 6,
     .odd_one = 5,
     .sqrt_embedding = 1,
     .n_layer_27b = 62},
    {.arch = RF_ARCH_GEMMA4,
     .name = "gemma4",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_WINDOW | RF_KEYS_LLAMA3 | RF_KEYS_LAYERS,
     .traits = {.qk_norm = 1,
                .post_norm = 1,
                .gelu = 1,
                .v_norm = 1,
                .layer_scale = 1,
                .attention_scale = 1,
                .rope_local.theta = 10000},
     .flags = {RF_LAYER_WINDOW | RF_LAYER_LOCAL_ROPE, 0},
     .period = 6,
     .odd_one = 5,
     .sqrt_embedding = 1},
    {.arch = RF_ARCH_SEED_OSS, .name = "seed_oss", .gguf_rope = RF_ROPE_NEOX},
    {.arch = RF_ARCH_GLM4,
     .name = "glm4",
     .gguf_rope = RF_ROPE_NORM,
     .traits = {.post_norm = 1, .fused = RF_FUSED_GATE_UP}},
    {.arch = RF_ARCH_EXAONE4,
     .name = "exaone4",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_WINDOW | RF_KEYS_LLAMA3,
     .traits = {.qk_norm = 1, .post_norm = 1, .no_input_norm = 1},
     .flags = {RF_LAYER_WINDOW, RF_LAYER_NO_ROPE},
     .period = 4,
     .odd_one = 3,
     .by_window = 1},
    {.arch = RF_ARCH_COHERE2,
     .name = "cohere2",
     .gguf_rope = RF_ROPE_NORM,
     .keys = RF_KEYS_WINDOW | RF_KEYS_LOGITS,
     .traits = {.layer_norm = 1, .parallel = 1},
     .flags = {RF_LAYER_WINDOW, RF_LAYER_NO_ROPE},
     .period = 4,
     .odd_one = 3},
    {.arch = RF_ARCH_STARCODER2,
     .name = "starcoder2",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_WINDOW,
     .traits = {.layer_norm = 1, .norm_bias = 1, .no_gate = 1, .gelu = 1}},
    {.arch = RF_ARCH_MISTRAL3, /* Ministral 3, and what Mistral Small 3.1 and later are in GGUF */
     .name = "mistral3",
     .gguf_rope = RF_ROPE_NORM,
     .keys = RF_KEYS_WINDOW | RF_KEYS_LLAMA3 | RF_KEYS_TEMPERATURE},
    {.arch = RF_ARCH_BERT, /* also XLM-RoBERTa */
     .name = "bert",
     .gguf_rope = RF_ROPE_NEOX,
     .traits = {.encoder = 1,
                .embd_norm = 1,
                .layer_norm = 1,
                .norm_bias = 1,
                .no_input_norm = 1,
                .no_gate = 1,
                .gelu = 1,
                .gelu_exact = 1,
                .positions = 1},
     .flags = {RF_LAYER_NO_ROPE, RF_LAYER_NO_ROPE},
     .period = 1},
    {.arch = RF_ARCH_NOMIC_BERT,
     .name = "nomic-bert",
     .gguf_rope = RF_ROPE_NEOX,
     .traits = {.encoder = 1,
                .embd_norm = 1,
                .layer_norm = 1,
                .norm_bias = 1,
                .no_input_norm = 1,
                .fused = RF_FUSED_QKV}},
    {.arch = RF_ARCH_MODERN_BERT,
     .name = "modern-bert",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_WINDOW,
     .traits = {.encoder = 1,
                .embd_norm = 1,
                .no_first_norm = 1,
                .layer_norm = 1,
                .gelu = 1,
                .gelu_exact = 1,
                .fused = RF_FUSED_QKV | RF_FUSED_GATE_UP,
                .rope_local.theta = 10000},
     .flags = {RF_LAYER_WINDOW | RF_LAYER_LOCAL_ROPE, 0},
     .period = 3,
     .by_window = 1},
    {.arch = RF_ARCH_GEMMA_EMBEDDING, /* gemma3 as an encoder */
     .name = "gemma-embedding",
     .gguf_rope = RF_ROPE_NEOX,
     .keys = RF_KEYS_CAPS | RF_KEYS_WINDOW,
     .traits = {.encoder = 1, .qk_norm = 1, .post_norm = 1, .gelu = 1, .rope_local.theta = 10000},
     .flags = {RF_LAYER_WINDOW | RF_LAYER_LOCAL_ROPE, 0},
     .period = 6,
     .odd_one = 5,
     .sqrt_embedding = 1},
    {.name = NULL},
};

const struct rf_arch_row *rf_arch_row(enum rf_arch arch)
{
    const struct rf_arch_row *row = rf_arch_rows;
    while (row->name && row->arch != arch) row++;
    return row;
}

void rf_arch_begin(struct rf_params *params, const struct rf_arch_row *row)
{
    *params = row->traits;
    params->arch = row->arch;
    params->arch_name = row->name;
    params->rope_style = row->gguf_rope;
    params->rope.scale = params->rope.magnitude = 1;
    params->rope_local.scale = params->rope_local.magnitude = 1;
}

uint8_t *rf_arch_own_flags(struct rf_reading *reading)
{
    struct rf_params *params = &reading->source->params;
    uint8_t *flags = rf_keep(reading, (size_t)params->n_layer, 1, "layers");
    for (int32_t i = 0; flags && i < params->n_layer; i++)
        flags[i] = (uint8_t)rf_layer_flags(params, i);
    params->layer_flags = flags;
    return flags;
}

void rf_arch_end(struct rf_reading *reading)
{
    struct rf_params *params = &reading->source->params;
    const struct rf_arch_row *row = rf_arch_row(params->arch);
    if (params->window > 0 && !(row->keys & RF_KEYS_WINDOW))
        rf_bad(reading, RF_ERR_UNSUPPORTED, "a sliding window is not supported in a %s model",
               row->name);
    /* An encoder's window is stated as that of both sides together. */
    if (params->encoder && params->window > 0) params->window = params->window / 2 + 1;
    if (row->sqrt_embedding) params->embedding_scale = sqrtf((float)params->n_embd);
    if (!row->period || params->layer_flags || (row->by_window && !params->window)) return;
    uint8_t *flags = rf_arch_own_flags(reading);
    for (int32_t i = 0; flags && i < params->n_layer; i++)
        flags[i] = row->flags[i % row->period == row->odd_one];
}
