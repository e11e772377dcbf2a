/* The reader of Hugging Face folders: good ones give what they say, bad ones an error that names
 * file and thing. Bad folders are made here: a small good one with one text in one file replaced.
 */
#define _DEFAULT_SOURCE
#include <math.h>
#include <sys/stat.h>

#include "model/hf.h"
#include "model/hf_writer.h"
#include "model/letters.h"
#include "model/open.h"
#include "model/probe.h"
#include "platform/memory.h"
#include "support/check.h"

static char folder[512];

static void remove_files(void)
{
    for (int i = 0; i < HF_FILES; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", folder, hf_names[i]);
        remove(path);
    }
}

static void write_model(const struct hf_model *model)
{
    remove_files();
    for (int i = 0; i < HF_FILES; i++) {
        char path[600];
        size_t bytes = model->texts[i].bytes;
        if (bytes == 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, hf_names[i]);
        if (i >= HF_HEADER) {
            unsigned char *data = hf_shard(model, i - HF_HEADER, &bytes);
            CHECK_INT(probe_write(path, data, bytes), 0);
            free(data);
        } else {
            CHECK_INT(probe_write(path, model->texts[i].data, bytes), 0);
        }
    }
    /* A folder with an index has no single file of the plain name: the first shard is renamed. */
    if (model->texts[HF_INDEX].bytes) {
        char from[600], to[600];
        snprintf(from, sizeof from, "%s/model.safetensors", folder);
        snprintf(to, sizeof to, "%s/model-1.safetensors", folder);
        CHECK_INT(rename(from, to), 0);
    }
}

static void use_shards(struct hf_model *model)
{
    while (hf_replace(&model->texts[HF_INDEX], "\"model.safetensors\"", "\"model-1.safetensors\""))
        continue;
}

static int open_folder(const char *path, struct probe *probe, struct rf_error *error)
{
    struct rf_allocator allocator = probe_allocator(probe);
    struct rf_source *source = NULL;
    *error = (struct rf_error){0};
    int code = rf_source_open(&source, path, NULL, &allocator, error);
    CHECK(code == 0 || (source == NULL && error->code == code));
    rf_source_close(source);
    CHECK_MSG(probe->live == 0, "%ld blocks are left after \"%s\"", probe->live, error->text);
    CHECK_MSG(probe_mappings(folder) <= 0, "a mapping is left after \"%s\"", error->text);
    return code;
}

struct mutation {
    const char *sentence;
    int code, file;
    const char *from, *to; /* from is NULL: the file is removed */
};

#define F RF_ERR_FORMAT
#define U RF_ERR_UNSUPPORTED
#define IO RF_ERR_IO

