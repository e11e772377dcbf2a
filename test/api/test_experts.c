/* Models with experts against transformers' own code: scripts/make_expert_models.py made them.
 *
 * The tolerance. Weights are exact, and quantised ones compute with 16-bit rows. So what is rounded
 * are the input rows of linear layers in BF16, by up to 2^-9 of a value; keys and values, in F16,
 * count little beside. Five such inputs follow each other in each of two layers (of q, k and v, of
 * o, of the router, of gate and up, of down), and one in the head. If none of them makes the errors
 * before it larger, 11 * 2^-9 is the most. That they do not is assumed, not proved: 0.012 to 0.015
 * were seen. */
#define _DEFAULT_SOURCE
#include <math.h>
#include <unistd.h>

#include "api/helpers.h"
#include "infer/backend.h"

#define TOLERANCE 0.0215

enum {
    N_VOCAB = 272,
    N_TOKENS = 64,
    N_GREEDY = 12,
    EXPERT_BYTES = 3584 /* one of gpt-oss, packed; its two layers have four each */
};

struct golden {
    int32_t ids[N_TOKENS];
    float logits[N_TOKENS][N_VOCAB];
    int32_t greedy[N_GREEDY];
};

static int read_golden(const char *name, struct golden *golden)
{
    char path[256];
    snprintf(path, sizeof path, "experts/%s.golden", name);
    FILE *file = fopen(path, "rb");
    int ok = file && fread(golden, sizeof *golden, 1, file) == 1;
    CHECK_MSG(ok, "%s cannot be read", path);
    if (file) fclose(file);
    return ok;
}

static double relative_error(const float *got, const float *wanted)
{
    double off = 0, size = 0;
    for (int v = 0; v < N_VOCAB; v++) {
        off += pow((double)got[v] - (double)wanted[v], 2);
        size += pow((double)wanted[v], 2);
    }
    return sqrt(off / size);
}

static riffle_session *open_chain(riffle_model *model, const char *chain, int32_t gamma)
{
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.n_ctx = 128;
    options.threads = 2;
    options.chain = chain;
    options.gamma = gamma;
    riffle_session *session = NULL;
    CHECK_OK(riffle_session_open(&session, model, &options));
    return session;
}

/* Each token's logits are close to transformers'; read in blocks they have the same bits. */
static void check_logits(riffle_model *model, const struct golden *golden, const char *path)
{
    static float alone[N_TOKENS][N_VOCAB], got[N_VOCAB];
    riffle_session *session = open_chain(model, "none", 0);
    double worst = 0;
    for (int i = 0; i < N_TOKENS; i++) {
        CHECK_OK(riffle_prefill(session, golden->ids + i, 1));
        CHECK_OK(riffle_logits(session, alone[i], N_VOCAB));
        double off = relative_error(alone[i], golden->logits[i]);
        if (!(off <= worst)) worst = off;
    }
    CHECK_MSG(worst < TOLERANCE, "%s: logits are off by %.4f", path, worst);
    printf("%s: logits are off by %.4f\n", path, worst);
    for (int block = 2; block <= N_TOKENS; block = block * 3 - 1) {
        CHECK_OK(riffle_rewind(session, 0));
        for (int at = 0; at + block <= N_TOKENS; at += block) {
            CHECK_OK(riffle_prefill(session, golden->ids + at, (size_t)block));
            CHECK_OK(riffle_logits(session, got, N_VOCAB));
            CHECK_MSG(memcmp(got, alone[at + block - 1], sizeof got) == 0,
                      "%s: in blocks of %d token %d has other bits", path, block, at + block - 1);
        }
    }
    riffle_session_close(session);
}

