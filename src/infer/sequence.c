/* A sequence: one text, how far views have read it, and the cache of its keys and values. Sessions
 * and the cascade of drafts call it; it calls the backend through struct rf_backend_ops. Whatever
 * happens to a sequence, the logits after its text are, bit for bit, the logits after the same text
 * read plainly from its beginning. This follows from the invariants:
 *
 * 1. The text is tokens[0 .. n + n_ahead). The first n are committed, n <= n_ctx; the others are
 *    ahead, and RF_TREE_ROWS of them may stand beyond n_ctx.
 * 2. Tokens are added at the end and taken back from the end. The follower hears of tokens taken
 *    back before anything changes.
 * 3. The cache's positions [0 .. n_read) hold the judge's entries for the text's tokens there.
 *    n_read is at most the length of the text, and at most n_ctx.
 * 4. Positions [n_read .. n_written) hold entries of one other view, the writer, for the text's
 *    tokens there. Without a writer n_written is 0.
 * 5. A pass of a view begins where the entries that the view may use end, and from there on all
 *    older entries are void: no entry outlives the tokens and entries that it was computed from.
 * 6. A pass of the judge ends the writer: nothing behind n_read is valid after it.
 * 7. The kept answer is the answer of one row of one pass. It is valid while that pass is the last
 *    one of its view, and while the view may use entries for all n_answered tokens.
 * 8. All entries are of short rows or all are of long ones (is_long), and a pass adds rows of their
 *    kind. A text of the other kind cannot use them.
 * 9. A call that fails changes no committed token; only a cancelled prefill keeps the tokens that
 *    it read.
 *
 * check_invariants() asserts 1, 3 and 4 wherever one of their numbers changes; the functions that
 * keep the others name them. */
#include "infer/sequence.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "infer/program.h"
#include "infer/sampler.h"
#include "platform/clock.h"
#include "platform/split.h"

struct rf_sequence {
    const struct rf_allocator *allocator;
    struct rf_view *judge;
    struct rf_cache *cache;
    int32_t n_ctx, n_vocab;
    int32_t n_short; /* the longest text whose rows are short */
    int32_t n, n_ahead;

    int is_long; /* rows of the cache's entries are long ones */

    int32_t n_read;               /* positions that hold the judge's entries */
    const struct rf_view *writer; /* the other view with entries behind n_read, or NULL */
    int32_t n_written;            /* end of the writer's entries, or 0 */
    struct rf_follower *follower; /* may be NULL */
    struct rf_reader *reader;     /* may be NULL */
    int32_t draft_row;            /* row of the last question's first draft row in its pass */

    /* The answer after the first n_answered tokens: row answer_row of pass answer_pass. */
    const struct rf_view *answerer;
    uint64_t answer_pass;
    int32_t answer_row, n_answered;
    struct rf_best best; /* the answer's candidates; n is 0 where nobody asked for them */

    int32_t tokens[]; /* [n_ctx + RF_TREE_ROWS] */
};

static void check_invariants(const struct rf_sequence *s)
{
    /* 1 */
    assert(s->n >= 0 && s->n <= s->n_ctx);
    assert(s->n_ahead >= 0 && s->n + s->n_ahead <= s->n_ctx + RF_TREE_ROWS);
    /* 3 */
    assert(s->n_read >= 0 && s->n_read <= s->n + s->n_ahead && s->n_read <= s->n_ctx);
    /* 4 */
    assert(s->writer ? s->writer != s->judge && s->n_written > s->n_read &&
                           s->n_written <= s->n + s->n_ahead
                     : s->n_written == 0);
    (void)s;
}

/* A sequence without tokens, and without a cache. */
static struct rf_sequence *sequence_alloc(struct rf_view *judge, int32_t n_ctx,
                                          const struct rf_allocator *allocator,
                                          struct rf_error *error)
{
    struct rf_sequence *made;
    made = rf_malloc(allocator, 1,
                     sizeof *made + ((size_t)n_ctx + RF_TREE_ROWS) * sizeof *made->tokens,
                     "sequence", error);
    if (!made) return NULL;
    const struct rf_params *params = judge ? judge->shape.program->params : NULL;
    *made = (struct rf_sequence){.allocator = allocator,
                                 .judge = judge,
                                 .n_ctx = n_ctx,
                                 .n_vocab = params ? params->n_vocab : INT32_MAX,
                                 .n_short = params ? rf_rope_short_text(params) : INT32_MAX};
    return made;
}

