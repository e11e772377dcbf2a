/* Builds the trie of a vocabulary's texts, sorted, so that a node's subtree and its tokens are
 * ranges. rf_grammar_new calls it once; matcher.c walks it. */
#include "grammar/trie.h"

#include <stdlib.h>
#include <string.h>

static const char what[] = "the vocabulary's trie";

struct entry {
    uint64_t beginning; /* the text's first bytes as a number, then zeros */
    struct rf_str text;
    int32_t token;
};

static struct entry entry_of(struct rf_str text, int32_t token)
{
    struct entry entry = {0, text, token};
    for (size_t i = 0; i < sizeof entry.beginning; i++)
        entry.beginning =
            entry.beginning << 8 | (i < text.bytes ? (unsigned char)text.data[i] : 0u);
    return entry;
}

static int entry_order(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->beginning != y->beginning) return x->beginning > y->beginning ? 1 : -1;
    int order = rf_str_order(x->text, y->text);
    return order ? order : (x->token > y->token) - (x->token < y->token);
}

/* Bytes that two texts begin with alike. */
static size_t shared_prefix(struct rf_str a, struct rf_str b)
{
    size_t n = 0;
    while (n < a.bytes && n < b.bytes && a.data[n] == b.data[n]) n++;
    return n;
}

static size_t count_nodes(const struct entry *entries, int32_t n)
{
    size_t nodes = 0;
    for (int32_t i = 0; i < n; i++)
        nodes +=
            entries[i].text.bytes - (i ? shared_prefix(entries[i - 1].text, entries[i].text) : 0);
    return nodes;
}

/* The subtree of the open node of that depth ends before node n. */
static void close_node(struct rf_trie *trie, const int32_t *open, size_t depth, int32_t n)
{
    struct rf_trie_node *node = &trie->nodes[open[depth]];
    node->after = n;
    if (depth == 1) return;
    struct rf_trie_node *above = &trie->nodes[open[depth - 1]];
    if (above->deepest < node->deepest) above->deepest = node->deepest;
}

/* `open`: [longest + 1], the node of each depth on the way to the current text. */
static void trie_fill(struct rf_trie *trie, const struct entry *entries, int32_t *open)
{
    size_t depth = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < trie->n_tokens; i++) {
        struct rf_str text = entries[i].text;
        size_t same = i ? shared_prefix(entries[i - 1].text, text) : 0;
        for (; depth > same; depth--) close_node(trie, open, depth, n);
        for (; depth < text.bytes; n++) {
            uint8_t byte = (uint8_t)text.data[depth];
            open[++depth] = n;
            trie->nodes[n] = (struct rf_trie_node){.first_token = i,
                                                   .depth = (uint16_t)depth,
                                                   .deepest = (uint16_t)depth,
                                                   .byte = byte};
        }
        trie->tokens[i] = entries[i].token;
    }
    for (; depth > 0; depth--) close_node(trie, open, depth, n);
    trie->nodes[n] = (struct rf_trie_node){.after = n, .first_token = trie->n_tokens};
}

static void sort_by_length(struct rf_trie *trie, const struct rf_grammar_vocab *vocab)
{
    /* The number of longer texts is the place where texts of a length begin; afterwards, where they
     * end. */
    memset(trie->n_longer, 0, (trie->longest + 1) * sizeof *trie->n_longer);
    for (int32_t i = 0; i < trie->n_tokens; i++)
        trie->n_longer[vocab->texts[trie->tokens[i]].bytes - 1]++;
    for (size_t n = trie->longest; n-- > 0;) trie->n_longer[n] += trie->n_longer[n + 1];
    for (int32_t i = 0; i < trie->n_tokens; i++) {
        int32_t token = trie->tokens[i];
        trie->by_length[trie->n_longer[vocab->texts[token].bytes]++] = token;
    }
    for (size_t n = 0; n < trie->longest; n++) trie->n_longer[n] = trie->n_longer[n + 1];
    trie->n_longer[trie->longest] = 0;
}

int rf_trie_build(struct rf_trie *trie, const struct rf_grammar_vocab *vocab,
                  const struct rf_allocator *allocator, struct rf_error *error)
{
    *trie = (struct rf_trie){.allocator = allocator};
    for (int32_t t = 0; t < vocab->n_texts; t++) {
        trie->n_tokens += vocab->texts[t].bytes > 0;
        if (vocab->texts[t].bytes > trie->longest) trie->longest = vocab->texts[t].bytes;
    }
    if (trie->longest > UINT16_MAX)
        return rf_fail(error, RF_ERR_UNSUPPORTED, "a token of %zu bytes is too long for grammars",
                       trie->longest);
    struct entry *entries =
        rf_malloc(allocator, (size_t)trie->n_tokens, sizeof *entries, what, error);
    int32_t *open = rf_malloc(allocator, trie->longest + 1, sizeof *open, what, error);
    trie->tokens = rf_malloc(allocator, (size_t)trie->n_tokens, sizeof *trie->tokens, what, error);
    trie->by_length =
        rf_malloc(allocator, (size_t)trie->n_tokens, sizeof *trie->by_length, what, error);
    trie->n_longer = rf_malloc(allocator, trie->longest + 1, sizeof *trie->n_longer, what, error);
    if (entries && open && trie->tokens && trie->by_length && trie->n_longer) {
        int32_t n = 0;
        for (int32_t t = 0; t < vocab->n_texts; t++)
            if (vocab->texts[t].bytes) entries[n++] = entry_of(vocab->texts[t], t);
        qsort(entries, (size_t)n, sizeof *entries, entry_order);
        trie->n_nodes = (int32_t)count_nodes(entries, n);
        trie->nodes =
            rf_malloc(allocator, (size_t)trie->n_nodes + 1, sizeof *trie->nodes, what, error);
        if (trie->nodes) {
            trie_fill(trie, entries, open);
            sort_by_length(trie, vocab);
        }
    }
    rf_free(allocator, entries);
    rf_free(allocator, open);
    return trie->nodes ? 0 : RF_ERR_MEMORY;
}

void rf_trie_free(struct rf_trie *trie)
{
    rf_free(trie->allocator, trie->nodes);
    rf_free(trie->allocator, trie->tokens);
    rf_free(trie->allocator, trie->by_length);
    rf_free(trie->allocator, trie->n_longer);
    *trie = (struct rf_trie){0};
}