static void check_greedy(riffle_model *model, const struct golden *golden, const char *path)
{
    static const struct {
        const char *chain;
        int32_t gamma;
    } chains[] = {{"none", 0}, {"ngram", 4}, {"mxfp4", 3}, {"mxfp4", 8}, {"ngram > mxfp4", 0}};
    for (size_t c = 0; c < sizeof chains / sizeof *chains; c++) {
        riffle_session *session = open_chain(model, chains[c].chain, chains[c].gamma);
        CHECK_OK(riffle_prefill(session, golden->ids, N_TOKENS));
        struct tokens tokens = generate(session, N_GREEDY);
        CHECK_MSG(tokens.count == N_GREEDY &&
                      memcmp(tokens.ids, golden->greedy, sizeof golden->greedy) == 0,
                  "%s, chain %s: other tokens", path, chains[c].chain);
        riffle_session_close(session);
    }
}

/* A saved text goes on in another session. The file tells models apart by samples of their tensors,
 * also where rows lie scattered. */
static void check_saved(riffle_model *model, const struct golden *golden, const char *path)
{
    char saved[] = "/tmp/riffle-experts-state-XXXXXX";
    int descriptor = mkstemp(saved);
    CHECK(descriptor >= 0);
    if (descriptor < 0) return;
    riffle_session *session = open_chain(model, "none", 0), *other = open_chain(model, "none", 0);
    CHECK_OK(riffle_prefill(session, golden->ids, N_TOKENS));
    CHECK_OK(riffle_state_save(session, saved));
    CHECK_OK(riffle_state_load(other, saved));
    struct tokens tokens = generate(other, N_GREEDY);
    CHECK_MSG(tokens.count == N_GREEDY &&
                  memcmp(tokens.ids, golden->greedy, sizeof golden->greedy) == 0,
              "%s, saved: other tokens", path);
    riffle_session_close(session);
    riffle_session_close(other);
    close(descriptor);
    remove(saved);
}

/* expert_bytes: memory for some experts; 0: for all. */
static void check_model(const char *name, const char *container, uint64_t expert_bytes,
                        const struct golden *golden)
{
    char path[256];
    riffle_model_options options;
    riffle_model *model;
    riffle_model_info info;
    riffle_model_options_init(&options, sizeof options);
    options.chain = "ngram > mxfp4";
    options.activations = "16";
    options.expert_bytes = expert_bytes;
    snprintf(path, sizeof path, "experts/%s%s", name, container);
    int code = riffle_model_open(&model, path, &options);
    const char *what = strcmp(name, "lfm2moe") == 0          ? "convolutions"
                       : strcmp(name, "qwen35moe") == 0      ? "the delta rule"
                       : strcmp(name, "qwen3next") == 0      ? "the delta rule"
                       : strcmp(name, "granitehybrid") == 0  ? "Mamba-2"
                       : strcmp(name, "nemotron_h_moe") == 0 ? "Mamba-2"
                       : strncmp(name, "deepseek2", 9) == 0  ? "latent attention"
                                                             : NULL;
    if (strcmp(rf_backend_kinds[0]->name, "cuda") == 0 && what) {
        CHECK_MSG(code < 0 && strstr(riffle_last_error(), what), "%s: %s", path,
                  code ? riffle_last_error() : "opened");
        return;
    }
    if (expert_bytes && strcmp(rf_backend_kinds[0]->name, "cuda") == 0) {
        CHECK_MSG(code < 0 && strstr(riffle_last_error(), "must be in a CUDA device's memory"),
                  "%s: %s", path, code ? riffle_last_error() : "opened");
        return;
    }
    CHECK_MSG(code == 0, "%s: %s", path, riffle_last_error());
    if (code) return;
    CHECK_OK(riffle_model_get_info(model, &info, sizeof info));
    CHECK_MSG(expert_bytes || info.weight_bytes < info.mapped_bytes + info.resident_bytes,
              "%s: a pass reads all experts", path);
    CHECK_MSG((info.experts_note[0] != 0) == (expert_bytes != 0), "%s: %s", path,
              info.experts_note);
    check_logits(model, golden, path);
    check_greedy(model, golden, path);
    check_saved(model, golden, path);
    riffle_model_close(model);
}

/* ---- files that say something else ---- */

static char folder[] = "/tmp/riffle-experts-XXXXXX";

