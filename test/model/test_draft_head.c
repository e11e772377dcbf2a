/* The readers of draft heads: the same head in each layout is the same, a head of another target or
 * a bad file gives an error that says what it is, and nothing is left behind. Bad files are made
 * here: a small good one with one thing changed. */
#define _DEFAULT_SOURCE
#include <math.h>
#include <sys/stat.h>

#include "model/head.h"
#include "model/head_edits.h"
#include "model/head_reader.h"
#include "model/open.h"
#include "model/probe.h"
#include "platform/memory.h"
#include "support/check.h"

static char folder[512], gguf_path[600], config_path[600], weights_path[600];

/* ---- the target of small heads ---- */

static struct rf_tensor target_tensors[1];
static const float target_gains[] = {1, 0.5f};
static struct rf_source target = {
    .params = {.n_layer = HEAD_LAYERS, .n_embd = HEAD_WIDTH, .n_vocab = HEAD_VOCAB},
    .name = "",
    .tensors = target_tensors,
    .n_tensors = 1};

/* FNV-1a of the bytes of 1.0f and 0.5f, computed apart. */
static const char target_fingerprint[] = "097a58ee2da2e4f5";

static void make_target(void)
{
    target_tensors[0] = (struct rf_tensor){.name = "output_norm.weight",
                                           .dtype = RF_F32,
                                           .n_dims = 1,
                                           .ne = {2, 1, 1, 1},
                                           .data = target_gains,
                                           .bytes = sizeof target_gains};
}

static void close_head(struct rf_head_file *head, struct probe *probe)
{
    rf_head_close(head);
    CHECK_MSG(probe->live == 0, "%ld blocks are left", probe->live);
}

/* ---- GGUF ---- */

static unsigned char *edited_bytes(void (*make)(struct w_file *), const struct edit *edits, int n,
                                   size_t *bytes)
{
    static struct w_file file;
    int64_t ids[HEAD_ROWS];
    make(&file);
    for (int i = 0; i < HEAD_ROWS; i++) ids[i] = 3 * i;
    for (int i = 0; i < n; i++) apply(&file, ids, &edits[i]);
    return w_head_bytes(&file, ids, HEAD_ROWS, bytes);
}

static struct rf_head_file *open_edited(void (*make)(struct w_file *), const struct edit *edits,
                                        int n, struct probe *probe, struct rf_error *error)
{
    size_t bytes;
    unsigned char *data = edited_bytes(make, edits, n, &bytes);
    CHECK_INT(probe_write(gguf_path, data, bytes), 0);
    free(data);
    return open_head_in(folder, gguf_path, &target, probe, error);
}

#define A RF_ERR_ARGUMENT
#define F RF_ERR_FORMAT
#define U RF_ERR_UNSUPPORTED

