/* A small GGUF writer: a file as lists of metadata and tensors that a test edits before they become
 * bytes. */
#ifndef RF_TEST_GGUF_WRITER_H
#define RF_TEST_GGUF_WRITER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    W_U8 = 0,
    W_U32 = 4,
    W_I32 = 5,
    W_F32 = 6,
    W_BOOL = 7,
    W_STRING = 8,
    W_ARRAY = 9,
    W_U64 = 10,
    W_F64 = 12,
    W_TENSOR_I64 = 27 /* of a tensor, whose other type is F32, 0 */
};

struct w_value {
    char key[96];
    uint32_t type;
    unsigned char data[1024]; /* the file's bytes behind the type */
    size_t bytes;
};

struct w_tensor {
    char name[96];
    uint32_t n_dims, type;
    uint64_t ne[4], offset;
};

struct w_file {
    uint32_t magic, version;
    int64_t extra_values, extra_tensors; /* claimed beyond those that are there */
    struct w_value values[48];
    size_t n_values;
    struct w_tensor tensors[48];
    size_t n_tensors;
    uint64_t alignment, data_bytes;
};

static inline void w_put(unsigned char **at, const void *data, size_t bytes)
{
    memcpy(*at, data, bytes);
    *at += bytes;
}

static inline void w_add(struct w_value *value, const void *data, size_t bytes)
{
    if (value->bytes + bytes > sizeof value->data) abort();
    memcpy(value->data + value->bytes, data, bytes);
    value->bytes += bytes;
}

/* The value of that key, emptied; a new one if there is none. */
static inline struct w_value *w_set(struct w_file *file, const char *key, uint32_t type)
{
    struct w_value *value = NULL;
    for (size_t i = 0; i < file->n_values; i++)
        if (strcmp(file->values[i].key, key) == 0) value = &file->values[i];
    if (!value) value = &file->values[file->n_values++];
    snprintf(value->key, sizeof value->key, "%s", key);
    value->type = type;
    value->bytes = 0;
    return value;
}

static inline void w_u32(struct w_file *file, const char *key, uint32_t number)
{
    w_add(w_set(file, key, W_U32), &number, 4);
}

static inline void w_f32(struct w_file *file, const char *key, float number)
{
    w_add(w_set(file, key, W_F32), &number, 4);
}

static inline void w_bool(struct w_file *file, const char *key, int flag)
{
    unsigned char byte = (unsigned char)flag;
    w_add(w_set(file, key, W_BOOL), &byte, 1);
}

static inline void w_add_string(struct w_value *value, const char *text)
{
    uint64_t n = strlen(text);
    w_add(value, &n, 8);
    w_add(value, text, n);
}

static inline void w_string(struct w_file *file, const char *key, const char *text)
{
    w_add_string(w_set(file, key, W_STRING), text);
}

static inline struct w_value *w_array(struct w_file *file, const char *key, uint32_t elem_type,
                                      uint64_t count)
{
    struct w_value *value = w_set(file, key, W_ARRAY);
    w_add(value, &elem_type, 4);
    w_add(value, &count, 8);
    return value;
}

static inline void w_strings(struct w_file *file, const char *key, const char *const *texts,
                             size_t n)
{
    struct w_value *value = w_array(file, key, W_STRING, n);
    for (size_t i = 0; i < n; i++) w_add_string(value, texts[i]);
}

static inline void w_numbers(struct w_file *file, const char *key, uint32_t elem_type,
                             const void *numbers, size_t n)
{
    w_add(w_array(file, key, elem_type, n), numbers, 4 * n);
}

static inline void w_drop(struct w_file *file, const char *key)
{
    size_t kept = 0;
    for (size_t i = 0; i < file->n_values; i++)
        if (strcmp(file->values[i].key, key) != 0) file->values[kept++] = file->values[i];
    file->n_values = kept;
}

static inline struct w_tensor *w_find(struct w_file *file, const char *name)
{
    for (size_t i = 0; i < file->n_tensors; i++)
        if (strcmp(file->tensors[i].name, name) == 0) return &file->tensors[i];
    return NULL;
}

/* Lays all tensors, which must be F32 or I64, one behind another again. */
static inline void w_place(struct w_file *file)
{
    file->data_bytes = 0;
    for (size_t i = 0; i < file->n_tensors; i++) {
        struct w_tensor *tensor = &file->tensors[i];
        uint64_t bytes = (tensor->type == W_TENSOR_I64 ? 8 : 4) * tensor->ne[0] * tensor->ne[1];
        tensor->offset = file->data_bytes;
        file->data_bytes += (bytes + file->alignment - 1) / file->alignment * file->alignment;
    }
}

