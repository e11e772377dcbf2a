/* Passes over trees of drafts: each row gets, bit for bit, what plain decoding of its path gives,
 * and after a path has been kept the text goes on as if it had been decoded. On every tier that
 * this machine has. */
#include <stdlib.h>

#include "cpu/tiers.h"
#include "infer/device.h"
#include "platform/cpu.h"
#include "support/check.h"
#include "support/engine.h"
#include "support/synthetic.h"

enum {
    N_TEXT = 512, /* tokens that are there before the trees: two chunks of attention */
    ROUNDS = 2,   /* trees that follow each other, each on a path of the one before */
    N_CTX = N_TEXT + ROUNDS * RF_TREE_ROWS,
    N_ENGINES = 3 /* have 1, 2 and 3 threads; each reads the trees, and another one decodes */
};

static int on_cuda; /* this run */

struct tree {
    int32_t n, tokens[RF_TREE_ROWS], parents[RF_TREE_ROWS];
};

/* Small ones, sizes at which a pass over rows in a line is no decoding step any more, and large
 * ones up to the largest. */
static int32_t tree_size(uint32_t *state)
{
    switch (random_below(state, 8)) {
    case 0:
    case 1:
    case 2: return 1 + (int32_t)random_below(state, RF_FEW_ROWS);
    case 3: return RF_FEW_ROWS;
    case 4: return RF_FEW_ROWS + 1;
    case 5: return RF_TREE_ROWS;
    default: return RF_FEW_ROWS + 1 + (int32_t)random_below(state, RF_TREE_ROWS - RF_FEW_ROWS);
    }
}

static void tree_make(struct tree *tree, int32_t n, uint32_t *state, int32_t n_vocab)
{
    enum { CHAIN, STAR, ANY, BUSHY_CHAIN, KINDS };
    uint32_t kind = random_below(state, KINDS);
    tree->n = n;
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
    const char *device; /* the tier's name, or "cuda" */
    struct engine plain, engines[N_ENGINES];
};

/* Decodes every path of the tree on its own, from where it leaves the path before, and compares. */
static void every_row_is_as_decoded(struct subject *subject, const struct tree *tree,
                                    int32_t first_pos)
{
    size_t bytes = (size_t)subject->params->n_vocab * sizeof(float);
    char done[RF_TREE_ROWS] = {0};
    int32_t decoded[RF_TREE_ROWS], n_decoded = 0; /* whose entries the plain cache has */
    for (int32_t last = tree->n - 1; last >= 0; last--) {
        if (done[last]) continue;
        int32_t path[RF_TREE_ROWS], n = tree_path(tree, last, path), same = 0;
        while (same < n && same < n_decoded && path[same] == decoded[same]) same++;
        n_decoded = n;
        memcpy(decoded, path, (size_t)n * sizeof *path);
        for (int32_t i = same; i < n; i++) {
            const struct rf_rows row = {
                .tokens = &tree->tokens[path[i]], .n = 1, .first_pos = first_pos + i};
            CHECK_INT(engine_read(&subject->plain, row, 0, 1), 0);
            for (int e = 0; e < N_ENGINES && !done[path[i]]; e++)
                CHECK_MSG(memcmp(engine_logits(&subject->plain, 0),
                                 engine_logits(&subject->engines[e], path[i]), bytes) == 0,
                          "%s, %s, %d threads: row %d of %d, the %dth of its path, after %d tokens "
                          "has other logits",
                          subject->name, subject->device, e + 1, path[i], tree->n, i, first_pos);
            done[path[i]] = 1;
        }
    }
}

