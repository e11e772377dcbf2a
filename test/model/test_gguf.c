/* The GGUF reader: a good file gives what it says; a bad one gives an error that names the file and
 * the thing, keeps no memory and no mapping. Bad files are made here: a small good one with one
 * thing changed. */
#define _DEFAULT_SOURCE
#include <float.h>
#include <math.h>

#include "model/gguf.h"
#include "model/gguf_writer.h"
#include "model/open.h"
#include "model/probe.h"
#include "model/reader.h"
#include "model/source.h"
#include "platform/memory.h"
#include "support/check.h"

static char folder[512], path[600];

/* Opens the bytes as a file and sees that nothing is left behind. On success the source is closed
 * as well. */
static int open_bytes(const void *data, size_t bytes, struct probe *probe, struct rf_error *error)
{
    struct rf_allocator allocator = probe_allocator(probe);
    struct rf_source *source = NULL;
    *error = (struct rf_error){0};
    if (probe_write(path, data, bytes)) return 1;
    int code = rf_source_open(&source, path, NULL, &allocator, error);
    CHECK_MSG(code == 0 || (source == NULL && error->code == code), "code %d, error's code %d",
              code, error->code);
    rf_source_close(source);
    CHECK_MSG(probe->live == 0, "%ld blocks are left after \"%s\"", probe->live, error->text);
    CHECK_MSG(probe_mappings(path) <= 0, "the mapping is left after \"%s\"", error->text);
    return code;
}

enum op {
    SET_U32,
    SET_U64,
    SET_F32,
    SET_F64,
    SET_BOOL,
    SET_STRING,
    SET_TYPE,       /* type of a value, bytes unchanged */
    SET_ELEM_TYPE,  /* type of an array's elements */
    SET_COUNT,      /* count of an array's elements */
    SET_LENGTH,     /* length of a string */
    SET_ELEM,       /* 4-byte element `index` of an array */
    SET_TOKEN_TEXT, /* tokens: the text of the byte token */
    DROP,
    RENAME, /* a key, to `text` */
    TENSOR_DIMS,
    TENSOR_NE,     /* dimension `index` */
    TENSOR_RESIZE, /* the same, and the tensors behind it move */
    TRAILING,      /* bytes behind the last tensor */
    TENSOR_TYPE,
    TENSOR_OFFSET,
    TENSOR_NAME, /* becomes `text` */
    TENSOR_DROP,
    TENSOR_ADD, /* a vector of `number` */
    VALUES,     /* claims `number` more metadata values */
    TENSORS,
    VERSION,
    MAGIC,
    MERGE /* the first merge becomes `text` */
};

struct mutation {
    const char *sentence; /* text that the error must contain */
    int code;
    enum op op;
    const char *target;
    uint64_t number;
    double real;
    const char *text;
    int index;
};

#define F RF_ERR_FORMAT
#define U RF_ERR_UNSUPPORTED
#define BIG 0xffffffffffffffffu