static const struct bad_file bad_files[] = {
    /* another target */
    {"reads rows of 32 values, but the target's have 16",
     A,
     {{U32, .target = "eagle3.target_hidden_size", .number = 32}}},
    {"reads rows of 32 values",
     A,
     {{DROP, .target = "eagle3.target_hidden_size"},
      {TENSOR_NE, .target = "fc.weight", .number = 96}}},
    {"vocabulary has 201 tokens, but the target's has 200",
     A,
     {{U32, .target = "eagle3.vocab_size", .number = 201}}},
    {"input of layer 6, but the target has 5",
     A,
     {{INTS, .target = "eagle3.target_layers", .n = 3, .list = {1, 2, 6}}}},
    {"row 4 of its output is the token 200 (d2t)", A, {{ID, .number = 4, .list = {200}}}},
    {"is the token -1 (d2t)", A, {{ID, .number = 4, .list = {-1}}}},
    {"it drafts 201 tokens",
     A,
     {{TENSOR_NE, .target = "d2t", .number = 201},
      {TENSOR_NE, .target = "output.weight", .index = 1, .number = 201}}},
    {"fingerprint 0123456789abcdef",
     A,
     {{STRING, .target = "riffle.head.target", "0123456789abcdef"}}},
    /* what it states */
    {"not a fingerprint", F, {{STRING, .target = "riffle.head.target", "0123456789ABCDEF"}}},
    {"not a fingerprint", F, {{STRING, .target = "riffle.head.target", "0123456789abcde"}}},
    {"not a fingerprint", F, {{STRING, .target = "riffle.head.target", ""}}},
    {"input of layer 0", U, {{INTS, .target = "eagle3.target_layers", .n = 3, .list = {0, 2, 4}}}},
    {"input of layer -3",
     U,
     {{INTS, .target = "eagle3.target_layers", .n = 3, .list = {-3, 2, 4}}}},
    {"ascending", U, {{INTS, .target = "eagle3.target_layers", .n = 3, .list = {2, 1, 4}}}},
    {"ascending", U, {{INTS, .target = "eagle3.target_layers", .n = 3, .list = {1, 4, 4}}}},
    {"has 2 elements", U, {{INTS, .target = "eagle3.target_layers", .n = 2, .list = {1, 2}}}},
    {"has 4 elements", U, {{INTS, .target = "eagle3.target_layers", .n = 4, .list = {1, 2, 3, 4}}}},
    {"array of FLOAT32, not of integers", F, {{FLOATS, .target = "eagle3.target_layers", .n = 3}}},
    {"target_layers is of type UINT32", F, {{U32, .target = "eagle3.target_layers", .number = 1}}},
    {"key eagle3.target_layers is missing", F, {{DROP, .target = "eagle3.target_layers"}}},
    {"eagle3.block_count is missing", F, {{DROP, .target = "eagle3.block_count"}}},
    {"draft head of 2 layers", U, {{U32, .target = "eagle3.block_count", .number = 2}}},
    {"with experts",
     U,
     {{U32, .target = "eagle3.expert_count", .number = 4},
      {U32, .target = "eagle3.expert_used_count", .number = 2}}},
    {"with a sliding window", U, {{U32, .target = "eagle3.attention.sliding_window", .number = 8}}},
    {"longrope",
     U,
     {{STRING, .target = "eagle3.rope.scaling.type", "longrope"},
      {U32, .target = "eagle3.rope.scaling.original_context_length", .number = 32}}},
    {"head of width 24", U, {{U32, .target = "eagle3.embedding_length", .number = 24}}},
    {"head of width 2147483632",
     U,
     {{U32, .target = "eagle3.embedding_length", .number = 2147483632}}},
    {"has the width 32, and no embeddings",
     A,
     {{U32, .target = "eagle3.embedding_length", .number = 32}}},
    {"not a draft head",
     U,
     {{STRING, .target = "general.architecture", "llama"}, {TENSOR_DROP, .target = "d2t"}}},
    /* tensors */
    {"of type 27 (I64), which is not read", U, {{TENSOR_NAME, .target = "d2t", "ids"}}},
    {"d2t is of type 26 (I32)", U, {{TENSOR_TYPE, .target = "d2t", .number = 26}}},
    {"d2t is not a list", F, {{TENSOR_DIMS, .target = "d2t", .number = 2}}},
    {"d2t is not a list", F, {{TENSOR_CLAIM, .target = "d2t", .number = 0x7fffffff}}},
    {"two tensors are called d2t",
     F,
     {{TENSOR_VECTOR, .target = "twin", .number = 4},
      {TENSOR_TYPE, .target = "twin", .number = W_TENSOR_I64},
      {TENSOR_NAME, .target = "twin", "d2t"}}},
    {"two rows of the output are the token 9", F, {{ID, .number = 4, .list = {9}}}},
    {"names output rows, but the head has none", F, {{TENSOR_DROP, .target = "output.weight"}}},
    {"tensor output.weight is [16, 11", F, {{TENSOR_NE, .target = "output.weight", 0, 11, 1}}},
    {"tensor output.weight is [16, 10", F, {{TENSOR_DROP, .target = "d2t"}}},
    {"attn_q_norm.weight has no place",
     U,
     {{TENSOR_VECTOR, .target = "blk.0.attn_q_norm.weight", 0, 8}}},
    {"ffn_up.bias has no place", U, {{TENSOR_VECTOR, .target = "blk.0.ffn_up.bias", 0, 32}}},
    {"enc.output_norm.weight has no place",
     U,
     {{TENSOR_VECTOR, .target = "enc.output_norm.weight", 0, 48}}},
    {"blk.1.attn_q.weight has no place",
     U,
     {{TENSOR_VECTOR, .target = "blk.1.attn_q.weight", 0, 8}}},
    {"attn_v.bias is missing",
     F,
     {{TENSOR_VECTOR, .target = "blk.0.attn_q.bias", 0, 16},
      {TENSOR_VECTOR, .target = "blk.0.attn_k.bias", 0, 8}}},
    {"attn_output.bias is [8", F, {{TENSOR_VECTOR, .target = "blk.0.attn_output.bias", 0, 8}}},
    {"token_embd.weight is [16, 199",
     F,
     {{TENSOR_MATRIX, .target = "token_embd.weight", 0, 16, .list = {199}}}},
    {"rope_freqs.weight is [3", F, {{TENSOR_VECTOR, .target = "rope_freqs.weight", 0, 3}}},
};

#define ROWS_KEY "riffle.head.output_rows"

