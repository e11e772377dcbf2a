/* The reader of draft heads that were trained with their target (`mtp`): both containers give the
 * same, a head of another target or a bad file gives an error that says what it is, and nothing is
 * left behind. Bad files are made here: a small good one with one thing changed. */
#define _DEFAULT_SOURCE
#include <sys/stat.h>

#include "model/head.h"
#include "model/head_edits.h"
#include "model/open.h"
#include "model/probe.h"
#include "support/check.h"

static char folder[512], gguf_path[600], config_path[600], weights_path[600];

static const struct rf_source target = {.params = {.arch = RF_ARCH_QWEN35,
                                                   .arch_name = "qwen35",
                                                   .n_layer = HEAD_LAYERS,
                                                   .n_embd = HEAD_WIDTH,
                                                   .n_vocab = HEAD_VOCAB},
                                        .name = ""};

static void write_edited(const struct edit *edits, int n)
{
    static struct w_file file;
    size_t bytes;
    int64_t no_ids[1] = {0};
    w_head_mtp(&file);
    for (int i = 0; i < n; i++) apply(&file, no_ids, &edits[i]);
    unsigned char *data = w_head_bytes(&file, no_ids, 0, &bytes);
    CHECK_INT(probe_write(gguf_path, data, bytes), 0);
    free(data);
}

static void write_folder(const struct hf_model *model)
{
    size_t bytes;
    unsigned char *data = hf_shard(model, 0, &bytes);
    CHECK_INT(probe_write(config_path, model->texts[HF_CONFIG].data, model->texts[HF_CONFIG].bytes),
              0);
    CHECK_INT(probe_write(weights_path, data, bytes), 0);
    free(data);
}

#define A RF_ERR_ARGUMENT
#define F RF_ERR_FORMAT
#define U RF_ERR_UNSUPPORTED
#define ROWS_KEY "riffle.head.output_rows"

static const struct bad_file bad_files[] = {
    /* another target */
    {"follows 6 layers, but the target has 5",
     A,
     {{U32, .target = "qwen35.block_count", .number = 7}}},
    {"reads rows of 32 values, but the target's have 16",
     A,
     {{U32, .target = "qwen35.embedding_length", .number = 32}}},
    {"vocabulary has 201 tokens, but the target's has 200",
     A,
     {{TENSOR_NE, .target = "token_embd.weight", .index = 1, .number = 201}}},
    {"its fingerprint is 0123456789abcdef",
     A,
     {{STRING, .target = "riffle.head.target", "0123456789abcdef"}}},
    {"output row 200 (" ROWS_KEY "), but the target has 200",
     A,
     {{INTS, .target = ROWS_KEY, .n = 2, .list = {0, 200}}}},
    /* what it states */
    {"not a draft head", U, {{DROP, .target = "qwen35.nextn_predict_layers"}}},
    {"not a draft head", U, {{STRING, .target = "general.architecture", "llama"}}},
    {"draft head of 2 layers for further tokens; one is supported",
     U,
     {{U32, .target = "qwen35.nextn_predict_layers", .number = 2},
      {U32, .target = "qwen35.block_count", .number = 7}}},
    {"draft head of 0 layers", U, {{U32, .target = "qwen35.nextn_predict_layers", .number = 0}}},
    {"nextn_predict_layers is 6", F, {{U32, .target = "qwen35.nextn_predict_layers", .number = 6}}},
    {"ssm.state_size is missing", F, {{DROP, .target = "qwen35.ssm.state_size"}}},
    {"output rows of its own (nextn.shared_head_head.weight) beside rows of the target's",
     F,
     {{TENSOR_MATRIX, .target = "blk.5.nextn.shared_head_head.weight", 0, 16, .list = {HEAD_VOCAB}},
      {INTS, .target = ROWS_KEY, .n = 2, .list = {0, 1}}}},
    /* tensors */
    {"blk.5.nextn.shared_head_head.weight is [16, 199",
     F,
     {{TENSOR_MATRIX, .target = "blk.5.nextn.shared_head_head.weight", 0, 16, .list = {199}}}},
    {"blk.5.nextn.embed_tokens.weight is [8, 200",
     F,
     {{TENSOR_MATRIX, .target = "blk.5.nextn.embed_tokens.weight", 0, 8, .list = {HEAD_VOCAB}}}},
    {"blk.5.attn_v.bias is missing",
     F,
     {{TENSOR_VECTOR, .target = "blk.5.attn_q.bias", 0, 32},
      {TENSOR_VECTOR, .target = "blk.5.attn_k.bias", 0, 8}}},
    {"blk.5.ssm_a has no place", U, {{TENSOR_VECTOR, .target = "blk.5.ssm_a", 0, 2}}},
    {"blk.6.attn_norm.weight has no place",
     U,
     {{TENSOR_VECTOR, .target = "blk.6.attn_norm.weight", 0, 16}}},
    {"two tensors are called blk.5.attn_norm.weight",
     F,
     {{TENSOR_VECTOR, .target = "blk.5.twin", 0, 16},
      {TENSOR_NAME, .target = "blk.5.twin", "blk.5.attn_norm.weight"}}},
};