/* Gives out a sequence whose making ended with `code`. */
static int give_sequence(struct rf_sequence **sequence, struct rf_sequence *made, int code)
{
    if (code) rf_sequence_free(made);
    *sequence = code ? NULL : made;
    return code;
}

int rf_sequence_new(struct rf_sequence **sequence, struct rf_view *judge,
                    const struct rf_sequence_shape *shape, const struct rf_allocator *allocator,
                    struct rf_error *error)
{
    struct rf_sequence *made = sequence_alloc(judge, shape->n_ctx, allocator, error);
    if (!made || !judge) return give_sequence(sequence, made, made ? 0 : RF_ERR_MEMORY);
    const struct rf_cache_shape cache = {
        .params = judge->shape.program->params, .n_ctx = shape->n_ctx, .kv = shape->kv};
    return give_sequence(
        sequence, made,
        judge->backend->ops->cache_new(&made->cache, judge->backend, &cache, error));
}

void rf_sequence_free(struct rf_sequence *s)
{
    if (!s) return;
    if (s->cache) s->cache->backend->ops->cache_free(s->cache);
    rf_free(s->allocator, s);
}

int rf_sequence_fork(struct rf_sequence **copy, struct rf_sequence *from, struct rf_view *judge,
                     struct rf_error *error)
{
    struct rf_sequence *made = sequence_alloc(judge, from->n_ctx, from->allocator, error);
    if (!made) return give_sequence(copy, NULL, RF_ERR_MEMORY);
    made->n = from->n;
    made->n_read = from->n_read < from->n ? from->n_read : from->n;
    made->is_long = from->is_long;
    if (from->cache)
        made->n_read = from->cache->backend->ops->cache_resume(from->cache, made->n_read);
    memcpy(made->tokens, from->tokens, (size_t)from->n * sizeof *made->tokens);
    check_invariants(made);
    return give_sequence(copy, made,
                         from->cache ? judge->backend->ops->cache_fork(&made->cache, from->cache,
                                                                       made->n_read, error)
                                     : 0);
}

/* ---- the text ---- */

const int32_t *rf_sequence_tokens(const struct rf_sequence *s)
{
    return s->tokens;
}

int32_t rf_sequence_n_committed(const struct rf_sequence *s)
{
    return s->n;
}

int32_t rf_sequence_length(const struct rf_sequence *s)
{
    return s->n + s->n_ahead;
}

int32_t rf_sequence_n_ctx(const struct rf_sequence *s)
{
    return s->n_ctx;
}

static int is_long_text(const struct rf_sequence *s, int32_t n_text)
{
    return n_text > s->n_short;
}

int32_t rf_sequence_n_read_for(const struct rf_sequence *s, int32_t n_text)
{
    return is_long_text(s, n_text) == s->is_long ? s->n_read : 0;
}

int32_t rf_sequence_n_read(const struct rf_sequence *s)
{
    return rf_sequence_n_read_for(s, s->n);
}

int32_t rf_sequence_room(const struct rf_sequence *s, int32_t n_text)
{
    return (is_long_text(s, n_text) || s->n_short > s->n_ctx ? s->n_ctx : s->n_short) - n_text;
}

void rf_sequence_set_follower(struct rf_sequence *s, struct rf_follower *follower)
{
    s->follower = follower;
}

void rf_sequence_set_reader(struct rf_sequence *s, struct rf_reader *reader)
{
    s->reader = reader;
}

/* Voids the writer's entries from position n on (4). */
static void limit_writer(struct rf_sequence *s, int32_t n)
{
    if (s->n_written > n) s->n_written = n;
    if (s->n_written > s->n_read) return;
    s->writer = NULL;
    s->n_written = 0;
}

/* Voids the cache's entries from position n on (3), and earlier ones where the cache could not
 * begin a pass behind them. */
static void limit_read(struct rf_sequence *s, int32_t n)
{
    if (s->n_read > n)
        s->n_read = n = s->cache ? s->cache->backend->ops->cache_resume(s->cache, n) : n;
    limit_writer(s, n);
}