static const struct mutation qwen2_mutations[] = {
    {"config.json is missing", IO, HF_CONFIG, NULL, NULL},
    {"config.json: line 1", F, HF_CONFIG, "{", "["},
    {"config.json: line 1", F, HF_CONFIG, "1e-06", "NaN"},
    {"rms_norm_eps is not a number", F, HF_CONFIG, "1e-06", "1e999"},
    {"hidden_size is not", F, HF_CONFIG, "\"hidden_act\"", "\"hidden_size\""},
    {"\"GPT2LMHeadModel\" is not known", U, HF_CONFIG, "Qwen2ForCausalLM", "GPT2LMHeadModel"},
    {"architectures is missing", F, HF_CONFIG,
     "\"architectures\":[\"Qwen2ForCausalLM\"],\"model_type\":\"qwen2\",", ""},
    {"embed_tokens.weight is [8, 8, 1, 1], but the parameters ask for [4096, 8]", F, HF_CONFIG,
     "hidden_size", "hidden_sizes"},
    {"hidden_size is not a whole number", F, HF_CONFIG, "\"hidden_size\":8", "\"hidden_size\":8.5"},
    {"hidden_size is not a whole number", F, HF_CONFIG, "\"hidden_size\":8", "\"hidden_size\":-8"},
    {"hidden_size is not a whole number", F, HF_CONFIG, "\"hidden_size\":8",
     "\"hidden_size\":\"8\""},
    {"num_hidden_layers is not a whole number", F, HF_CONFIG, "layers\":1", "layers\":99999999999"},
    {"model.layers.1.input_layernorm.weight is missing", F, HF_CONFIG, "layers\":1",
     "layers\":2147483647"},
    {"does not divide hidden_size", F, HF_CONFIG, "attention_heads\":2", "attention_heads\":3"},
    {"do not divide", F, HF_CONFIG, "key_value_heads\":1", "key_value_heads\":5"},
    {"model.layers.0.self_attn.k_proj.weight is [8, 4, 1, 1]", F, HF_CONFIG, "key_value_heads\":1",
     "key_value_heads\":2"},
    {"epsilon", F, HF_CONFIG, "1e-06", "0"},
    {"rms_norm_eps is not a number", F, HF_CONFIG, "1e-06", "\"1e-6\""},
    {"theta", F, HF_CONFIG, "1000000.0", "-1"},
    {"hidden_act is \"gelu\"", U, HF_CONFIG, "silu", "gelu"},
    {"quantization_config", U, HF_CONFIG, "\"hidden_act\"",
     "\"quantization_config\":{},\"hidden_act\""},
    {"partial_rotary_factor", U, HF_CONFIG, "\"hidden_act\"",
     "\"partial_rotary_factor\":0.5,\"hidden_act\""},
    {"type \"mrope\"; default, linear, llama3, yarn, longrope and dynamic are", U, HF_CONFIG,
     "\"hidden_act\"", "\"rope_scaling\":{\"type\":\"mrope\",\"factor\":4},\"hidden_act\""},
    {"YaRN scaling needs a factor", F, HF_CONFIG, "\"hidden_act\"",
     "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":0.5},\"hidden_act\""},
    {"short_factor is not a list of 2 numbers", F, HF_CONFIG, "\"hidden_act\"",
     "\"rope_scaling\":{\"type\":\"longrope\",\"factor\":2},\"hidden_act\""},
    {"proj.bias is a bias that config.json does not ask for in a llama model", U, HF_CONFIG,
     "Qwen2ForCausalLM", "LlamaForCausalLM"},
    {"self_attn.o_proj.bias is missing", F, HF_CONFIG, "\"Qwen2ForCausalLM\"]",
     "\"LlamaForCausalLM\"],\"attention_bias\":true"},
    {"max_window_layers is not a whole number from 0 on", F, HF_CONFIG, "\"hidden_act\"",
     "\"max_window_layers\":-1,\"hidden_act\""},
    {"leaves no ramp", U, HF_CONFIG, "\"hidden_act\"",
     "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,"
     "\"original_max_position_embeddings\":2147483647,\"beta_fast\":2e-4,\"beta_slow\":1e-4},"
     "\"hidden_act\""},
    {"a rotation of its own for \"full_attention\"", U, HF_CONFIG, "\"hidden_act\"",
     "\"rope_parameters\":{\"full_attention\":{}},\"hidden_act\""},
    {"partial_rotary_factor is 0.25", U, HF_CONFIG, "\"hidden_act\"",
     "\"rope_parameters\":{\"partial_rotary_factor\":0.25},\"hidden_act\""},
    {"factor of rope_scaling", F, HF_CONFIG, "\"hidden_act\"",
     "\"rope_scaling\":{\"type\":\"linear\",\"factor\":0},\"hidden_act\""},
    {"rope_scaling is not a JSON object", F, HF_CONFIG, "\"hidden_act\"",
     "\"rope_scaling\":[4],\"hidden_act\""},
    {"rope_type is not a text", F, HF_CONFIG, "\"hidden_act\"",
     "\"rope_scaling\":{\"rope_type\":7},\"hidden_act\""},
    {"hidden_act is not a text", F, HF_CONFIG, "\"silu\"", "true"},
    {"tie_word_embeddings is neither", F, HF_CONFIG, "embeddings\":true", "embeddings\":1"},
    {"vocab_size is 9, but the embedding has 8 rows", F, HF_CONFIG, "\"hidden_act\"",
     "\"vocab_size\":9,\"hidden_act\""},
    {"lm_head.weight is missing", F, HF_CONFIG, "embeddings\":true", "embeddings\":false"},
    /* the container */
    {"holds neither", IO, HF_HEADER, NULL, NULL},
    {"line 1", F, HF_HEADER, "{", "x"},
    {"type \"F64\"", U, HF_HEADER, "F32", "F64"},
    {"type \"\"", U, HF_HEADER, "\"F32\"", "3"},
    {"shape is missing", F, HF_HEADER, "[8,8]", "[]"},
    {"shape is missing", F, HF_HEADER, "[8,8]", "8"},
    {"shape is missing", F, HF_HEADER, "[8,8]", "[8,8,1,1,1]"},
    {"shape[1] is not", F, HF_HEADER, "[8,8]", "[8,0]"},
    {"shape[0] is not", F, HF_HEADER, "[8,8]", "[-8,8]"},
    {"shape[0] is not", F, HF_HEADER, "[8,8]", "[4611686018427387904,8]"},
    {"data_offsets span 256 bytes, but its shape needs", F, HF_HEADER, "[8,8]", "[8,9]"},
    {"model.embed_tokens.weight: data_offsets", F, HF_HEADER, "[0,256]", "[256,0]"},
    {"model.embed_tokens.weight: data_offsets", F, HF_HEADER, "[0,256]", "[-256,0]"},
    {"model.embed_tokens.weight: data_offsets", F, HF_HEADER, "[0,256]", "[0]"},
    {"bytes 0 to 3 of the data, before tensor model.embed_tokens.weight, are of no tensor", F,
     HF_HEADER, "[0,256]", "[4,260]"},
    {"overlap", F, HF_HEADER, "[256,288]", "[252,284]"},
    {"4 bytes follow the last tensor", F, HF_HEADER, "[4],\"data_offsets\":[2704,2720]",
     "[3],\"data_offsets\":[2704,2716]"},
    {"__metadata__ is not a JSON object", F, HF_HEADER, "{", "{\"__metadata__\":[],"},
    {"__metadata__: a is not a string", F, HF_HEADER, "{", "{\"__metadata__\":{\"a\":1},"},
    {"ends at byte 99999999", F, HF_HEADER, "[0,256]", "[99999743,99999999]"},
    {"model.layers.0.mlp.bias is not one", U, HF_HEADER, "layers.0.mlp.up_proj.weight",
     "layers.0.mlp.bias"},
    {"model.layers.00.mlp.up_proj.weight is not one", U, HF_HEADER, "layers.0.mlp.up",
     "layers.00.mlp.up"},
    {"duplicate", F, HF_HEADER, "mlp.up_proj", "mlp.gate_proj"},
    {"model.layers.0.mlp.up_proj.weight is missing", F, HF_HEADER, "layers.0.mlp.up",
     "layers.1.mlp.up"},
    {"self_attn.v_proj.bias is missing", F, HF_HEADER, "v_proj.bias", "rotary_emb.inv_freq"},
    /* the tokenizer */
    {"holds neither tokenizer.json", IO, HF_TOKENIZER, NULL, NULL},
    {"the pre-tokenizer", U, HF_TOKENIZER, "\\\\p{N}|", "\\\\p{N}{1,2}|"},
    {"the pre-tokenizer", U, HF_TOKENIZER, "Isolated", "Removed"},
    {"the pre-tokenizer", U, HF_TOKENIZER, "\"invert\":false", "\"invert\":true"},
    {"the pre-tokenizer", U, HF_TOKENIZER, "\"use_regex\":false", "\"use_regex\":true"},
    {"the pre-tokenizer", U, HF_TOKENIZER, "\"add_prefix_space\":false",
     "\"add_prefix_space\":true"},
    {"the normalizer", U, HF_TOKENIZER, "\"ByteLevel\"", "\"Metaspace\""},
    {"type \"WordLevel\"", U, HF_TOKENIZER, "\"BPE\"", "\"WordLevel\""},
    {"the normalizer \"NFKC\"", U, HF_TOKENIZER, "NFC", "NFKC"},
    {"end_of_word_suffix \"</w>\"", U, HF_TOKENIZER, "suffix\":\"\"", "suffix\":\"</w>\""},
    {"byte_fallback", U, HF_TOKENIZER, "fallback\":false", "fallback\":true"},
    {"has the id 8, but the embedding has 8 rows", F, HF_TOKENIZER, "\"ab\":2", "\"ab\":8"},
    {"has the id -1", F, HF_TOKENIZER, "\"ab\":2", "\"ab\":\"2\""},
    {"both have the id 1", F, HF_TOKENIZER, "\"ab\":2", "\"ab\":1"},
    {"both have the id 3", F, HF_TOKENIZER, "\"id\":4", "\"id\":3"},
    {"has no content", F, HF_TOKENIZER, "\"content\":\"<|end|>\",", ""},
    {"single_word", U, HF_TOKENIZER, "lstrip\":false", "single_word\":true"},
    {"model.merges[0]", F, HF_TOKENIZER, "\"a b\"", "\"ab\""},
    {"model.merges[0]", F, HF_TOKENIZER, "\"a b\"", "\"a b c\""},
    {"model.merges[0]", F, HF_TOKENIZER, "\"a b\"", "7"},
    {"model.merges[1]", F, HF_TOKENIZER, "[\"\\u0120\",\"a\"]", "[\"\\u0120\",\"a\",\"b\"]"},
    {"model.merges is missing", F, HF_TOKENIZER, "\"merges\"", "\"mergers\""},
    {"model.vocab is missing", F, HF_TOKENIZER, "\"vocab\"", "\"words\""},
    {"eos_token \"<|fin|>\" is not in the vocabulary", F, HF_TOKENIZER_CONFIG, "<|end|>",
     "<|fin|>"},
    {"generation_config.json: is not a JSON object", F, HF_GENERATION, "{\"eos_token_id\":[5,4]}",
     "[5,4]"},
    {"generation_config.json: eos_token_id is not the id", F, HF_GENERATION, "[5,4]", "[5,8]"},
    {"generation_config.json: eos_token_id is not the id", F, HF_GENERATION, "[5,4]", "-3"},
    {"generation_config.json: top_p is not a number", F, HF_GENERATION, "{", "{\"top_p\":\"1\","},
};

