/* The corpus drafter: reading the file (corpus.h), looking up the end of a text by binary search,
 * and growing a tree of what follows there. The file is mapped and never trusted: each read is
 * checked where it is made. */
#include "speculate/corpus.h"

#include <math.h>
#include <string.h>

#include "platform/file.h"
#include "speculate/corpus_file.h"
#include "speculate/drafters.h"
#include "speculate/tuning.h"

enum {
    MAX_PLACES = 64, /* places that are looked at: a bit of a mask for each */
    MAX_ROWS = 24    /* rows of a draft */
};

struct rf_corpus {
    const struct rf_allocator *allocator;
    struct rf_mapping file;
    int32_t n_vocab;
    uint32_t n_places, n_tokens;
    const uint32_t *starts, *order, *tokens;
};

/* ---- reading ---- */

static int check_corpus_header(const struct rf_mapping *file, const char *path,
                               struct rf_corpus_header *header, struct rf_error *error)
{
    static const struct rf_corpus_header zeros;
    if (file->bytes < sizeof *header)
        return rf_fail(error, RF_ERR_FORMAT, "%s: %zu bytes are too few for a corpus", path,
                       file->bytes);
    memcpy(header, file->data, sizeof *header);
    if (memcmp(header->magic, rf_corpus_magic, sizeof header->magic) != 0)
        return rf_fail(error, RF_ERR_FORMAT, "%s: this is not a corpus of riffle", path);
    if (header->version != RF_CORPUS_VERSION)
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "%s: a corpus of version %u; this program reads version %d", path,
                       (unsigned)header->version, RF_CORPUS_VERSION);
    if (header->n_vocab < 1 || header->n_tokens > INT32_MAX ||
        header->n_places > header->n_tokens ||
        memcmp(header->reserved, zeros.reserved, sizeof zeros.reserved) != 0)
        return rf_fail(error, RF_ERR_FORMAT, "%s: the header is damaged", path);
    uint64_t words = (uint64_t)header->n_vocab + 1 + header->n_places + header->n_tokens,
             bytes = sizeof *header + words * sizeof(uint32_t);
    return file->bytes == bytes
               ? 0
               : rf_fail(error, RF_ERR_FORMAT, "%s: it has %zu bytes, its header says %llu", path,
                         file->bytes, (unsigned long long)bytes);
}

static int check_starts(const struct rf_corpus *corpus, const char *path, struct rf_error *error)
{
    uint32_t last = 0;
    for (int32_t t = 0; t <= corpus->n_vocab; last = corpus->starts[t++])
        if (corpus->starts[t] < last || corpus->starts[t] > corpus->n_places)
            return rf_fail(error, RF_ERR_FORMAT, "%s: the places of token %d are damaged", path,
                           (int)t);
    return 0;
}

int rf_corpus_open(struct rf_corpus **out, const char *path, int32_t n_vocab, uint64_t vocabulary,
                   unsigned map_flags, const struct rf_allocator *allocator, struct rf_error *error)
{
    struct rf_corpus_header header;
    *out = NULL;
    struct rf_corpus *corpus = rf_calloc(allocator, 1, sizeof *corpus, "the corpus", error);
    if (!corpus) return RF_ERR_MEMORY;
    corpus->allocator = allocator;
    int code = rf_map_file(&corpus->file, path, map_flags, error);
    if (code) {
        rf_free(allocator, corpus);
        return code;
    }
    code = check_corpus_header(&corpus->file, path, &header, error);
    if (!code && (header.n_vocab != n_vocab || header.vocabulary != vocabulary))
        code = rf_fail(error, RF_ERR_ARGUMENT,
                       "%s: the corpus was built for a model with another vocabulary", path);
    if (!code) {
        corpus->n_vocab = n_vocab;
        corpus->n_places = (uint32_t)header.n_places;
        corpus->n_tokens = (uint32_t)header.n_tokens;
        corpus->starts = (const uint32_t *)(const void *)(corpus->file.data + sizeof header);
        corpus->order = corpus->starts + n_vocab + 1;
        corpus->tokens = corpus->order + corpus->n_places;
        code = check_starts(corpus, path, error);
    }
    if (code)
        rf_corpus_close(corpus);
    else
        *out = corpus;
    return code;
}

