/* Draft heads as levels (head_level.h). The cascade calls the operations; the target's sequence
 * calls `has_read`. Invariants:
 *
 * 1. Features of the text's positions [first, end) stand in a ring, position p in row p %
 * N_FEATURES.
 * 2. The cache's slots [0, rows_end - start) hold the rows of the positions [start, rows_end). The
 *    row of position p was made from text[p + 1], and from the feature of p where p < end.
 * 3. Results of the last N_RESULTS of these rows stand in a ring, but for rows that had a row with
 *    a feature behind them. */
#include "speculate/head_level.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "infer/features.h"
#include "speculate/tuning.h"

enum {
    N_FEATURES = 640, /* the window, and what is read before a draft is asked for */
    N_RESULTS = 2 * (RF_MAX_DRAFT + 1),
    BLOCK_ROWS = 64 /* rows of a pass over known features */
};

struct rf_head_level {
    struct rf_reader reader; /* of the sequence; must come first */
    const struct rf_allocator *allocator;
    const struct rf_head *head;
    struct rf_sequence *sequence;
    struct rf_view *view;
    struct rf_cache *cache;
    struct rf_sampler *sampler;
    size_t width; /* of a feature */
    float *features, *results, *x;
    int32_t first, end;      /* positions with features */
    int32_t start, rows_end; /* positions with rows */
    float *logits;           /* [n_vocab of the target], what no row of the head answers is FAR */
    uint64_t *mask;          /* [n_vocab of the head] bits */
};

/* The logit of tokens that the head does not know. */
static const float FAR = -1e30f;

static float *feature_at(const struct rf_head_level *level, int32_t position)
{
    return level->features + (size_t)(position % N_FEATURES) * level->width;
}