static const struct mutation llama_mutations[] = {
    {"names the file \"../x.safetensors\"", F, HF_INDEX, "model-2.safetensors", "../x.safetensors"},
    {"names the file \"/etc/x.safetensors\"", F, HF_INDEX, "model-2.safetensors",
     "/etc/x.safetensors"},
    {"names the file \"passwd\"", F, HF_INDEX, "model-2.safetensors", "passwd"},
    {"names the file \"\"", F, HF_INDEX, "\"model-2.safetensors\"", "7"},
    {"model-9.safetensors: cannot open", IO, HF_INDEX, "model-2", "model-9"},
    {"weight_map is missing", F, HF_INDEX, "weight_map", "weight_maps"},
    {"two tensors are called model.norm.weight", F, HF_HEADER2,
     "model.layers.0.input_layernorm.weight", "model.norm.weight"},
    {"the llama3 scaling needs", F, HF_CONFIG, "\"high_freq_factor\":4.0",
     "\"high_freq_factor\":1.0"},
    {"low_freq_factor is not a number", F, HF_CONFIG, "\"low_freq_factor\":1.0",
     "\"low_freq_factor\":\"1\""},
    {"piece 3 has the unknown type 7", F, HF_SENTENCEPIECE, "<0x0A>\x18\x06", "<0x0A>\x18\x07"},
    {"reads \"<0x-1>\"", F, HF_SENTENCEPIECE, "<0x0A>", "<0x-1>"},
    {"model type 4", U, HF_SENTENCEPIECE, "\x12\x02\x18\x02", "\x12\x02\x18\x04"},
    {"tokenizer.model: a number", F, HF_SENTENCEPIECE, "\x12\x02\x18\x02", "\x12\x02\x18\xff"},
    {"tokenizer.model: a field", F, HF_SENTENCEPIECE, "\x12\x02\x18\x02", "\x12\x7f\x18\x02"},
    {"unknown kind 3", F, HF_SENTENCEPIECE, "\x12\x02\x18\x02", "\x13\x02\x18\x02"},
    {"embedding has 8 rows", F, HF_TOKENIZER_CONFIG, "\"6\":", "\"x\":"},
    {"embedding has 8 rows", F, HF_TOKENIZER_CONFIG, "\"6\":", "\"99999999999999999999\":"},
    {"both have the id 5", F, HF_TOKENIZER_CONFIG, "\"6\":", "\"5\":"},
};

static const struct mutation lfm2_mutations[] = {
    {"model.layers.1.operator_norm.weight is missing", F, HF_HEADER, "layers.1.operator_norm",
     "layers.7.operator_norm"},
    {"model.embedding_norm.weight is missing", F, HF_HEADER, "\"model.embedding_norm.weight\"",
     "\"model.layers.9.ffn_norm.weight\""},
    {"tensor model.norm.weight is not one that a lfm2 model computes with", U, HF_HEADER,
     "model.embedding_norm.weight", "model.norm.weight"},
    {"model.layers.1.self_attn.q_proj.weight is missing", F, HF_CONFIG, "idxs\":[0]",
     "idxs\":[0,1]"},
    {"model.layers.0.conv.in_proj.weight is missing", F, HF_CONFIG, "idxs\":[0]", "idxs\":[1]"},
    {"no layer has attention", U, HF_CONFIG, "idxs\":[0]", "idxs\":[7]"},
    {"layer_types is a list of 1 layers, but there are 2", F, HF_CONFIG, "\"conv_L_cache\"",
     "\"layer_types\":[\"conv\"],\"conv_L_cache\""},
    {"layer_types[1] is \"mamba\"; conv and full_attention are supported", U, HF_CONFIG,
     "\"conv_L_cache\"", "\"layer_types\":[\"conv\",\"mamba\"],\"conv_L_cache\""},
    {"convolutions over 1 rows", U, HF_CONFIG, "L_cache\":3", "L_cache\":1"},
    {"convolutions over 1000 rows", U, HF_CONFIG, "L_cache\":3", "L_cache\":1000"},
    {"model.layers.1.conv.conv.weight is [3, 8, 1, 1], but the parameters ask for [2, 8]", F,
     HF_CONFIG, "L_cache\":3", "L_cache\":2"},
    {"model.layers.1.conv.conv.weight is [3, 2, 4, 1]", F, HF_HEADER, "[8,1,3]", "[4,2,3]"},
    {"model.layers.1.conv.in_proj.bias is missing", F, HF_CONFIG, "bias\":false", "bias\":true"},
    {"conv_bias is neither", F, HF_CONFIG, "bias\":false", "bias\":1"},
    {"w1.weight is [8, 16, 1, 1], but the parameters ask for [8, 24]", F, HF_CONFIG,
     "\"block_multiple_of\":8", "\"block_auto_adjust_ff_dim\":false"},
    {"which is no width", F, HF_CONFIG, "\"block_multiple_of\":8",
     "\"block_ffn_dim_multiplier\":1e300"},
    {"which is no width", F, HF_CONFIG, "\"block_multiple_of\":8",
     "\"block_ffn_dim_multiplier\":-1"},
};

