/* Small draft heads in both containers for a target of width 16, 5 layers and 200 tokens: the lists
 * of gguf_writer.h and the texts of hf_writer.h, which a test edits before they become bytes. */
#ifndef RF_TEST_HEAD_WRITER_H
#define RF_TEST_HEAD_WRITER_H

#include "model/gguf_writer.h"
#include "model/hf_writer.h"

enum { HEAD_WIDTH = 16, HEAD_LAYERS = 5, HEAD_VOCAB = 200, HEAD_ROWS = 10, HEAD_CHOSEN = 8 };

/* Heads of 8 elements, 2 (1 for keys and values); feed-forward 32. */
static inline void w_head(struct w_file *file)
{
    static const struct {
        const char *suffix;
        uint32_t number;
    } counts[] = {{"block_count", 1},
                  {"context_length", 64},
                  {"embedding_length", HEAD_WIDTH},
                  {"feed_forward_length", 32},
                  {"attention.head_count", 2},
                  {"attention.head_count_kv", 1},
                  {"attention.key_length", 8},
                  {"rope.dimension_count", 8},
                  {"vocab_size", HEAD_VOCAB},
                  {"target_hidden_size", HEAD_WIDTH}};
    static const struct {
        const char *name;
        uint64_t ne0, ne1;
    } tensors[] = {{"fc.weight", 48, 16},
                   {"blk.0.attn_norm.weight", 16, 0},
                   {"blk.0.attn_norm_2.weight", 16, 0},
                   {"blk.0.attn_q.weight", 32, 16},
                   {"blk.0.attn_k.weight", 32, 8},
                   {"blk.0.attn_v.weight", 32, 8},
                   {"blk.0.attn_output.weight", 16, 16},
                   {"blk.0.ffn_norm.weight", 16, 0},
                   {"blk.0.ffn_gate.weight", 16, 32},
                   {"blk.0.ffn_up.weight", 16, 32},
                   {"blk.0.ffn_down.weight", 32, 16},
                   {"output_norm.weight", 16, 0}};
    static const int32_t layers[] = {1, 2, 4};
    char key[96];
    memset(file, 0, sizeof *file);
    memcpy(&file->magic, "GGUF", 4);
    file->version = 3;
    file->alignment = 32;
    w_string(file, "general.architecture", "eagle3");
    w_string(file, "general.name", "tiny head");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        snprintf(key, sizeof key, "eagle3.%s", counts[i].suffix);
        w_u32(file, key, counts[i].number);
    }
    w_f32(file, "eagle3.attention.layer_norm_rms_epsilon", 1e-5f);
    w_f32(file, "eagle3.rope.freq_base", 10000.0f);
    w_bool(file, "eagle3.norm_before_residual", 1);
    w_numbers(file, "eagle3.target_layers", W_I32, layers, 3);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        w_tensor(file, tensors[i].name, tensors[i].ne0, tensors[i].ne1);
}

/* With output rows of its own, as llama.cpp's converter writes it. */
static inline void w_head_ids(struct w_file *file)
{
    w_head(file);
    w_tensor(file, "output.weight", HEAD_WIDTH, HEAD_ROWS);
    w_tensor(file, "d2t", HEAD_ROWS, 0);
    w_find(file, "d2t")->type = W_TENSOR_I64;
    w_place(file);
}

/* With rows of its target, as training writes it. */
static inline void w_head_rows(struct w_file *file)
{
    static const uint32_t rows[HEAD_CHOSEN] = {0, 1, 2, 7, 64, 65, 130, 199};
    w_head(file);
    w_numbers(file, "riffle.head.output_rows", W_U32, rows, HEAD_CHOSEN);
    w_string(file, "riffle.head.recipe", "no training");
}

/* The bytes of the file (free them). Row i of the output is the token ids[i]. */
static inline unsigned char *w_head_bytes(struct w_file *file, const int64_t *ids, size_t n,
                                          size_t *bytes)
{
    size_t header;
    unsigned char *data = w_bytes(file, bytes, &header);
    const struct w_tensor *tensor = w_find(file, "d2t");
    for (size_t i = 0; tensor && i < n && i < tensor->ne[0]; i++)
        memcpy(data + header + tensor->offset + 8 * i, &ids[i], 8);
    return data;
}