void rf_corpus_close(struct rf_corpus *corpus)
{
    if (!corpus) return;
    rf_unmap_file(&corpus->file);
    rf_free(corpus->allocator, corpus);
}

/* The token at a place + i; RF_CORPUS_END behind the end. */
static uint32_t corpus_token(const struct rf_corpus *corpus, uint32_t place, int32_t i)
{
    uint64_t at = (uint64_t)place + (uint64_t)i;
    return at < corpus->n_tokens ? corpus->tokens[at] : RF_CORPUS_END;
}

/* ---- looking up ---- */

/* Places in order[low .. high) that begin with the same `length` tokens. */
struct range {
    uint32_t low, high;
    int32_t length;
};

/* The first of order[low .. high) whose tokens are not less than run[0 .. n), or greater than it if
 * `after`. The first token is the same everywhere. */
static uint32_t bound_of_run(const struct rf_corpus *corpus, uint32_t low, uint32_t high,
                             const int32_t *run, int32_t n, int after)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2, place = corpus->order[middle];
        int32_t i = 1;
        while (i < n && corpus_token(corpus, place, i) == (uint32_t)run[i]) i++;
        int is_before = i < n ? corpus_token(corpus, place, i) < (uint32_t)run[i] : after;
        if (is_before)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct range find_run(const struct rf_corpus *corpus, const int32_t *run, int32_t n)
{
    if (run[0] < 0 || run[0] >= corpus->n_vocab) return (struct range){0, 0, n};
    uint32_t low = corpus->starts[run[0]], high = corpus->starts[run[0] + 1];
    low = bound_of_run(corpus, low, high, run, n, 0);
    return (struct range){low, bound_of_run(corpus, low, high, run, n, 1), n};
}

/* The longest run at the end of the tokens that occurs, and the longest that is common. */
static void find_both(const struct rf_corpus *corpus, const int32_t *tokens, int32_t n,
                      struct range *longest, struct range *common)
{
    *longest = *common = (struct range){0};
    for (int32_t length = 1; length <= RF_CORPUS_LONGEST && length <= n; length++) {
        struct range found = find_run(corpus, tokens + n - length, length);
        if (found.low >= found.high) return;
        *longest = found;
        if (found.high - found.low >= (uint32_t)rf_tuning.corpus.common) *common = found;
    }
}

/* ---- trees ---- */

/* A row of the draft, or one that may become one: the places that its tokens follow. */
struct row {
    uint64_t places;
    int32_t parent, depth;
    uint32_t token;
    float confidence, p; /* p: it and all that it follows are right */
};

struct growth {
    const struct rf_corpus *corpus;
    uint32_t at[MAX_PLACES]; /* places behind the run that was looked up */
    int32_t length;          /* length of that run */
    struct row open[2 * MAX_PLACES];
    int32_t n_open;
};

/* The confidence of a token by logistic regression (tuning.h): from the length of the match, how
 * many of the places go on with the token, and which share of them. */
static float rate_match(int32_t length, int32_t count, int32_t all)
{
    const float *w = rf_tuning.corpus.weights;
    float share = (float)count / (float)all;
    float logit = w[0] + w[1] * log2f((float)length) + w[2] * log2f((float)count) + w[3] * share +
                  w[4] * log2f(share);
    return 1.0f / (1.0f + expf(-logit));
}

static void open_row(struct growth *growth, const struct row *row)
{
    if (row->p < rf_tuning.corpus.least_p || growth->n_open == 2 * MAX_PLACES) return;
    growth->open[growth->n_open++] = *row;
}

/* Opens each token that follows some of the places. */
static void corpus_open_after(struct growth *growth, uint64_t places, int32_t parent, int32_t depth,
                              float p)
{
    int32_t all = __builtin_popcountll(places);
    for (uint64_t left = places, same; left; left &= ~same) {
        uint32_t token = corpus_token(growth->corpus, growth->at[__builtin_ctzll(left)], depth);
        same = 0;
        for (uint64_t rest = left; rest; rest &= rest - 1) {
            int i = __builtin_ctzll(rest);
            if (corpus_token(growth->corpus, growth->at[i], depth) == token) same |= 1ull << i;
        }
        if (token >= (uint32_t)growth->corpus->n_vocab) continue;
        int32_t count = __builtin_popcountll(same);
        float is_right = rate_match(growth->length + depth, count, all);
        open_row(growth, &(struct row){same, parent, depth, token, is_right, p * is_right});
    }
}