static const struct mutation llama_mutations[] = {
    /* the header */
    {"not a GGUF file", F, MAGIC, .number = 0x46554746},
    {"version 1;", U, VERSION, .number = 1},
    {"version 4;", U, VERSION, .number = 4},
    {"big-endian", U, VERSION, .number = 0x03000000},
    {"metadata values do not fit", F, VALUES, .number = BIG / 2},
    {"metadata values do not fit", F, VALUES, .number = 100000},
    {"needs", F, VALUES, .number = 1},
    {"tensors do not fit", F, TENSORS, .number = BIG / 2},
    {"tensors do not fit", F, TENSORS, .number = 0x10000000},
    {"", F, TENSORS, .number = 1},
    {"bytes follow the last tensor", F, TENSORS, .number = (uint64_t)-12}, /* claims none */
    /* metadata as such */
    {"a metadata string", F, SET_LENGTH, .target = "general.name", .number = BIG},
    {"a metadata string", F, SET_LENGTH, .target = "general.name", .number = 1u << 30},
    {"unknown type 13", F, SET_TYPE, .target = "general.name", .number = 13},
    {"unknown type 4294967295", F, SET_TYPE, .target = "general.name", .number = 0xffffffffu},
    {"is there twice", F, RENAME, .target = "llama.block_count", .text = "llama.context_length"},
    {"has 0 bytes", F, RENAME, .target = "llama.block_count", .text = ""},
    {"tokenizer.ggml.tokens", F, SET_COUNT, .target = "tokenizer.ggml.tokens", .number = BIG},
    {"tokenizer.ggml.tokens", F, SET_COUNT, .target = "tokenizer.ggml.tokens", .number = 1u << 28},
    {"tokenizer.ggml.scores", F, SET_COUNT, .target = "tokenizer.ggml.scores",
     .number = BIG / 4 + 1},
    {"array of arrays", U, SET_ELEM_TYPE, .target = "tokenizer.ggml.tokens", .number = W_ARRAY},
    {"unknown type 77", F, SET_ELEM_TYPE, .target = "tokenizer.ggml.tokens", .number = 77},
    {"tokenizer.ggml.scores is an array of INT32", F, SET_ELEM_TYPE,
     .target = "tokenizer.ggml.scores", .number = W_I32},
    {"tokenizer.ggml.token_type is an array of FLOAT32", F, SET_ELEM_TYPE,
     .target = "tokenizer.ggml.token_type", .number = W_F32},
    {"boolean of value 2", F, SET_BOOL, .target = "tokenizer.ggml.add_bos_token", .number = 2},
    {"tokenizer.ggml.add_bos_token is of type UINT32", F, SET_U32,
     .target = "tokenizer.ggml.add_bos_token", .number = 1},
    /* alignment */
    {"general.alignment must be of type UINT32", F, SET_U64, .target = "general.alignment",
     .number = 32},
    {"general.alignment must be of type UINT32", F, SET_STRING, .target = "general.alignment",
     .text = "32"},
    {"general.alignment is 0", F, SET_U32, .target = "general.alignment", .number = 0},
    {"general.alignment is 33", F, SET_U32, .target = "general.alignment", .number = 33},
    {"general.alignment is 1;", F, SET_U32, .target = "general.alignment", .number = 1},
    {"general.alignment is 2147483648", F, SET_U32, .target = "general.alignment",
     .number = 0x80000000u},
    {"not a multiple of the alignment", F, SET_U32, .target = "general.alignment", .number = 4096},
    /* the architecture */
    {"general.architecture is missing", F, DROP, .target = "general.architecture"},
    {"\"mamba\" is not known", U, SET_STRING, .target = "general.architecture", .text = "mamba"},
    {"Nearest is llama", U, SET_STRING, .target = "general.architecture", .text = "mamba"},
    {"general.architecture is of type UINT32", F, SET_U32, .target = "general.architecture",
     .number = 1},
    {"reads images or sound", U, SET_STRING, .target = "general.type", .text = "mmproj"},
    {"general.type is \"adapter\"", U, SET_STRING, .target = "general.type", .text = "adapter"},
    {"split.count", U, SET_U32, .target = "split.count", .number = 3},
    {"llama.expert_used_count is missing", F, SET_U32, .target = "llama.expert_count", .number = 8},
    {"llama.attn_logit_softcapping", U, SET_F32, .target = "llama.attn_logit_softcapping",
     .real = 30},
    {"llama.logit_scale", U, SET_F32, .target = "llama.logit_scale", .real = 0.5},
    {"llama.attention.causal", U, SET_BOOL, .target = "llama.attention.causal", .number = 0},
    /* parameters */
    {"llama.block_count is missing", F, DROP, .target = "llama.block_count"},
    {"llama.block_count is 0", F, SET_U32, .target = "llama.block_count", .number = 0},
    {"blk.1.attn_norm.weight is missing", F, SET_U32, .target = "llama.block_count", .number = 2},
    {"blk.1.attn_norm.weight is missing", F, SET_U32, .target = "llama.block_count",
     .number = 0x7fffffff},
    {"llama.block_count is 4294967295", F, SET_U32, .target = "llama.block_count",
     .number = 0xffffffffu},
    {"llama.block_count is of type FLOAT32", F, SET_F32, .target = "llama.block_count", .real = 1},
    {"llama.block_count", F, SET_U64, .target = "llama.block_count", .number = BIG},
    {"llama.context_length is 0", F, SET_U32, .target = "llama.context_length", .number = 0},
    {"llama.context_length is missing", F, DROP, .target = "llama.context_length"},
    {"llama.embedding_length is 0", F, SET_U32, .target = "llama.embedding_length", .number = 0},
    {"token_embd.weight is [8, 6, 1, 1], but", F, SET_U32, .target = "llama.embedding_length",
     .number = 16},
    {"llama.feed_forward_length is missing", F, DROP, .target = "llama.feed_forward_length"},
    {"blk.0.ffn_gate.weight is [8, 16, 1, 1], but the parameters ask for [8, 32]", F, SET_U32,
     .target = "llama.feed_forward_length", .number = 32},
    {"llama.attention.head_count is missing", F, DROP, .target = "llama.attention.head_count"},
    {"llama.attention.head_count is 0", F, SET_U32, .target = "llama.attention.head_count",
     .number = 0},
    {"3 attention heads do not divide", F, SET_U32, .target = "llama.attention.head_count",
     .number = 3},
    {"llama.attention.head_count_kv is 0", F, SET_U32, .target = "llama.attention.head_count_kv",
     .number = 0},
    {"3 key/value heads do not divide 2", F, SET_U32, .target = "llama.attention.head_count_kv",
     .number = 3},
    {"blk.0.attn_k.weight", F, SET_U32, .target = "llama.attention.head_count_kv", .number = 2},
    {"blk.0.attn_q.weight is [8, 8", F, SET_U32, .target = "llama.attention.key_length",
     .number = 8},
    {"too many", F, SET_U32, .target = "llama.attention.key_length", .number = 0x7ffffffe},
    {"values of 2 elements", U, SET_U32, .target = "llama.attention.value_length", .number = 2},
    {"the rotated dimension is 3", F, SET_U32, .target = "llama.rope.dimension_count", .number = 3},
    {"the rotated dimension is 6", F, SET_U32, .target = "llama.rope.dimension_count", .number = 6},
    {"llama.rope.dimension_count is 0", F, SET_U32, .target = "llama.rope.dimension_count",
     .number = 0},
    {"epsilon of the norms is 0", F, SET_F32, .target = "llama.attention.layer_norm_rms_epsilon",
     .real = 0},
    {"epsilon of the norms is -1", F, SET_F32, .target = "llama.attention.layer_norm_rms_epsilon",
     .real = -1},
    {"epsilon of the norms is nan", F, SET_F32, .target = "llama.attention.layer_norm_rms_epsilon",
     .real = (double)NAN},
    {"epsilon of the norms is inf", F, SET_F64, .target = "llama.attention.layer_norm_rms_epsilon",
     .real = (double)INFINITY},
    {"layer_norm_rms_epsilon is missing", F, DROP,
     .target = "llama.attention.layer_norm_rms_epsilon"},
    {"theta) is 0", F, SET_F32, .target = "llama.rope.freq_base", .real = 0},
    {"theta) is nan", F, SET_F32, .target = "llama.rope.freq_base", .real = (double)NAN},
    {"llama.rope.freq_base is of type UINT32", F, SET_U32, .target = "llama.rope.freq_base",
     .number = 10000},
    {"scale of the positions is", F, SET_F32, .target = "llama.rope.scaling.factor", .real = -2},
    {"scale of the positions is", F, SET_F32, .target = "llama.rope.scaling.factor",
     .real = (double)NAN},
    {"original_context_length", F, SET_STRING, .target = "llama.rope.scaling.type",
     .text = "longrope"},
    {"type is \"dynamic\"; of this architecture none, linear, yarn, longrope and llama3", U,
     SET_STRING, .target = "llama.rope.scaling.type", .text = "dynamic"},
    {"attention factor of the rotation is -1", F, SET_F32,
     .target = "llama.rope.scaling.attn_factor", .real = -1},
    {"llama.rope.scaling.yarn_ext_factor is 0.5", U, SET_F32,
     .target = "llama.rope.scaling.yarn_ext_factor", .real = 0.5},
    {"llama.rope.scaling.yarn_log_multiplier is 1", U, SET_F32,
     .target = "llama.rope.scaling.yarn_log_multiplier", .real = 1},
    /* tensors */
    {"has 0 dimensions", F, TENSOR_DIMS, .target = "blk.0.attn_q.weight", .number = 0},
    {"has 5 dimensions", F, TENSOR_DIMS, .target = "blk.0.attn_q.weight", .number = 5},
    {"has 4294967295 dimensions", F, TENSOR_DIMS, .target = "blk.0.attn_q.weight",
     .number = 0xffffffffu},
    {"dimension 0 is 0", F, TENSOR_NE, .target = "blk.0.attn_q.weight", .number = 0},
    {"dimension 1 is 18446744073709551615", F, TENSOR_NE, .target = "blk.0.attn_q.weight",
     .number = BIG, .index = 1},
    {"larger than any file", F, TENSOR_NE, .target = "blk.0.attn_q.weight", .number = BIG / 2,
     .index = 1},
    {"larger than any file", F, TENSOR_NE, .target = "blk.0.attn_q.weight",
     .number = (uint64_t)1 << 60, .index = 1},
    {"go beyond the", F, TENSOR_NE, .target = "blk.0.attn_q.weight", .number = 1u << 30,
     .index = 1},
    {"blk.0.attn_q.weight is [8, 4", F, TENSOR_RESIZE, .target = "blk.0.attn_q.weight", .number = 4,
     .index = 1},
    {"attn_k.weight: offset 480 is not that behind the tensor before it, 352", F, TENSOR_NE,
     .target = "blk.0.attn_q.weight", .number = 4, .index = 1},
    {"type 40 (NVFP4)", U, TENSOR_TYPE, .target = "blk.0.attn_q.weight", .number = 40},
    {"type 4 (unknown)", U, TENSOR_TYPE, .target = "blk.0.attn_q.weight", .number = 4},
    {"type 4294967295 (unknown)", U, TENSOR_TYPE, .target = "blk.0.attn_q.weight",
     .number = 0xffffffffu},
    {"Q8_0 comes in blocks of 32", F, TENSOR_TYPE, .target = "blk.0.attn_q.weight", .number = 8},
    {"not a multiple of the alignment", F, TENSOR_OFFSET, .target = "blk.0.attn_q.weight",
     .number = 8},
    {"offset 32 is not that behind", F, TENSOR_OFFSET, .target = "blk.0.attn_q.weight",
     .number = 32},
    {"offset 0 is not that behind", F, TENSOR_OFFSET, .target = "blk.0.attn_q.weight", .number = 0},
    {"is not that behind", F, TENSOR_OFFSET, .target = "blk.0.attn_q.weight", .number = BIG - 31},
    {"is not that behind", F, TENSOR_OFFSET, .target = "blk.0.attn_q.weight",
     .number = (uint64_t)1 << 40},
    {"two tensors are called blk.0.attn_k.weight", F, TENSOR_NAME, .target = "blk.0.attn_v.weight",
     .text = "blk.0.attn_k.weight"},
    {"a tensor's name", F, TENSOR_NAME, .target = "blk.0.attn_v.weight", .text = ""},
    {"blk.0.attn_v.weight is missing", F, TENSOR_NAME, .target = "blk.0.attn_v.weight",
     .text = "blk.0.attn_w.weight"},
    {"blk.0.ffn_down.weight is missing", F, TENSOR_DROP, .target = "blk.0.ffn_down.weight"},
    {"token_embd.weight is missing", F, TENSOR_DROP, .target = "token_embd.weight"},
    {"output_norm.weight is missing", F, TENSOR_DROP, .target = "output_norm.weight"},
    {"blk.0.attn_norm.bias has no place", U, TENSOR_ADD, .target = "blk.0.attn_norm.bias",
     .number = 8},
    {"blk.0.ffn_gate_inp.weight has no place", U, TENSOR_ADD, .target = "blk.0.ffn_gate_inp.weight",
     .number = 8},
    {"blk.1.attn_norm.weight has no place", U, TENSOR_ADD, .target = "blk.1.attn_norm.weight",
     .number = 8},
    {"blk.00.attn_norm.weight has no place", U, TENSOR_ADD, .target = "blk.00.attn_norm.weight",
     .number = 8},
    {"blk.0.attn_q_norm.weight has no place", U, TENSOR_ADD, .target = "blk.0.attn_q_norm.weight",
     .number = 4},
    {"blk.0.attn_k.bias is missing", F, TENSOR_ADD, .target = "blk.0.attn_q.bias", .number = 8},
    {"blk.0.ffn_gate.bias is missing", F, TENSOR_ADD, .target = "blk.0.ffn_down.bias", .number = 8},
    {"blk.0.attn_output.bias is [7", F, TENSOR_ADD, .target = "blk.0.attn_output.bias",
     .number = 7},
    {"rope_freqs.weight is [3", F, TENSOR_ADD, .target = "rope_freqs.weight", .number = 3},
    {"32 bytes follow the last tensor", F, TRAILING, .number = 32},
    {"output.weight is [8, 5", F, TENSOR_RESIZE, .target = "output.weight", .number = 5,
     .index = 1},
    /* the vocabulary */
    {"tokenizer.ggml.model is missing", F, DROP, .target = "tokenizer.ggml.model"},
    {"\"t5\"", U, SET_STRING, .target = "tokenizer.ggml.model", .text = "t5"},
    {"tokenizer.ggml.merges is missing", F, SET_STRING, .target = "tokenizer.ggml.model",
     .text = "gemma4"},
    {"tokenizer.ggml.tokens is missing", F, DROP, .target = "tokenizer.ggml.tokens"},
    {"tokenizer.ggml.tokens is of type STRING", F, SET_STRING, .target = "tokenizer.ggml.tokens",
     .text = "a"},
    {"tokenizer.ggml.bos_token_id is 6", F, SET_U32, .target = "tokenizer.ggml.bos_token_id",
     .number = 6},
    {"tokenizer.ggml.eos_token_id is 4294967294", F, SET_U32,
     .target = "tokenizer.ggml.eos_token_id", .number = 0xfffffffeu},
    {"tokenizer.ggml.eot_token_id is 99", F, SET_U32, .target = "tokenizer.ggml.eot_token_id",
     .number = 99},
    {"tokenizer.ggml.unknown_token_id is of type STRING", F, SET_STRING,
     .target = "tokenizer.ggml.unknown_token_id", .text = "0"},
    {"token 5 has the unknown type", F, SET_ELEM, .target = "tokenizer.ggml.token_type",
     .number = 7, .index = 5},
    {"token 5 has the unknown type", F, SET_ELEM, .target = "tokenizer.ggml.token_type",
     .number = 257, .index = 5},
    {"score of token 4 is not a finite number", F, SET_ELEM, .target = "tokenizer.ggml.scores",
     .number = 0x7fc00000u, .index = 4},
    {"reads \"<0x-1>\"", F, SET_TOKEN_TEXT, .target = "tokenizer.ggml.tokens", .text = "<0x-1>"},
    {"reads \"<0xg0>\"", F, SET_TOKEN_TEXT, .target = "tokenizer.ggml.tokens", .text = "<0xg0>"},
    {"tokenizer.chat_template is of type UINT32", F, SET_U32, .target = "tokenizer.chat_template",
     .number = 1},
    {"general.name is of type UINT32", F, SET_U32, .target = "general.name", .number = 1},
};