/* Keeps invariant 2: the follower first, then the text, then the entries. */
void rf_sequence_rewind(struct rf_sequence *s, int32_t n)
{
    assert(n >= 0 && n <= s->n + s->n_ahead);
    if (s->follower && n < s->n + s->n_ahead) s->follower->rewound(s->follower, n);
    s->n_ahead = n > s->n ? n - s->n : 0;
    if (s->n > n) {
        s->n = n;
        if (s->cache) s->cache->backend->ops->cache_trim(s->cache, n);
    }
    limit_read(s, n);
    check_invariants(s);
}

int rf_sequence_append(struct rf_sequence *s, const int32_t *tokens, int32_t n,
                       struct rf_error *error)
{
    if (n > s->n_ctx - s->n)
        return n == 1 ? rf_fail(error, RF_ERR_CONTEXT, "the context of %d tokens is full", s->n_ctx)
                      : rf_fail(error, RF_ERR_CONTEXT,
                                "%d tokens do not fit: the context holds %d, of which %d are taken",
                                n, s->n_ctx, s->n);
    for (int32_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= s->n_vocab)
            return rf_fail(error, RF_ERR_ARGUMENT,
                           "token %d at index %d is outside the vocabulary of %d", tokens[i], i,
                           s->n_vocab);
    rf_sequence_rewind(s, s->n);
    if (n) memcpy(s->tokens + s->n, tokens, (size_t)n * sizeof *tokens);
    s->n += n;
    check_invariants(s);
    return 0;
}

void rf_sequence_place(struct rf_sequence *s, const int32_t *tokens, int32_t n)
{
    int32_t at = s->n + s->n_ahead;
    assert(n >= 0 && at + n <= s->n_ctx + RF_TREE_ROWS);
    memmove(s->tokens + at, tokens, (size_t)n * sizeof *tokens);
    s->n_ahead += n;
    check_invariants(s);
}

int rf_sequence_commit(struct rf_sequence *s, struct rf_error *error)
{
    assert(s->n_ahead > 0);
    if (s->n == s->n_ctx)
        return rf_fail(error, RF_ERR_CONTEXT, "the context of %d tokens is full", s->n_ctx);
    s->n++;
    s->n_ahead--;
    check_invariants(s);
    return 0;
}

/* ---- reading ---- */

/* Positions with entries that this view may use for the text's first n_text tokens (8). */
static int32_t usable(const struct rf_sequence *s, const struct rf_view *view, int32_t n_text)
{
    if (is_long_text(s, n_text) != s->is_long) return 0;
    return view == s->writer ? s->n_written : s->n_read;
}

/* Length of the text that decides which entries a question may use. */
static int32_t text_of(const struct rf_ask *ask)
{
    return ask->reads_only ? ask->sequence->n : ask->n_text;
}

/* Invariant 7, for the text's first n_text tokens. */
static int has_answer(const struct rf_sequence *s, const struct rf_view *view, int32_t n_text)
{
    return s->answerer == view && s->answer_pass == view->passes && s->n_answered == n_text &&
           usable(s, view, n_text) >= n_text;
}

int32_t rf_ask_unread(const struct rf_ask *ask, const struct rf_view *view)
{
    int32_t read = usable(ask->sequence, view, text_of(ask));
    if (read < ask->n_text) return ask->n_text - read;
    return has_answer(ask->sequence, view, ask->n_text) ? 0 : 1;
}

int32_t rf_sequence_unread(const struct rf_sequence *s, const struct rf_view *view, int32_t n_text)
{
    const struct rf_ask ask = {.sequence = (struct rf_sequence *)s, .n_text = n_text};
    return rf_ask_unread(&ask, view);
}

/* Call before a pass of the view over positions from `from` on, which overwrites the entries there
 * (5), as part of a text of n_text tokens (8). */
static void begin_pass(struct rf_sequence *s, const struct rf_view *view, int32_t from,
                       int32_t n_text)
{
    assert(from <= usable(s, view, n_text));
    limit_read(s, from);
    s->is_long = is_long_text(s, n_text);
    assert(from == usable(s, view, n_text));
    (void)view;
}

