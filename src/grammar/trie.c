#include "grammar/trie.h"

#include <stdlib.h>

static const char what[] = "the vocabulary's trie";

struct entry {
    struct rf_str text;
    int32_t token;
};

static int by_text(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = rf_str_order(x->text, y->text);
    return order ? order : (x->token > y->token) - (x->token < y->token);
}

/* Bytes that two texts begin with alike. */
static size_t shared(struct rf_str a, struct rf_str b)
{
    size_t n = 0;
    while (n < a.bytes && n < b.bytes && a.data[n] == b.data[n]) n++;
    return n;
}

static size_t count_nodes(const struct entry *entries, int32_t n)
{
    size_t nodes = 0;
    for (int32_t i = 0; i < n; i++)
        nodes += entries[i].text.bytes - (i ? shared(entries[i - 1].text, entries[i].text) : 0);
    return nodes;
}

/* `open`: [longest + 1], the node of each depth on the way to the current text. */
static void fill(struct rf_trie *trie, const struct entry *entries, int32_t *open)
{
    size_t depth = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < trie->n_tokens; i++) {
        struct rf_str text = entries[i].text;
        size_t same = i ? shared(entries[i - 1].text, text) : 0;
        for (; depth > same; depth--) trie->nodes[open[depth]].after = n;
        for (; depth < text.bytes; n++) {
            uint8_t byte = (uint8_t)text.data[depth];
            open[++depth] = n;
            trie->nodes[n] =
                (struct rf_trie_node){.first_token = i, .depth = (uint16_t)depth, .byte = byte};
        }
        trie->tokens[i] = entries[i].token;
    }
    for (; depth > 0; depth--) trie->nodes[open[depth]].after = n;
    trie->nodes[n] = (struct rf_trie_node){.after = n, .first_token = trie->n_tokens};
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
    if (entries && open && trie->tokens) {
        int32_t n = 0;
        for (int32_t t = 0; t < vocab->n_texts; t++)
            if (vocab->texts[t].bytes) entries[n++] = (struct entry){vocab->texts[t], t};
        qsort(entries, (size_t)n, sizeof *entries, by_text);
        trie->n_nodes = (int32_t)count_nodes(entries, n);
        trie->nodes =
            rf_malloc(allocator, (size_t)trie->n_nodes + 1, sizeof *trie->nodes, what, error);
        if (trie->nodes) fill(trie, entries, open);
    }
    rf_free(allocator, entries);
    rf_free(allocator, open);
    return trie->nodes ? 0 : RF_ERR_MEMORY;
}

void rf_trie_free(struct rf_trie *trie)
{
    rf_free(trie->allocator, trie->nodes);
    rf_free(trie->allocator, trie->tokens);
    *trie = (struct rf_trie){0};
}