static const struct mutation qwen35_mutations[] = {
    {"linear_num_key_heads is not a whole number", F, HF_CONFIG, "\"linear_num_key_heads\":1",
     "\"linear_num_key_heads\":0"},
    {"linear_num_value_heads is not a whole number", F, HF_CONFIG, "\"linear_num_value_heads\":2",
     "\"linear_num_value_heads\":0"},
    {"linear_key_head_dim is not a whole number", F, HF_CONFIG, "\"linear_key_head_dim\":4",
     "\"linear_key_head_dim\":0"},
    {"linear_value_head_dim is not a whole number", F, HF_CONFIG, "\"linear_value_head_dim\":4",
     "\"linear_value_head_dim\":0"},
    {"linear_conv_kernel_dim is not a whole number", F, HF_CONFIG, "\"linear_conv_kernel_dim\":4",
     "\"linear_conv_kernel_dim\":0"},
    {"linear_key_head_dim is not a whole number", F, HF_CONFIG, "\"linear_key_head_dim\":4",
     "\"linear_key_head_dim\":4.5"},
    {"16 key heads of the delta rule do not divide its 2", F, HF_CONFIG,
     "\"linear_num_key_heads\":1,", ""},
    {"in_proj_qkv.weight is [8, 16, 1, 1], but the parameters ask for [8, 136]", F, HF_CONFIG,
     "\"linear_num_value_heads\":2,", ""},
    {"in_proj_qkv.weight is [8, 16, 1, 1], but the parameters ask for [8, 264]", F, HF_CONFIG,
     "\"linear_key_head_dim\":4,", ""},
    {"3 key heads of the delta rule do not divide its 2 value heads", F, HF_CONFIG, "key_heads\":1",
     "key_heads\":3"},
    {"from 1 to 1024 of each are supported", U, HF_CONFIG, "key_heads\":1",
     "key_heads\":2147483647"},
    {"from 1 to 1024 of each are supported", U, HF_CONFIG, "linear_key_head_dim\":4",
     "linear_key_head_dim\":2147483647"},
    {"from 1 to 1024 of each are supported", U, HF_CONFIG, "value_head_dim\":4",
     "value_head_dim\":1025"},
    {"convolutions over 1 rows", U, HF_CONFIG, "kernel_dim\":4", "kernel_dim\":1"},
    {"convolutions over 1000 rows", U, HF_CONFIG, "kernel_dim\":4", "kernel_dim\":1000"},
    {"conv1d.weight is [4, 16, 1, 1], but the parameters ask for [3, 16]", F, HF_CONFIG,
     "kernel_dim\":4", "kernel_dim\":3"},
    {"full_attention_interval is not a whole number", F, HF_CONFIG, "interval\":2", "interval\":0"},
    {"model.layers.0.self_attn.q_proj.weight is missing", F, HF_CONFIG, "interval\":2",
     "interval\":1"},
    {"no layer has attention", U, HF_CONFIG, "interval\":2", "interval\":3"},
    {"layer_types is a list of 1 layers, but there are 2", F, HF_CONFIG,
     "\"full_attention_interval\":2", "\"layer_types\":[\"linear_attention\"]"},
    {"layer_types[1] is \"sliding_attention\"; linear_attention and full_attention are supported",
     U, HF_CONFIG, "\"full_attention_interval\":2",
     "\"layer_types\":[\"linear_attention\",\"sliding_attention\"]"},
    {"model.layers.0.self_attn.q_proj.weight is missing", F, HF_CONFIG,
     "\"full_attention_interval\":2", "\"layer_types\":[\"full_attention\",\"linear_attention\"]"},
    {"partial_rotary_factor is 1.5", U, HF_CONFIG, "factor\":0.5", "factor\":1.5"},
    {"the rotated dimension is 1", F, HF_CONFIG, "factor\":0.5", "factor\":0.25"},
    {"model.layers.0.linear_attn.in_proj_qkv.weight is missing", F, HF_HEADER,
     "0.linear_attn.in_proj_qkv.weight", "9.linear_attn.in_proj_qkv.weight"},
    {"model.layers.0.linear_attn.in_proj_z.weight is missing", F, HF_HEADER,
     "0.linear_attn.in_proj_z.weight", "9.linear_attn.in_proj_z.weight"},
    {"model.layers.0.linear_attn.in_proj_b.weight is missing", F, HF_HEADER,
     "0.linear_attn.in_proj_b.weight", "9.linear_attn.in_proj_b.weight"},
    {"model.layers.0.linear_attn.in_proj_a.weight is missing", F, HF_HEADER,
     "0.linear_attn.in_proj_a.weight", "9.linear_attn.in_proj_a.weight"},
    {"model.layers.0.linear_attn.conv1d.weight is missing", F, HF_HEADER,
     "0.linear_attn.conv1d.weight", "9.linear_attn.conv1d.weight"},
    {"model.layers.0.linear_attn.A_log is missing", F, HF_HEADER, "0.linear_attn.A_log",
     "9.linear_attn.A_log"},
    {"model.layers.0.linear_attn.dt_bias is missing", F, HF_HEADER, "0.linear_attn.dt_bias",
     "9.linear_attn.dt_bias"},
    {"model.layers.0.linear_attn.norm.weight is missing", F, HF_HEADER, "0.linear_attn.norm.weight",
     "9.linear_attn.norm.weight"},
    {"model.layers.0.linear_attn.out_proj.weight is missing", F, HF_HEADER,
     "0.linear_attn.out_proj.weight", "9.linear_attn.out_proj.weight"},
    {"conv1d.weight is [4, 4, 4, 1]", F, HF_HEADER, "[16,1,4]", "[4,4,4]"},
    {"A_log is [1, 2, 1, 1]", F, HF_HEADER, "A_log\":{\"dtype\":\"F32\",\"shape\":[2]",
     "A_log\":{\"dtype\":\"F32\",\"shape\":[2,1]"},
};

/* Ministral 3 with YaRN and queries that grow with their position. */
static void hf_ministral3(struct hf_model *model)
{
    hf_qwen2(model);
    hf_set(model, HF_CONFIG,
           "{\"architectures\":[\"Ministral3ForCausalLM\"],\"model_type\":\"ministral3\","
           "\"hidden_size\":8,\"intermediate_size\":16,\"num_hidden_layers\":1,"
           "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":4,"
           "\"max_position_embeddings\":64,\"sliding_window\":32,\"eos_token_id\":5,"
           "\"tie_word_embeddings\":true,\"rope_parameters\":{\"rope_type\":\"yarn\","
           "\"rope_theta\":1e6,\"factor\":4.0,\"original_max_position_embeddings\":16,"
           "\"mscale\":1.0,\"mscale_all_dim\":1.0,\"llama_4_scaling_beta\":0.1}}");
    hf_set(model, HF_HEADER, "");
    model->data_bytes[0] = 0;
    hf_tensors(model, 1, 8, 0);
}

static const struct mutation ministral3_mutations[] = {
    {"growth of the queries is -0.1", F, HF_CONFIG, "beta\":0.1", "beta\":-0.1"},
    {"growth of the queries is inf", F, HF_CONFIG, "beta\":0.1", "beta\":1e39"},
    {"llama_4_scaling_beta is not a number", F, HF_CONFIG, "beta\":0.1", "beta\":\"0.1\""},
    {"original_max_position_embeddings is not a whole number", F, HF_CONFIG, "embeddings\":16",
     "embeddings\":0"},
    {"sliding_window is not a whole number", F, HF_CONFIG, "window\":32", "window\":-1"},
    {"model.layers.0.post_attention_layernorm.weight is missing", F, HF_HEADER,
     "0.post_attention_layernorm", "9.post_attention_layernorm"},
    {"model.norm.weight is missing", F, HF_HEADER, "\"model.norm.weight\"",
     "\"model.layers.9.input_layernorm.weight\""},
    /* the same tensors in a class of one norm a layer, of no gate, of norms of the heads */
    {"post_attention_layernorm.weight has no place in a cohere2 model", U, HF_CONFIG,
     "[\"Ministral3ForCausalLM\"],\"model_type\":\"ministral3\"",
     "[\"Cohere2ForCausalLM\"],\"model_type\":\"cohere2\""},
    {"mlp.up_proj.weight is not one that a starcoder2 model computes with", U, HF_CONFIG,
     "[\"Ministral3ForCausalLM\"],\"model_type\":\"ministral3\"",
     "[\"Starcoder2ForCausalLM\"],\"model_type\":\"starcoder2\""},
    {"model.layers.0.self_attn.q_norm.weight is missing", F, HF_CONFIG,
     "[\"Ministral3ForCausalLM\"],\"model_type\":\"ministral3\"",
     "[\"Exaone4ForCausalLM\"],\"model_type\":\"exaone4\""},
};