/* Call after that pass, which has read up to position `to` (6). */
static void end_pass(struct rf_sequence *s, const struct rf_view *view, int32_t to)
{
    if (view == s->judge) {
        s->n_read = to;
        limit_writer(s, 0);
        assert(!s->writer);
        s->cache->backend->ops->cache_settle(s->cache, to);
    } else if (to > s->n_read) {
        s->writer = view;
        s->n_written = to;
    }
    check_invariants(s);
}

/* Rows of the judge's last pass, from `row` on, stand at positions from `position` on. */
static void tell_reader(struct rf_sequence *s, struct rf_view *view, int32_t row, int32_t position,
                        int32_t n)
{
    if (s->reader && view == s->judge && n > 0)
        s->reader->has_read(s->reader, view, row, position, n);
}

/* One pass over n tokens from position `from` on, of the text's first n_text. */
static int read_block(struct rf_sequence *s, struct rf_view *view, int32_t from, int32_t n,
                      int32_t n_text, struct rf_pass *pass, struct rf_error *error)
{
    const struct rf_rows rows = {.cache = s->cache,
                                 .tokens = s->tokens + from,
                                 .n = n,
                                 .first_pos = from,
                                 .is_long = is_long_text(s, n_text)};
    pass->groups = &rows;
    pass->n_groups = 1;
    begin_pass(s, view, from, n_text);
    int code = rf_view_run(view, pass, error);
    if (code) return code;
    end_pass(s, view, from + n);
    tell_reader(s, view, 0, from, n);
    return 0;
}

static int tell_cancelled(const struct rf_sequence *s, int code, struct rf_error *error)
{
    return code == RF_ERR_CANCELLED
               ? rf_fail(error, RF_ERR_CANCELLED, "cancelled after %d tokens", s->n)
               : code;
}

/* Reads up to position `to`, without answers, as part of a text of n_text tokens. */
static int read_up_to(struct rf_sequence *s, struct rf_view *view, int32_t to, int32_t n_text,
                      struct rf_error *error)
{
    int code = 0;
    for (int32_t from; !code && (from = usable(s, view, n_text)) < to;) {
        struct rf_pass pass = {0};
        int32_t n = to - from < view->shape.max_rows ? to - from : view->shape.max_rows;
        code = read_block(s, view, from, n, n_text, &pass, error);
    }
    return code;
}

/* Voids the entries of a text's last row where all are usable: it is read again, to the same bits,
 * with those before it that the cache needs for it. */
static void reread_last(const struct rf_ask *ask, const struct rf_view *view)
{
    if (usable(ask->sequence, view, text_of(ask)) >= ask->n_text)
        limit_read(ask->sequence, ask->n_text - 1);
}

/* Reads most of a text that does not fit into one pass together with its draft. */
static int read_ahead(const struct rf_ask *ask, struct rf_view *view, struct rf_error *error)
{
    struct rf_sequence *s = ask->sequence;
    if (ask->reads_only) return 0;
    int32_t most = ask->n_draft < RF_FEW_ROWS ? RF_FEW_ROWS : ask->n_draft + 1;
    if (most > view->shape.max_rows) most = view->shape.max_rows;
    int32_t n_text = ask->n_text;
    if (n_text - usable(s, view, n_text) + ask->n_draft <= most) return 0;
    return read_up_to(s, view, n_text - 1, n_text, error);
}

/* Row `row` of the pass that has just ended answers what follows the first n_text tokens (7). */
static void note_answer(struct rf_sequence *s, const struct rf_view *view, int32_t n_text,
                        int32_t row, const struct rf_best *best)
{
    assert(n_text <= usable(s, view, n_text));
    s->answerer = view;
    s->answer_pass = view->passes;
    s->answer_row = row;
    s->n_answered = n_text;
    if (best)
        s->best = *best;
    else
        s->best.n = 0;
}