/* A tree after first_pos tokens, then another one after a path of it that is kept, and so on. */
static void trees_follow_each_other(struct subject *subject, int32_t first_pos, uint32_t *state)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct tree tree;
        tree_make(&tree, tree_size(state), state, subject->params->n_vocab);
        const struct rf_rows rows = {
            .tokens = tree.tokens, .parents = tree.parents, .n = tree.n, .first_pos = first_pos};
        for (int e = 0; e < N_ENGINES; e++)
            CHECK_INT(engine_read(&subject->engines[e], rows, 0, tree.n), 0);
        every_row_is_as_decoded(subject, &tree, first_pos);

        /* Often the last row, which has a long path; sometimes none. */
        int32_t path[RF_TREE_ROWS], last = tree.n - 1;
        if (random_below(state, 2)) last = (int32_t)random_below(state, (uint32_t)tree.n + 1) - 1;
        int32_t n = tree_path(&tree, last, path);
        for (int e = 0; e < N_ENGINES; e++) {
            const struct engine *engine = &subject->engines[e];
            struct rf_error error;
            CHECK_INT(engine->backend->ops->cache_keep(engine->cache, first_pos, path, n, &error),
                      0);
        }
        for (int32_t i = 0; i < n; i++, first_pos++) {
            const struct rf_rows row = {
                .tokens = &tree.tokens[path[i]], .n = 1, .first_pos = first_pos};
            CHECK_INT(engine_read(&subject->plain, row, 0, 0), 0);
        }
    }
}

/* Three trees in one pass, each after its own text, which is the beginning of one that all have:
 * each row has the logits that it has in a pass of its tree alone. */
static void trees_share_a_pass(struct subject *subject, struct engine *engine, uint32_t *state)
{
    enum { TREES = 3 };
    static const int32_t after[TREES] = {N_TEXT, 250, 3}, sizes[TREES] = {21, 40, 3};
    const struct rf_backend_ops *ops = engine->backend->ops;
    size_t n_vocab = (size_t)subject->params->n_vocab;
    static struct tree trees[TREES];
    struct rf_rows groups[TREES];
    struct rf_cache *text = engine->cache;
    struct rf_error error;
    int32_t n = 0, wanted[RF_TREE_ROWS];
    float *alone = calloc(RF_TREE_ROWS * n_vocab, sizeof *alone);
    if (!alone) exit(1);
    for (int t = 0; t < TREES; t++) {
        struct tree *tree = &trees[t];
        tree_make(tree, sizes[t], state, subject->params->n_vocab);
        groups[t] = (struct rf_rows){
            .tokens = tree->tokens, .parents = tree->parents, .n = tree->n, .first_pos = after[t]};
        CHECK_INT(ops->cache_fork(&groups[t].cache, text, after[t], &error), 0);
        engine->cache = groups[t].cache;
        CHECK_INT(engine_read(engine, groups[t], 0, tree->n), 0);
        for (int32_t i = 0; i < tree->n; i++, n++) {
            memcpy(alone + (size_t)n * n_vocab, engine_logits(engine, i), n_vocab * sizeof *alone);
            wanted[n] = n;
        }
    }
    engine->cache = text;
    CHECK_INT(n, RF_TREE_ROWS);
    const struct rf_pass pass = {
        .groups = groups, .n_groups = TREES, .wanted = wanted, .n_wanted = n};
    CHECK_INT(rf_view_run(engine->view, &pass, &error), 0);
    for (int32_t i = 0; i < n; i++)
        CHECK_MSG(memcmp(alone + (size_t)i * n_vocab, engine_logits(engine, i),
                         n_vocab * sizeof *alone) == 0,
                  "%s, %s: row %d of three trees has other logits beside the other trees",
                  subject->name, subject->device, i);
    for (int t = 0; t < TREES; t++) ops->cache_free(groups[t].cache);
    free(alone);
}

static void larger_trees_are_refused(struct engine *engine)
{
    int32_t tokens[RF_TREE_ROWS + 1] = {0}, parents[RF_TREE_ROWS + 1];
    for (int32_t i = 0; i <= RF_TREE_ROWS; i++) parents[i] = i - 1;
    struct rf_rows rows = {.tokens = tokens, .parents = parents, .n = RF_TREE_ROWS + 1};
    CHECK_INT(engine_read(engine, rows, 0, 1), RF_ERR_ARGUMENT);
    rows.n = RF_TREE_ROWS;
    CHECK_INT(engine_read(engine, rows, 0, RF_TREE_ROWS), 0);
}