struct text {
    char *data;
    size_t bytes;
};

static struct text read_file(const char *name, const char *file)
{
    char path[256];
    snprintf(path, sizeof path, "experts/%s/%s", name, file);
    FILE *in = fopen(path, "rb");
    struct text text = {malloc(1 << 20), 0};
    if (in && text.data) text.bytes = fread(text.data, 1, 1 << 20, in);
    CHECK_MSG(text.bytes > 0, "%s cannot be read", path);
    if (in) fclose(in);
    return text;
}

/* Replaces the first `from` by `to`, which is as long. */
static int replace(struct text *text, const char *from, const char *to)
{
    size_t n = strlen(from);
    for (size_t i = 0; i + n <= text->bytes; i++) {
        if (memcmp(text->data + i, from, n) != 0) continue;
        memcpy(text->data + i, to, n);
        return 1;
    }
    return 0;
}

static void check_bad(const char *name, const char *from, const char *to, const char *sentence)
{
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json"};
    enum { FILES = sizeof files / sizeof *files };
    char path[FILES][256];
    int replaced = 0;
    for (int f = 0; f < FILES; f++) {
        struct text text = read_file(name, files[f]);
        snprintf(path[f], sizeof path[f], "%s/%s", folder, files[f]);
        FILE *out = fopen(path[f], "wb");
        replaced += replace(&text, from, to);
        CHECK(out && fwrite(text.data, 1, text.bytes, out) == text.bytes);
        if (out) fclose(out);
        free(text.data);
    }
    CHECK_MSG(replaced == 1, "%s: %s is in %d files", name, from, replaced);
    riffle_model_options options;
    riffle_model *model;
    riffle_model_options_init(&options, sizeof options);
    options.flags = RIFFLE_OPEN_HEADER;
    CHECK(riffle_model_open(&model, folder, &options) < 0);
    CHECK_MSG(strstr(riffle_last_error(), sentence) != NULL, "\"%s\", not \"%s\"",
              riffle_last_error(), sentence);
    for (int f = 0; f < FILES; f++) remove(path[f]);
}

/* The same of a GGUF file. */
static void check_bad_gguf(const char *name, const char *from, const char *to, const char *sentence)
{
    char file[64], path[256];
    snprintf(file, sizeof file, "../%s.gguf", name);
    struct text text = read_file(name, file);
    CHECK_MSG(replace(&text, from, to), "%s: %s is missing", name, from);
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    FILE *out = fopen(path, "wb");
    CHECK(out && fwrite(text.data, 1, text.bytes, out) == text.bytes);
    if (out) fclose(out);
    free(text.data);
    riffle_model_options options;
    riffle_model *model;
    riffle_model_options_init(&options, sizeof options);
    options.flags = RIFFLE_OPEN_HEADER;
    CHECK(riffle_model_open(&model, path, &options) < 0);
    CHECK_MSG(strstr(riffle_last_error(), sentence) != NULL, "\"%s\", not \"%s\"",
              riffle_last_error(), sentence);
    remove(path);
}

