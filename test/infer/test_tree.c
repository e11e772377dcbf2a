/* Passes over trees of drafts: each row gets, bit for bit, what plain decoding of its path gives,
 * and after a path has been kept the text goes on as if it had been decoded. On every tier that
 * this machine has. */
#include <stdlib.h>

#include "check.h"
#include "cpu/cpu_backend.h"
#include "crew.h"
#include "infer/forward.h"
#include "platform/cpu.h"
#include "platform/memory.h"
#include "synthetic.h"

enum {
    N_TEXT = 512, /* tokens that are there before the trees: two chunks of attention */
    ROUNDS = 2,   /* trees that follow each other, each on a path of the one before */
    N_CTX = N_TEXT + ROUNDS * RF_TREE_ROWS,
    N_ENGINES = 3 /* with 1, 2 and 3 threads; each reads the trees, and another one decodes */
};

struct engine {
    struct crew crew;
    struct rf_model *model;
    struct rf_context *context;
    struct rf_activations activations;
};

static void engine_open(struct engine *engine, const struct rf_source *source,
                        enum rf_weight_form form, struct rf_backend *backend, int threads,
                        enum rf_kv_type kv)
{
    struct rf_error error = {.text = ""};
    engine->crew = crew_open(threads);
    int code = rf_model_load(&engine->model, source, backend, form, engine->crew.team, NULL, NULL,
                             &rf_system_allocator, &error);
    const struct rf_context_shape shape = {.params = &source->params,
                                           .n_ctx = N_CTX,
                                           .max_rows = N_TEXT,
                                           .team = engine->crew.team,
                                           .kv = kv};
    if (!code) code = backend->ops->context_new(&engine->context, backend, &shape, &error);
    if (!code)
        code = rf_activations_new(&engine->activations, engine->context, engine->model, N_TEXT,
                                  RF_TREE_ROWS, &error);
    if (code) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
}

static void engine_close(struct engine *engine)
{
    engine->model->backend->ops->context_free(engine->context);
    rf_model_free(engine->model);
    crew_close(&engine->crew);
}

/* Reads the rows, and leaves the logits of the first n_logits of them. */
static void read_rows(struct engine *engine, const int32_t *tokens, struct rf_rows rows,
                      int32_t n_logits)
{
    struct rf_pass pass = {.model = engine->model,
                           .context = engine->context,
                           .activations = &engine->activations,
                           .tokens = tokens,
                           .rows = rows,
                           .n_logits = n_logits};
    CHECK_INT(rf_forward(&pass), 0);
}

static const float *logits(const struct engine *engine, int32_t row)
{
    return engine->model->backend->ops->row(engine->activations.logits, row);
}

static uint32_t random_below(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)*state * n) >> 32);
}

struct tree {
    int32_t n, tokens[RF_TREE_ROWS], parents[RF_TREE_ROWS];
};

static void tree_make(struct tree *tree, uint32_t *state, int32_t n_vocab)
{
    enum { CHAIN, STAR, ANY, BUSHY_CHAIN, KINDS };
    uint32_t kind = random_below(state, KINDS);
    tree->n = 1 + (int32_t)random_below(state, RF_TREE_ROWS);
    for (int32_t i = 0; i < tree->n; i++) {
        int32_t any = (int32_t)random_below(state, (uint32_t)i + 1) - 1;
        tree->tokens[i] = (int32_t)random_below(state, (uint32_t)n_vocab);
        tree->parents[i] = any;
        if (kind == STAR) tree->parents[i] = -1;
        if (kind == CHAIN || (kind == BUSHY_CHAIN && random_below(state, 4)))
            tree->parents[i] = i - 1;
    }
}

/* The rows that lead to row `last`, and it; -1: none. Returns how many. */
static int32_t tree_path(const struct tree *tree, int32_t last, int32_t *path)
{
    int32_t n = 0, at;
    for (at = last; at >= 0; at = tree->parents[at]) n++;
    for (int32_t i = n; i > 0; last = tree->parents[last]) path[--i] = last;
    return n;
}

struct subject {
    const char *name;
    const struct rf_params *params;
    enum rf_tier tier;
    struct engine plain, engines[N_ENGINES];
};

/* Decodes every path of the tree on its own, and compares. */
static void every_row_is_as_decoded(struct subject *subject, const struct tree *tree,
                                    int32_t first_pos)
{
    size_t bytes = (size_t)subject->params->n_vocab * sizeof(float);
    char done[RF_TREE_ROWS] = {0};
    for (int32_t last = tree->n - 1; last >= 0; last--) {
        if (done[last]) continue;
        int32_t path[RF_TREE_ROWS], n = tree_path(tree, last, path);
        for (int32_t i = 0; i < n; i++) {
            read_rows(&subject->plain, &tree->tokens[path[i]],
                      (struct rf_rows){.n_rows = 1, .first_pos = first_pos + i}, 1);
            for (int e = 0; e < N_ENGINES && !done[path[i]]; e++)
                CHECK_MSG(memcmp(logits(&subject->plain, 0), logits(&subject->engines[e], path[i]),
                                 bytes) == 0,
                          "%s, %s, %d threads: row %d of %d, the %dth of its path, after %d tokens "
                          "has other logits",
                          subject->name, rf_tier_name(subject->tier), e + 1, path[i], tree->n, i,
                          first_pos);
            done[path[i]] = 1;
        }
    }
}

