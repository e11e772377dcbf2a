/* Finds special tokens in a text, as HF's added-token trie does: leftmost first, then longest. */
#ifndef RF_TEXT_SPECIAL_H
#define RF_TEXT_SPECIAL_H

#include "model/reader.h"

/* Longer special tokens are refused: the bound of what a search reads twice. */
enum { RF_SPECIAL_MAX_BYTES = 256, RF_SPECIAL_BLOCK = 4096 };

struct rf_special_entry {
    struct rf_str text; /* borrowed; not empty */
    int32_t id;
    int32_t control; /* 1: only where control tokens may be recognised */
};

struct rf_special {
    struct rf_special_entry *entries; /* sorted by their texts read backwards, without duplicates */
    struct rf_special_node *nodes;    /* automaton (special.c); NULL: there are no tokens */
    int32_t n_nodes;
    int32_t from_root[256]; /* the root's child for a byte; 0: none */
    size_t longest;         /* bytes of the longest token */
};

/* Sorts the entries, which must live as long, and builds the automaton in the reading's arena: 24
 * bytes for each byte of a token that no other token shares, as part of an ending. The reading
 * fails on texts that are equal or too long. */
void rf_special_init(struct rf_special *special, struct rf_special_entry *entries,
                     int32_t n_entries, struct rf_reading *reading);

/* A search that goes on through one text. Its time grows with the text's length, whatever the
 * tokens are; it allocates nothing. */
struct rf_special_search {
    const struct rf_special *special;
    const char *text;
    size_t n;
    size_t begin, end; /* the places that `found` is about */
    int32_t found[RF_SPECIAL_BLOCK];
};
void rf_special_begin(struct rf_special_search *search, const struct rf_special *special,
                      const char *text, size_t n);

/* 1 if a token begins at `at` < n, if no place is forbidden. */
int rf_special_begins(struct rf_special_search *search, size_t at);
/* The first place from `at` on where a token begins, if no place is forbidden; n: there is none.
 * `at` may also lie before the last result. */
size_t rf_special_next(struct rf_special_search *search, size_t at);

/* The longest token that begins at the place that was looked at last, or NULL.
 * Control tokens must lie within the n_control bytes that begin there. */
const struct rf_special_entry *rf_special_longest(const struct rf_special_search *search, size_t at,
                                                  size_t n_control);

#endif