static void test_bad_files(void)
{
    for (size_t i = 0; i < sizeof bad_files / sizeof *bad_files; i++) {
        const struct bad_file *bad = &bad_files[i];
        struct probe probe = {0};
        struct rf_error error;
        write_edited(bad->edits, 4);
        struct rf_head_file *head = open_head_in(folder, gguf_path, &target, &probe, &error);
        CHECK_MSG(error.code == bad->code && strstr(error.text, bad->sentence),
                  "\"%s\": code %d, not %d: \"%s\"", bad->sentence, error.code, bad->code,
                  error.text);
        CHECK_MSG(!error.code || strstr(error.text, gguf_path), "no path: \"%s\"", error.text);
        rf_head_close(head);
    }
}

/* Each tensor but the last norm must be there, in its shape. */
static void test_each_tensor(void)
{
    for (size_t i = 0; i < N_MTP_TENSORS; i++) {
        char name[96];
        snprintf(name, sizeof name, "blk.5.%s", w_mtp_tensors[i].gguf);
        const struct edit edits[] = {{TENSOR_DROP, .target = name},
                                     {TENSOR_NE, .target = name, .number = 80}};
        for (int j = 0; j < 2; j++) {
            struct probe probe = {0};
            struct rf_error error;
            int may_miss = j == 0 && strstr(name, "shared_head_norm");
            write_edited(&edits[j], 1);
            struct rf_head_file *head = open_head_in(folder, gguf_path, &target, &probe, &error);
            CHECK_MSG(may_miss ? head && !head->has_norm : error.code && strstr(error.text, name),
                      "%s %s: \"%s\"", name, j ? "resized" : "dropped", error.text);
            rf_head_close(head);
        }
    }
}

static void check_params(const struct rf_head_file *head)
{
    const struct rf_params *p = &head->source->params;
    CHECK_INT(head->mtp_layer, HEAD_LAYERS);
    CHECK(head->has_norm && !head->has_output && !head->has_embd && !head->n_rows);
    CHECK_INT(head->n_embd_target, HEAD_WIDTH);
    CHECK_INT(head->n_vocab_target, HEAD_VOCAB);
    CHECK(p->n_layer == 1 && p->n_embd == HEAD_WIDTH && p->n_vocab == HEAD_VOCAB && p->n_ff == 24);
    CHECK(p->attn_gate && p->qk_norm && p->rope_dim == 4 && p->head_dim == 8);
    CHECK(rf_has_attention(p, 0) && rf_has_keys(p, 0) && p->rope_style == RF_ROPE_NEOX);
    CHECK_INT(head->source->n_tensors, N_MTP_TENSORS);
    CHECK_STR(head->recipe, "trained with the model (mtp)");
}

static void test_good(void)
{
    static struct hf_model model;
    const char *const paths[] = {gguf_path, folder};
    write_edited(NULL, 0);
    hf_head_mtp(&model);
    write_folder(&model);
    for (int i = 0; i < 2; i++) {
        struct probe probe = {0};
        struct rf_error error;
        struct rf_head_file *head = open_head_in(folder, paths[i], &target, &probe, &error);
        CHECK_MSG(head, "%s", error.text);
        if (!head) continue;
        check_params(head);
        /* A folder's norms count from 1 on. */
        const struct rf_tensor *norm = rf_source_tensor(head->source, "blk.5.nextn.hnorm.weight");
        CHECK(norm && norm->dtype == RF_F32);
        rf_head_close(head);
        CHECK_MSG(probe.live == 0, "%ld blocks are left", probe.live);
    }
    struct probe probe = {0};
    struct rf_error error;
    struct rf_source other = target;
    other.params.arch = RF_ARCH_QWEN35MOE;
    other.params.arch_name = "qwen35moe";
    CHECK(!open_head_in(folder, gguf_path, &other, &probe, &error));
    CHECK_MSG(error.code == A && strstr(error.text, "it is of a qwen35, but the target is a "
                                                    "qwen35moe"),
              "%s", error.text);
}