static inline void hf_head_tensors(struct hf_model *model, const char *layer)
{
    static const struct {
        const char *name;
        size_t rows, columns;
        int in_layer;
    } tensors[] = {{"fc.weight", 16, 48, 0},
                   {"input_layernorm.weight", 16, 0, 1},
                   {"hidden_norm.weight", 16, 0, 1},
                   {"self_attn.q_proj.weight", 16, 32, 1},
                   {"self_attn.k_proj.weight", 8, 32, 1},
                   {"self_attn.v_proj.weight", 8, 32, 1},
                   {"self_attn.o_proj.weight", 16, 16, 1},
                   {"post_attention_layernorm.weight", 16, 0, 1},
                   {"mlp.gate_proj.weight", 32, 16, 1},
                   {"mlp.up_proj.weight", 32, 16, 1},
                   {"mlp.down_proj.weight", 16, 32, 1},
                   {"norm.weight", 16, 0, 0},
                   {"lm_head.weight", HEAD_ROWS, 16, 0}};
    struct hf_text *header = &model->texts[HF_HEADER];
    hf_set(model, HF_HEADER, "{");
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        char name[96];
        snprintf(name, sizeof name, "%s%s", tensors[i].in_layer ? layer : "", tensors[i].name);
        hf_tensor(model, 0, name, tensors[i].rows, tensors[i].columns);
    }
    size_t at = model->data_bytes[0], ids = at + 8 * HEAD_ROWS, end = ids + HEAD_VOCAB;
    header->bytes +=
        (size_t)snprintf(header->data + header->bytes, sizeof header->data - header->bytes,
                         ",\"d2t\":{\"dtype\":\"I64\",\"shape\":[%d],\"data_offsets\":[%zu,%zu]},"
                         "\"t2d\":{\"dtype\":\"BOOL\",\"shape\":[%d],\"data_offsets\":[%zu,%zu]}}",
                         HEAD_ROWS, at, ids, HEAD_VOCAB, ids, end);
    model->data_bytes[0] = end;
}

#define HF_HEAD_LAYER                                                                      \
    "\"hidden_size\":16,\"intermediate_size\":32,\"num_attention_heads\":2,"               \
    "\"num_key_value_heads\":1,\"head_dim\":8,\"num_hidden_layers\":1,\"vocab_size\":200," \
    "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-05,\"model_type\":\"llama\""

/* EAGLE's layout. The offsets in d2t are 0, so row i is token i. */
static inline void hf_head_eagle(struct hf_model *model)
{
    memset(model, 0, sizeof *model);
    hf_set(model, HF_CONFIG,
           "{\"architectures\":[\"LlamaForCausalLMEagle3\"],\"draft_vocab_size\":10,"
           "\"eagle_aux_hidden_state_layer_ids\":[1,2,4]," HF_HEAD_LAYER "}");
    hf_head_tensors(model, "midlayer.");
}

static inline void hf_head_speculators(struct hf_model *model)
{
    memset(model, 0, sizeof *model);
    hf_set(model, HF_CONFIG,
           "{\"architectures\":[\"Eagle3Speculator\"],\"speculators_model_type\":\"eagle3\","
           "\"draft_vocab_size\":10,\"eagle_aux_hidden_state_layer_ids\":[1,2,4],"
           "\"norm_before_residual\":true,\"transformer_layer_config\":{" HF_HEAD_LAYER "}}");
    hf_head_tensors(model, "layers.0.");
}

/* The tensors of a head that was trained with a target of such sizes, a qwen35. Its heads have 8
 * elements, 2 (1 for keys and values); feed-forward 24. */