static void test_mutation(void (*make)(struct hf_model *), const struct mutation *m)
{
    static struct hf_model model;
    make(&model);
    if (model.texts[HF_INDEX].bytes) use_shards(&model);
    if (m->from)
        CHECK_MSG(hf_replace(&model.texts[m->file], m->from, m->to),
                  "nothing to replace for \"%s\"", m->sentence);
    else
        model.texts[m->file].bytes = 0;
    write_model(&model);
    struct probe probe = {0};
    struct rf_error error;
    int code = open_folder(folder, &probe, &error);
    CHECK_MSG(code == m->code, "%s: code %d, not %d: \"%s\"", m->sentence, code, m->code,
              error.text);
    CHECK_MSG(strstr(error.text, m->sentence), "\"%s\" does not say \"%s\"", error.text,
              m->sentence);
    CHECK_MSG(strstr(error.text, folder), "\"%s\" does not name the folder", error.text);
}

/* The model of case i is refused with a sentence that has these words. Returns the code. */
static int check_refused(const struct hf_model *model, const char *words, size_t i)
{
    struct probe probe = {0};
    struct rf_error error = {.text = ""};
    write_model(model);
    int code = open_folder(folder, &probe, &error);
    CHECK_MSG(code < 0 && strstr(error.text, words), "%zu: %s", i, error.text);
    return code;
}

static struct rf_source *open_good(const struct hf_model *model, const char *path)
{
    struct rf_source *source = NULL;
    struct rf_error error = {0};
    write_model(model);
    CHECK_MSG(rf_source_open(&source, path, NULL, &rf_system_allocator, &error) == 0, "%s",
              error.text);
    return source;
}

static void test_good_ministral3(void)
{
    static struct hf_model model;
    hf_ministral3(&model);
    struct rf_source *source = open_good(&model, folder);
    if (!source) return;
    CHECK(source->params.temperature == 0.1f && source->params.temperature_step == 16);
    CHECK_INT(source->params.window, 32);
    rf_source_close(source);
}

static void test_good_qwen2(void)
{
    static struct hf_model model;
    char path[600];
    hf_qwen2(&model);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    struct rf_source *source = open_good(&model, path);
    if (!source) return;
    const struct rf_params *p = &source->params;
    CHECK_STR(p->arch_name, "qwen2");
    CHECK(p->rope_style == RF_ROPE_NEOX && p->rope.theta == 1e6f && p->rope.scale == 1.0f &&
          p->rms_eps == 1e-6f);
    CHECK(p->n_layer == 1 && p->n_embd == 8 && p->n_head == 2 && p->n_head_kv == 1 &&
          p->head_dim == 4);
    CHECK(p->n_ff == 16 && p->n_vocab == 8 && p->n_ctx_train == 64 && p->tied_output &&
          p->qkv_bias);
    CHECK_STR(source->container, "safetensors");
    CHECK_STR(source->name, strrchr(folder, '/') + 1);
    CHECK(source->chat_template_bytes == 14);
    const struct rf_tensor *down = rf_source_tensor(source, "blk.0.ffn_down.weight");
    CHECK(down && down->ne[0] == 16 && down->ne[1] == 8 && down->bytes == 512 &&
          down->dtype == RF_F32);
    const struct rf_vocab *v = &source->vocab;
    CHECK(v->kind == RF_VOCAB_BPE && rf_str_is(v->pre, "qwen2") && v->nfc == 1 &&
          v->ignore_merges == 0);
    CHECK(v->n_tokens == 8 &&
          rf_str_is(v->tokens[3], "\xc4\xa0"
                                  "a") &&
          rf_str_is(v->tokens[7], "[PAD7]"));
    CHECK(v->types[0] == RF_TOKEN_NORMAL && v->types[5] == RF_TOKEN_CONTROL &&
          v->types[6] == RF_TOKEN_USER_DEFINED && v->types[7] == RF_TOKEN_UNUSED);
    CHECK(v->n_merges == 2 && rf_str_is(v->merges[1].left, "\xc4\xa0") &&
          rf_str_is(v->merges[0].right, "b"));
    CHECK(v->bos == -1 && v->eos == 5 && v->eot == 4 && v->pad == 4 && v->unk == -1);
    CHECK(v->add_bos == 0 && v->add_eos == 0);
    rf_source_close(source);
}

static void test_good_llama(void)
{
    static struct hf_model model;
    hf_llama(&model);
    use_shards(&model);
    struct rf_source *source = open_good(&model, folder);
    if (!source) return;
    const struct rf_params *p = &source->params;
    CHECK(p->arch == RF_ARCH_LLAMA && p->rope_style == RF_ROPE_NEOX && !p->tied_output &&
          !p->qkv_bias);
    /* transformers' rule: the wavelength 2 pi is short and stays; 2 pi sqrt(500000) = 4443 lies
     * between 8192/4 and 8192/1, where smooth = (8192 / 4443 - 1) / 3. */
    CHECK(p->rope.factors && p->rope.factors[0] == 1.0f);
    double smooth = (8192.0 / (2 * acos(-1.0) * sqrt(500000.0)) - 1) / 3;
    if (p->rope.factors)
        CHECK(fabs((double)p->rope.factors[1] - 1 / ((1 - smooth) / 8 + smooth)) < 1e-6);
    const struct rf_vocab *v = &source->vocab;
    CHECK(v->kind == RF_VOCAB_SENTENCEPIECE &&
          v->spm_proto.bytes == model.texts[HF_SENTENCEPIECE].bytes);
    CHECK(v->n_tokens == 8 && rf_str_is(v->tokens[4], "\xe2\x96\x81") && v->scores[5] == -2.0f);
    CHECK(v->types[0] == RF_TOKEN_UNKNOWN && v->types[3] == RF_TOKEN_BYTE &&
          v->types[6] == RF_TOKEN_CONTROL);
    CHECK(v->bos == 1 && v->eos == 6 && v->unk == 0 && v->pad == -1 && v->add_bos == 1);
    CHECK(v->add_space_prefix == 1 && v->remove_extra_whitespaces == 0);
    CHECK(source->chat_template_bytes == 1 && source->chat_template[0] == 'y');
    rf_source_close(source);
}

#define SPLIT(pattern) \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":\"Isolated\"},"
#define DIGITS(single) "{\"type\":\"Digits\",\"individual_digits\":" single "},"
#define WORDS "{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
#define BYTES "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
#define ASIAN SPLIT("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+")