/* Rows that are joined begin at multiples of 16. */
static void test_width(void)
{
    const struct edit narrow = {U32, .target = "qwen35.embedding_length", .number = 24};
    struct probe probe = {0};
    struct rf_error error;
    struct rf_source of = target;
    of.params.n_embd = 24;
    write_edited(&narrow, 1);
    CHECK(!open_head_in(folder, gguf_path, &of, &probe, &error));
    CHECK_MSG(error.code == U && strstr(error.text, "a draft head of width 24; multiples of 16"),
              "%s", error.text);
}

/* Rows of the target's output and the recipe, by the keys of heads. */
static void test_rows(void)
{
    const struct edit edits[] = {{INTS, .target = ROWS_KEY, .n = 3, .list = {1, 7, 199}},
                                 {STRING, .target = "riffle.head.recipe", "likeliest rows"}};
    struct probe probe = {0};
    struct rf_error error;
    write_edited(edits, 2);
    struct rf_head_file *head = open_head_in(folder, gguf_path, &target, &probe, &error);
    CHECK_MSG(head, "%s", error.text);
    if (!head) return;
    CHECK(head->n_rows == 3 && head->source->params.n_vocab == 3 && head->tokens[2] == 199);
    CHECK_STR(head->recipe, "likeliest rows");
    rf_head_close(head);
}

static void test_allocation_failures(const char *path, const struct rf_source *of)
{
    struct rf_head_file *head = NULL;
    struct rf_error error;
    long n = 1;
    for (; n < 1000 && !head; n++) {
        struct probe probe = {.fail_at = n};
        head = open_head_in(folder, path, of, &probe, &error);
        CHECK_MSG(head || (error.code == RF_ERR_MEMORY && strstr(error.text, "memory")),
                  "request %ld: %d \"%s\"", n, error.code, error.text);
        if (head) rf_head_close(head);
    }
    CHECK_MSG(n > 3 && n < 1000, "opening made %ld requests", n - 1);
}

/* The first 65,536 rows and the special ones are read of a large vocabulary of merges. */
static void test_large_vocabulary(void)
{
    enum { VOCAB = 140000, FIRST = 65536, SPECIAL = 139000, USER = 139990, UNUSED = 139995 };
    static uint8_t types[VOCAB];
    static struct w_file file;
    static int64_t no_ids[1];
    struct rf_source large = target;
    struct rf_error error;
    size_t bytes;
    memset(types, RF_TOKEN_NORMAL, sizeof types);
    types[3] = types[SPECIAL] = RF_TOKEN_CONTROL;
    types[USER] = RF_TOKEN_USER_DEFINED;
    types[UNUSED] = RF_TOKEN_UNUSED;
    large.params.n_vocab = VOCAB;
    large.vocab = (struct rf_vocab){.n_tokens = VOCAB, .types = types};
    w_head_mtp(&file);
    w_drop_tensor(&file, "token_embd.weight");
    unsigned char *data = w_head_bytes(&file, no_ids, 0, &bytes);
    CHECK_INT(probe_write(gguf_path, data, bytes), 0);
    free(data);
    for (int is_bpe = 0; is_bpe < 2; is_bpe++)
        for (int is_large = 0; is_large < 2; is_large++) {
            struct probe probe = {0};
            large.vocab.kind = is_bpe ? RF_VOCAB_BPE : RF_VOCAB_SENTENCEPIECE;
            large.vocab.n_tokens = is_large ? VOCAB : 2 * FIRST - 1;
            struct rf_head_file *head = open_head_in(folder, gguf_path, &large, &probe, &error);
            CHECK_MSG(head != NULL, "%s", error.text);
            if (!head) continue;
            CHECK_INT(head->n_rows, is_bpe && is_large ? FIRST + 2 : 0);
            for (int32_t i = 0; i < head->n_rows; i++)
                CHECK_INT(head->tokens[i], i < FIRST ? i : i == FIRST ? SPECIAL : USER);
            CHECK_INT(head->source->params.n_vocab, head->n_rows ? head->n_rows : VOCAB);
            rf_head_close(head);
        }
    test_allocation_failures(gguf_path, &large);
}