static const struct {
    const char *gguf, *hf; /* behind "blk.5." and "mtp." */
    uint64_t ne0, ne1;
} w_mtp_tensors[] = {
    {"nextn.eh_proj.weight", "fc.weight", 32, 16},
    {"nextn.enorm.weight", "pre_fc_norm_embedding.weight", 16, 0},
    {"nextn.hnorm.weight", "pre_fc_norm_hidden.weight", 16, 0},
    {"nextn.shared_head_norm.weight", "norm.weight", 16, 0},
    {"attn_norm.weight", "layers.0.input_layernorm.weight", 16, 0},
    {"attn_q.weight", "layers.0.self_attn.q_proj.weight", 16, 32},
    {"attn_k.weight", "layers.0.self_attn.k_proj.weight", 16, 8},
    {"attn_v.weight", "layers.0.self_attn.v_proj.weight", 16, 8},
    {"attn_output.weight", "layers.0.self_attn.o_proj.weight", 16, 16},
    {"attn_q_norm.weight", "layers.0.self_attn.q_norm.weight", 8, 0},
    {"attn_k_norm.weight", "layers.0.self_attn.k_norm.weight", 8, 0},
    {"post_attention_norm.weight", "layers.0.post_attention_layernorm.weight", 16, 0},
    {"ffn_gate.weight", "layers.0.mlp.gate_proj.weight", 16, 24},
    {"ffn_up.weight", "layers.0.mlp.up_proj.weight", 16, 24},
    {"ffn_down.weight", "layers.0.mlp.down_proj.weight", 24, 16}};
enum { N_MTP_TENSORS = sizeof w_mtp_tensors / sizeof *w_mtp_tensors };

/* A file of the head alone, as llama.cpp's converter writes it. */
static inline void w_head_mtp(struct w_file *file)
{
    static const struct {
        const char *key;
        uint32_t number;
    } counts[] = {{"qwen35.block_count", HEAD_LAYERS + 1},
                  {"qwen35.nextn_predict_layers", 1},
                  {"qwen35.embedding_length", HEAD_WIDTH},
                  {"qwen35.feed_forward_length", 24},
                  {"qwen35.attention.key_length", 8},
                  {"qwen35.full_attention_interval", 3},
                  {"qwen35.ssm.conv_kernel", 4},
                  {"qwen35.ssm.state_size", 4},
                  {"qwen35.ssm.group_count", 1},
                  {"qwen35.ssm.time_step_rank", 2},
                  {"qwen35.ssm.inner_size", 8}};
    char name[96];
    w_model(file, "qwen35", HEAD_VOCAB);
    file->n_tensors = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        w_u32(file, counts[i].key, counts[i].number);
    w_tensor(file, "token_embd.weight", HEAD_WIDTH, HEAD_VOCAB);
    w_tensor(file, "output_norm.weight", HEAD_WIDTH, 0);
    for (size_t i = 0; i < N_MTP_TENSORS; i++) {
        snprintf(name, sizeof name, "blk.5.%s", w_mtp_tensors[i].gguf);
        w_tensor(file, name, w_mtp_tensors[i].ne0, w_mtp_tensors[i].ne1);
    }
}

/* A folder with the head's tensors, and one of the target's that nobody reads. */
static inline void hf_head_mtp(struct hf_model *model)
{
    memset(model, 0, sizeof *model);
    hf_set(model, HF_CONFIG,
           "{\"architectures\":[\"Qwen3_5ForCausalLM\"],\"model_type\":\"qwen3_5_text\","
           "\"hidden_size\":16,\"intermediate_size\":24,\"num_hidden_layers\":5,"
           "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":8,"
           "\"full_attention_interval\":3,\"partial_rotary_factor\":0.5,"
           "\"linear_num_key_heads\":1,\"linear_num_value_heads\":2,"
           "\"linear_key_head_dim\":4,\"linear_value_head_dim\":4,"
           "\"linear_conv_kernel_dim\":4,\"max_position_embeddings\":64}");
    hf_set(model, HF_HEADER, "{");
    hf_tensor(model, 0, "model.norm.weight", 16, 0);
    for (size_t i = 0; i < N_MTP_TENSORS; i++) {
        char name[96];
        uint64_t rows = w_mtp_tensors[i].ne1 ? w_mtp_tensors[i].ne1 : w_mtp_tensors[i].ne0;
        snprintf(name, sizeof name, "mtp.%s", w_mtp_tensors[i].hf);
        hf_tensor(model, 0, name, (size_t)rows,
                  w_mtp_tensors[i].ne1 ? (size_t)w_mtp_tensors[i].ne0 : 0);
    }
    struct hf_text *header = &model->texts[HF_HEADER];
    header->data[header->bytes++] = '}';
}

#endif
