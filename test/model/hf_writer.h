/* A small model folder as texts: every file is a string that a test changes by replacing a part of
 * it. */
#ifndef RF_TEST_HF_WRITER_H
#define RF_TEST_HF_WRITER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HF_CONFIG,
    HF_GENERATION,
    HF_TOKENIZER_CONFIG,
    HF_TOKENIZER,
    HF_SENTENCEPIECE,
    HF_INDEX,
    HF_HEADER,  /* header of model.safetensors, or of the first shard */
    HF_HEADER2, /* header of the second shard */
    HF_FILES
};

static const char *const hf_names[HF_FILES] = {
    "config.json",       "generation_config.json", "tokenizer_config.json",
    "tokenizer.json",    "tokenizer.model",        "model.safetensors.index.json",
    "model.safetensors", "model-2.safetensors"};

struct hf_text {
    char data[6000];
    size_t bytes; /* 0: the file is not there */
};

struct hf_model {
    struct hf_text texts[HF_FILES];
    size_t data_bytes[2]; /* behind the headers */
    int64_t header_extra; /* claimed beyond the header's length */
};

static inline void hf_set(struct hf_model *model, int file, const char *text)
{
    model->texts[file].bytes =
        (size_t)snprintf(model->texts[file].data, sizeof model->texts[file].data, "%s", text);
}

/* 1 if there was something to replace. The text may hold zero bytes. */
static inline int hf_replace(struct hf_text *text, const char *from, const char *to)
{
    size_t n = strlen(from), m = strlen(to), at = 0;
    while (at + n <= text->bytes && memcmp(text->data + at, from, n) != 0) at++;
    if (at + n > text->bytes || text->bytes - n + m >= sizeof text->data) return 0;
    memmove(text->data + at + m, text->data + at + n, text->bytes - at - n);
    memcpy(text->data + at, to, m);
    text->bytes += m - n;
    return 1;
}