static const struct {
    const char *sentence;
    int code, file;
    const char *from, *to;
} bad_folders[] = {
    {"follows 4 layers", A, HF_CONFIG, "\"num_hidden_layers\":5", "\"num_hidden_layers\":4"},
    {"tensor mtp.fc.weight is missing", F, HF_HEADER, "\"mtp.fc.weight", "\"model.fc.weight"},
    {"tensor mtp.layers.0.self_attn.q_norm.weight is missing", F, HF_HEADER,
     "mtp.layers.0.self_attn.q_norm", "model.layers.0.self_attn.q_norm"},
    {"tensor mtp.layers.1.self_attn.q_norm.weight is not one that a draft head computes with", U,
     HF_HEADER, "mtp.layers.0.self_attn.q_norm", "mtp.layers.1.self_attn.q_norm"},
    {"tensor mtp.fc.bias is not one that a draft head computes with", U, HF_HEADER, "mtp.fc.weight",
     "mtp.fc.bias"},
    {"tensor mtp.layers.0.linear_attn.A_log has no place in this draft head", U, HF_HEADER,
     "model.norm.weight", "mtp.layers.0.linear_attn.A_log"},
};

static void test_bad_folders(void)
{
    for (size_t i = 0; i < sizeof bad_folders / sizeof *bad_folders; i++) {
        static struct hf_model model;
        struct probe probe = {0};
        struct rf_error error;
        hf_head_mtp(&model);
        CHECK_MSG(
            hf_replace(&model.texts[bad_folders[i].file], bad_folders[i].from, bad_folders[i].to),
            "no %s", bad_folders[i].from);
        write_folder(&model);
        struct rf_head_file *head = open_head_in(folder, folder, &target, &probe, &error);
        CHECK_MSG(error.code == bad_folders[i].code && strstr(error.text, bad_folders[i].sentence),
                  "\"%s\": code %d: \"%s\"", bad_folders[i].sentence, error.code, error.text);
        rf_head_close(head);
    }
}

/* Names may begin with model.mtp. */
static void test_longer_names(void)
{
    static struct hf_model model;
    struct probe probe = {0};
    struct rf_error error;
    hf_head_mtp(&model);
    while (hf_replace(&model.texts[HF_HEADER], "\"mtp.", "\"model.mtp.")) continue;
    write_folder(&model);
    struct rf_head_file *head = open_head_in(folder, folder, &target, &probe, &error);
    CHECK_MSG(head, "%s", error.text);
    if (head) check_params(head);
    rf_head_close(head);
}

/* The models of test/data say that they have a draft, others that they have none. */
static void test_models(void)
{
    static const struct {
        const char *path;
        int has;
    } models[] = {{"mtp/qwen35.gguf", 1},
                  {"mtp/qwen35", 1},
                  {"mtp/qwen35moe.gguf", 1},
                  {"mtp/qwen3next", 1},
                  {"architectures/qwen35/model.gguf", 0},
                  {"architectures/qwen35", 0},
                  {"experts/deepseek2-v3.gguf", 0}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct rf_source *source;
        struct rf_error error = {0};
        int code = rf_source_open(&source, models[i].path, NULL, &rf_system_allocator, &error);
        CHECK_MSG(code == 0, "%s", error.text);
        if (code) continue;
        CHECK_MSG(source->has_mtp == models[i].has, "%s", models[i].path);
        struct probe probe = {0};
        struct rf_head_file *head = open_head_in(folder, models[i].path, source, &probe, &error);
        CHECK_MSG((head != NULL) == models[i].has, "%s: %s", models[i].path, error.text);
        rf_head_close(head);
        rf_source_close(source);
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
    test_good();
    test_allocation_failures(gguf_path, &target);
    test_allocation_failures(folder, &target);
    test_width();
    test_rows();
    test_large_vocabulary();
    test_bad_files();
    test_each_tensor();
    test_bad_folders();
    test_longer_names();
    test_models();
    remove(gguf_path);
    remove(config_path);
    remove(weights_path);
    rmdir(folder);
    return check_result();
}