/* Sequences of pre-tokenizers, in place of qwen2's. */
static void test_pre_tokenizers(void)
{
    static const struct {
        const char *name, *list;
    } cases[] = {
        {"smollm", DIGITS("true") "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"},
        {"falcon", "{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}," WORDS DIGITS(
                       "false") "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[0-9][0-9][0-9]\"},"
                                "\"behavior\":\"Isolated\"}"},
        {"deepseek-llm", SPLIT("[\\r\\n]") SPLIT("\\\\s?[" RF_DEEPSEEK_LETTERS "]+") SPLIT(
                             "\\\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+")
                             SPLIT("\\\\s+$") ASIAN DIGITS("true") BYTES},
        {"deepseek-coder", SPLIT("[\\\\r\\\\n]") SPLIT("\\\\s?\\\\p{L}+") SPLIT("\\\\s?\\\\p{P}+")
                               ASIAN DIGITS("true") BYTES},
        {"deepseek-v3",
         SPLIT("\\\\p{N}{1,3}") SPLIT("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+")
             SPLIT("[!\\\"#$%&'()*+,\\\\-./:;<=>?@\\\\[\\\\\\\\\\\\]^_`{|}~][A-Za-z]+|"
                   "[^\\r\\n\\\\p{L}\\\\p{P}\\\\p{S}]?[\\\\p{L}\\\\p{M}]+|"
                   " ?[\\\\p{P}\\\\p{S}]+[\\r\\n]*|\\\\s*[\\r\\n]+|\\\\s+(?!\\\\S)|\\\\s+") BYTES},
        {"seed-coder", SPLIT("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|"
                             "\\\\p{N}{1}| ?[^\\\\s\\\\p{L}\\\\p{N}\\r\\n]+|\\\\s*[\\r\\n]+|"
                             "\\\\s+(?!\\\\S)|\\\\s+") BYTES},
        {NULL, DIGITS("true") BYTES}, /* not of a known tokenizer, like those that follow */
        {NULL, SPLIT("\\\\s?\\\\p{L}+") BYTES},
        {NULL, SPLIT("[\\r\\n") BYTES},
        {NULL, WORDS BYTES},
    };
    static struct hf_model model;
    static char list[4096];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hf_qwen2(&model);
        struct hf_text *tokenizer = &model.texts[HF_TOKENIZER];
        const char *begin = strstr(tokenizer->data, "{\"type\":\"Split\""),
                   *end = strstr(tokenizer->data, "]},\"post_processor\"");
        CHECK(begin && end && (size_t)(end - begin) < sizeof list);
        snprintf(list, sizeof list, "%.*s", (int)(end - begin), begin);
        CHECK(hf_replace(tokenizer, list, cases[i].list));
        if (!cases[i].name) {
            CHECK_INT(check_refused(&model, "the pre-tokenizer", i), RF_ERR_UNSUPPORTED);
            continue;
        }
        struct rf_source *source = open_good(&model, folder);
        if (source)
            CHECK_MSG(rf_str_is(source->vocab.pre, cases[i].name), "%s is read as %.*s",
                      cases[i].name, (int)source->vocab.pre.bytes, source->vocab.pre.data);
        rf_source_close(source);
    }
}

#define MARKER "\u2581"
#define REPLACE "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARKER "\"}"
#define PREPEND "{\"type\":\"Prepend\",\"prepend\":\"" MARKER "\"}"
#define LIST(name, list) "{\"type\":\"Sequence\",\"" name "\":[" list "]}"
#define METASPACE(scheme, split)                                                          \
    "{\"type\":\"Metaspace\",\"replacement\":\"" MARKER "\",\"prepend_scheme\":\"" scheme \
    "\",\"split\":" split "}"
#define AT_SPACES \
    "{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":\"MergedWithPrevious\"}"

/* A tokenizer.json of SentencePiece's kind, without tokenizer.model. */
static void test_character_bpe(void)
{
    static const struct {
        const char *normalizer, *pre, *model, *refused; /* refused NULL: read */
        int prefix;
    } cases[] = {
        {LIST("normalizers", PREPEND "," REPLACE), "null", "\"byte_fallback\":true", NULL,
         RF_PREFIX_ON},
        {LIST("normalizers", REPLACE), "null", "\"byte_fallback\":true", NULL, 0},
        {REPLACE, AT_SPACES, "\"byte_fallback\":true", NULL, 0},
        {"null", METASPACE("first", "false"), "\"byte_fallback\":true", NULL,
         RF_PREFIX_ON | RF_PREFIX_ONCE | RF_PREFIX_UNLESS},
        {"null", METASPACE("always", "false"), "\"byte_fallback\":true", NULL,
         RF_PREFIX_ON | RF_PREFIX_UNLESS},
        {"null", METASPACE("never", "false"), "\"byte_fallback\":true", NULL, 0},
        {"null", METASPACE("first", "true"), "\"byte_fallback\":true", NULL,
         RF_PREFIX_ON | RF_PREFIX_ONCE | RF_PREFIX_UNLESS},
        {"null", METASPACE("some", "false"), "\"byte_fallback\":true", "prepend_scheme", 0},
        {"null", "null", "\"byte_fallback\":true", "the pre-tokenizer", 0},
        {REPLACE, METASPACE("first", "false"), "\"byte_fallback\":true", "the pre-tokenizer", 0},
        {PREPEND, "null", "\"byte_fallback\":true", "the normalizer", 0},
        {LIST("normalizers", REPLACE "," REPLACE), "null", "\"byte_fallback\":true",
         "the normalizer", 0},
        {REPLACE, "null", "\"byte_fallback\":false", "without \"byte_fallback\"", 0},
        {REPLACE, "null", "\"byte_fallback\":true,\"ignore_merges\":true", "with \"ignore_merges\"",
         0},
    };
    static struct hf_model model;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2048];
        hf_llama(&model);
        use_shards(&model);
        model.texts[HF_SENTENCEPIECE].bytes = 0;
        snprintf(text, sizeof text,
                 "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true},"
                 "{\"id\":6,\"content\":\"<|im_end|>\",\"special\":true}],\"normalizer\":%s,"
                 "\"pre_tokenizer\":%s,\"model\":{\"type\":\"BPE\",%s,\"unk_token\":\"<unk>\","
                 "\"vocab\":{\"<unk>\":0,\"<s>\":1,\"</s>\":2,\"<0x0A>\":3,\"" MARKER
                 "\":4,\"a\":5,\"" MARKER "a\":7},\"merges\":[\"" MARKER " a\"]}}",
                 cases[i].normalizer, cases[i].pre, cases[i].model);
        hf_set(&model, HF_TOKENIZER, text);
        if (cases[i].refused) {
            check_refused(&model, cases[i].refused, i);
            continue;
        }
        struct rf_source *source = open_good(&model, folder);
        if (!source) continue;
        const struct rf_vocab *v = &source->vocab;
        CHECK(v->kind == RF_VOCAB_SENTENCEPIECE && v->n_merges == 1 && v->scores);
        CHECK_INT(v->add_space_prefix, cases[i].prefix);
        CHECK(v->types[0] == RF_TOKEN_UNKNOWN && v->types[3] == RF_TOKEN_BYTE &&
              v->types[6] == RF_TOKEN_CONTROL && v->types[7] == RF_TOKEN_NORMAL && v->unk == 0);
        rf_source_close(source);
    }
}

#define PIECES(first, last)                                                     \
    "\"vocab\":[[\"<unk>\",0]," first ",[\"</s>\",0],[\"<0x0A>\",0],[\"" MARKER \
    "\",-1.5],[\"a\",-2],"                                                      \
    "[\"<|im_end|>\",0],[\"" last "\",-3.25]]"
#define START "[\"<s>\",0]"