/* An F32 tensor behind the others; ne1 is 0 for a vector. */
static inline void w_tensor(struct w_file *file, const char *name, uint64_t ne0, uint64_t ne1)
{
    struct w_tensor *tensor = &file->tensors[file->n_tensors++];
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    tensor->n_dims = ne1 ? 2 : 1;
    tensor->type = 0;
    tensor->ne[0] = ne0;
    tensor->ne[1] = ne1 ? ne1 : 1;
    tensor->ne[2] = tensor->ne[3] = 1;
    w_place(file);
}

static inline void w_drop_tensor(struct w_file *file, const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; i < file->n_tensors; i++)
        if (strcmp(file->tensors[i].name, name) != 0) file->tensors[kept++] = file->tensors[i];
    file->n_tensors = kept;
    w_place(file);
}

/* The bytes of the file (free them); *header_bytes is where the tensors' data begins. The data
 * is 1.0f throughout. */
static inline unsigned char *w_bytes(const struct w_file *file, size_t *bytes, size_t *header_bytes)
{
    size_t cap = 4096 + file->data_bytes;
    for (size_t i = 0; i < file->n_values; i++)
        cap += 32 + sizeof file->values[i].key + file->values[i].bytes;
    for (size_t i = 0; i < file->n_tensors; i++) cap += 160;
    unsigned char *data = malloc(cap), *at = data;
    if (!data) abort();
    uint64_t n_tensors = file->n_tensors + (uint64_t)file->extra_tensors;
    uint64_t n_values = file->n_values + (uint64_t)file->extra_values;
    w_put(&at, &file->magic, 4);
    w_put(&at, &file->version, 4);
    w_put(&at, &n_tensors, 8);
    w_put(&at, &n_values, 8);
    for (size_t i = 0; i < file->n_values; i++) {
        const struct w_value *value = &file->values[i];
        uint64_t n = strlen(value->key);
        w_put(&at, &n, 8);
        w_put(&at, value->key, n);
        w_put(&at, &value->type, 4);
        w_put(&at, value->data, value->bytes);
    }
    for (size_t i = 0; i < file->n_tensors; i++) {
        const struct w_tensor *tensor = &file->tensors[i];
        uint64_t n = strlen(tensor->name);
        w_put(&at, &n, 8);
        w_put(&at, tensor->name, n);
        w_put(&at, &tensor->n_dims, 4);
        w_put(&at, tensor->ne, 8 * (tensor->n_dims < 4 ? tensor->n_dims : 4));
        w_put(&at, &tensor->type, 4);
        w_put(&at, &tensor->offset, 8);
    }
    while ((size_t)(at - data) % file->alignment) *at++ = 0;
    *header_bytes = (size_t)(at - data);
    const float one = 1.0f;
    for (uint64_t i = 0; i < file->data_bytes; i += 4) w_put(&at, &one, 4);
    *bytes = (size_t)(at - data);
    return data;
}

/* A model of one layer with everything that it needs: embedding 8, 2 heads (1 for keys and values),
 * feed-forward 16. */
static inline void w_model(struct w_file *file, const char *arch, uint64_t n_vocab)
{
    static const struct {
        const char *suffix;
        uint32_t number;
    } counts[] = {{"block_count", 1},          {"context_length", 64},
                  {"embedding_length", 8},     {"feed_forward_length", 16},
                  {"attention.head_count", 2}, {"attention.head_count_kv", 1},
                  {"rope.dimension_count", 4}};
    static const struct {
        const char *name;
        uint64_t ne0, ne1;
    } tensors[] = {{"blk.0.attn_norm.weight", 8, 0},   {"blk.0.attn_q.weight", 8, 8},
                   {"blk.0.attn_k.weight", 8, 4},      {"blk.0.attn_v.weight", 8, 4},
                   {"blk.0.attn_output.weight", 8, 8}, {"blk.0.ffn_norm.weight", 8, 0},
                   {"blk.0.ffn_gate.weight", 8, 16},   {"blk.0.ffn_up.weight", 8, 16},
                   {"blk.0.ffn_down.weight", 16, 8},   {"output_norm.weight", 8, 0}};
    char key[96];
    memset(file, 0, sizeof *file);
    memcpy(&file->magic, "GGUF", 4);
    file->version = 3;
    file->alignment = 32;
    w_string(file, "general.architecture", arch);
    w_string(file, "general.name", "tiny");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, counts[i].suffix);
        w_u32(file, key, counts[i].number);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    w_f32(file, key, 1e-5f);
    snprintf(key, sizeof key, "%s.rope.freq_base", arch);
    w_f32(file, key, 10000.0f);
    w_tensor(file, "token_embd.weight", 8, n_vocab);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        w_tensor(file, tensors[i].name, tensors[i].ne0, tensors[i].ne1);
}