static const struct bad_file bad_rows[] = {
    {"output row 200 (riffle.head.output_rows), but the target has 200",
     A,
     {{INTS, .target = ROWS_KEY, .n = 2, .list = {0, 200}}}},
    {"output row 2147483647 (", A, {{INTS, .target = ROWS_KEY, .n = 1, .list = {2147483647}}}},
    {"riffle.head.output_rows is not ascending: 0 follows 2",
     F,
     {{INTS, .target = ROWS_KEY, .n = 2, .list = {2, 0}}}},
    {"riffle.head.output_rows is not ascending: 5 follows 5",
     F,
     {{INTS, .target = ROWS_KEY, .n = 3, .list = {1, 5, 5}}}},
    {"riffle.head.output_rows has the row -1",
     F,
     {{INTS, .target = ROWS_KEY, .n = 1, .list = {-1}}}},
    {"riffle.head.output_rows has the row -7",
     F,
     {{INTS, .target = ROWS_KEY, .n = 2, .list = {3, -7}}}},
    {"chooses 0 output rows (riffle.head.output_rows), but the target has 200",
     F,
     {{INTS, .target = ROWS_KEY, .n = 0}}},
    {"chooses 201 output rows (riffle.head.output_rows), but the target has 200",
     A,
     {{ROWS, .target = ROWS_KEY, .number = HEAD_VOCAB + 1}}},
    {"riffle.head.output_rows is an array of FLOAT32, not of integers",
     F,
     {{FLOATS, .target = ROWS_KEY, .n = 2, .list = {0, 0}}}},
    {"riffle.head.output_rows is of type UINT32, not ARRAY",
     F,
     {{U32, .target = ROWS_KEY, .number = 3}}},
    {"riffle.head.output_rows is of type STRING, not ARRAY",
     F,
     {{STRING, .target = ROWS_KEY, "0, 1"}}},
    {"output rows of its own (output.weight, d2t) beside rows of the target's",
     F,
     {{TENSOR_MATRIX, .target = "output.weight", 0, 16, .list = {128}}}},
    {"has the width 32, and no embeddings",
     A,
     {{U32, .target = "eagle3.embedding_length", .number = 32}}},
};

static void test_bad(void (*make)(struct w_file *), const struct bad_file *bad)
{
    struct probe probe = {0};
    struct rf_error error;
    struct rf_head_file *head = open_edited(make, bad->edits, 4, &probe, &error);
    CHECK_MSG(error.code == bad->code && strstr(error.text, bad->sentence),
              "\"%s\": code %d, not %d: \"%s\"", bad->sentence, error.code, bad->code, error.text);
    CHECK_MSG(!error.code || strstr(error.text, gguf_path), "no path: \"%s\"", error.text);
    rf_head_close(head);
}

/* Each tensor must be there, in its shape. */
static void test_each_tensor(void)
{
    static struct w_file file;
    w_head_ids(&file);
    for (size_t i = 0; i < file.n_tensors; i++) {
        const char *name = file.tensors[i].name;
        const struct edit none = {TENSOR_DROP, .target = name},
                          other = {TENSOR_NE, .target = name, .number = 80};
        const struct edit *edits[] = {&none, &other};
        for (int j = 0; j < 2; j++) {
            struct probe probe = {0};
            struct rf_error error;
            struct rf_head_file *head = open_edited(w_head_ids, edits[j], 1, &probe, &error);
            /* Without d2t the output has too few rows. */
            CHECK_MSG(error.code && (strstr(error.text, name) || strstr(error.text, "output") ||
                                     strstr(error.text, "rows")),
                      "%s %s: \"%s\"", name, j ? "resized" : "dropped", error.text);
            rf_head_close(head);
        }
    }
}

static void test_good_ids(void)
{
    struct probe probe = {0};
    struct rf_error error;
    struct rf_head_file *head = open_edited(w_head_ids, NULL, 0, &probe, &error);
    CHECK_MSG(head, "%s", error.text);
    if (!head) return;
    const struct rf_params *p = &head->source->params;
    CHECK_INT(p->n_layer, 1);
    CHECK_INT(p->n_embd, HEAD_WIDTH);
    CHECK_INT(p->n_vocab, HEAD_ROWS);
    CHECK_INT(p->rope_style, RF_ROPE_NORM);
    CHECK_INT(p->qkv_bias | p->o_bias, 0);
    CHECK(head->taps[0] == 0 && head->taps[1] == 1 && head->taps[2] == 3);
    CHECK_INT(head->n_embd_target, HEAD_WIDTH);
    CHECK_INT(head->n_vocab_target, HEAD_VOCAB);
    CHECK(!head->norm_before_fc && head->norm_before_residual == 1);
    CHECK(head->has_output && !head->has_embd && !head->recipe && !head->target);
    for (int32_t i = 0; i < HEAD_ROWS; i++) CHECK_INT(head->tokens[i], 3 * i);
    CHECK_INT(head->source->n_tensors, 13);
    CHECK_STR(head->source->name, "tiny head");
    close_head(head, &probe);
}