static const struct mutation qwen2_mutations[] = {
    {"blk.0.attn_v.bias is missing", F, TENSOR_DROP, .target = "blk.0.attn_v.bias"},
    {"blk.0.attn_q.bias is missing", F, TENSOR_DROP, .target = "blk.0.attn_q.bias"},
    {"tokenizer.ggml.merges is missing", F, DROP, .target = "tokenizer.ggml.merges"},
    {"tokenizer.ggml.merges[0] is \"ab\"", F, MERGE, .text = "ab"},
    {"tokenizer.ggml.merges[0] is \" ab\"", F, MERGE, .text = " ab"},
    {"tokenizer.ggml.merges[0] is \"ab \"", F, MERGE, .text = "ab "},
    {"tokenizer.ggml.merges[0] is \"a b c\"", F, MERGE, .text = "a b c"},
    {"tokenizer.ggml.merges[0] is \"\"", F, MERGE, .text = ""},
    {"tokenizer.ggml.merges is of type STRING", F, SET_STRING, .target = "tokenizer.ggml.merges",
     .text = "a b"},
    {"has 5 tokens, but token_embd.weight has 4 rows", F, TENSOR_RESIZE,
     .target = "token_embd.weight", .number = 4, .index = 1},
    {"rope_freqs.weight has no place", U, TENSOR_ADD, .target = "rope_freqs.weight", .number = 2},
    {"qwen2.rope.scaling.type is \"dynamic\"; of this architecture none, linear, yarn are", U,
     SET_STRING, .target = "qwen2.rope.scaling.type", .text = "dynamic"},
};

static const struct mutation lfm2_mutations[] = {
    {"lfm2.shortconv.l_cache is missing", F, DROP, .target = "lfm2.shortconv.l_cache"},
    {"lfm2.shortconv.l_cache is 0", F, SET_U32, .target = "lfm2.shortconv.l_cache", .number = 0},
    {"convolutions over 1 rows; from 2 to 16 are supported", U, SET_U32,
     .target = "lfm2.shortconv.l_cache", .number = 1},
    {"convolutions over 17 rows", U, SET_U32, .target = "lfm2.shortconv.l_cache", .number = 17},
    {"blk.1.shortconv.conv.weight is [3, 8, 1, 1], but the parameters ask for [4, 8]", F, SET_U32,
     .target = "lfm2.shortconv.l_cache", .number = 4},
    {"head_count_kv is 0; it must be from 1", F, SET_ELEM, .target = "lfm2.attention.head_count_kv",
     .number = 0, .index = 0},
    {"blk.1.attn_q.weight is missing", F, SET_ELEM, .target = "lfm2.attention.head_count_kv",
     .number = 1, .index = 1},
    {"head_count_kv differs between layers (1 and 2)", U, SET_ELEM,
     .target = "lfm2.attention.head_count_kv", .number = 2, .index = 1},
    {"head_count_kv differs between layers (1 and -1)", U, SET_ELEM,
     .target = "lfm2.attention.head_count_kv", .number = BIG, .index = 1},
    {"head_count_kv is of type FLOAT32, not integers", F, SET_ELEM_TYPE,
     .target = "lfm2.attention.head_count_kv", .number = W_F32},
    {"head_count_kv has 2 elements, but the model has 1 layers", F, SET_U32,
     .target = "lfm2.block_count", .number = 1},
    {"blk.1.shortconv.in_proj.weight is missing", F, TENSOR_DROP,
     .target = "blk.1.shortconv.in_proj.weight"},
    {"blk.1.shortconv.conv.weight is missing", F, TENSOR_DROP,
     .target = "blk.1.shortconv.conv.weight"},
    {"blk.1.shortconv.in_proj.weight is [8, 23, 1, 1], but the parameters ask for [8, 24]", F,
     TENSOR_RESIZE, .target = "blk.1.shortconv.in_proj.weight", .number = 23, .index = 1},
    {"token_embd_norm.weight is missing", F, TENSOR_NAME, .target = "token_embd_norm.weight",
     .text = "output_norm.weight"},
    {"blk.1.attn_q.weight has no place", U, TENSOR_ADD, .target = "blk.1.attn_q.weight",
     .number = 8},
    {"blk.1.shortconv.conv.bias has no place", U, TENSOR_ADD, .target = "blk.1.shortconv.conv.bias",
     .number = 8},
    {"dense_2.weight has no place", U, TENSOR_ADD, .target = "dense_2.weight", .number = 8},
};