/* llama with a sentencepiece vocabulary of six. */
static inline void w_llama(struct w_file *file)
{
    static const char *const tokens[] = {"<unk>", "<s>", "</s>", "<0x0A>", "\xe2\x96\x81", "a"};
    static const float scores[] = {0, 0, 0, 0, -1, -2};
    static const int32_t types[] = {2, 3, 3, 6, 1, 1};
    w_model(file, "llama", 6);
    w_tensor(file, "output.weight", 8, 6);
    w_string(file, "tokenizer.ggml.model", "llama");
    w_strings(file, "tokenizer.ggml.tokens", tokens, 6);
    w_numbers(file, "tokenizer.ggml.scores", W_F32, scores, 6);
    w_numbers(file, "tokenizer.ggml.token_type", W_I32, types, 6);
    w_u32(file, "tokenizer.ggml.bos_token_id", 1);
    w_u32(file, "tokenizer.ggml.eos_token_id", 2);
    w_u32(file, "tokenizer.ggml.padding_token_id", UINT32_MAX);
    w_bool(file, "tokenizer.ggml.add_bos_token", 1);
    w_string(file, "tokenizer.chat_template", "{{ messages }}");
}

/* qwen2 (biases, tied output, linear scaling by 2) with a byte-level BPE vocabulary of five. */
static inline void w_qwen2(struct w_file *file)
{
    static const char *const tokens[] = {"a", "b", "ab",
                                         ("\xc4\xa0"
                                          "a"),
                                         "<|end|>"};
    static const char *const merges[] = {"a b", "\xc4\xa0 a"};
    static const int32_t types[] = {1, 1, 1, 1, 3};
    w_model(file, "qwen2", 5);
    w_tensor(file, "blk.0.attn_q.bias", 8, 0);
    w_tensor(file, "blk.0.attn_k.bias", 4, 0);
    w_tensor(file, "blk.0.attn_v.bias", 4, 0);
    w_string(file, "tokenizer.ggml.model", "gpt2");
    w_string(file, "tokenizer.ggml.pre", "qwen2");
    w_strings(file, "tokenizer.ggml.tokens", tokens, 5);
    w_strings(file, "tokenizer.ggml.merges", merges, 2);
    w_numbers(file, "tokenizer.ggml.token_type", W_I32, types, 5);
    w_u32(file, "tokenizer.ggml.eos_token_id", 4);
    w_f32(file, "qwen2.rope.scaling.factor", 2.0f);
}

/* A byte-level BPE of five tokens. */
static inline void w_vocabulary(struct w_file *file, const char *pre)
{
    static const char *const tokens[] = {"a", "b", "ab", "c", "<|end|>"}, *const merges[] = {"a b"};
    w_string(file, "tokenizer.ggml.model", "gpt2");
    w_string(file, "tokenizer.ggml.pre", pre);
    w_strings(file, "tokenizer.ggml.tokens", tokens, 5);
    w_strings(file, "tokenizer.ggml.merges", merges, 1);
}

/* lfm2: a layer with attention and one with a convolution over three rows. */
static inline void w_lfm2(struct w_file *file)
{
    static const struct {
        const char *name;
        uint64_t ne0, ne1;
    } tensors[] = {
        {"blk.0.attn_q_norm.weight", 4, 0},        {"blk.0.attn_k_norm.weight", 4, 0},
        {"blk.1.attn_norm.weight", 8, 0},          {"blk.1.ffn_norm.weight", 8, 0},
        {"blk.1.ffn_gate.weight", 8, 16},          {"blk.1.ffn_up.weight", 8, 16},
        {"blk.1.ffn_down.weight", 16, 8},          {"blk.1.shortconv.conv.weight", 3, 8},
        {"blk.1.shortconv.in_proj.weight", 8, 24}, {"blk.1.shortconv.out_proj.weight", 8, 8},
        {"token_embd_norm.weight", 8, 0}};
    static const uint32_t kv_heads[] = {1, 0};
    w_model(file, "lfm2", 5);
    w_drop_tensor(file, "output_norm.weight");
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        w_tensor(file, tensors[i].name, tensors[i].ne0, tensors[i].ne1);
    w_u32(file, "lfm2.block_count", 2);
    w_u32(file, "lfm2.shortconv.l_cache", 3);
    w_numbers(file, "lfm2.attention.head_count_kv", W_I32, kv_heads, 2);
    w_vocabulary(file, "lfm2");
}