static void test_good_rows(void)
{
    const struct edit edits[] = {
        {STRING, .target = "riffle.head.target", target_fingerprint},
        {DROP, .target = "eagle3.vocab_size"},
        {INTS, .target = "eagle3.target_layers", .n = 3, .list = {1, 4, 5}},
        {STRING, .target = "riffle.head.recipe", "line one\nline two"}};
    struct probe probe = {0};
    struct rf_error error;
    struct rf_head_file *head = open_edited(w_head_rows, edits, 4, &probe, &error);
    CHECK_MSG(head, "%s", error.text);
    if (!head) return;
    CHECK_INT(head->source->params.n_vocab, HEAD_CHOSEN);
    CHECK_INT(head->n_rows, HEAD_CHOSEN);
    CHECK(!head->has_output && !head->has_embd);
    CHECK(head->tokens[0] == 0 && head->tokens[3] == 7 && head->tokens[7] == 199);
    CHECK_INT(head->taps[2], 4);
    CHECK_STR(head->recipe, "line one");
    CHECK(head->target == rf_source_fingerprint(&target));
    close_head(head, &probe);
}

/* Without d2t and chosen rows all rows are answered: the target's, or its own. */
static void test_all_rows(void)
{
    const struct edit own = {TENSOR_MATRIX, .target = "output.weight", 0, 16, .list = {HEAD_VOCAB}};
    for (int n = 0; n < 2; n++) {
        struct probe probe = {0};
        struct rf_error error;
        struct rf_head_file *head = open_edited(w_head, &own, n, &probe, &error);
        CHECK_MSG(head, "%s", error.text);
        if (!head) continue;
        CHECK(head->has_output == n && !head->tokens);
        CHECK_INT(head->source->params.n_vocab, HEAD_VOCAB);
        close_head(head, &probe);
    }
}

/* A head opened as a model, and 64-bit integers in a model. */
static void test_as_model(const char *path)
{
    struct rf_source *source;
    struct rf_error error = {0};
    int code = rf_source_open(&source, path, NULL, &rf_system_allocator, &error);
    CHECK_MSG(code == U && strstr(error.text, "is a draft head, which cannot run alone: give it "
                                              "with --head"),
              "%s: %d \"%s\"", path, code, error.text);
    rf_source_close(source);
}

static void test_model_with_ids(void)
{
    static struct w_file file;
    size_t bytes, header;
    w_llama(&file);
    w_tensor(&file, "d2t", 4, 0);
    w_find(&file, "d2t")->type = W_TENSOR_I64;
    w_place(&file);
    unsigned char *data = w_bytes(&file, &bytes, &header);
    struct rf_source *source;
    struct rf_error error = {0};
    CHECK_INT(probe_write(gguf_path, data, bytes), 0);
    CHECK_INT(rf_source_open(&source, gguf_path, NULL, &rf_system_allocator, &error), U);
    CHECK_MSG(strstr(error.text, "d2t is of type 27 (I64)"), "%s", error.text);
    free(data);
}

enum { DATA_BYTES = 15000 /* of tensors, at least */ };

static int read_memory(const unsigned char *data, size_t bytes, struct rf_error *error)
{
    unsigned char *copy = malloc(bytes ? bytes : 1); /* its end is where a sanitizer looks */
    struct rf_head_reading of = {.target = &target};
    struct rf_source *source;
    if (!copy || rf_source_new(&source, &rf_system_allocator, error)) abort();
    memcpy(copy, data, bytes);
    int code = rf_head_read_gguf(source, "memory", copy, bytes, &of, error);
    rf_source_close(source);
    free(copy);
    return code;
}

static void test_truncation(void (*make)(struct w_file *))
{
    size_t bytes;
    unsigned char *data = edited_bytes(make, NULL, 0, &bytes);
    for (size_t n = 0; n + 32 < bytes; n += n < bytes - DATA_BYTES ? 1 : 101) {
        struct rf_error error = {0};
        int code = read_memory(data, n, &error);
        CHECK_MSG(code && error.text[0], "cut at %zu: %d \"%s\"", n, code, error.text);
    }
    free(data);
}

static void test_corruption(void (*make)(struct w_file *))
{
    static const unsigned char flips[] = {0x01, 0x02, 0x10, 0x80, 0xff};
    size_t bytes;
    unsigned char *data = edited_bytes(make, NULL, 0, &bytes);
    for (size_t i = 0; i < bytes - DATA_BYTES; i++)
        for (size_t j = 0; j < sizeof flips; j++) {
            struct rf_error error = {0};
            data[i] ^= flips[j];
            int code = read_memory(data, bytes, &error);
            CHECK_MSG(!code == !error.text[0], "byte %zu: %d \"%s\"", i, code, error.text);
            data[i] ^= flips[j];
        }
    free(data);
}

