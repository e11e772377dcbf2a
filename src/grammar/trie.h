/* The texts of a vocabulary as a trie, so that beginnings which many tokens share are looked at
 * once. */
#ifndef RF_GRAMMAR_TRIE_H
#define RF_GRAMMAR_TRIE_H

#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/str.h"

/* The tokens that a grammar chooses among. */
struct rf_grammar_vocab {
    int32_t n_vocab; /* logits of the model */
    int32_t n_texts; /* <= n_vocab */
    /* [n_texts]; a token without bytes is never chosen. A control token's name may follow the byte
     * 0xff, which no text has: then only a grammar that names it chooses it. */
    const struct rf_str *texts;
    const int32_t *ends; /* [n_ends] tokens that end a text; theirs has no bytes */
    int32_t n_ends;
};

/* Nodes are in the order of their texts, so that a node's subtree follows it. */
struct rf_trie_node {
    int32_t after; /* the first node behind its subtree */
    int32_t
        first_token;  /* index into `tokens`; tokens of this very text come first in its subtree */
    uint16_t depth;   /* bytes of its text, 1 ... */
    uint16_t deepest; /* greatest depth in its subtree */
    uint8_t byte;     /* the last of them */
};

struct rf_trie {
    const struct rf_allocator *allocator;
    struct rf_trie_node *nodes; /* [n_nodes + 1]: one behind the last, for first_token */
    int32_t *tokens;            /* [n_tokens] with bytes, in the order of their texts */
    int32_t *by_length;         /* [n_tokens] the same, longer ones first */
    int32_t *n_longer;          /* [longest + 1]: tokens of more bytes */
    int32_t n_nodes, n_tokens;
    size_t longest; /* bytes of a text */
};

/* Freed with rf_trie_free in any case. RF_ERR_UNSUPPORTED: a token is too long. */
int rf_trie_build(struct rf_trie *trie, const struct rf_grammar_vocab *vocab,
                  const struct rf_allocator *allocator, struct rf_error *error);
void rf_trie_free(struct rf_trie *trie);

#endif