static float *result_at(const struct rf_head_level *level, int32_t position)
{
    return level->results + (size_t)(position % N_RESULTS) * level->width;
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* ---- features ---- */

/* Voids the rows from a position on. */
static void limit_rows(struct rf_head_level *level, int32_t position)
{
    if (level->rows_end > position) level->rows_end = position;
    if (level->start > level->rows_end) level->start = level->rows_end;
}

static void limit_features(struct rf_head_level *level, int32_t position)
{
    if (level->end > position) level->end = position;
    if (level->first > level->end) level->first = level->end;
}

/* Takes the features of the last pass; those that a device cannot give are missing. */
static void has_read(struct rf_reader *reader, struct rf_view *view, int32_t row, int32_t position,
                     int32_t n)
{
    struct rf_head_level *level = (struct rf_head_level *)reader;
    struct rf_error ignored;
    limit_features(level, position);
    limit_rows(level, position);
    if (level->end < position) level->first = level->end = position;
    int32_t skipped = n > N_FEATURES ? n - N_FEATURES : 0;
    if (skipped) level->first = level->end = position + skipped;
    for (int32_t i = skipped; i < n; i++) {
        const float *feature;
        if (view->backend->ops->tap(view, RF_HEAD_FEATURES, row + i, &feature, &ignored)) {
            level->first = level->end = position + i + 1;
            continue;
        }
        memcpy(feature_at(level, position + i), feature, level->width * sizeof *feature);
        level->end = position + i + 1;
        if (level->first < level->end - N_FEATURES) level->first = level->end - N_FEATURES;
    }
}

void rf_head_level_copy(struct rf_head_level *to, const struct rf_head_level *from)
{
    assert(to->width == from->width);
    memcpy(to->features, from->features, N_FEATURES * to->width * sizeof *to->features);
    to->first = from->first;
    to->end = from->end;
    to->start = to->rows_end = 0;
}

/* ---- life ---- */

void rf_head_level_free(struct rf_head_level *level)
{
    if (!level) return;
    rf_sequence_set_reader(level->sequence, NULL);
    if (level->cache) level->cache->backend->ops->cache_free(level->cache);
    rf_view_free(level->view);
    rf_free(level->allocator, level->features);
    rf_free(level->allocator, level->results);
    rf_free(level->allocator, level->x);
    rf_free(level->allocator, level->logits);
    rf_free(level->allocator, level->mask);
    rf_free(level->allocator, level);
}

/* The view and the cache of a level of `n_ctx` positions. */
static int open_passes(struct rf_head_level *level, int32_t n_ctx, struct rf_queue *queue,
                       const atomic_int *cancel, struct rf_error *error)
{
    const struct rf_view_options options = {
        .kv = RF_KV_F16, .max_rows = least(BLOCK_ROWS, n_ctx), .cancel = cancel};
    const struct rf_cache_shape shape = {
        .params = &level->head->file->source->params, .n_ctx = n_ctx, .kv = RF_KV_F16};
    int code = rf_head_view_new(&level->view, level->head, queue, &options, error);
    return code ? code
                : queue->backend->ops->cache_new(&level->cache, queue->backend, &shape, error);
}

int rf_head_level_new(struct rf_head_level **level, const struct rf_head *head,
                      struct rf_sequence *sequence, struct rf_queue *queue,
                      struct rf_sampler *sampler, const atomic_int *cancel,
                      const struct rf_allocator *allocator, struct rf_error *error)
{
    const struct rf_params *params = &head->file->source->params;
    size_t n_vocab = (size_t)head->target->source->params.n_vocab, width = (size_t)params->n_embd;
    *level = NULL;
    struct rf_head_level *made = rf_calloc(allocator, 1, sizeof *made, "draft head", error);
    if (!made) return RF_ERR_MEMORY;
    made->reader.has_read = has_read;
    made->allocator = allocator;
    made->head = head;
    made->sequence = sequence;
    made->sampler = sampler;
    made->width = width;
    made->features = rf_malloc(allocator, N_FEATURES * width, sizeof(float), "draft head", error);
    made->results = rf_malloc(allocator, N_RESULTS * width, sizeof(float), "draft head", error);
    made->x = rf_malloc(allocator, BLOCK_ROWS * width, sizeof(float), "draft head", error);
    made->logits = rf_malloc(allocator, n_vocab, sizeof(float), "draft head", error);
    made->mask = rf_malloc(allocator, ((size_t)params->n_vocab + 63) / 64, sizeof(uint64_t),
                           "draft head", error);
    int code = made->features && made->results && made->x && made->logits && made->mask
                   ? 0
                   : RF_ERR_MEMORY;
    if (!code)
        code = open_passes(made, least(rf_sequence_n_ctx(sequence), rf_tuning.chain.draft_ctx),
                           queue, cancel, error);
    if (code) {
        made->sequence = NULL;
        rf_head_level_free(made);
        return code;
    }
    for (size_t i = 0; i < n_vocab; i++) made->logits[i] = FAR;
    rf_sequence_set_reader(sequence, &made->reader);
    *level = made;
    return 0;
}

int32_t rf_head_level_window(const struct rf_head_level *level)
{
    return level->cache->shape.n_ctx;
}

/* ---- rows ---- */

/* Where the rows begin for a text whose last row is at `to` - 1: as they are while there is space,
 * else a window before the end, as far as features go. */
static int32_t begin_rows(const struct rf_head_level *level, int32_t to)
{
    int32_t n_ctx = level->cache->shape.n_ctx, room = n_ctx - RF_MAX_DRAFT;
    int has_rows = level->rows_end > level->start && level->rows_end >= level->first;
    if (has_rows && to - level->start <= room) return level->start;
    int32_t window = least(rf_tuning.chain.window, n_ctx / 2), from = to - window;
    return from > level->first ? from : level->first;
}

/* Rows that are to be made before there is an answer after n tokens. */
static int32_t head_unread(void *self, const int32_t *text, int32_t n)
{
    const struct rf_head_level *level = self;
    int32_t to = n - 1, start = begin_rows(level, to);
    (void)text;
    if (level->cache->shape.n_ctx < 2 * RF_MAX_DRAFT || level->end <= start || to <= start ||
        to - level->end > RF_MAX_DRAFT)
        return INT32_MAX;
    int32_t rows_end = start == level->start ? least(level->rows_end, to - 1) : start;
    return to - rows_end;
}

/* One pass over the rows of n positions from `from` on, whose inputs are x. */
static int run_rows(struct rf_head_level *level, const int32_t *text, int32_t from, int32_t n,
                    const float *x, struct rf_pass *pass, struct rf_error *error)
{
    const float *result;
    const struct rf_rows rows = {
        .cache = level->cache, .tokens = text + from + 1, .n = n, .first_pos = from - level->start};
    pass->groups = &rows;
    pass->n_groups = 1;
    pass->x = x;
    level->rows_end = from;
    int code = rf_view_run(level->view, pass, error);
    if (!code)
        code = level->view->backend->ops->tap(level->view, RF_HEAD_RESULT, n - 1, &result, error);
    if (code) return code;
    memcpy(result_at(level, from + n - 1), result, level->width * sizeof *result);
    level->rows_end = from + n;
    return 0;
}

/* The next rows up to position `to`: all that have features, or one that has not. The last one of
 * the text answers. */
static int make_rows(struct rf_head_level *level, const int32_t *text, int32_t to,
                     struct rf_pass *answer, struct rf_error *error)
{
    struct rf_pass silent = {.n_wanted = 0};
    int32_t from = level->rows_end, known = least(to, level->end), n = 1, last;
    const float *x = level->x;
    if (from >= known) {
        x = result_at(level, from - 1);
    } else {
        n = least(known - from, level->view->shape.max_rows);
        for (int32_t i = 0; i < n; i++)
            memcpy(level->x + (size_t)i * level->width, feature_at(level, from + i),
                   level->width * sizeof *level->x);
    }
    last = n - 1;
    answer->wanted = &last;
    return run_rows(level, text, from, n, x, from + n == to ? answer : &silent, error);
}

/* ---- choices ---- */

static int32_t token_of(const struct rf_head_level *level, int32_t row)
{
    return level->head->file->tokens ? level->head->file->tokens[row] : row;
}

/* Collects the head's rows that a mask over the target's vocabulary allows. 0: there are none. */
static int mask_rows(struct rf_head_level *level, const uint64_t *mask)
{
    int32_t n = level->head->file->source->params.n_vocab;
    uint64_t any = 0;
    memset(level->mask, 0, ((size_t)n + 63) / 64 * sizeof *level->mask);
    for (int32_t i = 0; i < n; i++) {
        int32_t token = token_of(level, i);
        uint64_t bit = mask[token / 64] >> token % 64 & 1;
        level->mask[i / 64] |= bit << i % 64;
        any |= bit;
    }
    return any != 0;
}

/* The first of the best rows and its runners-up, as tokens of the target. */
static int take_best(struct rf_head_level *level, const struct rf_best *best, int32_t n,
                     struct rf_choice *choice, struct rf_choice *runners_up, struct rf_error *error)
{
    int code = rf_sampler_take(best, n, choice, runners_up, error);
    if (code) return code;
    choice->token = token_of(level, choice->token);
    for (int32_t k = 0; k < RF_RUNNERS_UP; k++)
        if (runners_up[k].token >= 0) runners_up[k].token = token_of(level, runners_up[k].token);
    return 0;
}

/* Draws as the target would with the head's logits. */
static int draw(struct rf_head_level *level, const int32_t *text, int32_t n, const uint64_t *mask,
                struct rf_choice *choice, struct rf_choice *runners_up, struct rf_error *error)
{
    const float *row;
    int code = level->view->backend->ops->logits(level->view, 0, &row, error);
    if (code) return code;
    for (int32_t i = 0; i < level->head->file->source->params.n_vocab; i++)
        level->logits[token_of(level, i)] = row[i];
    return rf_sampler_choose_after(level->sampler, level->logits, mask, text, n, NULL, 0, choice,
                                   runners_up, error);
}

static int head_next(void *self, const int32_t *text, int32_t n, const uint64_t *mask,
                     struct rf_choice *choice, struct rf_choice *runners_up, struct rf_error *error)
{
    struct rf_head_level *level = self;
    struct rf_best best;
    int32_t to = n - 1, start = begin_rows(level, to);
    int is_greedy = rf_sampler_is_greedy(level->sampler);
    choice->token = -1;
    if (head_unread(level, text, n) == INT32_MAX || (mask && !mask_rows(level, mask))) return 0;
    if (start != level->start || level->rows_end < start) level->start = level->rows_end = start;
    /* The last row again, for an answer that was given before. */
    if (level->rows_end >= to) level->rows_end = to - 1;
    const uint64_t *rows = level->mask;
    struct rf_pass answer = {.n_wanted = 1,
                             .n_best = is_greedy ? 1 + RF_RUNNERS_UP : 0,
                             .best = is_greedy ? &best : NULL,
                             .masks = mask && is_greedy ? &rows : NULL};
    while (level->rows_end < to) {
        int code = make_rows(level, text, to, &answer, error);
        if (code) return code;
    }
    return is_greedy ? take_best(level, &best, n, choice, runners_up, error)
                     : draw(level, text, n, mask, choice, runners_up, error);
}

static void head_rewind(void *self, int32_t n)
{
    struct rf_head_level *level = self;
    limit_features(level, n);
    limit_rows(level, n > 0 ? n - 1 : 0);
}

const struct rf_level_ops rf_head_level_ops = {
    .next = head_next, .unread = head_unread, .rewind = head_rewind};
