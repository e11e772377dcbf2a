/* The n-gram drafter. It finds earlier places of the text's ending and drafts what followed them.
 *
 * The index. Place p stands for "after text[0 .. p) came text[p]". For each order (1, 2, 4 and 8
 * tokens) places with the same hash of the tokens before them form a list from the latest to the
 * first, so that removing the newest place undoes adding it, and following or rewinding a token is
 * constant time. A hash only finds candidates: each place is compared with the text token by token,
 * up to LONGEST, and the true length of the match counts.
 *
 * A draft. The longest order that finds places gives the candidates for the next token; the
 * dictionary of successors.h adds tokens that the target found likely there. Each gets a confidence
 * from its evidence (rate_candidates). The likeliest candidate anywhere becomes the next row of the
 * tree, and its own candidates are opened, until there are MAX_ROWS rows or nothing likelier than
 * least_p. */
#include "speculate/ngram.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "speculate/drafters.h"
#include "speculate/successors.h"
#include "speculate/tuning.h"

enum {
    N_ORDERS = 4,
    LONGEST = 32,    /* tokens of a match that are compared */
    MAX_PLACES = 16, /* places of a list that are kept */
    MAX_PROBES = 24, /* places of a list that are looked at */
    MAX_CANDIDATES = 2 * MAX_PLACES + RF_CONTEXTS * RF_MAX_BEST,
    MAX_ROWS = 32, /* rows of a draft */
    MAX_OPEN = 64  /* candidates that wait to become a row */
};
static const int32_t orders[] = {1, 2, 4, 8};
_Static_assert(sizeof orders / sizeof *orders == N_ORDERS, "a length for each order");

struct rf_ngram {
    const struct rf_allocator *allocator;
    int32_t capacity, n;
    uint32_t mask;
    const int32_t *text;       /* the follower's, of the last rf_ngram_follow */
    int32_t *heads;            /* [N_ORDERS][mask + 1]: latest place, or 0 */
    int32_t (*prev)[N_ORDERS]; /* [capacity]: the previous place with that hash, or 0 */
    struct rf_successors *successors;
};

/* A text's last tokens, to which a draft is being added. */
struct window {
    int32_t tokens[LONGEST + 2 * RF_MAX_DRAFT];
    int32_t n;
};

/* Earlier places of the text's ending, the latest first. */
struct places {
    int32_t at[MAX_PLACES];
    int32_t length[MAX_PLACES]; /* length of each match, 1 .. LONGEST */
    int32_t n;
};

int rf_ngram_new(struct rf_ngram **out, int32_t capacity, const struct rf_allocator *allocator,
                 struct rf_error *error)
{
    static const char what[] = "the n-gram drafts";
    *out = NULL;
    if (capacity < 1 || capacity > INT32_MAX / 2)
        return rf_fail(error, RF_ERR_ARGUMENT, "n-gram drafts cannot be for texts of %d tokens",
                       (int)capacity);
    uint32_t slots = 256;
    while (slots < (uint32_t)capacity) slots *= 2;
    struct rf_ngram *g = rf_calloc(allocator, 1, sizeof *g, what, error);
    if (!g) return RF_ERR_MEMORY;
    *g = (struct rf_ngram){.allocator = allocator, .capacity = capacity, .mask = slots - 1};
    g->prev = rf_malloc(allocator, (size_t)capacity, sizeof *g->prev, what, error);
    if (g->prev)
        g->heads = rf_calloc(allocator, (size_t)slots * N_ORDERS, sizeof *g->heads, what, error);
    int code =
        g->heads ? rf_successors_new(&g->successors, capacity, allocator, error) : RF_ERR_MEMORY;
    if (code)
        rf_ngram_free(g);
    else
        *out = g;
    return code;
}

void rf_ngram_free(struct rf_ngram *g)
{
    if (!g) return;
    rf_successors_free(g->successors);
    rf_free(g->allocator, g->prev);
    rf_free(g->allocator, g->heads);
    rf_free(g->allocator, g);
}

/* Finds the heads of the lists for the endings of the n tokens before `end`. Returns how many
 * orders the text is long enough for. */