/* Adds what follows the places of a range to a draft. */
static void draft_range(const struct rf_corpus *corpus, const struct range *range, int32_t max,
                        struct rf_draft *draft)
{
    struct growth growth = {.corpus = corpus, .length = range->length};
    uint32_t n = range->high - range->low, used = n < MAX_PLACES ? n : MAX_PLACES;
    draft->n = 0;
    if (!n) return;
    for (uint32_t i = 0; i < used; i++) {
        uint64_t at = corpus->order[range->low + (uint32_t)((uint64_t)i * n / used)];
        at += (uint64_t)range->length;
        growth.at[i] = at < corpus->n_tokens ? (uint32_t)at : corpus->n_tokens;
    }
    corpus_open_after(&growth, used == 64 ? ~0ull : (1ull << used) - 1, -1, 0, 1.0f);
    while (growth.n_open && draft->n < MAX_ROWS) {
        int32_t best = 0;
        for (int32_t i = 1; i < growth.n_open; i++)
            if (growth.open[i].p > growth.open[best].p) best = i;
        struct row row = growth.open[best];
        growth.open[best] = growth.open[--growth.n_open];
        int32_t i =
            rf_draft_add(draft, row.parent, &(struct rf_choice){(int32_t)row.token, row.confidence},
                         (struct rf_proposal){0});
        if (row.depth + 1 < max) corpus_open_after(&growth, row.places, i, row.depth + 1, row.p);
    }
}

void rf_corpus_draft(const struct rf_corpus *corpus, const int32_t *tokens, int32_t n, int32_t max,
                     struct rf_draft *draft)
{
    struct range longest, common;
    struct rf_draft more;
    draft->n = 0;
    if (max <= 0) return;
    find_both(corpus, tokens, n, &longest, &common);
    draft_range(corpus, &longest, max, draft);
    if (common.length == longest.length) return;
    draft_range(corpus, &common, max, &more);
    rf_draft_merge(draft, -1, &more);
}

/* ---- as a level of the cascade ---- */

/* Sessions share the corpus. */
struct level {
    const struct rf_corpus *corpus;
    const struct rf_allocator *allocator;
};

static int corpus_level_draft(void *self, const int32_t *text, int32_t n, int32_t max,
                              struct rf_draft *out, struct rf_error *error)
{
    const struct level *level = self;
    (void)error;
    rf_corpus_draft(level->corpus, text, n, max, out);
    return 0;
}

static void corpus_level_draft_behind(void *self, const int32_t *text, int32_t n,
                                      const int32_t *ahead, int32_t k, int32_t max,
                                      struct rf_draft *out)
{
    const struct level *level = self;
    int32_t tokens[RF_CORPUS_LONGEST + RF_MAX_DRAFT],
        before = n < RF_CORPUS_LONGEST ? n : RF_CORPUS_LONGEST;
    memcpy(tokens, text + n - before, (size_t)before * sizeof *tokens);
    memcpy(tokens + before, ahead, (size_t)k * sizeof *tokens);
    rf_corpus_draft(level->corpus, tokens, before + k, max, out);
}

static int corpus_level_open(void **self, const struct rf_drafter_options *options,
                             const struct rf_allocator *allocator, struct rf_error *error)
{
    *self = NULL;
    if (!options->corpus)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "chain: the level corpus wants a corpus, and none was given");
    struct level *level = rf_malloc(allocator, 1, sizeof *level, "the corpus", error);
    if (!level) return RF_ERR_MEMORY;
    *level = (struct level){options->corpus, allocator};
    *self = level;
    return 0;
}

static void corpus_level_close(void *self)
{
    struct level *level = self;
    if (level) rf_free(level->allocator, level);
}

const struct rf_drafter rf_corpus_drafter = {
    .name = "corpus",
    .acceptance = &rf_tuning.acceptance.corpus,
    .needs_corpus = 1,
    .ops = {.draft = corpus_level_draft, .draft_behind = corpus_level_draft_behind},
    .open = corpus_level_open,
    .close = corpus_level_close};
