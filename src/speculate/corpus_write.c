/* Writing a corpus. Places are distributed by their first token, then each token's places are
 * sorted. Texts may repeat each other at any length: comparing ends after RF_CORPUS_DEPTH tokens,
 * and places that are equal so far stay in the order of the texts. */
#include <string.h>

#include "platform/file.h"
#include "speculate/corpus.h"
#include "speculate/corpus_file.h"

struct sorter {
    const uint32_t *tokens;
    size_t n_tokens;
};

static uint32_t token_of_place(const struct sorter *sorter, uint32_t place, int32_t i)
{
    size_t at = (size_t)place + (size_t)i;
    return at < sorter->n_tokens ? sorter->tokens[at] : RF_CORPUS_END;
}

static void swap_places(uint32_t *a, uint32_t *b)
{
    uint32_t kept = *a;
    *a = *b;
    *b = kept;
}

static uint32_t median_token(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

/* Sorts places that have the first `depth` tokens in common (multikey quicksort: Bentley and
 * Sedgewick 1997). The largest part is sorted last, in the loop, so that the stack stays small. */
static void sort_places(const struct sorter *sorter, uint32_t *places, size_t n, int32_t depth)
{
    while (n > 1 && depth < RF_CORPUS_DEPTH) {
        uint32_t pivot = median_token(token_of_place(sorter, places[0], depth),
                                      token_of_place(sorter, places[n / 2], depth),
                                      token_of_place(sorter, places[n - 1], depth));
        size_t less = 0, at = 0, more = n;
        while (at < more) {
            uint32_t token = token_of_place(sorter, places[at], depth);
            if (token < pivot)
                swap_places(&places[less++], &places[at++]);
            else if (token > pivot)
                swap_places(&places[at], &places[--more]);
            else
                at++;
        }
        struct part {
            uint32_t *places;
            size_t n;
            int32_t depth;
        } parts[] = {{places, less, depth},
                     {places + less, more - less,
                      pivot == RF_CORPUS_END ? RF_CORPUS_DEPTH : depth + 1},
                     {places + more, n - more, depth}},
          *largest = &parts[0];
        for (struct part *part = parts; part < parts + 3; part++)
            if (part->n > largest->n) largest = part;
        for (struct part *part = parts; part < parts + 3; part++)
            if (part != largest) sort_places(sorter, part->places, part->n, part->depth);
        places = largest->places;
        n = largest->n;
        depth = largest->depth;
    }
}

/* Fills in starts[n_vocab + 1] and order. Returns the number of places, or a code. */
static int64_t order_places(const struct sorter *sorter, int32_t n_vocab, uint32_t *starts,
                            uint32_t *order, int (*progress)(void *, uint64_t, uint64_t),
                            void *user, struct rf_error *error)
{
    uint32_t before = 0;
    for (size_t i = 0; i < sorter->n_tokens; i++) {
        if (sorter->tokens[i] == RF_CORPUS_END) continue;
        if (sorter->tokens[i] >= (uint32_t)n_vocab)
            return rf_fail(error, RF_ERR_ARGUMENT, "token %u: the vocabulary has %d tokens",
                           (unsigned)sorter->tokens[i], (int)n_vocab);
        starts[sorter->tokens[i]]++;
    }
    for (int32_t t = 0; t <= n_vocab; t++) { /* counts to the ends of the buckets before */
        uint32_t count = starts[t];
        starts[t] = before;
        before += count;
    }
    for (size_t i = 0; i < sorter->n_tokens; i++)
        if (sorter->tokens[i] != RF_CORPUS_END) order[starts[sorter->tokens[i]]++] = (uint32_t)i;
    for (int32_t t = n_vocab; t > 0; t--) starts[t] = starts[t - 1];
    starts[0] = 0;
    for (int32_t t = 0; t < n_vocab; t++) {
        sort_places(sorter, order + starts[t], starts[t + 1] - starts[t], 1);
        if (t % 256 == 0 && progress && progress(user, starts[t], before))
            return rf_fail(error, RF_ERR_CANCELLED, "the corpus was not finished");
    }
    return before;
}

int rf_corpus_write(const char *path, const uint32_t *tokens, size_t n_tokens, int32_t n_vocab,
                    uint64_t vocabulary, int (*progress)(void *user, uint64_t done, uint64_t total),
                    void *user, const struct rf_allocator *allocator, struct rf_error *error)
{
    static const char what[] = "the corpus";
    struct rf_corpus_header header = {.version = RF_CORPUS_VERSION,
                                      .n_vocab = n_vocab,
                                      .vocabulary = vocabulary,
                                      .n_tokens = n_tokens};
    struct sorter sorter = {tokens, n_tokens};
    memcpy(header.magic, rf_corpus_magic, sizeof header.magic);
    if (n_vocab < 1)
        return rf_fail(error, RF_ERR_ARGUMENT, "a vocabulary of %d tokens", (int)n_vocab);
    if (n_tokens == 0 || n_tokens > INT32_MAX)
        return rf_fail(error, RF_ERR_ARGUMENT, "a corpus has 1 to %d tokens, not %zu", INT32_MAX,
                       n_tokens);
    uint32_t *starts = rf_calloc(allocator, (size_t)n_vocab + 1, sizeof *starts, what, error);
    uint32_t *order = starts ? rf_malloc(allocator, n_tokens, sizeof *order, what, error) : NULL;
    int64_t n = order ? order_places(&sorter, n_vocab, starts, order, progress, user, error)
                      : RF_ERR_MEMORY;
    if (n >= 0) {
        header.n_places = (uint64_t)n;
        const struct rf_span spans[] = {{&header, sizeof header},
                                        {starts, ((size_t)n_vocab + 1) * sizeof *starts},
                                        {order, (size_t)n * sizeof *order},
                                        {tokens, n_tokens * sizeof *tokens}};
        n = rf_write_file(path, spans, sizeof spans / sizeof *spans, 0, error);
    }
    rf_free(allocator, order);
    rf_free(allocator, starts);
    return (int)n;
}
