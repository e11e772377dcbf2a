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

enum { WIDTH = 16, LAYERS = 3, VOCAB = 40 };

static char folder[512], gguf_path[600], config_path[600], weights_path[600];

static const struct rf_source target = {.params = {.arch = RF_ARCH_QWEN35,
                                                   .arch_name = "qwen35",
                                                   .n_layer = LAYERS,
                                                   .n_embd = WIDTH,
                                                   .n_vocab = VOCAB},
                                        .name = ""};

static const struct {
    const char *gguf, *hf; /* behind "blk.3." and "mtp." */
    uint64_t ne0, ne1;
} tensors[] = {{"nextn.eh_proj.weight", "fc.weight", 32, 16},
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
enum { N_TENSORS = sizeof tensors / sizeof *tensors };

/* A file of the head alone, as llama.cpp's converter writes it. */
static void w_mtp(struct w_file *file)
{
    static const struct {
        const char *key;
        uint32_t number;
    } counts[] = {{"qwen35.block_count", LAYERS + 1}, {"qwen35.nextn_predict_layers", 1},
                  {"qwen35.embedding_length", WIDTH}, {"qwen35.feed_forward_length", 24},
                  {"qwen35.attention.key_length", 8}, {"qwen35.full_attention_interval", 3},
                  {"qwen35.ssm.conv_kernel", 4},      {"qwen35.ssm.state_size", 4},
                  {"qwen35.ssm.group_count", 1},      {"qwen35.ssm.time_step_rank", 2},
                  {"qwen35.ssm.inner_size", 8}};
    char name[96];
    w_model(file, "qwen35", VOCAB);
    file->n_tensors = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        w_u32(file, counts[i].key, counts[i].number);
    w_tensor(file, "token_embd.weight", WIDTH, VOCAB);
    w_tensor(file, "output_norm.weight", WIDTH, 0);
    for (size_t i = 0; i < N_TENSORS; i++) {
        snprintf(name, sizeof name, "blk.3.%s", tensors[i].gguf);
        w_tensor(file, name, tensors[i].ne0, tensors[i].ne1);
    }
}

/* A folder with the head's tensors, and one of the target's that nobody reads. */
static void hf_mtp(struct hf_model *model)
{
    memset(model, 0, sizeof *model);
    hf_set(model, HF_CONFIG,
           "{\"architectures\":[\"Qwen3_5ForCausalLM\"],\"model_type\":\"qwen3_5_text\","
           "\"hidden_size\":16,\"intermediate_size\":24,\"num_hidden_layers\":3,"
           "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":8,"
           "\"full_attention_interval\":3,\"partial_rotary_factor\":0.5,"
           "\"linear_num_key_heads\":1,\"linear_num_value_heads\":2,"
           "\"linear_key_head_dim\":4,\"linear_value_head_dim\":4,"
           "\"linear_conv_kernel_dim\":4,\"max_position_embeddings\":64}");
    hf_set(model, HF_HEADER, "{");
    hf_tensor(model, 0, "model.norm.weight", 16, 0);
    for (size_t i = 0; i < N_TENSORS; i++) {
        char name[96];
        uint64_t rows = tensors[i].ne1 ? tensors[i].ne1 : tensors[i].ne0;
        snprintf(name, sizeof name, "mtp.%s", tensors[i].hf);
        hf_tensor(model, 0, name, (size_t)rows, tensors[i].ne1 ? (size_t)tensors[i].ne0 : 0);
    }
    struct hf_text *header = &model->texts[HF_HEADER];
    header->data[header->bytes++] = '}';
}

/* Opens a file or folder and sees that nothing is left behind after a failure. */
static struct rf_head_file *open_head(const char *path, const struct rf_source *of,
                                      struct probe *probe, struct rf_error *error)
{
    struct rf_allocator allocator = probe_allocator(probe);
    struct rf_head_file *head = (struct rf_head_file *)&allocator;
    *error = (struct rf_error){0};
    int code = rf_head_open(&head, path, of, NULL, &allocator, error);
    CHECK_MSG(code == error->code, "code %d, error's %d", code, error->code);
    CHECK_MSG((code == 0) == (head != NULL), "code %d, but head is %p", code, (void *)head);
    if (head) return head;
    CHECK_MSG(probe->live == 0, "%ld blocks are left after \"%s\"", probe->live, error->text);
    CHECK_MSG(probe_mappings(folder) <= 0, "a mapping is left after \"%s\"", error->text);
    return NULL;
}

static void write_edited(const struct edit *edits, int n)
{
    static struct w_file file;
    size_t bytes;
    int64_t no_ids[1] = {0};
    w_mtp(&file);
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
    {"follows 6 layers, but the target has 3",
     A,
     {{U32, .target = "qwen35.block_count", .number = 7}}},
    {"reads rows of 32 values, but the target's have 16",
     A,
     {{U32, .target = "qwen35.embedding_length", .number = 32}}},
    {"vocabulary has 41 tokens, but the target's has 40",
     A,
     {{TENSOR_NE, .target = "token_embd.weight", .index = 1, .number = 41}}},
    {"its fingerprint is 0123456789abcdef",
     A,
     {{STRING, .target = "riffle.head.target", "0123456789abcdef"}}},
    {"output row 40 (" ROWS_KEY "), but the target has 40",
     A,
     {{INTS, .target = ROWS_KEY, .n = 2, .list = {0, 40}}}},
    /* what it states */
    {"not a draft head", U, {{DROP, .target = "qwen35.nextn_predict_layers"}}},
    {"not a draft head", U, {{STRING, .target = "general.architecture", "llama"}}},
    {"draft head of 2 layers for further tokens; one is supported",
     U,
     {{U32, .target = "qwen35.nextn_predict_layers", .number = 2},
      {U32, .target = "qwen35.block_count", .number = 5}}},
    {"draft head of 0 layers", U, {{U32, .target = "qwen35.nextn_predict_layers", .number = 0}}},
    {"nextn_predict_layers is 4", F, {{U32, .target = "qwen35.nextn_predict_layers", .number = 4}}},
    {"ssm.state_size is missing", F, {{DROP, .target = "qwen35.ssm.state_size"}}},
    {"output rows of its own (nextn.shared_head_head.weight) beside rows of the target's",
     F,
     {{TENSOR_MATRIX, .target = "blk.3.nextn.shared_head_head.weight", 0, 16, .list = {VOCAB}},
      {INTS, .target = ROWS_KEY, .n = 2, .list = {0, 1}}}},
    /* tensors */
    {"blk.3.nextn.shared_head_head.weight is [16, 39",
     F,
     {{TENSOR_MATRIX, .target = "blk.3.nextn.shared_head_head.weight", 0, 16, .list = {39}}}},
    {"blk.3.nextn.embed_tokens.weight is [8, 40",
     F,
     {{TENSOR_MATRIX, .target = "blk.3.nextn.embed_tokens.weight", 0, 8, .list = {VOCAB}}}},
    {"blk.3.attn_v.bias is missing",
     F,
     {{TENSOR_VECTOR, .target = "blk.3.attn_q.bias", 0, 32},
      {TENSOR_VECTOR, .target = "blk.3.attn_k.bias", 0, 8}}},
    {"blk.3.ssm_a has no place", U, {{TENSOR_VECTOR, .target = "blk.3.ssm_a", 0, 2}}},
    {"blk.4.attn_norm.weight has no place",
     U,
     {{TENSOR_VECTOR, .target = "blk.4.attn_norm.weight", 0, 16}}},
    {"two tensors are called blk.3.attn_norm.weight",
     F,
     {{TENSOR_VECTOR, .target = "blk.3.twin", 0, 16},
      {TENSOR_NAME, .target = "blk.3.twin", "blk.3.attn_norm.weight"}}},
};

static void test_bad_files(void)
{
    for (size_t i = 0; i < sizeof bad_files / sizeof *bad_files; i++) {
        const struct bad_file *bad = &bad_files[i];
        struct probe probe = {0};
        struct rf_error error;
        write_edited(bad->edits, 4);
        struct rf_head_file *head = open_head(gguf_path, &target, &probe, &error);
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
    for (size_t i = 0; i < N_TENSORS; i++) {
        char name[96];
        snprintf(name, sizeof name, "blk.3.%s", tensors[i].gguf);
        const struct edit edits[] = {{TENSOR_DROP, .target = name},
                                     {TENSOR_NE, .target = name, .number = 80}};
        for (int j = 0; j < 2; j++) {
            struct probe probe = {0};
            struct rf_error error;
            int may_miss = j == 0 && strstr(name, "shared_head_norm");
            write_edited(&edits[j], 1);
            struct rf_head_file *head = open_head(gguf_path, &target, &probe, &error);
            CHECK_MSG(may_miss ? head && !head->has_norm : error.code && strstr(error.text, name),
                      "%s %s: \"%s\"", name, j ? "resized" : "dropped", error.text);
            rf_head_close(head);
        }
    }
}

static void check_params(const struct rf_head_file *head)
{
    const struct rf_params *p = &head->source->params;
    CHECK_INT(head->mtp_layer, LAYERS);
    CHECK(head->has_norm && !head->has_output && !head->has_embd && !head->n_rows);
    CHECK_INT(head->n_embd_target, WIDTH);
    CHECK_INT(head->n_vocab_target, VOCAB);
    CHECK(p->n_layer == 1 && p->n_embd == WIDTH && p->n_vocab == VOCAB && p->n_ff == 24);
    CHECK(p->attn_gate && p->qk_norm && p->rope_dim == 4 && p->head_dim == 8);
    CHECK(rf_has_attention(p, 0) && rf_has_keys(p, 0) && p->rope_style == RF_ROPE_NEOX);
    CHECK_INT(head->source->n_tensors, N_TENSORS);
    CHECK_STR(head->recipe, "trained with the model (mtp)");
}

static void test_good(void)
{
    static struct hf_model model;
    const char *const paths[] = {gguf_path, folder};
    write_edited(NULL, 0);
    hf_mtp(&model);
    write_folder(&model);
    for (int i = 0; i < 2; i++) {
        struct probe probe = {0};
        struct rf_error error;
        struct rf_head_file *head = open_head(paths[i], &target, &probe, &error);
        CHECK_MSG(head, "%s", error.text);
        if (!head) continue;
        check_params(head);
        /* A folder's norms count from 1 on. */
        const struct rf_tensor *norm = rf_source_tensor(head->source, "blk.3.nextn.hnorm.weight");
        CHECK(norm && norm->dtype == RF_F32);
        rf_head_close(head);
        CHECK_MSG(probe.live == 0, "%ld blocks are left", probe.live);
    }
    struct probe probe = {0};
    struct rf_error error;
    struct rf_source other = target;
    other.params.arch = RF_ARCH_QWEN35MOE;
    other.params.arch_name = "qwen35moe";
    CHECK(!open_head(gguf_path, &other, &probe, &error));
    CHECK_MSG(error.code == A && strstr(error.text, "it is of a qwen35, but the target is a "
                                                    "qwen35moe"),
              "%s", error.text);
}

/* Rows of the target's output and the recipe, by the keys of heads. */
static void test_rows(void)
{
    const struct edit edits[] = {{INTS, .target = ROWS_KEY, .n = 3, .list = {1, 7, 39}},
                                 {STRING, .target = "riffle.head.recipe", "likeliest rows"}};
    struct probe probe = {0};
    struct rf_error error;
    write_edited(edits, 2);
    struct rf_head_file *head = open_head(gguf_path, &target, &probe, &error);
    CHECK_MSG(head, "%s", error.text);
    if (!head) return;
    CHECK(head->n_rows == 3 && head->source->params.n_vocab == 3 && head->tokens[2] == 39);
    CHECK_STR(head->recipe, "likeliest rows");
    rf_head_close(head);
}

static const struct {
    const char *sentence;
    int code, file;
    const char *from, *to;
} bad_folders[] = {
    {"follows 4 layers", A, HF_CONFIG, "\"num_hidden_layers\":3", "\"num_hidden_layers\":4"},
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
        hf_mtp(&model);
        CHECK_MSG(
            hf_replace(&model.texts[bad_folders[i].file], bad_folders[i].from, bad_folders[i].to),
            "no %s", bad_folders[i].from);
        write_folder(&model);
        struct rf_head_file *head = open_head(folder, &target, &probe, &error);
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
    hf_mtp(&model);
    while (hf_replace(&model.texts[HF_HEADER], "\"mtp.", "\"model.mtp.")) continue;
    write_folder(&model);
    struct rf_head_file *head = open_head(folder, &target, &probe, &error);
    CHECK_MSG(head, "%s", error.text);
    if (head) check_params(head);
    rf_head_close(head);
}

static void test_allocation_failures(const char *path)
{
    struct rf_head_file *head = NULL;
    struct rf_error error;
    long n = 1;
    for (; n < 1000 && !head; n++) {
        struct probe probe = {.fail_at = n};
        head = open_head(path, &target, &probe, &error);
        CHECK_MSG(head || (error.code == RF_ERR_MEMORY && strstr(error.text, "memory")),
                  "request %ld: %d \"%s\"", n, error.code, error.text);
        if (head) rf_head_close(head);
    }
    CHECK_MSG(n > 3 && n < 1000, "opening made %ld requests", n - 1);
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
        struct rf_head_file *head = open_head(models[i].path, source, &probe, &error);
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
    test_allocation_failures(gguf_path);
    test_allocation_failures(folder);
    test_rows();
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