static void test_unigram(void)
{
    static const struct {
        const char *model, *refused; /* refused NULL: read */
    } cases[] = {
        {"\"unk_id\":0," PIECES(START, MARKER "a"), NULL},
        {"\"unk_id\":0," PIECES(START, "a" MARKER), "a Metaspace that splits, with the piece"},
        {"\"unk_id\":0," PIECES("[\"<s>\"]", "b"), "model.vocab[1] is not a piece and its score"},
        {"\"unk_id\":9999999," PIECES(START, "b"), "model.unk_id"},
        {"\"unk_id\":0,\"vocab\":{}", "model.vocab is missing"},
    };
    static struct hf_model model;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2048];
        hf_llama(&model);
        use_shards(&model);
        model.texts[HF_SENTENCEPIECE].bytes = 0;
        snprintf(
            text, sizeof text,
            "{\"added_tokens\":[{\"id\":6,\"content\":\"<|im_end|>\",\"special\":true}],"
            "\"normalizer\":null,\"pre_tokenizer\":" METASPACE(
                "always", "true") ","
                                  "\"model\":{\"type\":\"Unigram\",\"byte_fallback\":true,%s}}",
            cases[i].model);
        hf_set(&model, HF_TOKENIZER, text);
        if (cases[i].refused) {
            check_refused(&model, cases[i].refused, i);
            continue;
        }
        struct rf_source *source = open_good(&model, folder);
        if (!source) continue;
        const struct rf_vocab *v = &source->vocab;
        CHECK(v->kind == RF_VOCAB_SENTENCEPIECE && v->unigram && v->n_merges == 0 && v->unk == 0);
        CHECK_INT(v->add_space_prefix, RF_PREFIX_ON | RF_PREFIX_UNLESS);
        CHECK(v->scores[4] == -1.5f && v->scores[7] == -3.25f);
        CHECK(v->types[0] == RF_TOKEN_UNKNOWN && v->types[3] == RF_TOKEN_BYTE &&
              v->types[6] == RF_TOKEN_CONTROL && v->types[7] == RF_TOKEN_NORMAL);
        rf_source_close(source);
    }
}

/* Another pre-tokenizer, an empty normalizer, a template that adds BOS, a window that limits the
 * context of all layers. */
static void test_good_variants(void)
{
    static struct hf_model model;
    hf_qwen2(&model);
    struct hf_text *tokenizer = &model.texts[HF_TOKENIZER], *config = &model.texts[HF_CONFIG];
    CHECK(
        hf_replace(tokenizer, "\\\\p{N}|", "\\\\p{N}{1,3}|") &&
        hf_replace(tokenizer, "{\"type\":\"NFC\"}", "{\"type\":\"Sequence\",\"normalizers\":[]}") &&
        hf_replace(tokenizer, "\"dropout\"", "\"ignore_merges\":true,\"dropout\"") &&
        hf_replace(tokenizer, "{\"type\":\"ByteLevel\"}",
                   "{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},{\"type\":"
                   "\"TemplateProcessing\","
                   "\"single\":[{\"SpecialToken\":{\"id\":\"<|pad|>\",\"type_id\":0}},{"
                   "\"Sequence\":{\"id\":\"A\"}}]}]}") &&
        hf_replace(config, "use_sliding_window\":false", "use_sliding_window\":true") &&
        hf_replace(config, "\"silu\"", "\"swish\"") &&
        hf_replace(config, "\"hidden_act\"",
                   "\"max_window_layers\":0,\"rope_scaling\":{\"type\":\"linear\",\"factor\":4},"
                   "\"hidden_act\""));
    struct rf_source *source = open_good(&model, folder);
    if (source) {
        CHECK(rf_str_is(source->vocab.pre, "llama-bpe") && source->vocab.nfc == 0 &&
              source->vocab.ignore_merges == 1);
        CHECK(source->vocab.add_bos == 1 && source->vocab.add_eos == 0);
        CHECK(source->params.window == 16 && source->params.rope.scale == 0.25f &&
              source->params.qkv_bias);
        CHECK_INT(rf_layer_flags(&source->params, 0), RF_LAYER_WINDOW);
    }
    rf_source_close(source);
}

static void test_good_lfm2(void)
{
    static struct hf_model model;
    hf_lfm2(&model);
    struct rf_source *source = open_good(&model, folder);
    if (source) {
        const struct rf_params *p = &source->params;
        CHECK(!rf_is_conv(p, 0) && rf_is_conv(p, 1) && p->conv_rows == 3 && !p->conv_bias);
        CHECK(p->n_ff == 16 && p->tied_output && p->rms_eps == 1e-5f && p->rope.theta == 1e6f);
        const struct rf_tensor *conv = rf_source_tensor(source, "blk.1.shortconv.conv.weight");
        CHECK(conv && conv->n_dims == 2 && conv->ne[0] == 3 && conv->ne[1] == 8);
    }
    rf_source_close(source);
}

static void test_good_qwen35(void)
{
    static struct hf_model model;
    hf_qwen35(&model);
    struct rf_source *source = open_good(&model, folder);
    if (source) {
        const struct rf_params *p = &source->params;
        CHECK(rf_is_delta(p, 0) && !rf_is_delta(p, 1) && !rf_is_conv(p, 0) && p->attn_gate);
        CHECK(p->delta_keys == 1 && p->delta_values == 2 && p->delta_key_dim == 4 &&
              p->delta_value_dim == 4 && !p->delta_tiled && p->conv_rows == 4 && p->rope_dim == 2);
        const struct rf_tensor *decay = rf_source_tensor(source, "blk.0.ssm_a"),
                               *gain = rf_source_tensor(source, "blk.0.ssm_norm.weight"),
                               *norm = rf_source_tensor(source, "blk.0.attn_norm.weight");
        CHECK(decay && gain && norm);
        if (!decay || !gain || !norm) return;
        float value;
        memcpy(&value, gain->data, sizeof value); /* in the file, at any address */
        CHECK(*(const float *)norm->data == 1 + value);
        CHECK(*(const float *)decay->data == -expf(value));
    }
    rf_source_close(source);
}

/* The text part of a model that sees, with its numbers in text_config; without its other parts. */
static void test_seeing_qwen35(void)
{
    static struct hf_model model;
    hf_qwen35(&model);
    struct hf_text *config = &model.texts[HF_CONFIG], *header = &model.texts[HF_HEADER];
    CHECK(hf_replace(config, "Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration") &&
          hf_replace(config, "\"qwen3_5_text\",", "\"qwen3_5\",\"text_config\":{") &&
          hf_replace(config, ",\"eos_token_id\"", "},\"eos_token_id\""));
    while (hf_replace(header, "\"model.layers", "\"model.language_model.layers")) continue;
    while (hf_replace(header, "\"model.embed", "\"model.language_model.embed")) continue;
    while (hf_replace(header, "\"model.norm", "\"model.language_model.norm")) continue;
    header->bytes--;
    hf_tensor(&model, 0, "model.visual.patch_embed.proj.weight", 3, 5);
    hf_tensor(&model, 0, "mtp.fc.weight", 8, 16);
    hf_tensor(&model, 0, "mtp.layers.0.input_layernorm.weight", 8, 0);
    header->data[header->bytes++] = '}';
    struct rf_source *source = open_good(&model, folder);
    if (source)
        CHECK(rf_is_delta(&source->params, 0) && source->params.rope_dim == 2 &&
              rf_source_tensor(source, "blk.0.ssm_out.weight"));
    rf_source_close(source);
}