static void check_model(const char *name, const struct rf_source *source, enum rf_weight_form form,
                        enum rf_kv_type kv)
{
    /* Descending: a tree takes the place of the text that follows. 255 and 256 tokens are where a
     * chunk ends. */
    static const int32_t prefixes[] = {512, 511, 497, 257, 256, 255, 254, 250, 246, 17, 1, 0};
    struct subject subject = {.name = name, .params = &source->params};
    const struct rf_view_options view = {.kv = kv, .max_rows = N_TEXT};
    static uint32_t state = 1; /* every model has trees of its own */
    static int n_models;
    /* Instrumented plain C takes most of the time, so sanitized builds run it on one model in
     * three. */
    int first_tier = IS_SANITIZED && n_models++ % 3 ? RF_TIER_SCALAR + 1 : 0;
    int32_t text[N_TEXT];
    for (int i = 0; i < N_TEXT; i++)
        text[i] = (int32_t)random_below(&state, (uint32_t)source->params.n_vocab);
    if (IS_FOR_RACES) first_tier = rf_kernels_best_tier(); /* tiers share work in the same ways */
    for (int t = on_cuda ? ENGINE_ON_CUDA : first_tier; t < (on_cuda ? 0 : RF_TIER_COUNT); t++) {
        if (!on_cuda && (!rf_cpu_has_tier((enum rf_tier)t) || !rf_cpu_kernels(t))) continue;
        subject.device = on_cuda ? "cuda" : rf_tier_name((enum rf_tier)t);
        engine_open(&subject.plain, source, form, t, 1, N_CTX, &view);
        for (int e = 0; e < N_ENGINES; e++)
            engine_open(&subject.engines[e], source, form, t, e + 1, N_CTX, &view);
        /* Passes of few rows share work in other ways than those of many. */
        for (int32_t i = 0; i < N_TEXT; i += RF_FEW_ROWS) {
            const struct rf_rows few = {.tokens = text + i, .n = RF_FEW_ROWS, .first_pos = i};
            CHECK_INT(engine_read(&subject.plain, few, 0, 0), 0);
        }
        for (int e = 0; e < N_ENGINES; e++) {
            const struct rf_rows all = {.tokens = text, .n = N_TEXT};
            CHECK_INT(engine_read(&subject.engines[e], all, 0, 0), 0);
        }
        trees_share_a_pass(&subject, &subject.engines[1], &state);
        size_t step = !IS_SANITIZED ? 1 : t == RF_TIER_SCALAR || IS_FOR_RACES ? 6 : 3;
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i += step)
            trees_follow_each_other(&subject, prefixes[i], &state);
        larger_trees_are_refused(&subject.plain);
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

int main(int argc, char **argv)
{
    static const struct device cuda = {"cuda", &rf_cuda_backend_kind, NULL};
    on_cuda = argc > 1 && strcmp(argv[1], "cuda") == 0;
    if (on_cuda) device_must_exist(&cuda);
    static const enum rf_dtype bf16 = RF_BF16,
                               mixed[] = {RF_Q4_0, RF_Q8_0, RF_MXFP4, RF_BF16, RF_Q4_1},
                               rows[] = {RF_W4A8_G128, RF_W4A8_ROW};
    /* Three query heads to one of keys, heads of no multiple of 16. */
    struct rf_params params = synthetic_qwen2();
    params.n_ff = 96;
    params.n_vocab = 61;
    params.n_ctx_train = 1024;
    check_synthetic("qwen2", &params, &bf16, 1, RF_WEIGHTS_BF16, RF_KV_F16);
    check_synthetic("qwen2, KV in BF16", &params, &bf16, 1, RF_WEIGHTS_BF16, RF_KV_BF16);
    check_synthetic("qwen2, KV in 8 bits", &params, &bf16, 1, RF_WEIGHTS_BF16, RF_KV_Q8);
    check_synthetic("qwen2, KV in 4 bits", &params, &bf16, 1, RF_WEIGHTS_BF16, RF_KV_Q4);
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
    params.n_embd = 128; /* whole groups of 128 */
    params.n_ff = 256;
    if (!on_cuda)
        check_synthetic("qwen3, scales for rows", &params, rows, 2, RF_WEIGHTS_STORED, RF_KV_F16);
    return check_result();
}