static int check_ask(const struct rf_ask *ask, const struct rf_view *view, struct rf_error *error)
{
    const struct rf_sequence *s = ask->sequence;
    if (ask->n_text < 1)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "a session without tokens has nothing to go on from");
    if (ask->n_draft < 0 || ask->n_draft >= view->shape.max_logits)
        return rf_fail(error, RF_ERR_ARGUMENT, "%d draft rows: not between 0 and %d", ask->n_draft,
                       view->shape.max_logits - 1);
    if (ask->n_draft > s->n_ctx - ask->n_text)
        return rf_fail(error, RF_ERR_CONTEXT,
                       "%d draft tokens do not fit: the context holds %d, of which %d are taken",
                       ask->n_draft, s->n_ctx, ask->n_text);
    if (ask->n_draft > rf_sequence_room(s, ask->n_text))
        return rf_fail(error, RF_ERR_CONTEXT,
                       "%d draft tokens after %d: the frequencies of texts of more than %d differ, "
                       "so one question cannot be about both",
                       ask->n_draft, ask->n_text, s->n_short);
    for (int32_t i = 0; i < ask->n_draft; i++)
        if (ask->draft[i] < 0 || ask->draft[i] >= s->n_vocab)
            return rf_fail(error, RF_ERR_ARGUMENT,
                           "draft token %d at index %d is outside the vocabulary of %d",
                           ask->draft[i], i, s->n_vocab);
    assert(ask->n_text <= s->n + s->n_ahead);
    assert(!ask->reads_only || (ask->n_draft == 0 && !ask->masks));
    return 0;
}

/* The rows of all asks while they are collected. */
struct gathered {
    struct rf_rows groups[RF_MAX_ROWS];
    int32_t tokens[RF_MAX_ROWS], parents[RF_MAX_ROWS], wanted[RF_MAX_ROWS];
    const uint64_t *masks[RF_MAX_ROWS]; /* mask of each wanted row, or NULL */
    int has_masks;
    int32_t n_rows, n_wanted;
};

static int gather_rows(struct gathered *g, struct rf_ask *ask, int32_t index, struct rf_view *view,
                       struct rf_error *error)
{
    struct rf_sequence *s = ask->sequence;
    int32_t from = usable(s, view, text_of(ask)); /* reread_last: before the end of the text */
    assert(from < ask->n_text);
    int32_t unread = ask->n_text - from, n = unread + ask->n_draft;
    int32_t answers = ask->reads_only ? 0 : ask->n_draft + 1;
    if (n > view->shape.max_rows - g->n_rows || n > RF_MAX_ROWS - g->n_rows ||
        answers > view->shape.max_logits - g->n_wanted)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "%d rows after the %d of other sequences: a pass has at most %d, of which "
                       "%d are answered",
                       n, g->n_rows, view->shape.max_rows, view->shape.max_logits);
    int32_t *tokens = g->tokens + g->n_rows, *parents = g->parents + g->n_rows;
    memcpy(tokens, s->tokens + from, (size_t)unread * sizeof *tokens);
    if (ask->n_draft) memcpy(tokens + unread, ask->draft, (size_t)ask->n_draft * sizeof *tokens);
    for (int32_t i = 0; ask->parents && i < n; i++) {
        int32_t parent = i < unread ? -1 : ask->parents[i - unread];
        parents[i] = i < unread ? i - 1 : parent < 0 ? unread - 1 : unread + parent;
        assert(parents[i] < i);
    }
    g->groups[index] = (struct rf_rows){.cache = s->cache,
                                        .tokens = tokens,
                                        .parents = ask->parents ? parents : NULL,
                                        .n = n,
                                        .first_pos = from,
                                        .is_long = is_long_text(s, text_of(ask))};
    ask->first = g->n_wanted;
    s->draft_row = g->n_rows + unread;
    g->has_masks |= ask->masks != NULL;
    for (int32_t i = n - answers; i < n; i++) {
        g->masks[g->n_wanted] = ask->masks ? ask->masks[i - (unread - 1)] : NULL;
        g->wanted[g->n_wanted++] = g->n_rows + i;
    }
    g->n_rows += n;
    return 0;
}