static const struct mutation qwen35_mutations[] = {
    {"qwen35.ssm.conv_kernel is missing", F, DROP, .target = "qwen35.ssm.conv_kernel"},
    {"qwen35.ssm.conv_kernel is 0", F, SET_U32, .target = "qwen35.ssm.conv_kernel", .number = 0},
    {"qwen35.ssm.state_size is missing", F, DROP, .target = "qwen35.ssm.state_size"},
    {"qwen35.ssm.state_size is 0", F, SET_U32, .target = "qwen35.ssm.state_size", .number = 0},
    {"qwen35.ssm.group_count is missing", F, DROP, .target = "qwen35.ssm.group_count"},
    {"qwen35.ssm.group_count is 0", F, SET_U32, .target = "qwen35.ssm.group_count", .number = 0},
    {"qwen35.ssm.time_step_rank is missing", F, DROP, .target = "qwen35.ssm.time_step_rank"},
    {"qwen35.ssm.time_step_rank is 0", F, SET_U32, .target = "qwen35.ssm.time_step_rank",
     .number = 0},
    {"qwen35.ssm.inner_size is missing", F, DROP, .target = "qwen35.ssm.inner_size"},
    {"qwen35.ssm.inner_size is 0", F, SET_U32, .target = "qwen35.ssm.inner_size", .number = 0},
    {"inner_size: 2 value heads do not divide it, 9", F, SET_U32, .target = "qwen35.ssm.inner_size",
     .number = 9},
    {"inner_size: 2147483647 value heads do not divide it, 8", F, SET_U32,
     .target = "qwen35.ssm.time_step_rank", .number = 0x7fffffff},
    {"3 key heads of the delta rule do not divide its 2 value heads", F, SET_U32,
     .target = "qwen35.ssm.group_count", .number = 3},
    {"2147483647 key heads and 2 value heads of 4 and 4 elements; from 1 to 1024 of each", U,
     SET_U32, .target = "qwen35.ssm.group_count", .number = 0x7fffffff},
    {"of 1025 and 4 elements", U, SET_U32, .target = "qwen35.ssm.state_size", .number = 1025},
    {"of 2147483647 and 4 elements", U, SET_U32, .target = "qwen35.ssm.state_size",
     .number = 0x7fffffff},
    {"of 4 and 1073741823 elements", U, SET_U32, .target = "qwen35.ssm.inner_size",
     .number = 0x7ffffffe},
    {"ssm.state_size is 4294967295", F, SET_U32, .target = "qwen35.ssm.state_size",
     .number = 0xffffffffu},
    {"convolutions over 1 rows", U, SET_U32, .target = "qwen35.ssm.conv_kernel", .number = 1},
    {"convolutions over 17 rows", U, SET_U32, .target = "qwen35.ssm.conv_kernel", .number = 17},
    {"blk.0.ssm_conv1d.weight is [4, 16, 1, 1], but the parameters ask for [3, 16]", F, SET_U32,
     .target = "qwen35.ssm.conv_kernel", .number = 3},
    {"blk.0.attn_qkv.weight is [8, 16, 1, 1], but the parameters ask for [8, 18]", F, SET_U32,
     .target = "qwen35.ssm.state_size", .number = 5},
    {"blk.0.ssm_beta.weight is [8, 2, 1, 1], but the parameters ask for [8, 8]", F, SET_U32,
     .target = "qwen35.ssm.time_step_rank", .number = 8},
    {"full_attention_interval is 0", F, SET_U32, .target = "qwen35.full_attention_interval",
     .number = 0},
    {"blk.0.attn_q.weight is missing", F, SET_U32, .target = "qwen35.full_attention_interval",
     .number = 1},
    {"no layer has attention", U, SET_U32, .target = "qwen35.full_attention_interval", .number = 3},
    {"nextn_predict_layers is 2", F, SET_U32, .target = "qwen35.nextn_predict_layers", .number = 2},
    {"no layer has attention", U, SET_U32, .target = "qwen35.nextn_predict_layers", .number = 1},
    {"blk.2.attn_norm.weight is missing", F, SET_U32, .target = "qwen35.block_count", .number = 3},
    {"full_attention_interval is of type FLOAT32", F, SET_F32,
     .target = "qwen35.full_attention_interval", .real = 2},
    {"blk.0.attn_qkv.weight is missing", F, TENSOR_DROP, .target = "blk.0.attn_qkv.weight"},
    {"blk.0.attn_gate.weight is missing", F, TENSOR_DROP, .target = "blk.0.attn_gate.weight"},
    {"blk.0.ssm_beta.weight is missing", F, TENSOR_DROP, .target = "blk.0.ssm_beta.weight"},
    {"blk.0.ssm_alpha.weight is missing", F, TENSOR_DROP, .target = "blk.0.ssm_alpha.weight"},
    {"blk.0.ssm_conv1d.weight is missing", F, TENSOR_DROP, .target = "blk.0.ssm_conv1d.weight"},
    {"blk.0.ssm_a is missing", F, TENSOR_DROP, .target = "blk.0.ssm_a"},
    {"blk.0.ssm_dt.bias is missing", F, TENSOR_DROP, .target = "blk.0.ssm_dt.bias"},
    {"blk.0.ssm_norm.weight is missing", F, TENSOR_DROP, .target = "blk.0.ssm_norm.weight"},
    {"blk.0.ssm_out.weight is missing", F, TENSOR_DROP, .target = "blk.0.ssm_out.weight"},
    {"blk.0.post_attention_norm.weight is missing", F, TENSOR_DROP,
     .target = "blk.0.post_attention_norm.weight"},
    {"blk.1.attn_q_norm.weight is missing", F, TENSOR_DROP, .target = "blk.1.attn_q_norm.weight"},
    {"blk.0.ssm_a is [3, 1, 1, 1], but the parameters ask for [2", F, TENSOR_RESIZE,
     .target = "blk.0.ssm_a", .number = 3},
    {"blk.0.ssm_norm.weight is [8, 1, 1, 1], but the parameters ask for [4", F, TENSOR_RESIZE,
     .target = "blk.0.ssm_norm.weight", .number = 8},
    {"blk.0.ssm_out.weight is [8, 7, 1, 1], but", F, TENSOR_RESIZE,
     .target = "blk.0.ssm_out.weight", .number = 7, .index = 1},
    {"blk.1.attn_q.weight is [8, 8, 1, 1], but the parameters ask for [8, 16]", F, TENSOR_RESIZE,
     .target = "blk.1.attn_q.weight", .number = 8, .index = 1},
    {"blk.0.attn_q.weight has no place", U, TENSOR_ADD, .target = "blk.0.attn_q.weight",
     .number = 8},
    {"blk.1.ssm_a has no place", U, TENSOR_ADD, .target = "blk.1.ssm_a", .number = 2},
    {"blk.2.attn_norm.weight has no place", U, TENSOR_ADD, .target = "blk.2.attn_norm.weight",
     .number = 8},
};

/* The same with a flag for each layer. */
static void w_qwen35_listed(struct w_file *file)
{
    static const unsigned char flags[] = {1, 0};
    w_qwen35(file);
    w_drop(file, "qwen35.full_attention_interval");
    w_add(w_array(file, "qwen35.attention.recurrent_layers", W_BOOL, 2), flags, 2);
}

/* A qwen3next without experts, with two key heads of 4 elements, each of two value heads of 3. As
 * in old files both matrices hold one key head's rows after the other's. */
static void w_qwen3next(struct w_file *file)
{
    static const struct {
        const char *name;
        uint64_t ne0, ne1;
    } tensors[] = {{"blk.0.ssm_in.weight", 8, 40},     {"blk.0.ssm_ba.weight", 8, 8},
                   {"blk.0.ssm_conv1d.weight", 4, 28}, {"blk.0.ssm_a", 4, 0},
                   {"blk.0.ssm_dt.bias", 4, 0},        {"blk.0.ssm_norm.weight", 3, 0},
                   {"blk.0.ssm_out.weight", 12, 8}};
    size_t n = 0;
    w_qwen35(file);
    for (size_t i = 0; i < file->n_tensors; i++)
        if (!strstr(file->tensors[i].name, ".ssm_") && !strstr(file->tensors[i].name, "attn_qkv") &&
            !strstr(file->tensors[i].name, "attn_gate"))
            file->tensors[n++] = file->tensors[i];
    file->n_tensors = n;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        w_tensor(file, tensors[i].name, tensors[i].ne0, tensors[i].ne1);
    w_u32(file, "qwen35.ssm.group_count", 2);
    w_u32(file, "qwen35.ssm.time_step_rank", 4);
    w_u32(file, "qwen35.ssm.inner_size", 12);
    for (size_t i = 0; i < file->n_values; i++) {
        char suffix[sizeof file->values[i].key], *key = file->values[i].key;
        if (strncmp(key, "qwen35", 6) != 0) continue;
        snprintf(suffix, sizeof suffix, "%.60s", key + 6);
        snprintf(key, sizeof file->values[i].key, "qwen3next%.60s", suffix);
    }
    w_string(file, "general.architecture", "qwen3next");
    w_string(file, "tokenizer.ggml.pre", "qwen2");
}

static const struct mutation qwen3next_mutations[] = {
    {"blk.0.ssm_in.weight has 40 rows, but the parameters ask for 48", F, SET_U32,
     .target = "qwen3next.ssm.inner_size", .number = 16},
    {"blk.0.ssm_in.weight has 40 rows, but the parameters ask for 44", F, SET_U32,
     .target = "qwen3next.ssm.state_size", .number = 5},
    {"blk.0.ssm_ba.weight has 8 rows, but the parameters ask for 24", F, SET_U32,
     .target = "qwen3next.ssm.time_step_rank", .number = 12},
    {"3 key heads of the delta rule do not divide its 4 value heads", F, SET_U32,
     .target = "qwen3next.ssm.group_count", .number = 3},
    {"key qwen3next.ssm.group_count is 0", F, SET_U32, .target = "qwen3next.ssm.group_count",
     .number = 0},
};

static const struct mutation granitehybrid_mutations[] = {
    {"granitehybrid.ssm.conv_kernel is missing", F, DROP,
     .target = "granitehybrid.ssm.conv_kernel"},
    {"granitehybrid.ssm.conv_kernel is 0", F, SET_U32, .target = "granitehybrid.ssm.conv_kernel",
     .number = 0},
    {"granitehybrid.ssm.state_size is missing", F, DROP, .target = "granitehybrid.ssm.state_size"},
    {"granitehybrid.ssm.state_size is 0", F, SET_U32, .target = "granitehybrid.ssm.state_size",
     .number = 0},
    {"granitehybrid.ssm.group_count is missing", F, DROP,
     .target = "granitehybrid.ssm.group_count"},
    {"granitehybrid.ssm.group_count is 0", F, SET_U32, .target = "granitehybrid.ssm.group_count",
     .number = 0},
    {"granitehybrid.ssm.time_step_rank is missing", F, DROP,
     .target = "granitehybrid.ssm.time_step_rank"},
    {"granitehybrid.ssm.time_step_rank is 0", F, SET_U32,
     .target = "granitehybrid.ssm.time_step_rank", .number = 0},
    {"granitehybrid.ssm.inner_size is missing", F, DROP, .target = "granitehybrid.ssm.inner_size"},
    {"granitehybrid.ssm.inner_size is 0", F, SET_U32, .target = "granitehybrid.ssm.inner_size",
     .number = 0},
    {"inner_size: 2 heads do not divide it, 9", F, SET_U32,
     .target = "granitehybrid.ssm.inner_size", .number = 9},
    {"3 groups of Mamba-2 do not divide its 2 heads", F, SET_U32,
     .target = "granitehybrid.ssm.group_count", .number = 3},
    {"with states of 1025 times 4 elements", U, SET_U32, .target = "granitehybrid.ssm.state_size",
     .number = 1025},
    {"with states of 2147483647 times 4 elements", U, SET_U32,
     .target = "granitehybrid.ssm.state_size", .number = 0x7fffffff},
    {"convolutions over 1000 rows", U, SET_U32, .target = "granitehybrid.ssm.conv_kernel",
     .number = 1000},
    {"blk.0.ssm_in.weight has 24 rows, but the parameters ask for 26", F, SET_U32,
     .target = "granitehybrid.ssm.state_size", .number = 4},
    {"head_count_kv has 2 elements, but the model has 3 layers", F, SET_U32,
     .target = "granitehybrid.block_count", .number = 3},
    {"expert_group_count is 4, which is not supported", U, RENAME,
     .target = "granitehybrid.ssm.conv_kernel", .text = "granitehybrid.expert_group_count"},
    {"moe_latent_size is 4, which is not supported", U, RENAME,
     .target = "granitehybrid.ssm.conv_kernel", .text = "granitehybrid.moe_latent_size"},
    {"blk.0.ssm_in.weight is missing", F, TENSOR_DROP, .target = "blk.0.ssm_in.weight"},
    {"blk.0.ssm_d is missing", F, TENSOR_DROP, .target = "blk.0.ssm_d"},
    {"blk.0.attn_q.weight has no place", U, TENSOR_ADD, .target = "blk.0.attn_q.weight",
     .number = 8},
};