static void test_allocation_failures(const char *path)
{
    struct rf_head_file *head = NULL;
    struct rf_error error;
    long n = 1;
    for (; n < 1000 && !head; n++) {
        struct probe probe = {.fail_at = n};
        head = open_head_in(folder, path, &target, &probe, &error);
        CHECK_MSG(head || (error.code == RF_ERR_MEMORY && strstr(error.text, "memory")),
                  "request %ld: %d \"%s\"", n, error.code, error.text);
        if (head) close_head(head, &probe);
    }
    CHECK_MSG(n > 3 && n < 1000, "opening made %ld requests", n - 1);
}

/* ---- safetensors ---- */

static void write_folder(const struct hf_model *model)
{
    size_t bytes;
    unsigned char *data = hf_shard(model, 0, &bytes);
    CHECK_INT(probe_write(config_path, model->texts[HF_CONFIG].data, model->texts[HF_CONFIG].bytes),
              0);
    CHECK_INT(probe_write(weights_path, data, bytes), 0);
    free(data);
}

struct bad_text {
    const char *sentence;
    int code;
    int file;
    const char *from, *to; /* to NULL: `from` is the whole text */
};

#define LAYERS_READ "\"eagle_aux_hidden_state_layer_ids\":[1,2,4],"

static const struct bad_text bad_folders[] = {
    {"vocabulary has 201 tokens", A, HF_CONFIG, "\"vocab_size\":200", "\"vocab_size\":201"},
    {"reads rows of 32 values", A, HF_CONFIG, LAYERS_READ,
     LAYERS_READ "\"target_hidden_size\":32,"},
    {"input of layer 6", A, HF_CONFIG, "[1,2,4]", "[1,2,6]"},
    {"is not a list of 3 layers", U, HF_CONFIG, "[1,2,4]", "[1,2]"},
    {"is not a list of 3 layers", U, HF_CONFIG, "[1,2,4]", "[1,2,4.5]"},
    {"is not a list of 3 layers", U, HF_CONFIG, "[1,2,4]", "\"all\""},
    {"layers 2, 2 and 2", U, HF_CONFIG, "[1,2,4]", "null"}, /* EAGLE's rule, in 5 layers */
    {"ascending", U, HF_CONFIG, "[1,2,4]", "[4,2,1]"},
    {"input of layer 9223372036854775807", A, HF_CONFIG, LAYERS_READ,
     "\"eagle_config\":{\"eagle_aux_hidden_state_layer_ids\":[1,2,9223372036854775807]},"},
    {"states 11 output rows, but d2t names 10", F, HF_CONFIG, "vocab_size\":10", "vocab_size\":11"},
    {"draft_vocab_size is not a whole number", F, HF_CONFIG, "vocab_size\":10", "vocab_size\":0"},
    {"not a JSON object", F, HF_CONFIG, "[1,2,3]", NULL},
    {"d2t is not of type I64", U, HF_HEADER, "I64", "F32"},
    {"d2t is not a list that its bytes hold", F, HF_HEADER, "\"shape\":[10],", "\"shape\":[11],"},
    {"d2t is not a list that its bytes hold", F, HF_HEADER, "\"shape\":[10],", "\"shape\":[5,2],"},
    {"fc.bias is not one that a draft head computes with", U, HF_HEADER, "\"t2d\"", "\"fc.bias\""},
    {"names output rows, but the head has none", F, HF_HEADER, "lm_head.weight",
     "verifier_lm_head.weight"},
    {"bytes", F, HF_HEADER, "\"shape\":[200]", "\"shape\":[200"},
};

/* What is refused in one layout alone. */
static const struct bad_text bad_eagle[] = {
    {"not a draft head", U, HF_CONFIG, "{\"hidden_size\":16}", NULL},
    {"midlayer.hidden_norm.weight is missing", F, HF_HEADER, "midlayer.hidden_norm",
     "verifier_norm"},
    {"midlayer.self_attn.q_proj.bias is [50", F, HF_HEADER,
     "\"t2d\":{\"dtype\":\"BOOL\",\"shape\":[200]",
     "\"midlayer.self_attn.q_proj.bias\":{\"dtype\":\"F32\",\"shape\":[50]"},
    {"layers.1.hidden_norm.weight is not one", U, HF_HEADER, "midlayer.hidden_norm",
     "layers.1.hidden_norm"},
};
static const struct bad_text bad_speculators[] = {
    {"of the kind \"dflash\"", U, HF_CONFIG, "\"eagle3\"", "\"dflash\""},
    {"layer is a qwen3's", U, HF_CONFIG, "\"llama\"", "\"qwen3\""},
    {"layers.0.hidden_norm.weight is missing", F, HF_HEADER, "layers.0.hidden_norm",
     "verifier_norm"},
    {"its layer is none", F, HF_CONFIG, "\"transformer_layer_config\":{",
     "\"transformer_layer_config\":1,\"x\":{"},
};