int rf_read(struct rf_view *view, struct rf_ask *asks, int32_t n_asks,
            const struct rf_read_options *options, struct rf_read_cost *cost,
            struct rf_error *error)
{
    struct gathered gathered;
    gathered.n_rows = gathered.n_wanted = gathered.has_masks = 0;
    if (n_asks < 1 || n_asks > RF_MAX_ROWS)
        return rf_fail(error, RF_ERR_ARGUMENT, "a pass over %d sequences", n_asks);
    if (options->n_best < 0 || options->n_best > RF_MAX_BEST)
        return rf_fail(error, RF_ERR_ARGUMENT, "n_best %d: not between 0 and %d", options->n_best,
                       RF_MAX_BEST);
    int code = 0;
    for (int32_t a = 0; !code && a < n_asks; a++) code = check_ask(&asks[a], view, error);
    for (int32_t a = 0; !code && a < n_asks; a++) reread_last(&asks[a], view);
    for (int32_t a = 0; !code && a < n_asks; a++) code = read_ahead(&asks[a], view, error);
    for (int32_t a = 0; !code && a < n_asks; a++)
        code = gather_rows(&gathered, &asks[a], a, view, error);
    if (code) return tell_cancelled(asks->sequence, code, error);
    for (int32_t a = 0; a < n_asks; a++)
        begin_pass(asks[a].sequence, view, gathered.groups[a].first_pos, text_of(&asks[a]));
    const struct rf_pass pass = {.groups = gathered.groups,
                                 .n_groups = n_asks,
                                 .wanted = gathered.wanted,
                                 .n_wanted = gathered.n_wanted,
                                 .n_best = options->n_best,
                                 .best = options->best,
                                 .masks = gathered.has_masks ? gathered.masks : NULL};
    double start = rf_clock_seconds();
    code = rf_view_run(view, &pass, error);
    if (code) return tell_cancelled(asks->sequence, code, error);
    if (cost) *cost = (struct rf_read_cost){gathered.n_rows, rf_clock_seconds() - start};
    for (int32_t a = 0; a < n_asks; a++) {
        const struct rf_rows *rows = &gathered.groups[a];
        end_pass(asks[a].sequence, view, asks[a].n_text);
        tell_reader(asks[a].sequence, view,
                    asks[a].sequence->draft_row - (asks[a].n_text - rows->first_pos),
                    rows->first_pos, asks[a].n_text - rows->first_pos);
        if (asks[a].reads_only) continue;
        note_answer(asks[a].sequence, view, asks[a].n_text, asks[a].first,
                    options->n_best && !gathered.masks[asks[a].first]
                        ? &options->best[asks[a].first]
                        : NULL);
    }
    return 0;
}

int rf_sequence_accept(struct rf_sequence *s, struct rf_view *view, int32_t n_text,
                       const int32_t *path, int32_t n, struct rf_error *error)
{
    if (n == 0) return 0;
    assert(usable(s, view, n_text) == n_text && n_text + n <= s->n + s->n_ahead);
    assert(n <= rf_sequence_room(s, n_text));
    int code = s->cache->backend->ops->cache_keep(s->cache, n_text, path, n, error);
    if (code) return code;
    end_pass(s, view, n_text + n);
    for (int32_t i = 0; i < n; i++) tell_reader(s, view, s->draft_row + path[i], n_text + i, 1);
    return 0;
}

/* Reads all committed tokens that have not been read; the pass over the last one answers. */
static int read_rest(struct rf_sequence *s, struct rf_view *view, rf_read_progress progress,
                     void *user, struct rf_error *error)
{
    int32_t start = usable(s, view, s->n), total = s->n - start, last;
    struct rf_best best;
    if (progress && progress(user, 0, total)) return rf_fail(error, RF_ERR_CANCELLED, "cancelled");
    for (int32_t from; (from = usable(s, view, s->n)) < s->n;) {
        int32_t left = s->n - from;
        int32_t n = left < view->shape.max_rows ? left : view->shape.max_rows;
        last = n - 1;
        struct rf_pass pass = {.wanted = &last, .n_wanted = n == left, .n_best = 1, .best = &best};
        int code = read_block(s, view, from, n, s->n, &pass, error);
        if (code) return code;
        if (progress && progress(user, from + n - start, total) && from + n < s->n)
            return rf_fail(error, RF_ERR_CANCELLED, "cancelled");
    }
    note_answer(s, view, s->n, 0, &best);
    return 0;
}