/* A tree after first_pos tokens, then another one after a path of it that is kept, and so on. */
static void trees_follow_each_other(struct subject *subject, int32_t first_pos, uint32_t *state)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct tree tree;
        tree_make(&tree, state, subject->params->n_vocab);
        struct rf_rows rows = {.n_rows = tree.n, .first_pos = first_pos, .parents = tree.parents};
        for (int e = 0; e < N_ENGINES; e++)
            read_rows(&subject->engines[e], tree.tokens, rows, tree.n);
        every_row_is_as_decoded(subject, &tree, first_pos);

        int32_t path[RF_TREE_ROWS],
            n = tree_path(&tree, (int32_t)random_below(state, (uint32_t)tree.n + 1) - 1, path);
        for (int e = 0; e < N_ENGINES; e++)
            subject->plain.model->backend->ops->kv_keep(subject->engines[e].context, first_pos,
                                                        path, n);
        for (int32_t i = 0; i < n; i++, first_pos++)
            read_rows(&subject->plain, &tree.tokens[path[i]],
                      (struct rf_rows){.n_rows = 1, .first_pos = first_pos}, 0);
    }
}

static void check_model(const char *name, const struct rf_source *source, enum rf_weight_form form,
                        enum rf_kv_type kv)
{
    /* Descending: a tree takes the place of the text that follows. 255 and 256 tokens are where a
     * chunk ends. */
    static const int32_t prefixes[] = {512, 511, 497, 257, 256, 255, 254, 250, 246, 17, 1, 0};
    struct subject subject = {.name = name, .params = &source->params};
    uint32_t state = 1;
    int32_t text[N_TEXT];
    for (int i = 0; i < N_TEXT; i++)
        text[i] = (int32_t)random_below(&state, (uint32_t)source->params.n_vocab);
    for (int t = 0; t < RF_TIER_COUNT; t++) {
        struct rf_backend *backends[N_ENGINES + 1];
        struct rf_error error;
        subject.tier = (enum rf_tier)t;
        if (!rf_cpu_has_tier(subject.tier)) continue;
        if (rf_cpu_backend_new(&backends[0], t, &rf_system_allocator, &error))
            continue; /* it has no kernels */
        for (int e = 1; e <= N_ENGINES; e++)
            CHECK_INT(rf_cpu_backend_new(&backends[e], t, &rf_system_allocator, &error), 0);
        engine_open(&subject.plain, source, form, backends[N_ENGINES], 1, kv);
        for (int e = 0; e < N_ENGINES; e++)
            engine_open(&subject.engines[e], source, form, backends[e], e + 1, kv);
        for (int32_t i = 0; i < N_TEXT;
             i += 16) /* passes of few rows share work in other ways than those of many */
            read_rows(&subject.plain, text + i, (struct rf_rows){.n_rows = 16, .first_pos = i}, 0);
        for (int e = 0; e < N_ENGINES; e++)
            read_rows(&subject.engines[e], text, (struct rf_rows){.n_rows = N_TEXT}, 0);
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
            trees_follow_each_other(&subject, prefixes[i], &state);
        engine_close(&subject.plain);
        for (int e = 0; e < N_ENGINES; e++) engine_close(&subject.engines[e]);
    }
}

static void check_synthetic(const char *name, const struct rf_params *params,
                            const enum rf_dtype *types, size_t n_types, enum rf_weight_form form,
                            enum rf_kv_type kv)
{
    struct rf_source *source = synthetic_new(params, types, n_types);
    CHECK(source != NULL);
    if (source) check_model(name, source, form, kv);
    synthetic_free(source);
}

int main(void)
{
    static const enum rf_dtype bf16 = RF_BF16,
                               mixed[] = {RF_Q4_0, RF_Q8_0, RF_MXFP4, RF_BF16, RF_Q4_1};
    /* Three query heads to one of keys, heads of no multiple of 16. */
    struct rf_params params = {.arch = RF_ARCH_QWEN2,
                               .arch_name = "qwen2",
                               .n_layer = 2,
                               .n_embd = 72,
                               .n_head = 6,
                               .n_head_kv = 2,
                               .head_dim = 12,
                               .n_ff = 96,
                               .n_vocab = 61,
                               .n_ctx_train = 1024,
                               .rms_eps = 1e-6f,
                               .rope_style = RF_ROPE_NEOX,
                               .rope_dim = 12,
                               .rope_theta = 1e6f,
                               .rope_scale = 1.0f,
                               .tied_output = 1,
                               .qkv_bias = 1};
    check_synthetic("qwen2", &params, &bf16, 1, RF_WEIGHTS_BF16, RF_KV_F16);
    check_synthetic("qwen2, KV in BF16", &params, &bf16, 1, RF_WEIGHTS_BF16, RF_KV_BF16);
    params.n_embd = 96; /* whole blocks of 32, of which quantised matrices consist */
    params.n_head = 8;
    check_synthetic("mixed", &params, mixed, sizeof mixed / sizeof *mixed, RF_WEIGHTS_STORED,
                    RF_KV_F16);
    params.arch =
        RF_ARCH_QWEN3; /* one key head for all, norms of heads, whole blocks in each head */
    params.arch_name = "qwen3";
    params.n_head = 4;
    params.n_head_kv = 1;
    params.head_dim = 32;
    params.rope_dim = 32;
    params.qkv_bias = 0;
    params.qk_norm = 1;
    check_synthetic("qwen3", &params, &bf16, 1, RF_WEIGHTS_BF16, RF_KV_BF16);
    params.n_ff = 1184; /* rows of blocks that workers share */
    check_synthetic("qwen3 in blocks", &params, mixed, 3, RF_WEIGHTS_STORED, RF_KV_F16);
    return check_result();
}