static const struct mutation listed_mutations[] = {
    {"recurrent_layers has 2 elements for 1 layers", F, SET_U32, .target = "qwen35.block_count",
     .number = 1},
    {"recurrent_layers is an array of UINT8", F, SET_ELEM_TYPE,
     .target = "qwen35.attention.recurrent_layers", .number = W_U8},
    {"recurrent_layers is of type UINT32", F, SET_U32,
     .target = "qwen35.attention.recurrent_layers", .number = 1},
    {"no layer has attention", U, SET_ELEM, .target = "qwen35.attention.recurrent_layers",
     .number = 0x0101},
    {"blk.0.attn_q.weight is missing", F, SET_ELEM, .target = "qwen35.attention.recurrent_layers",
     .number = 0x0100},
};

static const struct mutation mistral3_mutations[] = {
    {"growth of the queries is inf", F, SET_F32, .target = "mistral3.attention.temperature_scale",
     .real = (double)INFINITY},
    {"growth of the queries is nan", F, SET_F32, .target = "mistral3.attention.temperature_scale",
     .real = (double)NAN},
    {"growth of the queries is -0.5", F, SET_F32, .target = "mistral3.attention.temperature_scale",
     .real = -0.5},
    {"temperature_scale is of type STRING", F, SET_STRING,
     .target = "mistral3.attention.temperature_scale", .text = "0.1"},
    {"original_context_length is 0", F, SET_U32,
     .target = "mistral3.rope.scaling.original_context_length", .number = 0},
    {"original_context_length is 4294967295", F, SET_U32,
     .target = "mistral3.rope.scaling.original_context_length", .number = 0xffffffffu},
    {"the YaRN scaling needs", F, SET_F32, .target = "mistral3.rope.scaling.yarn_log_multiplier",
     .real = (double)NAN},
    {"yarn_attn_factor is 1.5, which is not supported", U, SET_F32,
     .target = "mistral3.rope.scaling.yarn_attn_factor", .real = 1.5},
    {"sliding_window is of type FLOAT32", F, SET_F32, .target = "mistral3.attention.sliding_window",
     .real = 32},
    {"sliding_window is 4294967295", F, SET_U32, .target = "mistral3.attention.sliding_window",
     .number = 0xffffffffu},
    {"blk.0.ffn_norm.weight is missing", F, TENSOR_DROP, .target = "blk.0.ffn_norm.weight"},
    {"blk.0.attn_norm.bias has no place", U, TENSOR_ADD, .target = "blk.0.attn_norm.bias",
     .number = 8},
};

static const struct mutation cohere2_mutations[] = {
    {"cohere2.attention.layer_norm_epsilon is missing", F, DROP,
     .target = "cohere2.attention.layer_norm_epsilon"},
    {"epsilon of the norms is 0", F, SET_F32, .target = "cohere2.attention.layer_norm_epsilon",
     .real = 0},
    {"factor of the logits is inf", F, SET_F32, .target = "cohere2.logit_scale",
     .real = (double)INFINITY},
    {"factor of the logits is -1", F, SET_F32, .target = "cohere2.logit_scale", .real = -1},
    {"temperature_scale is 0.5, which is not supported", U, SET_F32,
     .target = "cohere2.attention.temperature_scale", .real = 0.5},
    {"sliding_window is of type STRING", F, SET_STRING,
     .target = "cohere2.attention.sliding_window", .text = "32"},
    {"sliding_window_pattern has 1 elements for 2 layers", F, SET_U32,
     .target = "cohere2.block_count", .number = 2},
    {"sliding_window_pattern is an array of UINT8", F, SET_ELEM_TYPE,
     .target = "cohere2.attention.sliding_window_pattern", .number = W_U8},
    {"sliding_window_pattern is 0", F, SET_U32,
     .target = "cohere2.attention.sliding_window_pattern", .number = 0},
    {"blk.0.attn_norm.weight is missing", F, TENSOR_DROP, .target = "blk.0.attn_norm.weight"},
    {"output_norm.weight is missing", F, TENSOR_DROP, .target = "output_norm.weight"},
    {"blk.0.ffn_norm.weight has no place", U, TENSOR_ADD, .target = "blk.0.ffn_norm.weight",
     .number = 8},
    {"blk.0.attn_norm.bias has no place", U, TENSOR_ADD, .target = "blk.0.attn_norm.bias",
     .number = 8},
};

static const struct mutation starcoder2_mutations[] = {
    {"starcoder2.attention.layer_norm_epsilon is missing", F, RENAME,
     .target = "starcoder2.attention.layer_norm_epsilon",
     .text = "starcoder2.attention.layer_norm_rms_epsilon"},
    {"blk.0.attn_norm.weight is missing", F, TENSOR_DROP, .target = "blk.0.attn_norm.weight"},
    {"blk.0.attn_norm.bias is missing", F, TENSOR_DROP, .target = "blk.0.attn_norm.bias"},
    {"blk.0.ffn_norm.bias is missing", F, TENSOR_DROP, .target = "blk.0.ffn_norm.bias"},
    {"output_norm.bias is missing", F, TENSOR_DROP, .target = "output_norm.bias"},
    {"output_norm.bias is [7, 1, 1, 1], but the parameters ask for [8", F, TENSOR_RESIZE,
     .target = "output_norm.bias", .number = 7},
    {"blk.0.ffn_down.bias is missing", F, TENSOR_DROP, .target = "blk.0.ffn_down.bias"},
    {"blk.0.ffn_gate.weight has no place", U, TENSOR_ADD, .target = "blk.0.ffn_gate.weight",
     .number = 8},
};

static const struct mutation olmo3_mutations[] = {
    {"base frequency of the local rotation is inf", F, SET_F32,
     .target = "olmo2.rope.freq_base_swa", .real = (double)INFINITY},
    {"base frequency of the local rotation is -1", F, SET_F32, .target = "olmo2.rope.freq_base_swa",
     .real = -1},
    {"sliding_window_pattern is 0", F, SET_U32, .target = "olmo2.attention.sliding_window_pattern",
     .number = 0},
    {"blk.0.attn_q_norm.weight is missing", F, TENSOR_DROP, .target = "blk.0.attn_q_norm.weight"},
    {"blk.0.attn_q_norm.weight is [4, 1, 1, 1], but the parameters ask for [8", F, TENSOR_RESIZE,
     .target = "blk.0.attn_q_norm.weight", .number = 4},
    {"blk.0.post_attention_norm.weight is missing", F, TENSOR_DROP,
     .target = "blk.0.post_attention_norm.weight"},
    {"blk.0.post_ffw_norm.weight is missing", F, TENSOR_DROP,
     .target = "blk.0.post_ffw_norm.weight"},
    {"blk.0.attn_norm.weight has no place", U, TENSOR_ADD, .target = "blk.0.attn_norm.weight",
     .number = 8},
};

static const struct mutation glm4_mutations[] = {
    {"blk.0.ffn_up.weight has 31 rows, but the parameters ask for 32", F, TENSOR_RESIZE,
     .target = "blk.0.ffn_up.weight", .number = 31, .index = 1},
    {"blk.0.post_ffw_norm.weight is missing", F, TENSOR_DROP,
     .target = "blk.0.post_ffw_norm.weight"},
    {"blk.0.ffn_norm.weight is missing", F, TENSOR_DROP, .target = "blk.0.ffn_norm.weight"},
    {"a sliding window is not supported in a glm4 model", U, SET_U32,
     .target = "glm4.attention.sliding_window", .number = 32},
};

static struct w_value *value_of(struct w_file *file, const char *key)
{
    for (size_t i = 0; i < file->n_values; i++)
        if (strcmp(file->values[i].key, key) == 0) return &file->values[i];
    abort();
}

static void set_byte_token(struct w_file *file, const char *text)
{
    const char *tokens[] = {"<unk>", "<s>", "</s>", text, "\xe2\x96\x81", "a"};
    w_strings(file, "tokenizer.ggml.tokens", tokens, 6);
}