static void test_bad_folder(void (*make)(struct hf_model *), const struct bad_text *bad)
{
    static struct hf_model model;
    struct probe probe = {0};
    struct rf_error error;
    make(&model);
    if (bad->to)
        CHECK_MSG(hf_replace(&model.texts[bad->file], bad->from, bad->to), "no %s", bad->from);
    else
        hf_set(&model, bad->file, bad->from);
    write_folder(&model);
    struct rf_head_file *head = open_head_in(folder, folder, &target, &probe, &error);
    CHECK_MSG(error.code && strstr(error.text, folder), "%s: \"%s\"", bad->from, error.text);
    if (strcmp(bad->sentence, "bytes") != 0)
        CHECK_MSG(error.code == bad->code && strstr(error.text, bad->sentence),
                  "\"%s\": code %d, not %d: \"%s\"", bad->sentence, error.code, bad->code,
                  error.text);
    rf_head_close(head);
}

static void test_good_folder(void (*make)(struct hf_model *), const char *from, const char *to,
                             int32_t n_layer, const int32_t taps[3])
{
    static struct hf_model model;
    struct probe probe = {0};
    struct rf_error error;
    make(&model);
    CHECK(hf_replace(&model.texts[HF_CONFIG], from, to));
    write_folder(&model);
    struct rf_source of = target;
    of.params.n_layer = n_layer;
    struct rf_head_file *head = open_head_in(folder, folder, &of, &probe, &error);
    CHECK_MSG(head, "%s", error.text);
    if (!head) return;
    for (int i = 0; i < 3; i++) CHECK_INT(head->taps[i], taps[i]);
    CHECK_INT(head->source->params.rope_style, RF_ROPE_NEOX);
    CHECK_INT(head->source->params.n_layer, 1);
    for (int32_t i = 0; i < HEAD_ROWS; i++) CHECK_INT(head->tokens[i], i);
    CHECK_INT(head->source->n_tensors, 13);
    close_head(head, &probe);
    test_as_model(folder);
}

static void test_folders(void)
{
    void (*const both[])(struct hf_model *) = {hf_head_eagle, hf_head_speculators};
    for (int i = 0; i < 2; i++) {
        for (size_t j = 0; j < sizeof bad_folders / sizeof *bad_folders; j++)
            test_bad_folder(both[i], &bad_folders[j]);
        test_good_folder(both[i], "[1,2,4]", "[1,2,5]", 5, (const int32_t[]){0, 1, 4});
        /* EAGLE's rule: 2, n / 2, n - 3, for targets of qwen2 0.5B, gpt-oss 20B and llama 8B. */
        test_good_folder(both[i], "[1,2,4]", "null", 24, (const int32_t[]){1, 11, 20});
        test_good_folder(both[i], "[1,2,4]", "[]", 36, (const int32_t[]){1, 17, 32});
        test_good_folder(both[i], LAYERS_READ, "", 32, (const int32_t[]){1, 15, 28});
        test_good_folder(both[i], LAYERS_READ,
                         "\"eagle_config\":{\"eagle_aux_hidden_state_layer_ids\":[1,17,33]},", 36,
                         (const int32_t[]){1, 17, 33});
        /* Files that state the target's number of layers. */
        test_good_folder(both[i], "\"num_hidden_layers\":1", "\"num_hidden_layers\":36", 5,
                         (const int32_t[]){0, 1, 3});
        test_allocation_failures(folder);
    }
    for (size_t i = 0; i < sizeof bad_eagle / sizeof *bad_eagle; i++)
        test_bad_folder(hf_head_eagle, &bad_eagle[i]);
    for (size_t i = 0; i < sizeof bad_speculators / sizeof *bad_speculators; i++)
        test_bad_folder(hf_head_speculators, &bad_speculators[i]);
}

/* ---- the same head in each layout ---- */

static void compare_rope(const struct rf_params *a, const struct rf_params *b)
{
    CHECK(a->rope.theta == b->rope.theta && a->rope.scale == b->rope.scale);
    CHECK(!a->rope.factors == !b->rope.factors);
    for (int32_t i = 0; a->rope.factors && b->rope.factors && i < a->rope_dim / 2; i++)
        CHECK_MSG(fabsf(a->rope.factors[i] / b->rope.factors[i] - 1) < 1e-6f, "factor %d: %g, %g",
                  i, (double)a->rope.factors[i], (double)b->rope.factors[i]);
}

