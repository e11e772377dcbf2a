/* Views with a window: what a row reads of the text before it. A model of one layer, where keys and
 * values of a position follow from its token alone: a row's answer changes with a token only if the
 * row reads it. */
#include "infer/device.h"
#include "support/plain_backend.h"
#include "support/synthetic.h"

/* The rows that are looked at, from FIRST on, stand on both sides of a step's border. */
enum { BORDER = 5 * RF_WINDOW_STEP, ROWS = 20, FIRST = BORDER - 9, N = FIRST + ROWS, BLOCK = 256 };
enum { N_VOCAB = 61, SHORT = 4 * RF_WINDOW_STEP - ROWS };

struct bench {
    struct opened opened;
    struct rf_view *whole, *windowed;
    enum rf_kv_type kv;
};

static const float *logits_of(struct rf_view *view, int32_t i)
{
    const float *row;
    MUST(view->backend->ops->logits(view, i, &row, &error));
    return row;
}

/* Answers to the `n` rows from `first` on, `block` at a time, after a text that the other view has
 * read: [n][N_VOCAB]. */
static void answer(const struct bench *bench, struct rf_view *view, const int32_t *tokens,
                   int32_t first, int32_t n, int32_t block, float (*answers)[N_VOCAB])
{
    const struct rf_backend_ops *ops = bench->opened.backend->ops;
    const struct rf_cache_shape shape = {
        .params = &bench->opened.source->params, .n_ctx = N, .kv = bench->kv};
    struct rf_cache *cache;
    int32_t wanted[ROWS];
    for (int32_t i = 0; i < ROWS; i++) wanted[i] = i;
    MUST(ops->cache_new(&cache, bench->opened.backend, &shape, &error));
    for (int32_t at = 0, rows; at < first + n; at += rows) {
        int32_t is_text = at < first, left = is_text ? first - at : first + n - at,
                most = is_text ? BLOCK : block;
        rows = left < most ? left : most;
        const struct rf_rows group = {
            .cache = cache, .tokens = tokens + at, .n = rows, .first_pos = at};
        const struct rf_pass pass = {
            .groups = &group, .n_groups = 1, .wanted = wanted, .n_wanted = is_text ? 0 : rows};
        struct rf_view *reader = is_text ? bench->whole : view;
        MUST(rf_view_run(reader, &pass, &error));
        for (int32_t i = 0; !is_text && i < rows; i++)
            memcpy(answers[at - first + i], logits_of(reader, i), sizeof *answers);
    }
    ops->cache_free(cache);
}

static int same(const float *a, const float *b)
{
    return memcmp(a, b, N_VOCAB * sizeof *a) == 0;
}

/* A row reads all of a short text. */
static void short_texts_are_read(const struct bench *bench, const int32_t *tokens)
{
    static float got[ROWS][N_VOCAB], wanted[ROWS][N_VOCAB];
    answer(bench, bench->windowed, tokens, SHORT, ROWS, 8, got);
    answer(bench, bench->whole, tokens, SHORT, ROWS, 8, wanted);
    for (int32_t i = 0; i < ROWS; i++)
        CHECK_MSG(same(got[i], wanted[i]), "%s: row %d does not read all of a short text",
                  bench->opened.device->name, i);
}

static void long_texts_in_part(const struct bench *bench, const int32_t *tokens, int32_t block)
{
    static const int32_t places[] = {0,
                                     RF_WINDOW_STEP - 1,
                                     RF_WINDOW_STEP,
                                     BORDER - 3 * RF_WINDOW_STEP - 1,
                                     BORDER - 3 * RF_WINDOW_STEP,
                                     BORDER - 2 * RF_WINDOW_STEP - 1,
                                     BORDER - 2 * RF_WINDOW_STEP,
                                     FIRST - 1};
    static float base[ROWS][N_VOCAB], got[ROWS][N_VOCAB];
    static int32_t changed[N];
    answer(bench, bench->windowed, tokens, FIRST, ROWS, block, base);
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        memcpy(changed, tokens, sizeof changed);
        changed[places[p]] = (tokens[places[p]] + 1) % N_VOCAB;
        answer(bench, bench->windowed, changed, FIRST, ROWS, block, got);
        int readers = 0, others = 0; /* a reader's weight may be too small for its bits */
        for (int32_t i = 0; i < ROWS; i++) {
            int reads = rf_window_has(FIRST + i, places[p]), is_other = !same(got[i], base[i]);
            readers += reads;
            others += is_other;
            CHECK_MSG(reads || !is_other, "%s, kv %d, blocks of %d: row %d reads position %d",
                      bench->opened.device->name, (int)bench->kv, block, FIRST + i, places[p]);
        }
        CHECK_MSG(readers == 0 || others > readers / 2,
                  "%s, kv %d, blocks of %d: %d of %d rows that read position %d changed",
                  bench->opened.device->name, (int)bench->kv, block, others, readers, places[p]);
    }
}

static void check_device(const struct device *device, const struct rf_source *source,
                         enum rf_kv_type kv, const int32_t *tokens)
{
    struct rf_view_options options = {.kv = kv, .max_rows = BLOCK};
    struct bench bench = {
        .opened = opened_new(device, source, RF_WEIGHTS_BF16, &rf_system_allocator), .kv = kv};
    bench.whole = view_of(&bench.opened, bench.opened.model, &options);
    if (kv == RF_KV_Q8) options.kv = RF_KV_Q4;
    options.has_window = 1;
    bench.windowed = view_of(&bench.opened, bench.opened.model, &options);
    if (options.kv == kv) short_texts_are_read(&bench, tokens);
    long_texts_in_part(&bench, tokens, ROWS);
    if (!IS_SANITIZED) long_texts_in_part(&bench, tokens, 7);
    rf_view_free(bench.whole);
    rf_view_free(bench.windowed);
    opened_free(&bench.opened);
}

int main(void)
{
    static const enum rf_dtype bf16 = RF_BF16;
    const struct device cpu = {"cpu", rf_backend_kinds[0], NULL},
                        plain = {"plain", &plain_backend_kind, NULL};
    struct rf_params params = synthetic_qwen2();
    params.n_layer = 1;
    params.n_embd = params.n_ff = 32;
    params.n_head = 2;
    params.n_head_kv = 1;
    params.head_dim = params.rope_dim = 8;
    params.n_vocab = N_VOCAB;
    params.n_ctx_train = N;
    static int32_t tokens[N];
    random_tokens(tokens, N, N_VOCAB, 20261125);
    struct rf_source *source = synthetic_new(&params, &bf16, 1);
    if (!source) return 1;
    check_device(&cpu, source, RF_KV_F16, tokens);
    check_device(&cpu, source, RF_KV_Q8, tokens);
    check_device(&plain, source, RF_KV_F16, tokens);
    synthetic_free(source);
    return check_result();
}