static inline void hf_tensor(struct hf_model *model, int shard, const char *name, size_t rows,
                             size_t columns)
{
    struct hf_text *text = &model->texts[HF_HEADER + shard];
    size_t bytes = 4 * rows * (columns ? columns : 1), at = model->data_bytes[shard];
    char shape[48];
    if (columns)
        snprintf(shape, sizeof shape, "%zu,%zu", rows, columns);
    else
        snprintf(shape, sizeof shape, "%zu", rows);
    text->bytes +=
        (size_t)snprintf(text->data + text->bytes, sizeof text->data - text->bytes,
                         "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                         text->bytes > 1 ? "," : "", name, shape, at, at + bytes);
    model->data_bytes[shard] += bytes;
}

/* Writes the tensors of one layer; with two shards, every second one lies in the second. */
static inline void hf_tensors(struct hf_model *model, int n_shards, size_t n_vocab, int bias)
{
    static const struct {
        const char *name;
        size_t rows, columns;
    } tensors[] = {{"model.norm.weight", 8, 0},
                   {"model.layers.0.input_layernorm.weight", 8, 0},
                   {"model.layers.0.self_attn.q_proj.weight", 8, 8},
                   {"model.layers.0.self_attn.k_proj.weight", 4, 8},
                   {"model.layers.0.self_attn.v_proj.weight", 4, 8},
                   {"model.layers.0.self_attn.o_proj.weight", 8, 8},
                   {"model.layers.0.post_attention_layernorm.weight", 8, 0},
                   {"model.layers.0.mlp.gate_proj.weight", 16, 8},
                   {"model.layers.0.mlp.up_proj.weight", 16, 8},
                   {"model.layers.0.mlp.down_proj.weight", 8, 16}};
    for (int shard = 0; shard < n_shards; shard++) hf_set(model, HF_HEADER + shard, "{");
    hf_tensor(model, 0, "model.embed_tokens.weight", n_vocab, 8);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        hf_tensor(model, (int)i % n_shards, tensors[i].name, tensors[i].rows, tensors[i].columns);
    if (bias) {
        hf_tensor(model, 0, "model.layers.0.self_attn.q_proj.bias", 8, 0);
        hf_tensor(model, 0, "model.layers.0.self_attn.k_proj.bias", 4, 0);
        hf_tensor(model, 0, "model.layers.0.self_attn.v_proj.bias", 4, 0);
    }
    for (int shard = 0; shard < n_shards; shard++) {
        struct hf_text *text = &model->texts[HF_HEADER + shard];
        text->bytes +=
            (size_t)snprintf(text->data + text->bytes, sizeof text->data - text->bytes, "}");
    }
}

/* Qwen2 with a byte-level BPE, tied, in one file; the embedding has a row more than there are
 * tokens. */
static inline void hf_qwen2(struct hf_model *model)
{
    memset(model, 0, sizeof *model);
    hf_set(model, HF_CONFIG,
           "{\"architectures\":[\"Qwen2ForCausalLM\"],\"model_type\":\"qwen2\",\"hidden_size\":8,"
           "\"intermediate_size\":16,\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_"
           "value_heads\":1,"
           "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-06,\"rope_theta\":1000000.0,"
           "\"hidden_act\":\"silu\","
           "\"tie_word_embeddings\":true,\"use_sliding_window\":false,\"sliding_window\":16,\"bos_"
           "token_id\":4,"
           "\"eos_token_id\":4}");
    hf_set(model, HF_GENERATION, "{\"eos_token_id\":[5,4]}");
    hf_set(model, HF_TOKENIZER_CONFIG,
           "{\"add_bos_token\":false,\"bos_token\":null,\"eos_token\":\"<|end|>\",\"pad_token\":{"
           "\"content\":\"<|pad|>\"},"
           "\"chat_template\":\"{{ messages }}\"}");
    hf_set(model, HF_TOKENIZER,
           "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":4,\"content\":\"<|pad|>\",\"special\":"
           "true,\"lstrip\":false},"
           "{\"id\":5,\"content\":\"<|end|>\",\"special\":true},{\"id\":6,\"content\":\"<tool>\","
           "\"special\":false}],"
           "\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\","
           "\"pretokenizers\":["
           "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^"
           "\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{"
           "L}+|"
           "\\\\p{N}| "
           "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},"
           "\"behavior\":\"Isolated\",\"invert\":false},"
           "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":false,\"use_"
           "regex\":false}]},"
           "\"post_processor\":{\"type\":\"ByteLevel\"},"
           "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_"
           "prefix\":\"\","
           "\"end_of_word_suffix\":\"\",\"byte_fallback\":false,\"vocab\":{\"a\":0,\"b\":1,\"ab\":"
           "2,\"\\u0120a\":3},"
           "\"merges\":[\"a b\",[\"\\u0120\",\"a\"]]}}");
    hf_tensors(model, 1, 8, 1);
}

/* Llama 3 style scaling, two shards, a sentencepiece model. */
static inline void hf_llama(struct hf_model *model)
{
    /* Pieces <unk> (unknown), <s>, </s> (control), <0x0A> (byte), U+2581, "a"; trainer_spec: BPE;
     * normalizer_spec. */
    static const char proto[] = "\x0a\x0e\x0a\x05<unk>\x15\x00\x00\x00\x00\x18\x02"
                                "\x0a\x07\x0a\x03<s>\x18\x03"
                                "\x0a\x08\x0a\x04</s>\x18\x03"
                                "\x0a\x0a\x0a\x06<0x0A>\x18\x06"
                                "\x0a\x0a\x0a\x03\xe2\x96\x81\x15\x00\x00\x80\xbf"
                                "\x0a\x08\x0a\x01"
                                "a\x15\x00\x00\x00\xc0"
                                "\x12\x02\x18\x02"
                                "\x1a\x04\x18\x01\x20\x00";
    memset(model, 0, sizeof *model);
    hf_set(
        model, HF_CONFIG,
        "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":8,\"intermediate_size\":16,"
        "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":"
        "4,"
        "\"max_position_embeddings\":131072,\"rms_norm_eps\":1e-05,\"tie_word_embeddings\":false,"
        "\"rope_theta\":500000.0,\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_"
        "freq_factor\":1.0,"
        "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192}}");
    hf_set(model, HF_TOKENIZER_CONFIG,
           "{\"added_tokens_decoder\":{\"0\":{\"content\":\"<unk>\",\"special\":true},"
           "\"6\":{\"content\":\"<|im_end|>\",\"special\":true}},\"eos_token\":\"<|im_end|>\","
           "\"add_bos_token\":true,"
           "\"chat_template\":[{\"name\":\"tool\",\"template\":\"x\"},{\"name\":\"default\","
           "\"template\":\"y\"}]}");
    memcpy(model->texts[HF_SENTENCEPIECE].data, proto, sizeof proto - 1);
    model->texts[HF_SENTENCEPIECE].bytes = sizeof proto - 1;
    hf_set(model, HF_INDEX,
           "{\"metadata\":{},\"weight_map\":{\"model.norm.weight\":\"model.safetensors\","
           "\"lm_head.weight\":\"model-2.safetensors\",\"model.embed_tokens.weight\":\"model."
           "safetensors\"}}");
    hf_tensors(model, 2, 8, 0);
    model->texts[HF_HEADER2].bytes--;
    hf_tensor(model, 1, "lm_head.weight", 8, 8);
    hf_tensor(model, 1, "model.layers.0.self_attn.rotary_emb.inv_freq", 2, 0);
    model->texts[HF_HEADER2].data[model->texts[HF_HEADER2].bytes++] = '}';
}

/* Lfm2, tied: a layer with attention and one with a convolution over three rows; qwen2's
 * vocabulary. */
static inline void hf_lfm2(struct hf_model *model)
{
    static const struct {
        const char *name;
        size_t rows, columns;
    } tensors[] = {{"model.embed_tokens.weight", 8, 8},
                   {"model.embedding_norm.weight", 8, 0},
                   {"model.layers.0.self_attn.q_proj.weight", 8, 8},
                   {"model.layers.0.self_attn.k_proj.weight", 4, 8},
                   {"model.layers.0.self_attn.v_proj.weight", 4, 8},
                   {"model.layers.0.self_attn.out_proj.weight", 8, 8},
                   {"model.layers.0.self_attn.q_layernorm.weight", 4, 0},
                   {"model.layers.0.self_attn.k_layernorm.weight", 4, 0},
                   {"model.layers.1.conv.in_proj.weight", 24, 8},
                   {"model.layers.1.conv.conv.weight", 8, 3},
                   {"model.layers.1.conv.out_proj.weight", 8, 8}};
    static const struct {
        const char *name;
        size_t rows, columns;
    } both[] = {{"operator_norm.weight", 8, 0},
                {"ffn_norm.weight", 8, 0},
                {"feed_forward.w1.weight", 16, 8},
                {"feed_forward.w2.weight", 8, 16},
                {"feed_forward.w3.weight", 16, 8}};
    hf_qwen2(model);
    hf_set(model, HF_CONFIG,
           "{\"architectures\":[\"Lfm2ForCausalLM\"],\"model_type\":\"lfm2\",\"hidden_size\":8,"
           "\"block_ff_dim\":24,\"block_multiple_of\":8,\"num_hidden_layers\":2,"
           "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"full_attn_idxs\":[0],"
           "\"conv_L_cache\":3,\"conv_bias\":false,\"max_position_embeddings\":64,"
           "\"norm_eps\":1e-05,\"eos_token_id\":5,\"tie_embedding\":true}");
    hf_set(model, HF_HEADER, "{");
    model->data_bytes[0] = 0;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        hf_tensor(model, 0, tensors[i].name, tensors[i].rows, tensors[i].columns);
    for (size_t i = 0; i < 2 * sizeof both / sizeof *both; i++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.%zu.%s", i % 2, both[i / 2].name);
        hf_tensor(model, 0, name, both[i / 2].rows, both[i / 2].columns);
    }
    struct hf_text *header = &model->texts[HF_HEADER];
    header->data[header->bytes++] = '}';
    hf_replace(header, "[8,3]", "[8,1,3]");
}

/* Qwen3.5, tied: a layer with the delta rule, one key head of 4 elements and two value heads of 4,
 * and one with gated attention; qwen2's vocabulary. */
static inline void hf_qwen35(struct hf_model *model)
{
    static const struct {
        const char *name;
        size_t rows, columns;
    } tensors[] = {{"model.embed_tokens.weight", 8, 8},
                   {"model.norm.weight", 8, 0},
                   {"model.layers.0.linear_attn.in_proj_qkv.weight", 16, 8},
                   {"model.layers.0.linear_attn.in_proj_z.weight", 8, 8},
                   {"model.layers.0.linear_attn.in_proj_b.weight", 2, 8},
                   {"model.layers.0.linear_attn.in_proj_a.weight", 2, 8},
                   {"model.layers.0.linear_attn.conv1d.weight", 16, 4},
                   {"model.layers.0.linear_attn.A_log", 2, 0},
                   {"model.layers.0.linear_attn.dt_bias", 2, 0},
                   {"model.layers.0.linear_attn.norm.weight", 4, 0},
                   {"model.layers.0.linear_attn.out_proj.weight", 8, 8},
                   {"model.layers.1.self_attn.q_proj.weight", 16, 8},
                   {"model.layers.1.self_attn.k_proj.weight", 4, 8},
                   {"model.layers.1.self_attn.v_proj.weight", 4, 8},
                   {"model.layers.1.self_attn.o_proj.weight", 8, 8},
                   {"model.layers.1.self_attn.q_norm.weight", 4, 0},
                   {"model.layers.1.self_attn.k_norm.weight", 4, 0}},
      both[] = {{"input_layernorm.weight", 8, 0},
                {"post_attention_layernorm.weight", 8, 0},
                {"mlp.gate_proj.weight", 16, 8},
                {"mlp.up_proj.weight", 16, 8},
                {"mlp.down_proj.weight", 8, 16}};
    hf_qwen2(model);
    hf_set(model, HF_CONFIG,
           "{\"architectures\":[\"Qwen3_5ForCausalLM\"],\"model_type\":\"qwen3_5_text\","
           "\"hidden_size\":8,\"intermediate_size\":16,\"num_hidden_layers\":2,"
           "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":4,"
           "\"full_attention_interval\":2,\"partial_rotary_factor\":0.5,"
           "\"linear_num_key_heads\":1,\"linear_num_value_heads\":2,"
           "\"linear_key_head_dim\":4,\"linear_value_head_dim\":4,"
           "\"linear_conv_kernel_dim\":4,\"max_position_embeddings\":64,"
           "\"eos_token_id\":5,\"tie_word_embeddings\":true}");
    hf_set(model, HF_HEADER, "{");
    model->data_bytes[0] = 0;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        hf_tensor(model, 0, tensors[i].name, tensors[i].rows, tensors[i].columns);
    for (size_t i = 0; i < 2 * sizeof both / sizeof *both; i++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.%zu.%s", i % 2, both[i / 2].name);
        hf_tensor(model, 0, name, both[i / 2].rows, both[i / 2].columns);
    }
    struct hf_text *header = &model->texts[HF_HEADER];
    header->data[header->bytes++] = '}';
    hf_replace(header, "[16,4]", "[16,1,4]");
}

/* The bytes of a safetensors file (free them). */
static inline unsigned char *hf_shard(const struct hf_model *model, int shard, size_t *bytes)
{
    const struct hf_text *text = &model->texts[HF_HEADER + shard];
    *bytes = 8 + text->bytes + model->data_bytes[shard];
    unsigned char *data = calloc(1, *bytes);
    if (!data) abort();
    uint64_t length = text->bytes + (uint64_t)(shard ? 0 : model->header_extra);
    memcpy(data, &length, 8);
    memcpy(data + 8, text->data, text->bytes);
    return data;
}

#endif
