/* Draft heads as levels (head_level.h). The cascades call the operations; the target's sequence
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

struct rf_head_passes {
    const struct rf_allocator *allocator;
    const struct rf_head *head;
    struct rf_view *view;
    float *x;      /* [max_rows][width]: what the rows of a pass take */
    float *logits; /* [n_vocab of the target], what no row of the head answers is FAR */
};

struct rf_head_level {
    struct rf_reader reader; /* of the sequence; must come first */
    const struct rf_allocator *allocator;
    struct rf_head_passes *passes;
    struct rf_sequence *sequence;
    struct rf_cache *cache;
    struct rf_sampler *sampler;
    size_t width; /* of a feature */
    float *features, *results;
    int32_t first, end;      /* positions with features */
    int32_t start, rows_end; /* positions with rows */
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

/* ---- saved features ---- */

/* Before the features, `n` of positions that end at `end`, position by position. */
struct saved_features {
    int32_t end, n;
    uint64_t width;
};

static struct saved_features saved_of(const struct rf_head_level *level, int32_t n)
{
    int32_t end = least(level->end, n), known = end > level->first ? end - level->first : 0;
    return (struct saved_features){end, least(known, rf_tuning.chain.window), level->width};
}

uint64_t rf_head_level_bytes(const struct rf_head_level *level, int32_t n)
{
    const struct saved_features saved = saved_of(level, n);
    return sizeof saved + (uint64_t)saved.n * saved.width * sizeof(float);
}

void rf_head_level_save(const struct rf_head_level *level, int32_t n, void *out)
{
    const struct saved_features saved = saved_of(level, n);
    size_t bytes = level->width * sizeof(float);
    unsigned char *to = out;
    memcpy(to, &saved, sizeof saved);
    to += sizeof saved;
    for (int32_t p = saved.end - saved.n; p < saved.end; p++, to += bytes)
        memcpy(to, feature_at(level, p), bytes);
}

int rf_head_level_check(const void *data, size_t bytes, int32_t n)
{
    struct saved_features saved;
    if (bytes < sizeof saved) return bytes == 0;
    memcpy(&saved, data, sizeof saved);
    size_t values = (bytes - sizeof saved) / sizeof(float);
    if (saved.n < 0 || saved.n > N_FEATURES || saved.end < saved.n || saved.end > n) return 0;
    if (saved.n == 0) return bytes == sizeof saved;
    return (bytes - sizeof saved) % sizeof(float) == 0 && values % (size_t)saved.n == 0 &&
           values / (size_t)saved.n == saved.width;
}

void rf_head_level_load(struct rf_head_level *level, const void *data, size_t bytes)
{
    struct saved_features saved = {0, 0, 0};
    if (bytes) memcpy(&saved, data, sizeof saved);
    int is_ours = saved.width == level->width;
    const unsigned char *from = (const unsigned char *)data + sizeof saved;
    level->first = is_ours ? saved.end - saved.n : 0;
    level->end = is_ours ? saved.end : 0;
    level->start = level->rows_end = 0;
    for (int32_t p = level->first; p < level->end; p++, from += level->width * sizeof(float))
        memcpy(feature_at(level, p), from, level->width * sizeof(float));
}

const struct rf_head *rf_head_level_head(const struct rf_head_level *level)
{
    return level->passes->head;
}

uint64_t rf_head_level_held(const struct rf_head_level *level)
{
    return (uint64_t)(level->end - level->first) * level->width * sizeof *level->features +
           level->cache->backend->ops->cache_held(level->cache);
}

/* ---- life ---- */

void rf_head_passes_free(struct rf_head_passes *passes)
{
    if (!passes) return;
    rf_view_free(passes->view);
    rf_free(passes->allocator, passes->x);
    rf_free(passes->allocator, passes->logits);
    rf_free(passes->allocator, passes);
}

int rf_head_passes_new(struct rf_head_passes **passes, const struct rf_head *head,
                       struct rf_queue *queue, int32_t n_ctx, const atomic_int *cancel,
                       const struct rf_allocator *allocator, struct rf_error *error)
{
    size_t n_vocab = (size_t)head->target->source->params.n_vocab,
           width = (size_t)head->file->source->params.n_embd;
    const struct rf_view_options options = {
        .kv = RF_KV_F16, .max_rows = least(BLOCK_ROWS, n_ctx), .cancel = cancel};
    *passes = NULL;
    struct rf_head_passes *made = rf_calloc(allocator, 1, sizeof *made, "draft head", error);
    if (!made) return RF_ERR_MEMORY;
    made->allocator = allocator;
    made->head = head;
    made->x = rf_malloc(allocator, BLOCK_ROWS * width, sizeof(float), "draft head", error);
    made->logits = rf_malloc(allocator, n_vocab, sizeof(float), "draft head", error);
    int code = made->x && made->logits ? 0 : RF_ERR_MEMORY;
    if (!code) code = rf_head_view_new(&made->view, head, queue, &options, error);
    if (code) {
        rf_head_passes_free(made);
        return code;
    }
    for (size_t i = 0; i < n_vocab; i++) made->logits[i] = FAR;
    *passes = made;
    return 0;
}

const struct rf_view *rf_head_passes_view(const struct rf_head_passes *passes)
{
    return passes->view;
}

void rf_head_level_free(struct rf_head_level *level)
{
    if (!level) return;
    if (level->sequence) rf_sequence_set_reader(level->sequence, NULL);
    if (level->cache) level->cache->backend->ops->cache_free(level->cache);
    rf_free(level->allocator, level->features);
    rf_free(level->allocator, level->results);
    rf_free(level->allocator, level->mask);
    rf_free(level->allocator, level);
}

int rf_head_level_new(struct rf_head_level **level, struct rf_head_passes *passes,
                      struct rf_sequence *sequence, struct rf_sampler *sampler,
                      const struct rf_allocator *allocator, struct rf_error *error)
{
    const struct rf_params *params = &passes->head->file->source->params;
    struct rf_backend *backend = passes->view->backend;
    const struct rf_cache_shape shape = {
        .params = params,
        .n_ctx = least(rf_sequence_n_ctx(sequence), rf_tuning.chain.draft_ctx),
        .kv = RF_KV_F16};
    size_t width = (size_t)params->n_embd;
    *level = NULL;
    struct rf_head_level *made = rf_calloc(allocator, 1, sizeof *made, "draft head", error);
    if (!made) return RF_ERR_MEMORY;
    made->reader.has_read = has_read;
    made->allocator = allocator;
    made->passes = passes;
    made->sequence = sequence;
    made->sampler = sampler;
    made->width = width;
    made->features = rf_malloc(allocator, N_FEATURES * width, sizeof(float), "draft head", error);
    made->results = rf_malloc(allocator, N_RESULTS * width, sizeof(float), "draft head", error);
    made->mask = rf_malloc(allocator, ((size_t)params->n_vocab + 63) / 64, sizeof(uint64_t),
                           "draft head", error);
    int code = made->features && made->results && made->mask ? 0 : RF_ERR_MEMORY;
    if (!code) code = backend->ops->cache_new(&made->cache, backend, &shape, error);
    if (code) {
        made->sequence = NULL;
        rf_head_level_free(made);
        return code;
    }
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

/* Settles where the text's rows begin, and what is to be made again. 0: there is no answer. */
static int prepare_rows(struct rf_head_level *level, const struct rf_next *next)
{
    int32_t to = next->n - 1, start = begin_rows(level, to);
    if (head_unread(level, next->text, next->n) == INT32_MAX) return 0;
    if (start != level->start || level->rows_end < start) level->start = level->rows_end = start;
    /* The last row again, for an answer that was given before. */
    if (level->rows_end >= to) level->rows_end = to - 1;
    return 1;
}

/* Writes the inputs of the level's next rows up to position `to`: of at most `most` that have
 * features, or of one that has none. Returns how many. */
static int32_t take_inputs(const struct rf_head_level *level, int32_t to, int32_t most, float *x)
{
    int32_t from = level->rows_end, known = least(to, level->end), n = least(known - from, most);
    size_t bytes = level->width * sizeof *x;
    if (from >= known) {
        memcpy(x, result_at(level, from - 1), bytes);
        return 1;
    }
    for (int32_t i = 0; i < n; i++)
        memcpy(x + (size_t)i * level->width, feature_at(level, from + i), bytes);
    return n;
}

/* ---- choices ---- */

static int32_t token_of(const struct rf_head_level *level, int32_t row)
{
    const int32_t *tokens = level->passes->head->file->tokens;
    return tokens ? tokens[row] : row;
}

/* Collects the head's rows that a mask over the target's vocabulary allows. 0: there are none. */
static int mask_rows(struct rf_head_level *level, const uint64_t *mask)
{
    int32_t n = level->passes->head->file->source->params.n_vocab;
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
static int take_best(const struct rf_head_level *level, const struct rf_best *best,
                     struct rf_next *next)
{
    int code = rf_sampler_take(best, next->n, &next->choice, next->runners_up, next->error);
    if (code) return code;
    next->choice.token = token_of(level, next->choice.token);
    for (int32_t k = 0; k < RF_RUNNERS_UP; k++)
        if (next->runners_up[k].token >= 0)
            next->runners_up[k].token = token_of(level, next->runners_up[k].token);
    return 0;
}

/* Draws as the target would with the head's logits, which are the pass's answer `answer`. */
static int draw(const struct rf_head_level *level, int32_t answer, struct rf_next *next)
{
    const struct rf_head_passes *passes = level->passes;
    const float *row;
    int code = passes->view->backend->ops->logits(passes->view, answer, &row, next->error);
    if (code) return code;
    for (int32_t i = 0; i < passes->head->file->source->params.n_vocab; i++)
        passes->logits[token_of(level, i)] = row[i];
    return rf_sampler_choose_after(level->sampler, passes->logits, next->mask, next->text, next->n,
                                   NULL, 0, &next->choice, next->runners_up, next->error);
}

/* ---- passes ---- */

/* A pass over rows of several texts. */
struct joint_pass {
    struct rf_rows groups[BLOCK_ROWS];
    struct rf_next *asked[BLOCK_ROWS]; /* asked[g] is about the text of groups[g] */
    int32_t answers[BLOCK_ROWS];       /* of groups[g]: its answer's number; -1: it has none yet */
    int32_t wanted[BLOCK_ROWS];
    const uint64_t *masks[BLOCK_ROWS];
    struct rf_best best[BLOCK_ROWS];
    int32_t n_groups, n_rows, n_wanted;
    int is_greedy, has_masks; /* 1: some answer is */
};

/* Adds the next rows of a text, if there is space. */
static void add_rows(struct joint_pass *pass, struct rf_next *next)
{
    struct rf_head_level *level = next->self;
    const struct rf_view_shape *shape = &level->passes->view->shape;
    int32_t from = level->rows_end, to = next->n - 1, g = pass->n_groups;
    int32_t room = shape->max_rows - pass->n_rows;
    if (room < 1 || pass->n_wanted == shape->max_logits) return;
    int32_t n =
        take_inputs(level, to, room, level->passes->x + (size_t)pass->n_rows * level->width);
    pass->groups[g] = (struct rf_rows){.cache = level->cache,
                                       .tokens = next->text + from + 1,
                                       .n = n,
                                       .first_pos = from - level->start};
    pass->asked[g] = next;
    pass->answers[g] = -1;
    pass->n_groups++;
    pass->n_rows += n;
    if (from + n < to) return;
    int is_greedy = rf_sampler_is_greedy(level->sampler);
    pass->is_greedy |= is_greedy;
    pass->has_masks |= is_greedy && next->mask;
    pass->masks[pass->n_wanted] = is_greedy && next->mask ? level->mask : NULL;
    pass->answers[g] = pass->n_wanted;
    pass->wanted[pass->n_wanted++] = pass->n_rows - 1;
}

/* Keeps what the pass left of a text's rows, the last of which is row `last`, and takes its answer.
 */
static int end_rows(const struct joint_pass *pass, int32_t g, int32_t last)
{
    struct rf_next *next = pass->asked[g];
    struct rf_head_level *level = next->self;
    struct rf_view *view = level->passes->view;
    int32_t end = level->rows_end + pass->groups[g].n, answer = pass->answers[g];
    const float *result;
    int code = view->backend->ops->tap(view, RF_HEAD_RESULT, last, &result, next->error);
    if (code) return code;
    memcpy(result_at(level, end - 1), result, level->width * sizeof *result);
    level->rows_end = end;
    if (answer < 0) return 0;
    return rf_sampler_is_greedy(level->sampler) ? take_best(level, &pass->best[answer], next)
                                                : draw(level, answer, next);
}

/* One pass over the next rows of texts that have no answer yet. On failure, the same for each of
 * them alone, so that a failure is nobody else's. */
static void run_joint_pass(struct rf_next *const *asked, int32_t n)
{
    const struct rf_head_level *first = asked[0]->self;
    struct joint_pass joint;
    joint.n_groups = joint.n_rows = joint.n_wanted = joint.is_greedy = joint.has_masks = 0;
    for (int32_t i = 0; i < n; i++) add_rows(&joint, asked[i]);
    const struct rf_pass pass = {.groups = joint.groups,
                                 .n_groups = joint.n_groups,
                                 .x = first->passes->x,
                                 .wanted = joint.wanted,
                                 .n_wanted = joint.n_wanted,
                                 .n_best = joint.is_greedy ? 1 + RF_RUNNERS_UP : 0,
                                 .best = joint.is_greedy ? joint.best : NULL,
                                 .masks = joint.has_masks ? joint.masks : NULL};
    int code = rf_view_run(first->passes->view, &pass, asked[0]->error);
    if (code && n == 1) asked[0]->code = code;
    for (int32_t i = 0; code && n > 1 && i < n; i++) run_joint_pass(&asked[i], 1);
    for (int32_t g = 0, last = -1; !code && g < joint.n_groups; g++) {
        last += joint.groups[g].n;
        joint.asked[g]->code = end_rows(&joint, g, last);
    }
}

/* 1 until there is an answer, or a failure. */
static int lacks_answer(const struct rf_next *next)
{
    const struct rf_head_level *level = next->self;
    return !next->code && level->rows_end < next->n - 1;
}

static void head_next(struct rf_next *const *asked, int32_t n)
{
    struct rf_next *left[BLOCK_ROWS];
    int32_t n_left = 0;
    assert(n <= BLOCK_ROWS);
    for (int32_t i = 0; i < n; i++) {
        struct rf_next *next = asked[i];
        struct rf_head_level *level = next->self;
        assert(level->passes == ((struct rf_head_level *)asked[0]->self)->passes);
        next->choice.token = -1;
        next->code = 0;
        if (next->mask && !mask_rows(level, next->mask)) continue;
        if (prepare_rows(level, next)) left[n_left++] = next;
    }
    while (n_left > 0) {
        int32_t still = 0;
        run_joint_pass(left, n_left);
        for (int32_t i = 0; i < n_left; i++)
            if (lacks_answer(left[i])) left[still++] = left[i];
        n_left = still;
    }
}

static void head_rewind(void *self, int32_t n)
{
    struct rf_head_level *level = self;
    limit_features(level, n);
    limit_rows(level, n > 0 ? n - 1 : 0);
}

const struct rf_level_ops rf_head_level_ops = {
    .next = head_next, .unread = head_unread, .rewind = head_rewind};