const struct rf_best *rf_sequence_best(const struct rf_sequence *s, const struct rf_view *view)
{
    return has_answer(s, view, s->n + s->n_ahead) && s->best.n ? &s->best : NULL;
}

int rf_sequence_answer(struct rf_sequence *s, struct rf_view *view, const float **logits,
                       struct rf_error *error)
{
    int32_t n_text = s->n + s->n_ahead;
    if (n_text == 0)
        return rf_fail(error, RF_ERR_ARGUMENT, "a session without tokens has no logits");
    if (!has_answer(s, view, n_text)) {
        struct rf_ask ask = {.sequence = s, .n_text = n_text};
        int code = rf_read(view, &ask, 1, &(struct rf_read_options){0}, NULL, error);
        if (code) return code;
    }
    return view->backend->ops->logits(view, s->answer_row, logits, error);
}

/* Takes back what a failed read has committed. After a cancelled one, the tokens that were read
 * stay (8). */
static int undo_read(struct rf_sequence *s, int32_t n_before, int code, struct rf_error *error)
{
    assert(n_before <= s->n);
    int32_t n = code == RF_ERR_CANCELLED && s->n_read > n_before ? s->n_read : n_before;
    rf_sequence_rewind(s, n);
    return tell_cancelled(s, code, error);
}

int rf_sequence_prefill(struct rf_sequence *s, struct rf_view *view, const int32_t *tokens,
                        int32_t n, rf_read_progress progress, void *user, struct rf_error *error)
{
    int32_t n_before = s->n;
    int code = rf_sequence_append(s, tokens, n, error);
    if (code) return code;
    if (usable(s, view, s->n) == s->n) return 0;
    code = read_rest(s, view, progress, user, error);
    return code ? undo_read(s, n_before, code, error) : 0;
}

/* Reads the text's first n_text tokens, and writes what the rows [from, to) say about the token
 * after each to logprobs. */
static int score_rows(struct rf_sequence *s, struct rf_view *view, int32_t from, int32_t to,
                      int32_t n_text, double *logprobs, struct rf_error *error)
{
    int32_t wanted[RF_MAX_ROWS];
    for (int32_t start; (start = usable(s, view, n_text)) < n_text;) {
        int32_t left = n_text - start;
        int32_t rows = left < view->shape.max_rows ? left : view->shape.max_rows;
        int32_t low = from > start ? from : start, high = to < start + rows ? to : start + rows;
        struct rf_pass pass = {.wanted = wanted,
                               .n_wanted = high > low ? high - low : 0,
                               .targets = s->tokens + low + 1,
                               .logprobs = logprobs + (low - from)};
        for (int32_t i = 0; i < pass.n_wanted; i++) wanted[i] = low - start + i;
        int code = read_block(s, view, start, rows, n_text, &pass, error);
        for (int32_t i = 0; !code && i < pass.n_wanted; i++)
            if (!isfinite(pass.logprobs[i])) code = rf_not_finite(low + i + 1, error);
        if (code) return code;
    }
    return 0;
}

int rf_sequence_score(struct rf_sequence *s, struct rf_view *view, const int32_t *tokens, int32_t n,
                      int32_t first, double *logprobs, struct rf_error *error)
{
    int32_t n_before = s->n;
    if (first < 0 || first > n || (first == 0 && n_before == 0 && n > 0))
        return rf_fail(error, RF_ERR_ARGUMENT, "first %d: a token can be scored only after another",
                       first);
    int code = rf_sequence_append(s, tokens, n, error);
    if (code) return code;
    /* The row before the first token must be in the pass: read it again, to the same bits. */
    if (first == 0 && n > 0 && s->n_read == n_before) limit_read(s, n_before - 1);
    /* Row i predicts token i + 1: the rows wanted begin before the first scored token and end
     * before the last. Those of a short text are read as such first. */
    int32_t from = n_before + first - 1, to = s->n - 1, border = s->n_short;
    if (is_long_text(s, s->n) && from < border) {
        code = score_rows(s, view, from, border, border, logprobs, error);
        logprobs += border - from;
        from = border;
    }
    if (!code) code = score_rows(s, view, from, to, s->n, logprobs, error);
    return code ? undo_read(s, n_before, code, error) : 0;
}