static void apply(struct w_file *file, const struct mutation *m)
{
    float single = (float)m->real;
    uint32_t number = (uint32_t)m->number;
    struct w_tensor *tensor = m->target ? w_find(file, m->target) : NULL;
    switch (m->op) {
    case SET_U32: w_u32(file, m->target, number); break;
    case SET_U64: w_add(w_set(file, m->target, W_U64), &m->number, 8); break;
    case SET_F32: w_add(w_set(file, m->target, W_F32), &single, 4); break;
    case SET_F64: w_add(w_set(file, m->target, W_F64), &m->real, 8); break;
    case SET_BOOL: w_bool(file, m->target, (int)m->number); break;
    case SET_STRING: w_string(file, m->target, m->text); break;
    case SET_TYPE: value_of(file, m->target)->type = number; break;
    case SET_ELEM_TYPE: memcpy(value_of(file, m->target)->data, &number, 4); break;
    case SET_COUNT: memcpy(value_of(file, m->target)->data + 4, &m->number, 8); break;
    case SET_LENGTH: memcpy(value_of(file, m->target)->data, &m->number, 8); break;
    case SET_ELEM: memcpy(value_of(file, m->target)->data + 12 + 4 * m->index, &number, 4); break;
    case SET_TOKEN_TEXT: set_byte_token(file, m->text); break;
    case DROP: w_drop(file, m->target); break;
    case RENAME:
        snprintf(value_of(file, m->target)->key, sizeof file->values->key, "%s", m->text);
        break;
    case TENSOR_DIMS: tensor->n_dims = number; break;
    case TENSOR_NE: tensor->ne[m->index] = m->number; break;
    case TENSOR_RESIZE:
        tensor->ne[m->index] = m->number;
        w_place(file);
        break;
    case TENSOR_TYPE: tensor->type = number; break;
    case TRAILING: file->data_bytes += m->number; break;
    case TENSOR_OFFSET: tensor->offset = m->number; break;
    case TENSOR_NAME: snprintf(tensor->name, sizeof tensor->name, "%s", m->text); break;
    case TENSOR_DROP: w_drop_tensor(file, m->target); break;
    case TENSOR_ADD: w_tensor(file, m->target, m->number, 0); break;
    case VALUES: file->extra_values = (int64_t)m->number; break;
    case TENSORS: file->extra_tensors = (int64_t)m->number; break;
    case VERSION: file->version = number; break;
    case MAGIC: file->magic = number; break;
    case MERGE: w_strings(file, "tokenizer.ggml.merges", &m->text, 1); break;
    }
}

static void test_mutation(void (*make)(struct w_file *), const struct mutation *m)
{
    static struct w_file file;
    make(&file);
    apply(&file, m);
    size_t bytes, header;
    unsigned char *data = w_bytes(&file, &bytes, &header);
    struct probe probe = {0};
    struct rf_error error;
    int code = open_bytes(data, bytes, &probe, &error);
    const char *target = m->target ? m->target : "";
    CHECK_MSG(code == m->code, "%s (%s): code %d, not %d: \"%s\"", m->sentence, target, code,
              m->code, error.text);
    CHECK_MSG(strstr(error.text, m->sentence), "\"%s\" does not say \"%s\"", error.text,
              m->sentence);
    CHECK_MSG(strstr(error.text, path), "\"%s\" does not name the file", error.text);
    CHECK_MSG(probe.largest < 1 << 20, "a file of %zu bytes made %zu bytes be asked for", bytes,
              probe.largest);
    free(data);
}

static void test_good_llama(void)
{
    static struct w_file file;
    w_llama(&file);
    file.version = 2;
    size_t bytes, header;
    unsigned char *data = w_bytes(&file, &bytes, &header);
    struct rf_source *source;
    struct rf_error error = {0};
    CHECK_INT(probe_write(path, data, bytes), 0);
    CHECK_MSG(rf_source_open(&source, path, NULL, &rf_system_allocator, &error) == 0, "%s",
              error.text);
    if (!source) return;
    const struct rf_params *p = &source->params;
    CHECK_STR(p->arch_name, "llama");
    CHECK(p->arch == RF_ARCH_LLAMA && p->rope_style == RF_ROPE_NORM);
    CHECK(p->n_layer == 1 && p->n_embd == 8 && p->n_head == 2 && p->n_head_kv == 1 &&
          p->head_dim == 4);
    CHECK(p->n_ff == 16 && p->n_vocab == 6 && p->n_ctx_train == 64 && p->rope_dim == 4);
    CHECK(p->rms_eps == 1e-5f && p->rope.theta == 10000.0f && p->rope.scale == 1.0f &&
          !p->rope.factors);
    CHECK(!p->tied_output && !p->qkv_bias && !p->qk_norm);
    CHECK_STR(source->container, "GGUF v2");
    CHECK_STR(source->name, "tiny");
    CHECK(source->chat_template_bytes == 14 &&
          memcmp(source->chat_template, "{{ messages }}", 14) == 0);
    CHECK(source->file_bytes == bytes);
    CHECK_INT(source->n_tensors, 12);
    const struct rf_tensor *tensor = rf_source_tensor(source, "blk.0.ffn_down.weight");
    CHECK(tensor && tensor->ne[0] == 16 && tensor->ne[1] == 8 && tensor->n_dims == 2 &&
          tensor->bytes == 512);
    float one = 0;
    if (tensor) memcpy(&one, (const char *)tensor->data + 508, 4);
    CHECK(one == 1.0f);
    CHECK(!rf_source_tensor(source, "blk.0.ffn_down") && !rf_source_tensor(source, "") &&
          !rf_source_tensor(source, "z"));
    const struct rf_vocab *v = &source->vocab;
    CHECK(v->kind == RF_VOCAB_SENTENCEPIECE && v->n_tokens == 6 && v->scores &&
          v->scores[5] == -2.0f);
    CHECK(v->bos == 1 && v->eos == 2 && v->unk == 0 && v->pad == -1 && v->eot == -1);
    CHECK(v->add_bos == 1 && v->add_eos == -1 && v->types[3] == RF_TOKEN_BYTE);
    CHECK(v->tokens[5].bytes == 1 && v->tokens[5].data[0] == 'a' && v->spm_proto.bytes == 0);
    rf_source_close(source);
    free(data);
}

/* Opens the file that an edit makes; the caller closes it. */
static struct rf_source *open_edited(void (*make)(struct w_file *), void (*edit)(struct w_file *))
{
    static struct w_file file;
    make(&file);
    if (edit) edit(&file);
    w_place(&file);
    size_t bytes, header;
    unsigned char *data = w_bytes(&file, &bytes, &header);
    struct rf_source *source = NULL;
    struct rf_error error = {0};
    CHECK_INT(probe_write(path, data, bytes), 0);
    CHECK_MSG(rf_source_open(&source, path, NULL, &rf_system_allocator, &error) == 0, "%s",
              error.text);
    free(data);
    return source;
}

static void as_llama3(struct w_file *file)
{
    w_tensor(file, "rope_freqs.weight", 2, 0);
    w_f32(file, "llama.rope.scaling.factor", 4.0f);
    w_u32(file, "llama.attention.sliding_window", 32);
    w_drop(file, "tokenizer.ggml.bos_token_id");
    w_drop(file, "tokenizer.ggml.token_type");
    w_drop(file, "llama.attention.head_count_kv");
    w_find(file, "blk.0.attn_k.weight")->ne[1] = 8;
    w_find(file, "blk.0.attn_v.weight")->ne[1] = 8;
    w_drop_tensor(file, "output.weight");
}

static void with_yarn(struct w_file *file)
{
    w_string(file, "llama.rope.scaling.type", "yarn");
    w_f32(file, "llama.rope.scaling.factor", 4.0f);
    w_u32(file, "llama.rope.scaling.original_context_length", 8192);
    w_f32(file, "llama.rope.scaling.attn_factor", 0.5f);
}

/* Two pairs: with the usual betas the ramp goes from 0.8 to 1.6, as whole pairs from 0 to 2. */
static void test_yarn(void)
{
    struct rf_source *source = open_edited(w_llama, with_yarn);
    if (!source) return;
    const struct rf_params *p = &source->params;
    CHECK(p->rope.factors && p->rope.factors[0] == 1.0f &&
          p->rope.factors[1] == (float)(1 / (0.5 / 4 + 0.5)) && p->rope.scale == 1.0f);
    CHECK(fabs((double)p->rope.magnitude - 0.5 * (1 + 0.1 * log(4.0))) < 1e-7);
    CHECK_INT(p->n_ctx_train, 4 * 8192);
    rf_source_close(source);
}

static void with_own_factor(struct w_file *file)
{
    with_yarn(file);
    w_f32(file, "llama.rope.scaling.yarn_attn_factor", (float)(1 + 0.1 * log(4.0)));
}

static void with_other_factor(struct w_file *file)
{
    with_yarn(file);
    w_f32(file, "llama.rope.scaling.yarn_attn_factor", 1.25f);
}

/* transformers' attention_factor, which is read where llama.cpp computes the same without it. */
static void test_attention_factor(void)
{
    struct rf_source *source = open_edited(w_llama, with_own_factor), *other = NULL;
    if (source)
        CHECK(fabs((double)source->params.rope.magnitude - 0.5 * (1 + 0.1 * log(4.0))) < 1e-7);
    rf_source_close(source);
    static struct w_file file;
    struct rf_error error = {0};
    size_t bytes, header;
    w_llama(&file);
    with_other_factor(&file);
    w_place(&file);
    unsigned char *data = w_bytes(&file, &bytes, &header);
    CHECK_INT(probe_write(path, data, bytes), 0);
    CHECK_INT(rf_source_open(&other, path, NULL, &rf_system_allocator, &error), RF_ERR_UNSUPPORTED);
    CHECK_MSG(strstr(error.text, "yarn_attn_factor is 1.25"), "%s", error.text);
    rf_source_close(other);
    free(data);
}