/* A granitehybrid without experts: Mamba-2 with two heads of four in one group, then attention. */
static inline void w_granitehybrid(struct w_file *file)
{
    static const struct {
        const char *name;
        uint64_t ne0, ne1;
    } tensors[] = {{"token_embd.weight", 8, 5},
                   {"output_norm.weight", 8, 0},
                   {"blk.0.ssm_in.weight", 8, 24},
                   {"blk.0.ssm_conv1d.weight", 4, 14},
                   {"blk.0.ssm_conv1d.bias", 14, 0},
                   {"blk.0.ssm_a", 1, 2},
                   {"blk.0.ssm_d", 1, 2},
                   {"blk.0.ssm_dt.bias", 2, 0},
                   {"blk.0.ssm_norm.weight", 8, 1},
                   {"blk.0.ssm_out.weight", 8, 8},
                   {"blk.1.attn_q.weight", 8, 8},
                   {"blk.1.attn_k.weight", 8, 4},
                   {"blk.1.attn_v.weight", 8, 4},
                   {"blk.1.attn_output.weight", 8, 8}},
      both[] = {{"attn_norm.weight", 8, 0},
                {"ffn_norm.weight", 8, 0},
                {"ffn_gate.weight", 8, 16},
                {"ffn_up.weight", 8, 16},
                {"ffn_down.weight", 16, 8}};
    static const struct {
        const char *key;
        uint32_t number;
    } counts[] = {{"granitehybrid.block_count", 2},        {"granitehybrid.ssm.conv_kernel", 4},
                  {"granitehybrid.ssm.state_size", 3},     {"granitehybrid.ssm.group_count", 1},
                  {"granitehybrid.ssm.time_step_rank", 2}, {"granitehybrid.ssm.inner_size", 8}};
    static const int32_t kv_heads[] = {0, 1};
    char name[96];
    w_model(file, "granitehybrid", 5);
    w_drop(file, "granitehybrid.attention.head_count_kv");
    w_add(w_array(file, "granitehybrid.attention.head_count_kv", W_I32, 2), kv_heads,
          sizeof kv_heads);
    file->n_tensors = 0;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        w_tensor(file, tensors[i].name, tensors[i].ne0, tensors[i].ne1);
    for (size_t i = 0; i < 2 * sizeof both / sizeof *both; i++) {
        snprintf(name, sizeof name, "blk.%zu.%s", i % 2, both[i / 2].name);
        w_tensor(file, name, both[i / 2].ne0, both[i / 2].ne1);
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        w_u32(file, counts[i].key, counts[i].number);
    w_vocabulary(file, "smollm");
}

/* qwen35: a layer with the delta rule, one key head of 4 elements and two value heads of 4, and one
 * with gated attention. */
static inline void w_qwen35(struct w_file *file)
{
    static const struct {
        const char *name;
        uint64_t ne0, ne1;
    } tensors[] = {{"output_norm.weight", 8, 0},
                   {"blk.0.attn_qkv.weight", 8, 16},
                   {"blk.0.attn_gate.weight", 8, 8},
                   {"blk.0.ssm_beta.weight", 8, 2},
                   {"blk.0.ssm_alpha.weight", 8, 2},
                   {"blk.0.ssm_conv1d.weight", 4, 16},
                   {"blk.0.ssm_a", 2, 0},
                   {"blk.0.ssm_dt.bias", 2, 0},
                   {"blk.0.ssm_norm.weight", 4, 0},
                   {"blk.0.ssm_out.weight", 8, 8},
                   {"blk.1.attn_q.weight", 8, 16},
                   {"blk.1.attn_k.weight", 8, 4},
                   {"blk.1.attn_v.weight", 8, 4},
                   {"blk.1.attn_output.weight", 8, 8},
                   {"blk.1.attn_q_norm.weight", 4, 0},
                   {"blk.1.attn_k_norm.weight", 4, 0}},
      both[] = {{"attn_norm.weight", 8, 0},
                {"post_attention_norm.weight", 8, 0},
                {"ffn_gate.weight", 8, 16},
                {"ffn_up.weight", 8, 16},
                {"ffn_down.weight", 16, 8}};
    static const struct {
        const char *key;
        uint32_t number;
    } counts[] = {{"qwen35.block_count", 2},     {"qwen35.full_attention_interval", 2},
                  {"qwen35.ssm.conv_kernel", 4}, {"qwen35.ssm.state_size", 4},
                  {"qwen35.ssm.group_count", 1}, {"qwen35.ssm.time_step_rank", 2},
                  {"qwen35.ssm.inner_size", 8}};
    char name[96];
    w_model(file, "qwen35", 5);
    file->n_tensors = 0;
    w_tensor(file, "token_embd.weight", 8, 5);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        w_tensor(file, tensors[i].name, tensors[i].ne0, tensors[i].ne1);
    for (size_t i = 0; i < 2 * sizeof both / sizeof *both; i++) {
        snprintf(name, sizeof name, "blk.%zu.%s", i % 2, both[i / 2].name);
        w_tensor(file, name, both[i / 2].ne0, both[i / 2].ne1);
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        w_u32(file, counts[i].key, counts[i].number);
    w_vocabulary(file, "qwen35");
}

/* mistral3: YaRN, a window, queries that grow with their position. */
static inline void w_mistral3(struct w_file *file)
{
    w_model(file, "mistral3", 5);
    w_string(file, "mistral3.rope.scaling.type", "yarn");
    w_f32(file, "mistral3.rope.scaling.factor", 4);
    w_u32(file, "mistral3.rope.scaling.original_context_length", 16);
    w_f32(file, "mistral3.rope.scaling.yarn_log_multiplier", 1);
    w_f32(file, "mistral3.attention.temperature_scale", 0.1f);
    w_u32(file, "mistral3.attention.sliding_window", 32);
    w_vocabulary(file, "tekken");
}

/* cohere2: one norm for both halves of a layer, a window by layer. */
static inline void w_cohere2(struct w_file *file)
{
    static const unsigned char flag = 1;
    w_model(file, "cohere2", 5);
    w_drop_tensor(file, "blk.0.ffn_norm.weight");
    w_drop(file, "cohere2.attention.layer_norm_rms_epsilon");
    w_f32(file, "cohere2.attention.layer_norm_epsilon", 1e-5f);
    w_f32(file, "cohere2.logit_scale", 0.25f);
    w_u32(file, "cohere2.attention.sliding_window", 32);
    w_add(w_array(file, "cohere2.attention.sliding_window_pattern", W_BOOL, 1), &flag, 1);
    w_vocabulary(file, "gpt-2");
}

/* starcoder2: norms with biases, and no gate. */
static inline void w_starcoder2(struct w_file *file)
{
    static const struct {
        const char *name;
        uint64_t ne0;
    } biases[] = {
        {"output_norm.bias", 8},       {"blk.0.attn_norm.bias", 8}, {"blk.0.ffn_norm.bias", 8},
        {"blk.0.attn_q.bias", 8},      {"blk.0.attn_k.bias", 4},    {"blk.0.attn_v.bias", 4},
        {"blk.0.attn_output.bias", 8}, {"blk.0.ffn_up.bias", 16},   {"blk.0.ffn_down.bias", 8}};
    w_model(file, "starcoder2", 5);
    w_drop_tensor(file, "blk.0.ffn_gate.weight");
    for (size_t i = 0; i < sizeof biases / sizeof *biases; i++)
        w_tensor(file, biases[i].name, biases[i].ne0, 0);
    w_drop(file, "starcoder2.attention.layer_norm_rms_epsilon");
    w_f32(file, "starcoder2.attention.layer_norm_epsilon", 1e-5f);
    w_vocabulary(file, "starcoder");
}

/* OLMo 3: olmo2 with a window, norms behind the halves of a layer alone. */
static inline void w_olmo3(struct w_file *file)
{
    w_model(file, "olmo2", 5);
    w_drop_tensor(file, "blk.0.attn_norm.weight");
    w_drop_tensor(file, "blk.0.ffn_norm.weight");
    w_tensor(file, "blk.0.attn_q_norm.weight", 8, 0);
    w_tensor(file, "blk.0.attn_k_norm.weight", 4, 0);
    w_tensor(file, "blk.0.post_attention_norm.weight", 8, 0);
    w_tensor(file, "blk.0.post_ffw_norm.weight", 8, 0);
    w_u32(file, "olmo2.attention.sliding_window", 32);
    w_u32(file, "olmo2.attention.sliding_window_pattern", 4);
    w_f32(file, "olmo2.rope.freq_base_swa", 10000);
    w_vocabulary(file, "dbrx");
}

/* glm4: norms on both sides, gate and up as one tensor. */
static inline void w_glm4(struct w_file *file)
{
    w_model(file, "glm4", 5);
    w_drop_tensor(file, "blk.0.ffn_gate.weight");
    w_find(file, "blk.0.ffn_up.weight")->ne[1] = 32;
    w_tensor(file, "blk.0.post_attention_norm.weight", 8, 0);
    w_tensor(file, "blk.0.post_ffw_norm.weight", 8, 0);
    w_vocabulary(file, "glm4");
}

#endif