int rf_sequence_time_passes(struct rf_sequence *s, struct rf_view *view, int32_t n_rows,
                            int32_t context, int32_t repeats, double *seconds,
                            struct rf_error *error)
{
    static const int32_t filler[RF_MAX_ROWS];
    int32_t n_before = s->n, max_rows = view->shape.max_rows, wanted[RF_TREE_ROWS];
    if (n_rows < 1 || n_rows > max_rows)
        return rf_fail(error, RF_ERR_ARGUMENT, "rows %d: not between 1 and %d", n_rows, max_rows);
    if (repeats < 1) return rf_fail(error, RF_ERR_ARGUMENT, "repeats %d: not positive", repeats);
    if (context < n_before || context > s->n_ctx - n_rows)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "context %d: not between the %d tokens of the session and %d", context,
                       n_before, s->n_ctx - n_rows);
    rf_sequence_rewind(s, s->n);
    int code = 0;
    while (!code && s->n < context) {
        int32_t left = context - s->n;
        code = rf_sequence_prefill(s, view, filler, left < max_rows ? left : max_rows, NULL, NULL,
                                   error);
    }
    /* A verification answers every row, a prompt the last one. */
    int32_t n_wanted = n_rows <= RF_FEW_ROWS ? n_rows : 1;
    for (int32_t i = 0; i < n_wanted; i++) wanted[i] = n_rows - n_wanted + i;
    for (int32_t i = 0; !code && i < repeats; i++) {
        struct rf_pass pass = {.wanted = wanted, .n_wanted = n_wanted};
        /* The pass before may have made the cache give up what this one begins with. */
        code = read_up_to(s, view, context, context + n_rows, error);
        if (!code) code = rf_sequence_append(s, filler, n_rows, error);
        double start = rf_clock_seconds();
        if (!code) code = read_block(s, view, context, n_rows, context + n_rows, &pass, error);
        seconds[i] = rf_clock_seconds() - start;
        if (!code) rf_sequence_rewind(s, context);
    }
    rf_sequence_rewind(s, n_before);
    s->answerer = NULL;
    return tell_cancelled(s, code, error);
}

/* ---- state ---- */

uint64_t rf_sequence_kv_bytes(const struct rf_sequence *s, int32_t n_read)
{
    return s->cache->backend->ops->cache_bytes(s->cache, n_read);
}

uint64_t rf_sequence_kv_held(const struct rf_sequence *s)
{
    return s->cache->backend->ops->cache_held(s->cache);
}

/* The last of them is readable again, as whoever loads them will ask for its answer. */
int32_t rf_sequence_n_saved(const struct rf_sequence *s)
{
    const struct rf_backend_ops *ops = s->cache->backend->ops;
    int32_t n = rf_sequence_n_read(s);
    if (n > s->n) n = s->n;
    while (n > 0 &&
           (ops->cache_resume(s->cache, n) < n || ops->cache_resume(s->cache, n - 1) < n - 1 ||
            !ops->cache_can_save(s->cache, n)))
        n = ops->cache_resume(s->cache, n - 1);
    return n;
}

int rf_sequence_kv_save(struct rf_sequence *s, void *kv, struct rf_error *error)
{
    return s->cache->backend->ops->cache_save(s->cache, rf_sequence_n_saved(s), kv, error);
}

int rf_sequence_load(struct rf_sequence *s, const int32_t *tokens, int32_t n, int32_t n_read,
                     const void *kv, struct rf_error *error)
{
    const struct rf_backend_ops *ops = s->cache->backend->ops;
    struct rf_cache *cache;
    assert(n_read >= 0 && n_read <= n && n <= s->n_ctx);
    int code = ops->cache_new(&cache, s->cache->backend, &s->cache->shape, error);
    if (code) return code;
    code = ops->cache_load(cache, n_read, kv, error);
    if (code) {
        ops->cache_free(cache);
        return code;
    }
    rf_sequence_rewind(s, 0);
    ops->cache_free(s->cache);
    s->cache = cache;
    memcpy(s->tokens, tokens, (size_t)n * sizeof *tokens);
    s->n = n;
    s->n_read = n_read;
    s->is_long = is_long_text(s, n);
    s->answerer = NULL;
    check_invariants(s);
    return 0;
}