static void compare_params(const struct rf_head_file *a, const struct rf_head_file *b)
{
    const struct rf_params *p = &a->source->params, *q = &b->source->params;
    CHECK_INT(p->n_embd, q->n_embd);
    CHECK_INT(p->n_head, q->n_head);
    CHECK_INT(p->n_head_kv, q->n_head_kv);
    CHECK_INT(p->head_dim, q->head_dim);
    CHECK_INT(p->rope_dim, q->rope_dim);
    CHECK_INT(p->n_ff, q->n_ff);
    CHECK_INT(p->n_vocab, q->n_vocab);
    CHECK_INT(p->qkv_bias, q->qkv_bias);
    CHECK_INT(p->o_bias, q->o_bias);
    CHECK(p->rms_eps == q->rms_eps);
    compare_rope(p, q);
    CHECK_INT(a->norm_before_fc, b->norm_before_fc);
    CHECK_INT(a->norm_before_residual, b->norm_before_residual);
    CHECK_INT(a->has_output, b->has_output);
    CHECK_INT(a->has_embd, b->has_embd);
    CHECK(memcmp(a->taps, b->taps, sizeof a->taps) == 0);
    CHECK(memcmp(a->tokens, b->tokens, (size_t)p->n_vocab * sizeof *a->tokens) == 0);
}

/* The row of a GGUF file that has a row of q or k: halves of a head are interleaved there. */
static int64_t permuted_row(const struct rf_head_file *of, const char *name, int64_t row)
{
    int is_rotated =
        strncmp(name, "blk.0.attn_q.", 13) == 0 || strncmp(name, "blk.0.attn_k.", 13) == 0;
    int64_t dim = of->source->params.head_dim, at = row % dim;
    return is_rotated ? row - at + at % (dim / 2) * 2 + at / (dim / 2) : row;
}

static void compare_tensor(const struct rf_head_file *gguf, const struct rf_tensor *tensor,
                           const struct rf_tensor *other)
{
    float a[256], b[256];
    int is_vector = tensor->ne[1] == 1;
    CHECK_MSG(other && memcmp(tensor->ne, other->ne, sizeof tensor->ne) == 0, "%s", tensor->name);
    if (!other) return;
    int64_t rows = is_vector ? tensor->ne[0] : tensor->ne[1], n = is_vector ? 1 : tensor->ne[0];
    size_t a_bytes = rf_dtype_bytes(tensor->dtype, (size_t)n),
           b_bytes = rf_dtype_bytes(other->dtype, (size_t)n);
    for (int64_t row = 0; row < rows; row++) {
        size_t from = (size_t)permuted_row(gguf, tensor->name, row);
        rf_dequantize_f32(tensor->dtype, (const char *)tensor->data + from * a_bytes, a, (size_t)n);
        rf_dequantize_f32(other->dtype, (const char *)other->data + (size_t)row * b_bytes, b,
                          (size_t)n);
        CHECK_MSG(memcmp(a, b, (size_t)n * sizeof *a) == 0, "%s, row %d", tensor->name, (int)row);
    }
}

static void compare_heads(const struct rf_head_file *gguf, const struct rf_head_file *other)
{
    compare_params(gguf, other);
    CHECK_INT(gguf->source->params.rope_style, RF_ROPE_NORM);
    CHECK_INT(other->source->params.rope_style, RF_ROPE_NEOX);
    for (int32_t i = 0; i < gguf->source->n_tensors; i++) {
        const struct rf_tensor *tensor = &gguf->source->tensors[i];
        if (strcmp(tensor->name, "rope_freqs.weight") == 0) continue;
        compare_tensor(gguf, tensor, rf_source_tensor(other->source, tensor->name));
    }
}

static struct rf_head_file *open_fixture(const char *name, const char *layout,
                                         const struct rf_source *of)
{
    char path[128];
    struct rf_head_file *head;
    struct rf_error error = {0};
    snprintf(path, sizeof path, "heads/%s%s", name, layout);
    int code = rf_head_open(&head, path, of, NULL, &rf_system_allocator, &error);
    CHECK_MSG(code == 0, "%s", error.text);
    if (!code) test_as_model(path);
    return head;
}