/* Sampling is what generation_config.json recommends, unless it says not to sample. */
static void test_recommended_sampling(void)
{
    static struct hf_model model;
    hf_qwen2(&model);
    struct rf_source *source = open_good(&model, folder);
    if (source) CHECK(source->sampling.from == NULL && isnan(source->sampling.temperature));
    rf_source_close(source);

    for (int samples = 0; samples < 3; samples++) {
        static const char *const says[] = {"\"do_sample\":false,", "\"do_sample\":true,", ""};
        char text[256];
        snprintf(text, sizeof text,
                 "{%s\"temperature\":0.5,\"top_k\":20,\"min_p\":null,\"repetition_penalty\":1.25}",
                 says[samples]);
        hf_set(&model, HF_GENERATION, text);
        source = open_good(&model, folder);
        if (!source) continue;
        const struct rf_recommended_sampling *sampling = &source->sampling;
        CHECK(isnan(sampling->top_p) && isnan(sampling->min_p) && isnan(sampling->repeat_last_n));
        if (samples == 0) {
            CHECK(sampling->from == NULL && isnan(sampling->temperature));
        } else {
            CHECK_STR(sampling->from, "generation_config.json");
            CHECK(sampling->temperature == 0.5 && sampling->top_k == 20 &&
                  sampling->repeat_penalty == 1.25);
        }
        rf_source_close(source);
    }
}

static int read_memory(const struct hf_model *model, const unsigned char *shard, size_t bytes,
                       struct rf_error *error)
{
    struct probe probe = {0};
    struct rf_allocator allocator = probe_allocator(&probe);
    struct rf_source *source;
    unsigned char *copy = malloc(bytes ? bytes : 1);
    if (!copy || rf_source_new(&source, &allocator, error)) abort();
    memcpy(copy, shard, bytes);
    struct rf_hf_shard shards[] = {{"memory", copy, bytes}};
    struct rf_hf_files files = {.folder = "memory", .shards = shards, .n_shards = 1};
    struct rf_str *texts[] = {&files.config, &files.generation_config, &files.tokenizer_config,
                              &files.tokenizer};
    for (int i = 0; i < 4; i++)
        *texts[i] = (struct rf_str){model->texts[i].data, model->texts[i].bytes};
    int code = rf_hf_read(source, &files, error);
    rf_source_close(source);
    free(copy);
    CHECK_INT(probe.live, 0);
    return code;
}

static void test_truncation_and_corruption(void)
{
    static struct hf_model model;
    hf_qwen2(&model);
    size_t bytes;
    unsigned char *data = hf_shard(&model, 0, &bytes);
    struct rf_error error;
    for (size_t n = 0; n < bytes; n++) {
        error = (struct rf_error){0};
        int code = read_memory(&model, data, n, &error);
        CHECK_MSG(code == RF_ERR_FORMAT && strstr(error.text, "memory"), "cut at %zu: %d \"%s\"", n,
                  code, error.text);
    }
    CHECK_MSG(read_memory(&model, data, bytes, &error) == 0, "%s", error.text);
    for (size_t i = 0; i < bytes - model.data_bytes[0]; i++) {
        static const unsigned char flips[] = {0x01, 0x08, 0x80};
        for (size_t j = 0; j < sizeof flips; j++) {
            error = (struct rf_error){0};
            data[i] ^= flips[j];
            int code = read_memory(&model, data, bytes, &error);
            CHECK(code == 0 ? !error.text[0] : error.text[0] != 0);
            data[i] ^= flips[j];
        }
    }
    free(data);
}

static void test_header_length(void)
{
    static const int64_t extras[] = {1, 4096, 100 << 20, INT64_MAX / 2, -9000};
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++) {
        static struct hf_model model;
        hf_qwen2(&model);
        model.header_extra = extras[i];
        write_model(&model);
        struct probe probe = {0};
        struct rf_error error;
        CHECK_INT(open_folder(folder, &probe, &error), RF_ERR_FORMAT);
        CHECK_MSG(strstr(error.text, "model.safetensors: "), "%s", error.text);
    }
}

static void test_allocation_failures(void (*make)(struct hf_model *))
{
    static struct hf_model model;
    make(&model);
    if (model.texts[HF_INDEX].bytes) use_shards(&model);
    write_model(&model);
    long n = 1;
    for (; n < 1000; n++) {
        struct probe probe = {.fail_at = n};
        struct rf_error error;
        int code = open_folder(folder, &probe, &error);
        if (code == 0) break;
        CHECK_MSG(code == RF_ERR_MEMORY, "request %ld: %d \"%s\"", n, code, error.text);
    }
    CHECK_MSG(n > 3 && n < 1000, "opening made %ld requests", n - 1);
}

/* Nesting as deep as a file can hold must not exhaust the stack. */
static void test_deep_json(void)
{
    enum { DEPTH = 1 << 20 };
    static struct hf_model model;
    hf_qwen2(&model);
    write_model(&model);
    char path[600];
    snprintf(path, sizeof path, "%s/config.json", folder);
    char *deep = malloc(DEPTH);
    if (!deep) abort();
    memset(deep, '[', DEPTH);
    CHECK_INT(probe_write(path, deep, DEPTH), 0);
    free(deep);
    struct probe probe = {0};
    struct rf_error error;
    CHECK_INT(open_folder(folder, &probe, &error), RF_ERR_FORMAT);
    CHECK_MSG(strstr(error.text, "config.json: line 1"), "%s", error.text);
}

int main(void)
{
    if (probe_folder(folder, sizeof folder)) {
        fprintf(stderr, "no temporary folder\n");
        return 1;
    }
    test_good_qwen2();
    test_good_llama();
    test_good_variants();
    test_pre_tokenizers();
    test_character_bpe();
    test_unigram();
    test_recommended_sampling();
    for (size_t i = 0; i < sizeof qwen2_mutations / sizeof *qwen2_mutations; i++)
        test_mutation(hf_qwen2, &qwen2_mutations[i]);
    for (size_t i = 0; i < sizeof llama_mutations / sizeof *llama_mutations; i++)
        test_mutation(hf_llama, &llama_mutations[i]);
    test_good_lfm2();
    for (size_t i = 0; i < sizeof lfm2_mutations / sizeof *lfm2_mutations; i++)
        test_mutation(hf_lfm2, &lfm2_mutations[i]);
    test_good_qwen35();
    test_seeing_qwen35();
    for (size_t i = 0; i < sizeof qwen35_mutations / sizeof *qwen35_mutations; i++)
        test_mutation(hf_qwen35, &qwen35_mutations[i]);
    test_good_ministral3();
    for (size_t i = 0; i < sizeof ministral3_mutations / sizeof *ministral3_mutations; i++)
        test_mutation(hf_ministral3, &ministral3_mutations[i]);
    test_allocation_failures(hf_qwen35);
    test_allocation_failures(hf_lfm2);
    test_truncation_and_corruption();
    test_header_length();
    test_allocation_failures(hf_qwen2);
    test_allocation_failures(hf_llama);
    test_deep_json();
    remove_files();
    char path[600];
    snprintf(path, sizeof path, "%s/model-1.safetensors", folder);
    remove(path);
    rmdir(folder);
    return check_result();
}