static void unchanged(struct w_file *file)
{
    w_place(file);
}

/* The files that the bad ones are made of. */
static void test_good_windows(void)
{
    static void (*const makers[])(struct w_file *) = {w_mistral3, w_cohere2, w_starcoder2, w_olmo3,
                                                      w_glm4};
    static const int32_t windows[] = {32, 32, 0, 32, 0};
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        struct rf_source *source = open_edited(makers[i], unchanged);
        if (source) {
            const struct rf_params *params = &source->params;
            CHECK_INT(params->window, windows[i]);
            CHECK(params->temperature == (i == 0 ? 0.1f : 0.0f));
            if (i == 0) CHECK_INT(params->temperature_step, 16);
        }
        rf_source_close(source);
    }
}

static void with_layer_arrays(struct w_file *file)
{
    const uint32_t ff[] = {16}, heads[] = {2};
    w_numbers(file, "qwen2.feed_forward_length", W_U32, ff, 1);
    w_numbers(file, "qwen2.attention.head_count", W_I32, heads, 1);
    w_string(file, "qwen2.rope.scaling.type", "yarn");
    w_f32(file, "qwen2.rope.scaling.factor", 1.0f);
    w_u32(file, "general.alignment", 8);
    file->alignment = 8;
}

static void without_biases(struct w_file *file)
{
    static const char *const names[] = {"blk.0.attn_q.bias", "blk.0.attn_k.bias",
                                        "blk.0.attn_v.bias"};
    for (int i = 0; i < 3; i++) w_drop_tensor(file, names[i]);
}

static void with_llama3_tokenizer(struct w_file *file)
{
    w_string(file, "tokenizer.ggml.pre", "llama-bpe");
}

/* A third layer, which predicts a further token. */
static void with_further_layers(struct w_file *file)
{
    w_u32(file, "qwen35.block_count", 3);
    w_u32(file, "qwen35.nextn_predict_layers", 1);
    w_tensor(file, "blk.2.attn_norm.weight", 8, 0);
    w_tensor(file, "blk.2.nextn.eh_proj.weight", 16, 8);
}

static void test_good_qwen35(void (*make)(struct w_file *), void (*edit)(struct w_file *))
{
    struct rf_source *source = open_edited(make, edit);
    if (source) {
        const struct rf_params *p = &source->params;
        CHECK(rf_is_delta(p, 0) && !rf_is_delta(p, 1) && !rf_is_conv(p, 0) && p->n_layer == 2);
        CHECK(p->delta_keys == 1 && p->delta_values == 2 && p->delta_key_dim == 4 &&
              p->delta_value_dim == 4 && p->delta_tiled && p->conv_rows == 4);
        CHECK(p->attn_gate && p->qk_norm && p->tied_output);
        CHECK(rf_source_tensor(source, "blk.0.ssm_a") &&
              !rf_source_tensor(source, "blk.2.attn_norm.weight"));
    }
    rf_source_close(source);
}

/* Row `row` of the tensor is row `in_file` of the file's matrix, whose first row is q's. */
static void check_row(const struct rf_source *source, const char *name, size_t row, size_t in_file)
{
    const struct rf_tensor *tensor = rf_source_tensor(source, name);
    const char *first = NULL;
    int is_gate = strstr(name, "ssm_") != NULL;
    const struct rf_tensor *of_first =
        rf_source_tensor(source, is_gate ? "blk.0.ssm_beta.weight" : "blk.0.attn_qkv.weight");
    if (tensor && of_first) first = rf_tensor_rows(of_first, 0, 1, NULL);
    CHECK_MSG(first && (const char *)rf_tensor_rows(tensor, row, 1, NULL) ==
                           first + in_file * 8 * sizeof(float),
              "%s: row %zu is not the file's row %zu", name, row, in_file);
}

/* A key head's 20 rows are 4 of q, 4 of k, 6 of v, 6 of z; those of gates are 2 and 2. */
static void test_good_qwen3next(void)
{
    enum { QK = 4, V = 6, ALL = 2 * (QK + V) };
    struct rf_source *source = open_edited(w_qwen3next, NULL);
    if (!source) return;
    const struct rf_params *p = &source->params;
    CHECK(rf_is_delta(p, 0) && !rf_is_delta(p, 1) && !p->delta_tiled && p->attn_gate);
    CHECK(p->delta_keys == 2 && p->delta_values == 4 && p->delta_value_dim == 3);
    for (size_t head = 0; head < 2; head++) {
        for (size_t r = 0; r < QK; r++) {
            check_row(source, "blk.0.attn_qkv.weight", head * QK + r, head * ALL + r);
            check_row(source, "blk.0.attn_qkv.weight", (2 + head) * QK + r, head * ALL + QK + r);
        }
        for (size_t r = 0; r < V; r++) {
            check_row(source, "blk.0.attn_qkv.weight", 4 * QK + head * V + r,
                      head * ALL + 2 * QK + r);
            check_row(source, "blk.0.attn_gate.weight", head * V + r, head * ALL + 2 * QK + V + r);
        }
        for (size_t r = 0; r < 2; r++) {
            check_row(source, "blk.0.ssm_beta.weight", head * 2 + r, head * 4 + r);
            check_row(source, "blk.0.ssm_alpha.weight", head * 2 + r, head * 4 + 2 + r);
        }
    }
    rf_source_close(source);
}

static void test_good_variants(void)
{
    struct rf_source *source = open_edited(w_llama, as_llama3);
    if (source) {
        const struct rf_params *p = &source->params;
        CHECK(p->rope.factors && p->rope.factors[1] == 1.0f && p->rope.scale == 0.25f);
        CHECK(p->window == 32 && p->n_head_kv == 2 && p->tied_output);
        CHECK(source->vocab.bos == 1 && source->vocab.types[1] == RF_TOKEN_NORMAL);
    }
    rf_source_close(source);

    source = open_edited(w_qwen2, with_layer_arrays);
    if (source) {
        const struct rf_vocab *v = &source->vocab;
        CHECK(source->params.qkv_bias && source->params.tied_output &&
              source->params.rope_style == RF_ROPE_NEOX);
        CHECK(source->params.rope.scale == 1.0f && source->params.rope.magnitude == 1.0f);
        CHECK(v->kind == RF_VOCAB_BPE && v->n_merges == 2 && rf_str_is(v->pre, "qwen2") &&
              !v->scores);
        CHECK(rf_str_is(v->merges[1].left, "\xc4\xa0") && rf_str_is(v->merges[1].right, "a"));
        CHECK(v->bos == -1 && v->eos == 4 && v->ignore_merges == -1 && v->add_bos == -1 &&
              v->nfc == -1);
    }
    rf_source_close(source);

    source = open_edited(w_lfm2, NULL);
    if (source) {
        const struct rf_params *p = &source->params;
        CHECK(!rf_is_conv(p, 0) && rf_is_conv(p, 1) && p->n_head_kv == 1 && p->conv_rows == 3);
        CHECK(rf_n_attention(p, 2) == 1 && rf_n_states(p, 2) == 1 && p->qk_norm && p->tied_output);
        CHECK_INT(p->rope_style, RF_ROPE_NEOX);
    }
    rf_source_close(source);

    source = open_edited(w_granitehybrid, NULL);
    if (source) {
        const struct rf_params *p = &source->params;
        CHECK(rf_is_mamba(p, 0) && rf_has_keys(p, 1) && p->conv_bias && p->delta_keys == 1);
        CHECK(p->delta_values == 2 && p->delta_key_dim == 3 && p->delta_value_dim == 4);
        CHECK_INT(rf_layer_flags(p, 1) & RF_LAYER_NO_ROPE, 0);
        CHECK(rf_source_tensor(source, "blk.0.ssm_in_dt.weight"));
    }
    rf_source_close(source);

    test_good_qwen35(w_qwen35, NULL);
    test_good_qwen35(w_qwen35_listed, NULL);
    test_good_qwen35(w_qwen35, with_further_layers);
    source = open_edited(w_qwen2, without_biases);
    if (source) CHECK(!source->params.qkv_bias && !source->params.o_bias);
    rf_source_close(source);

    source = open_edited(w_qwen2, with_llama3_tokenizer);
    if (source)
        CHECK(rf_str_is(source->vocab.pre, "llama-bpe") && source->vocab.ignore_merges == -1);
    rf_source_close(source);
}

static void test_stories(void)
{
    struct rf_source *source = NULL;
    struct rf_error error = {0};
    CHECK_MSG(rf_source_open(&source, "stories260K.gguf", NULL, &rf_system_allocator, &error) == 0,
              "%s", error.text);
    if (source) {
        CHECK(source->params.n_layer == 5 && source->params.n_vocab == 512 &&
              source->n_tensors == 48);
        CHECK(source->params.rope.theta == 10000.0f && source->vocab.add_bos == -1);
    }
    rf_source_close(source);
}