static void check_bad_files(void)
{
    if (!mkdtemp(folder)) exit(1);
    check_bad("mixtral", "experts.3.w1", "experts.9.w1", "expert 3 of tensor");
    check_bad("mixtral", "experts.3.w1.weight\":{\"dtype\":\"BF16\",\"shape\":[40,64]",
              "experts.3.w1.weight\":{\"dtype\":\"BF16\",\"shape\":[64,40]",
              "expert 3 has another type or shape");
    check_bad("mixtral", "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 5",
              "a row uses 5 experts of 4");
    check_bad("mixtral", "\"num_local_experts\": 4", "\"num_local_experts\": 3",
              "mlp.gate.weight is [64, 4, 1, 1]");
    check_bad("qwen2moe", "\"shared_expert_intermediate_size\": 80",
              "\"shared_expert_intermediate_size\": 64", "shared_expert.gate_proj.weight is");
    check_bad("qwen2moe", "[6,64,64]", "[8,48,64]", "ask for [64, 32, 6]");
    check_bad("qwen2moe", "\"intermediate_size\": 96", "\"intermediate_size\": 95",
              "mlp.gate_proj.weight is [64, 96");
    check_bad("qwen2moe", "model.layers.1.mlp.shared_expert_gate",
              "model.layers.1.mlp.shared_expert_rate", "shared_expert_rate");
    check_bad("gpt-oss", "gate_up_proj_scales", "gate_up_proj_scalez", "gate_up_proj_scalez");
    check_bad("gpt-oss", "[4,64,2]", "[4,32,4]", "not blocks of 16 bytes");
    check_bad("gpt-oss", "\"mxfp4\"", "\"awq.4\"", "quantization_config");
    check_bad("lfm2moe", "\"use_expert_bias\": true", "\"use_expert_bias\":false",
              "feed_forward.expert_bias is a bias that config.json does not ask for");
    check_bad("lfm2moe", "\"routed_scaling_factor\": 1.0", "\"routed_scaling_factor\": 2.5",
              "routed_scaling_factor is 2.5");
    check_bad("lfm2moe", "\"num_experts\": 5", "\"num_experts\": 4",
              "feed_forward.gate.weight is [64, 5, 1, 1]");
    check_bad("granitehybrid", "\"mamba_n_groups\": 2", "\"mamba_n_groups\": 3",
              "3 groups of Mamba-2 do not divide its 8 heads");
    check_bad("granitehybrid", "\"mamba_n_heads\": 8", "\"mamba_n_heads\": 9",
              "is not mamba_expand times hidden_size");
    check_bad("granitehybrid", "\"mamba_d_state\": 16", "\"mamba_d_state\": 17",
              "mamba.in_proj.weight has 328 rows, but the parameters ask for 332");
    check_bad("granitehybrid", "\"linear_attention\"", "\"linear_attenuate\"",
              "layer 0 is of the kind \"linear_attenuate\"");
    check_bad("granitehybrid", "\"mamba_proj_bias\": false", "\"mamba_proj_bias\": true ",
              "mamba_proj_bias is true, which is not supported");
    check_bad("granitehybrid", "\"mamba_conv_bias\": true", "\"mamba_conv_bias\":false",
              "mamba.conv1d.bias is a bias that config.json does not ask for");
    check_bad("granitehybrid", "\"shared_intermediate_size\": 40",
              "\"shared_intermediate_size\": 41", "shared_mlp.input_linear.weight has 80 rows");
    check_bad("deepseek2-v3", "\"attention_bias\": false", "\"attention_bias\": true ",
              "attention_bias is true, which is not supported with latent attention");
    check_bad("deepseek2-v3", "\"kv_lora_rank\": 64", "\"kv_lora_rank\": 65",
              "but kv_lora_rank and the heads ask for [65, 256]");
    check_bad("deepseek2-v3", "\"v_head_dim\": 32", "\"v_head_dim\": 31",
              "is [64, 256], but kv_lora_rank and the heads ask for [64, 252]");
    check_bad("deepseek2-v3", "\"qk_rope_head_dim\": 32", "\"qk_rope_head_dim\": 31",
              "head_dim is 32; only qk_rope_head_dim, 31, is supported");
    check_bad("deepseek2-v3", "\"n_group\": 4", "\"n_group\": 3",
              "8 experts are not in 3 groups of 2 at least");
    check_bad("deepseek2-v3", "\"topk_group\": 2", "\"topk_group\": 1",
              "a row uses 3 experts from 1 of 4 groups of 2");
    check_bad("deepseek2-groups", "group_limited_greedy", "group_limited_greedi",
              "topk_method is \"group_limited_greedi\"");
    check_bad("deepseek2-v3", "layers.1.self_attn.kv_b_proj", "layers.1.self_attn.kv_c_proj",
              "kv_c_proj.weight is not one that a deepseek2 model computes with");
    check_bad("qwen3next", "\"linear_num_key_heads\": 3", "\"linear_num_key_heads\": 2",
              "linear_attn.in_proj_qkvz.weight has 288 rows, but the parameters ask for 256");
    check_bad("qwen3next", "\"linear_num_key_heads\": 3", "\"linear_num_key_heads\": 4",
              "4 key heads of the delta rule do not divide its 6 value heads");
    check_bad("qwen3next", "in_proj_ba.weight", "in_proj_bb.weight",
              "in_proj_bb.weight is not one that a qwen3next model computes with");
    check_bad("qwen3next", "in_proj_ba.weight\":{\"dtype\":\"BF16\",\"shape\":[12,64]",
              "in_proj_ba.weight\":{\"dtype\":\"BF16\",\"shape\":[64,12]",
              "linear_attn.in_proj_ba.weight has 64 rows, but the parameters ask for 12");
    check_bad("qwen3next", "layers.0.linear_attn.in_proj_ba", "layers.1.linear_attn.in_proj_ba",
              "model.layers.0.linear_attn.in_proj_ba.weight is missing");
    check_bad("nemotron_h_moe", "\"mlp_hidden_act\": \"relu2\"", "\"mlp_hidden_act\": \"silu \"",
              "only relu2 is supported");
    check_bad("nemotron_h_moe", "\"n_group\": 1", "\"n_group\": 2",
              "groups of experts are not supported");
    check_bad("nemotron_h_moe", "\"moe_latent_size\": null", "\"moe_latent_size\":   16",
              "experts in a narrower space are not supported");
    check_bad("nemotron_h_moe", "\"moe\"", "\"mow\"", "is of the kind \"mow\"");
    check_bad("nemotron_h_moe", "\"use_bias\": false", "\"use_bias\": true ",
              "use_bias is true, which is not supported");
    check_bad_gguf("deepseek2-v3", "attention.key_length_mla", "attention.key_length_mlb",
                   "key deepseek2.attention.key_length_mla is missing, as in old files");
    check_bad_gguf("deepseek2-v3", "attention.kv_lora_rank", "attention.kv_lora_rang",
                   "key deepseek2.attention.kv_lora_rank is missing");
    check_bad_gguf("deepseek2-v3", "yarn_log_multiplier", "yarn_log_multiplies",
                   "yarn_log_multiplier is missing; YaRN without it is not supported");
    check_bad_gguf("deepseek2-v3", "attention.value_length", "attention.value_langth",
                   "key deepseek2.attention.value_length is missing");
    check_bad_gguf("deepseek2-v3", "blk.1.attn_k_b.weight", "blk.1.attn_k_c.weight",
                   "blk.1.attn_k_b.weight is missing");
    check_bad_gguf("qwen3next", "ssm.group_count", "ssm.group_coumt",
                   "key qwen3next.ssm.group_count is missing");
    check_bad_gguf("qwen3next", "blk.0.ssm_ba.weight", "blk.0.ssm_be.weight",
                   "blk.0.ssm_beta.weight is missing");
    remove(folder);
}

int main(void)
{
    static const char *const names[] = {
        "mixtral",       "qwen3moe",     "gpt-oss",       "qwen2moe",         "qwen2moe-plain",
        "qwen3moe-bias", "lfm2moe",      "qwen35moe",     "granitehybrid",    "nemotron_h_moe",
        "deepseek2-v2",  "deepseek2-v3", "deepseek2-glm", "deepseek2-groups", "qwen3next"};
    static struct golden golden;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!read_golden(names[i], &golden)) continue;
        check_model(names[i], "", 0, &golden);
        /* llama.cpp chooses groups of DeepSeek V2 in another way than transformers. */
        if (strcmp(names[i], "deepseek2-groups") != 0) check_model(names[i], ".gguf", 0, &golden);
        if (strcmp(names[i], "gpt-oss") != 0) continue; /* BF16 lies in the file anyway */
        check_model(names[i], "", 5 * EXPERT_BYTES, &golden);
        check_model(names[i], ".gguf", 4 * EXPERT_BYTES, &golden);
    }
    check_bad_files();
    return check_result();
}
