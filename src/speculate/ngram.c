#include "speculate/ngram.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "speculate/drafters.h"

/* Texts are indexed by their endings of these lengths. Indexing only finds candidate places. Each
 * is then compared with the text token by token, up to LONGEST, and the true length of the match
 * counts. */
enum { N_ORDERS = 4, LONGEST = 32, MAX_PLACES = 16, MAX_PROBES = 24 };
static const int32_t orders[] = {1, 2, 4, 8};
_Static_assert(sizeof orders / sizeof *orders == N_ORDERS, "a length for each order");

/* Place p stands for "after text[0 .. p) came text[p]". Places with the same hash form a list from
 * the latest to the first, so that removing a place from the head of a list undoes adding it. */
struct rf_ngram {
    const struct rf_allocator *allocator;
    int32_t capacity, n;
    uint32_t mask;
    const int32_t *text;       /* the follower's, of the last rf_ngram_follow */
    int32_t *heads;            /* [N_ORDERS][mask + 1]: latest place, or 0 */
    int32_t (*prev)[N_ORDERS]; /* [capacity]: the previous place with that hash, or 0 */
};

/* A text's last tokens, to which a draft is being added. */
struct window {
    int32_t tokens[2 * LONGEST];
    int32_t n;
};

/* Earlier places of the text's ending, the latest first. */
struct places {
    int32_t at[MAX_PLACES];
    int32_t length[MAX_PLACES]; /* of each match, 1 .. LONGEST */
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
    if (!g->heads) {
        rf_ngram_free(g);
        return RF_ERR_MEMORY;
    }
    *out = g;
    return 0;
}

void rf_ngram_free(struct rf_ngram *g)
{
    if (!g) return;
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
static void collect(const struct rf_ngram *g, const struct window *w, int order, int32_t place,
                    int32_t limit, struct places *places)
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

/* What the confidence in the chosen continuation is computed from. */
struct evidence {
    int32_t token;
    int32_t length; /* of its longest match */
    int32_t count;  /* its places among the latest MAX_PLACES */
    float share;    /* of the weight of all places */
};

/* Longer and later matches weigh more: models tend to repeat their latest continuation. */
static struct evidence choose(const struct rf_ngram *g, const struct places *places)
{
    struct evidence best = {0};
    float weights[MAX_PLACES], total = 0, decay = 1, best_weight = 0;
    for (int32_t i = 0; i < places->n; i++, decay *= 0.8f) {
        int32_t length = places->length[i] < 16 ? places->length[i] : 16;
        weights[i] = (float)(length * length) * decay;
        total += weights[i];
    }
    for (int32_t i = 0; i < places->n; i++) {
        struct evidence one = {.token = g->text[places->at[i]]};
        float weight = 0;
        for (int32_t k = 0; k < places->n; k++) {
            if (g->text[places->at[k]] != one.token) continue;
            weight += weights[k];
            one.count++;
            if (places->length[k] > one.length) one.length = places->length[k];
        }
        if (weight <= best_weight) continue;
        best_weight = weight;
        best = one;
    }
    best.share = best_weight / total;
    return best;
}

static float share_of(const struct rf_ngram *g, const struct places *places, int32_t token)
{
    int32_t count = 0;
    for (int32_t i = 0; i < places->n; i++) count += g->text[places->at[i]] == token;
    return places->n ? (float)count / (float)places->n : 0;
}

/* Confidence by logistic regression (scripts/fit_ngram.py), fitted to 48 thousand tokens of
 * Qwen2.5's vocabulary: greedy answers of Qwen2.5-Coder-1.5B to HumanEval's and MT-bench's prompts,
 * HumanEval's solutions, and, with a small weight, WikiText-2. On each of them the share of right
 * tokens at a given confidence is within a few per cent of that confidence; in WikiText-2 it is up
 * to ten per cent lower. `last_share`: the token's share of what followed the text's last token
 * before. */
static float confidence(const struct evidence *e, float last_share)
{
    float logit = -4.02f + 0.72f * log2f((float)e->length) + 0.54f * log2f((float)e->count) +
                  2.51f * e->share + 1.01f * last_share;
    return 1.0f / (1.0f + expf(-logit));
}

static int next(const struct rf_ngram *g, const struct window *w, int32_t limit,
                struct rf_choice *choice)
{
    int32_t *lists[N_ORDERS];
    struct places places = {.n = 0}, last;
    int order = find_lists(g, w->tokens + w->n, w->n, lists);
    while (order > 0 && places.n == 0) {
        order--;
        collect(g, w, order, *lists[order], limit, &places);
    }
    if (places.n == 0) return 0;
    struct evidence evidence = choose(g, &places);
    if (order > 0) collect(g, w, 0, *lists[0], limit, &last);
    float last_share = share_of(g, order > 0 ? &last : &places, evidence.token);
    *choice = (struct rf_choice){evidence.token, confidence(&evidence, last_share)};
    return 1;
}

int32_t rf_ngram_draft(const struct rf_ngram *g, const int32_t *tokens, int32_t n, int32_t max,
                       struct rf_choice *draft)
{
    struct window w = {.n = n < LONGEST ? n : LONGEST};
    int32_t made = 0, limit = n < g->n ? n : g->n;
    if (n <= 0) return 0;
    memcpy(w.tokens, tokens + n - w.n, (size_t)w.n * sizeof *tokens);
    while (made < max && next(g, &w, limit, &draft[made])) {
        if (w.n == 2 * LONGEST) {
            memmove(w.tokens, w.tokens + LONGEST, LONGEST * sizeof *w.tokens);
            w.n = LONGEST;
        }
        w.tokens[w.n++] = draft[made++].token;
    }
    return made;
}

/* ---- as a level of the cascade ---- */

static void rewind_level(void *self, int32_t n)
{
    rf_ngram_rewind(self, n);
}

static void follow(void *self, const int32_t *text, int32_t n)
{
    rf_ngram_follow(self, text, n);
}

static int draft(void *self, const int32_t *text, int32_t n, int32_t max, struct rf_draft *out,
                 struct rf_error *error)
{
    struct rf_choice choices[RF_MAX_DRAFT];
    (void)error;
    rf_draft_line(out, choices, rf_ngram_draft(self, text, n, max, choices));
    return 0;
}

static int open_level(void **self, int32_t n_ctx, const struct rf_allocator *allocator,
                      struct rf_error *error)
{
    struct rf_ngram *ngram;
    int code = rf_ngram_new(&ngram, n_ctx, allocator, error);
    *self = ngram;
    return code;
}

static void close_level(void *self)
{
    rf_ngram_free(self);
}

const struct rf_drafter rf_ngram_drafter = {
    .name = "ngram",
    .acceptance = 0.5,
    .ops = {.rewind = rewind_level, .follow = follow, .draft = draft},
    .open = open_level,
    .close = close_level};