static void test_fixtures(const struct rf_source *stories)
{
    static const char *const names[] = {"plain", "normed"}, *layouts[] = {"-eagle", "-speculators"};
    for (int i = 0; i < 2; i++) {
        struct rf_head_file *gguf = open_fixture(names[i], ".gguf", stories);
        if (gguf) CHECK(gguf->norm_before_fc == i && gguf->has_embd == i && gguf->has_output);
        if (gguf) CHECK(gguf->source->params.qkv_bias == i && gguf->source->params.o_bias == i);
        for (int j = 0; gguf && j < 2; j++) {
            struct rf_head_file *other = open_fixture(names[i], layouts[j], stories);
            if (other) compare_heads(gguf, other);
            rf_head_close(other);
        }
        rf_head_close(gguf);
    }
}

/* The head with the fingerprint of its target, opened for it and for one with other gains. */
static void test_fixture_rows(const struct rf_source *stories)
{
    struct rf_head_file *head = open_fixture("chosen", ".gguf", stories);
    if (!head) return;
    CHECK_INT(head->n_rows, 200);
    for (int32_t i = 1; i < head->n_rows; i++) CHECK(head->tokens[i - 1] < head->tokens[i]);
    CHECK(head->target == rf_source_fingerprint(stories));
    rf_head_close(head);
    struct rf_source other = *stories;
    other.n_tensors = 0;
    struct rf_error error = {0};
    CHECK_INT(rf_head_open(&head, "heads/chosen.gguf", &other, NULL, &rf_system_allocator, &error),
              RF_ERR_ARGUMENT);
    CHECK_MSG(strstr(error.text, "fingerprint cbf29ce484222325") ||
                  strstr(error.text, "and this one cbf29ce484222325"),
              "%s", error.text);
}

static void test_with_stories(void)
{
    struct rf_source *stories, *quantised;
    struct rf_error error = {0};
    int code = rf_source_open(&stories, "stories260K.gguf", NULL, &rf_system_allocator, &error);
    CHECK_MSG(code == 0, "%s", error.text);
    if (code) return;
    test_fixtures(stories);
    test_fixture_rows(stories);
    /* Another form of the same weights has the same gains. */
    code = rf_source_open(&quantised, "stories260K-q.gguf", NULL, &rf_system_allocator, &error);
    CHECK_MSG(code == 0, "%s", error.text);
    if (!code) CHECK(rf_source_fingerprint(quantised) == rf_source_fingerprint(stories));
    rf_source_close(quantised);
    rf_source_close(stories);
}

/* Both containers have the same gains. */
static void test_fingerprints(void)
{
    static const char *const names[][2] = {
        {"architectures/llama", "architectures/llama/model.gguf"},
        {"architectures/qwen3-bias", "architectures/qwen3-bias/model.gguf"},
        {"architectures/gemma2", "architectures/gemma2/model.gguf"},
        {"architectures/olmo2", "architectures/olmo2/model.gguf"},
        {"experts/gpt-oss", "experts/gpt-oss.gguf"},
        {"experts/qwen2moe", "experts/qwen2moe.gguf"}};
    uint64_t before = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct rf_source *sources[2] = {NULL, NULL};
        struct rf_error error = {0};
        for (int j = 0; j < 2; j++)
            CHECK_MSG(
                rf_source_open(&sources[j], names[i][j], NULL, &rf_system_allocator, &error) == 0,
                "%s", error.text);
        if (sources[0] && sources[1]) {
            uint64_t print = rf_source_fingerprint(sources[0]);
            CHECK_MSG(print == rf_source_fingerprint(sources[1]) && print != before, "%s",
                      names[i][0]);
            before = print;
        }
        for (int j = 0; j < 2; j++) rf_source_close(sources[j]);
    }
}

int main(void)
{
    if (probe_folder(folder, sizeof folder)) {
        fprintf(stderr, "no temporary folder\n");
        return 1;
    }
    snprintf(gguf_path, sizeof gguf_path, "%s/head.gguf", folder);
    snprintf(config_path, sizeof config_path, "%s/config.json", folder);
    snprintf(weights_path, sizeof weights_path, "%s/model.safetensors", folder);
    make_target();
    test_good_ids();
    test_as_model(gguf_path);
    test_allocation_failures(gguf_path);
    test_good_rows();
    test_all_rows();
    test_model_with_ids();
    for (size_t i = 0; i < sizeof bad_files / sizeof *bad_files; i++)
        test_bad(w_head_ids, &bad_files[i]);
    for (size_t i = 0; i < sizeof bad_rows / sizeof *bad_rows; i++)
        test_bad(w_head_rows, &bad_rows[i]);
    test_each_tensor();
    test_truncation(w_head_ids);
    test_truncation(w_head_rows);
    test_corruption(w_head_ids);
    test_corruption(w_head_rows);
    test_folders();
    test_with_stories();
    test_fingerprints();
    remove(gguf_path);
    remove(config_path);
    remove(weights_path);
    rmdir(folder);
    return check_result();
}