/* Reads a copy that ends where the block ends, so that a sanitizer sees one byte too far. */
static int read_memory(const unsigned char *data, size_t bytes, struct rf_error *error)
{
    struct probe probe = {0};
    struct rf_allocator allocator = probe_allocator(&probe);
    struct rf_source *source;
    unsigned char *copy = malloc(bytes ? bytes : 1);
    if (!copy || rf_source_new(&source, &allocator, error)) abort();
    memcpy(copy, data, bytes);
    int code = rf_gguf_read(source, "memory", copy, bytes, error);
    rf_source_close(source);
    free(copy);
    CHECK_INT(probe.live, 0);
    return code;
}

static void test_truncation(void (*make)(struct w_file *))
{
    static struct w_file file;
    make(&file);
    size_t bytes, header;
    unsigned char *data = w_bytes(&file, &bytes, &header);
    struct rf_error error;
    for (size_t n = 0; n < bytes; n++) {
        error = (struct rf_error){0};
        int code = read_memory(data, n, &error);
        /* Padding behind the last tensor is nobody's. */
        if (n + 16 >= bytes && code == 0) continue;
        CHECK_MSG(code == RF_ERR_FORMAT && strstr(error.text, "memory"), "cut at %zu: %d \"%s\"", n,
                  code, error.text);
    }
    CHECK_MSG(read_memory(data, bytes, &error) == 0, "%s", error.text);
    free(data);
}

/* Any answer but a crash will do; an error must have a sentence. */
static void test_corruption(void (*make)(struct w_file *))
{
    static struct w_file file;
    make(&file);
    size_t bytes, header;
    unsigned char *data = w_bytes(&file, &bytes, &header);
    static const unsigned char flips[] = {0x01, 0x02, 0x10, 0x20, 0x80, 0xff};
    for (size_t i = 0; i < header; i++) {
        for (size_t j = 0; j < sizeof flips; j++) {
            struct rf_error error = {0};
            data[i] ^= flips[j];
            int code = read_memory(data, bytes, &error);
            CHECK_MSG(code == 0 ? !error.text[0] : error.text[0] != 0, "byte %zu: code %d, \"%s\"",
                      i, code, error.text);
            data[i] ^= flips[j];
        }
    }
    free(data);
}

static void test_allocation_failures(void (*make)(struct w_file *))
{
    static struct w_file file;
    make(&file);
    if (make == w_llama) w_tensor(&file, "rope_freqs.weight", 2, 0);
    size_t bytes, header;
    unsigned char *data = w_bytes(&file, &bytes, &header);
    struct rf_error error;
    long n = 1;
    for (; n < 1000; n++) {
        struct probe probe = {.fail_at = n};
        int code = open_bytes(data, bytes, &probe, &error);
        if (code == 0) break;
        CHECK_MSG(code == RF_ERR_MEMORY && strstr(error.text, "memory"), "request %ld: %d \"%s\"",
                  n, code, error.text);
    }
    CHECK_MSG(n > 3 && n < 1000, "opening made %ld requests", n - 1);
    free(data);
}

/* Many keys and tensors are read in little more than linear time: this would not end if it were
 * quadratic. */
static void test_many_entries(void)
{
    enum { N = 200000 };
    size_t cap = 24 + (size_t)N * (8 + 12 + 5 + 8 + 12 + 4 + 8 + 4 + 8), bytes;
    unsigned char *data = malloc(cap), *at = data;
    if (!data) abort();
    const uint32_t version = 3, u8 = W_U8, n_dims = 1, f32 = 0;
    const uint64_t n = N, length = 12, ne = 1;
    w_put(&at, "GGUF", 4);
    w_put(&at, &version, 4);
    w_put(&at, &n, 8);
    w_put(&at, &n, 8);
    for (int i = 0; i < N; i++) {
        char key[16];
        snprintf(key, sizeof key, "key.%08d", (int)((int64_t)i * 7919 % N));
        w_put(&at, &length, 8);
        w_put(&at, key, 12);
        w_put(&at, &u8, 4);
        w_put(&at, "", 1);
    }
    for (int i = 0; i < N; i++) {
        char name[16];
        uint64_t offset = (uint64_t)i * 32;
        snprintf(name, sizeof name, "ten.%08d", (int)((int64_t)i * 104729 % N));
        w_put(&at, &length, 8);
        w_put(&at, name, 12);
        w_put(&at, &n_dims, 4);
        w_put(&at, &ne, 8);
        w_put(&at, &f32, 4);
        w_put(&at, &offset, 8);
    }
    bytes = (size_t)(at - data);
    struct rf_error error = {0};
    CHECK_INT(read_memory(data, bytes, &error), RF_ERR_FORMAT);
    CHECK_MSG(strstr(error.text, "go beyond"), "%s", error.text);
    free(data);
}

static void test_paths(void)
{
    struct rf_source *source = (struct rf_source *)folder;
    struct rf_error error = {0};
    CHECK_INT(rf_source_open(&source, "no/such/file.gguf", NULL, &rf_system_allocator, &error),
              RF_ERR_IO);
    CHECK(source == NULL && strstr(error.text, "no/such/file.gguf: cannot open"));
    CHECK_INT(rf_source_open(&source, "/dev/null", NULL, &rf_system_allocator, &error), RF_ERR_IO);
    CHECK(strstr(error.text, "not a regular file"));
    CHECK_INT(probe_write(path, "", 0), 0);
    CHECK_INT(rf_source_open(&source, path, NULL, &rf_system_allocator, &error), RF_ERR_FORMAT);
    CHECK(strstr(error.text, "is empty"));
    CHECK_INT(rf_source_open(&source, folder, NULL, &rf_system_allocator, &error), RF_ERR_IO);
    CHECK(strstr(error.text, "model.safetensors"));
    rf_source_close(NULL);
}

int main(void)
{
    if (probe_folder(folder, sizeof folder)) {
        fprintf(stderr, "no temporary folder\n");
        return 1;
    }
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    test_good_llama();
    test_good_variants();
    test_yarn();
    test_attention_factor();
    test_good_windows();
    test_good_qwen3next();
    test_stories();
    test_paths();
    for (size_t i = 0; i < sizeof llama_mutations / sizeof *llama_mutations; i++)
        test_mutation(w_llama, &llama_mutations[i]);
    for (size_t i = 0; i < sizeof qwen2_mutations / sizeof *qwen2_mutations; i++)
        test_mutation(w_qwen2, &qwen2_mutations[i]);
    for (size_t i = 0; i < sizeof lfm2_mutations / sizeof *lfm2_mutations; i++)
        test_mutation(w_lfm2, &lfm2_mutations[i]);
    for (size_t i = 0; i < sizeof qwen35_mutations / sizeof *qwen35_mutations; i++)
        test_mutation(w_qwen35, &qwen35_mutations[i]);
    for (size_t i = 0; i < sizeof granitehybrid_mutations / sizeof *granitehybrid_mutations; i++)
        test_mutation(w_granitehybrid, &granitehybrid_mutations[i]);
    for (size_t i = 0; i < sizeof mistral3_mutations / sizeof *mistral3_mutations; i++)
        test_mutation(w_mistral3, &mistral3_mutations[i]);
    for (size_t i = 0; i < sizeof cohere2_mutations / sizeof *cohere2_mutations; i++)
        test_mutation(w_cohere2, &cohere2_mutations[i]);
    for (size_t i = 0; i < sizeof starcoder2_mutations / sizeof *starcoder2_mutations; i++)
        test_mutation(w_starcoder2, &starcoder2_mutations[i]);
    for (size_t i = 0; i < sizeof olmo3_mutations / sizeof *olmo3_mutations; i++)
        test_mutation(w_olmo3, &olmo3_mutations[i]);
    for (size_t i = 0; i < sizeof glm4_mutations / sizeof *glm4_mutations; i++)
        test_mutation(w_glm4, &glm4_mutations[i]);
    for (size_t i = 0; i < sizeof listed_mutations / sizeof *listed_mutations; i++)
        test_mutation(w_qwen35_listed, &listed_mutations[i]);
    for (size_t i = 0; i < sizeof qwen3next_mutations / sizeof *qwen3next_mutations; i++)
        test_mutation(w_qwen3next, &qwen3next_mutations[i]);
    test_truncation(w_qwen3next);
    test_corruption(w_qwen3next);
    test_allocation_failures(w_qwen3next);
    test_truncation(w_qwen35);
    test_truncation(w_granitehybrid);
    test_corruption(w_qwen35);
    test_allocation_failures(w_qwen35);
    test_truncation(w_lfm2);
    test_corruption(w_lfm2);
    test_allocation_failures(w_lfm2);
    test_truncation(w_llama);
    test_truncation(w_qwen2);
    test_corruption(w_llama);
    test_corruption(w_qwen2);
    test_allocation_failures(w_llama);
    test_allocation_failures(w_qwen2);
    test_many_entries();
    remove(path);
    rmdir(folder);
    return check_result();
}