static int find_lists(const struct rf_ngram *g, const int32_t *end, int32_t n, int32_t **lists)
{
    uint64_t hash = 0;
    int found = 0;
    for (int32_t i = 1; i <= n && found < N_ORDERS; i++) {
        hash = (hash ^ (uint32_t)end[-i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
        if (i < orders[found]) continue;
        lists[found] = &g->heads[(size_t)found * ((size_t)g->mask + 1) + ((hash >> 16) & g->mask)];
        found++;
    }
    return found;
}

static void add_place(struct rf_ngram *g, int32_t place)
{
    int32_t *lists[N_ORDERS];
    int n = find_lists(g, g->text + place, place, lists);
    for (int i = 0; i < n; i++) {
        g->prev[place][i] = *lists[i];
        *lists[i] = place;
    }
}

static void remove_place(struct rf_ngram *g, int32_t place)
{
    int32_t *lists[N_ORDERS];
    int n = find_lists(g, g->text + place, place, lists);
    for (int i = 0; i < n; i++) {
        assert(*lists[i] == place); /* places are removed in the reverse order of adding */
        *lists[i] = g->prev[place][i];
    }
}

void rf_ngram_rewind(struct rf_ngram *g, int32_t n)
{
    assert(n >= 0);
    if (n == 0) rf_successors_clear(g->successors); /* another text begins */
    while (g->n > n) {
        g->n--;
        if (g->n > 0) remove_place(g, g->n);
    }
}

void rf_ngram_follow(struct rf_ngram *g, const int32_t *text, int32_t n)
{
    g->text = text;
    if (n > g->capacity) n = g->capacity;
    for (; g->n < n; g->n++)
        if (g->n > 0) add_place(g, g->n);
}

static int32_t match_length(const struct rf_ngram *g, int32_t place, const struct window *w)
{
    int32_t most = place < w->n ? place : w->n, length = 0;
    if (most > LONGEST) most = LONGEST;
    while (length < most && g->text[place - 1 - length] == w->tokens[w->n - 1 - length]) length++;
    return length;
}

/* Adds the places of one order's list; only those before `limit` count. */
static void collect_places(const struct rf_ngram *g, const struct window *w, int order,
                           int32_t place, int32_t limit, struct places *places)
{
    places->n = 0;
    for (int probe = 0; place && probe < MAX_PROBES && places->n < MAX_PLACES;
         probe++, place = g->prev[place][order]) {
        if (place >= limit) continue;
        int32_t length = match_length(g, place, w);
        if (length < orders[order]) continue; /* another ending with the same hash */
        places->at[places->n] = place;
        places->length[places->n++] = length;
    }
}

/* A token that may follow, and what speaks for it. */
struct candidate {
    int32_t token;
    int32_t length;       /* longest match of the places with this token; 0: no place has it */
    int32_t count;        /* places with this token */
    float share;          /* share in the weight of all places */
    float last_share;     /* share in what followed the text's last token before */
    float p[RF_CONTEXTS]; /* probability that the target gave it after such a context */
    float confidence;
};

struct candidates {
    struct candidate items[MAX_CANDIDATES];
    int32_t n;
    int32_t longest;           /* match of any place, 0: there are no places */
    int is_known[RF_CONTEXTS]; /* the target has seen this context */
};

static struct candidate *candidate_for(struct candidates *all, int32_t token)
{
    for (int32_t i = 0; i < all->n; i++)
        if (all->items[i].token == token) return &all->items[i];
    assert(all->n < MAX_CANDIDATES);
    all->items[all->n] = (struct candidate){.token = token};
    return &all->items[all->n++];
}

/* Longer and later matches weigh more: models tend to repeat their latest continuation. */
static void add_places(const struct rf_ngram *g, const struct places *places,
                       struct candidates *all)
{
    float weights[MAX_PLACES], total = 0, decay = 1;
    for (int32_t i = 0; i < places->n; i++, decay *= rf_tuning.ngram.decay) {
        int32_t length = places->length[i] < 16 ? places->length[i] : 16;
        weights[i] = (float)(length * length) * decay;
        total += weights[i];
    }
    for (int32_t i = 0; i < places->n; i++) {
        struct candidate *one = candidate_for(all, g->text[places->at[i]]);
        one->share += weights[i] / total;
        one->count++;
        if (places->length[i] > one->length) one->length = places->length[i];
        if (places->length[i] > all->longest) all->longest = places->length[i];
    }
}

static void add_last(const struct rf_ngram *g, const struct places *last, struct candidates *all)
{
    for (int32_t i = 0; i < last->n; i++) {
        struct candidate *one = candidate_for(all, g->text[last->at[i]]);
        one->last_share += 1.0f / (float)last->n;
    }
}

static void add_successors(const struct rf_followers *found, int context, struct candidates *all)
{
    all->is_known[context] = found->n > 0;
    for (int32_t i = 0; i < found->n; i++) {
        struct candidate *one = candidate_for(all, found->tokens[i]);
        one->p[context] = found->p[i];
    }
}

/* A probability on a scale from 0 to 8: each step doubles it. */
static float log_scaled(float p)
{
    return log2f(p + 1.0f / 256) + 8.0f;
}

static void features_of(const struct candidates *all, const struct candidate *c,
                        float f[RF_NGRAM_FEATURES])
{
    int32_t length = c->count ? c->length : all->longest;
    f[0] = 1.0f;
    f[1] = length ? log2f((float)length) : 0.0f;
    f[2] = c->count ? log2f((float)c->count) : 0.0f;
    f[3] = c->share;
    f[4] = c->last_share;
    for (int k = 0; k < RF_CONTEXTS; k++) {
        f[5 + 2 * k] = all->is_known[k] ? 1.0f : 0.0f;
        f[6 + 2 * k] = all->is_known[k] ? log_scaled(c->p[k]) : 0.0f;
    }
}

/* Sets the confidences by logistic regression (tuning.h), greatest first. */
static void rate_candidates(struct candidates *all)
{
    float sum = 0;
    for (int32_t i = 0; i < all->n; i++) {
        struct candidate one = all->items[i];
        float f[RF_NGRAM_FEATURES], logit = 0;
        features_of(all, &one, f);
        for (int k = 0; k < RF_NGRAM_FEATURES; k++)
            logit += rf_tuning.ngram.weights[one.count > 0][k] * f[k];
        one.confidence = 1.0f / (1.0f + expf(-logit));
        sum += one.confidence;
        int32_t at = i;
        for (; at > 0 && one.confidence > all->items[at - 1].confidence; at--)
            all->items[at] = all->items[at - 1];
        all->items[at] = one;
    }
    for (int32_t i = 0; i < all->n && sum > 1.0f; i++) all->items[i].confidence /= sum;
}

static void ngram_candidates(const struct rf_ngram *g, const struct window *w, int32_t limit,
                             struct candidates *all)
{
    int32_t *lists[N_ORDERS];
    struct places places = {.n = 0}, last;
    struct rf_followers found[RF_CONTEXTS];
    int n_orders = find_lists(g, w->tokens + w->n, w->n, lists), order = n_orders;
    all->n = all->longest = 0;
    while (order > 0 && places.n == 0) {
        order--;
        collect_places(g, w, order, *lists[order], limit, &places);
    }
    add_places(g, &places, all);
    if (order > 0) collect_places(g, w, 0, *lists[0], limit, &last);
    add_last(g, order > 0 ? &last : &places, all);
    rf_successors_find(g->successors, w->tokens + w->n, w->n, found);
    for (int k = 0; k < RF_CONTEXTS; k++) add_successors(&found[k], k, all);
    rate_candidates(all);
}

/* ---- trees ---- */

/* A token that may become a row of the draft. p: it and all that it follows are right. */
struct open_row {
    int32_t token, parent;
    float confidence, p;
};

struct open_rows {
    struct open_row items[MAX_OPEN];
    int32_t n;
};

/* Adds an open row. If there is no space, the least likely one is given up. */
static void add_open(struct open_rows *rows, const struct open_row *row)
{
    int32_t at = rows->n;
    if (row->p < rf_tuning.ngram.least_p) return;
    if (rows->n < MAX_OPEN) {
        rows->n++;
    } else {
        at = 0;
        for (int32_t i = 1; i < rows->n; i++)
            if (rows->items[i].p < rows->items[at].p) at = i;
        if (row->p <= rows->items[at].p) return;
    }
    rows->items[at] = *row;
}

static int take_likeliest(struct open_rows *rows, struct open_row *row)
{
    int32_t best = 0;
    if (rows->n == 0) return 0;
    for (int32_t i = 1; i < rows->n; i++)
        if (rows->items[i].p > rows->items[best].p) best = i;
    *row = rows->items[best];
    rows->items[best] = rows->items[--rows->n];
    return 1;
}

/* Opens what may follow row `parent` of the draft. */
static void ngram_open_after(const struct rf_ngram *g, const struct window *text, int32_t limit,
                             const struct rf_draft *draft, int32_t parent, float p,
                             struct open_rows *open)
{
    struct window w = *text;
    struct candidates all;
    int32_t path[RF_MAX_DRAFT], depth = rf_draft_path(draft, parent, path);
    for (int32_t i = 0; i < depth; i++) w.tokens[w.n++] = draft->tokens[path[i]];
    ngram_candidates(g, &w, limit, &all);
    for (int32_t i = 0; i < all.n; i++) {
        float confidence = all.items[i].confidence;
        add_open(open, &(struct open_row){all.items[i].token, parent, confidence, p * confidence});
    }
}

void rf_ngram_draft_behind(const struct rf_ngram *g, const int32_t *tokens, int32_t n,
                           const int32_t *ahead, int32_t k, int32_t max, struct rf_draft *draft)
{
    struct window w = {.n = n < LONGEST ? n : LONGEST};
    struct open_rows open = {.n = 0};
    struct open_row row;
    int32_t depth[MAX_ROWS], limit = n < g->n ? n : g->n;
    draft->n = 0;
    if (n <= 0 || max <= 0) return;
    memcpy(w.tokens, tokens + n - w.n, (size_t)w.n * sizeof *tokens);
    for (int32_t i = 0; i < k; i++) w.tokens[w.n++] = ahead[i];
    ngram_open_after(g, &w, limit, draft, -1, 1.0f, &open);
    while (draft->n < MAX_ROWS && take_likeliest(&open, &row)) {
        int32_t i = draft->n++;
        depth[i] = row.parent < 0 ? 1 : depth[row.parent] + 1;
        draft->tokens[i] = row.token;
        draft->parents[i] = row.parent;
        draft->confidence[i] = row.confidence;
        if (depth[i] < max) ngram_open_after(g, &w, limit, draft, i, row.p, &open);
    }
}

void rf_ngram_draft(const struct rf_ngram *g, const int32_t *tokens, int32_t n, int32_t max,
                    struct rf_draft *draft)
{
    rf_ngram_draft_behind(g, tokens, n, NULL, 0, max, draft);
}

void rf_ngram_observe(struct rf_ngram *g, const int32_t *text, int32_t n,
                      const struct rf_draft *draft, const struct rf_best *best)
{
    struct window w = {.n = n < RF_CONTEXTS ? n : RF_CONTEXTS};
    memcpy(w.tokens, text + n - w.n, (size_t)w.n * sizeof *text);
    for (int32_t i = -1; i < draft->n; i++) {
        struct window end = w;
        int32_t path[RF_MAX_DRAFT], depth = rf_draft_path(draft, i, path);
        for (int32_t k = 0; k < depth; k++) end.tokens[end.n++] = draft->tokens[path[k]];
        rf_successors_add(g->successors, end.tokens + end.n, end.n, &best[i + 1]);
    }
}

struct rf_successors *rf_ngram_dictionary(struct rf_ngram *g)
{
    return g->successors;
}

/* ---- as a level of the cascade ---- */

static struct rf_successors *ngram_level_dictionary(void *self)
{
    return rf_ngram_dictionary(self);
}

static void ngram_level_rewind(void *self, int32_t n)
{
    rf_ngram_rewind(self, n);
}

static void ngram_level_follow(void *self, const int32_t *text, int32_t n)
{
    rf_ngram_follow(self, text, n);
}

static void ngram_level_observe(void *self, const int32_t *text, int32_t n,
                                const struct rf_draft *draft, const struct rf_best *best)
{
    rf_ngram_observe(self, text, n, draft, best);
}

static int ngram_level_draft(void *self, const int32_t *text, int32_t n, int32_t max,
                             struct rf_draft *out, struct rf_error *error)
{
    (void)error;
    rf_ngram_draft(self, text, n, max, out);
    return 0;
}

static void ngram_level_draft_behind(void *self, const int32_t *text, int32_t n,
                                     const int32_t *ahead, int32_t k, int32_t max,
                                     struct rf_draft *out)
{
    rf_ngram_draft_behind(self, text, n, ahead, k, max, out);
}

static int32_t ngram_level_probe(void *self, int32_t max, int32_t *tokens)
{
    return rf_successors_unknown(rf_ngram_dictionary(self), max, tokens);
}

static int ngram_level_open(void **self, const struct rf_drafter_options *options,
                            const struct rf_allocator *allocator, struct rf_error *error)
{
    struct rf_ngram *ngram;
    int code = rf_ngram_new(&ngram, options->n_ctx, allocator, error);
    *self = ngram;
    return code;
}

static void ngram_level_close(void *self)
{
    rf_ngram_free(self);
}

const struct rf_drafter rf_ngram_drafter = {.name = "ngram",
                                            .acceptance = &rf_tuning.acceptance.ngram,
                                            .ops = {.rewind = ngram_level_rewind,
                                                    .follow = ngram_level_follow,
                                                    .observe = ngram_level_observe,
                                                    .draft = ngram_level_draft,
                                                    .draft_behind = ngram_level_draft_behind,
                                                    .probe = ngram_level_probe},
                                            .dictionary = ngram_level_dictionary,
                                            .open = ngram_level_open,
                                            .close = ngram_level_close};
