/* Finds special tokens in a text, as HF's added-token trie does: leftmost first, then longest. */
#ifndef RF_TEXT_SPECIAL_H
#define RF_TEXT_SPECIAL_H

#include "model/reader.h"

/* Longer special tokens are refused: a search takes time up to this bound times the text's
 * length. */
enum { RF_SPECIAL_MAX_BYTES = 256 };

struct rf_special_entry {
    struct rf_str text; /* borrowed */
    int32_t id;
    int32_t control; /* 1: only where control tokens may be recognised */
};

struct rf_special {
    struct rf_special_entry *entries; /* sorted by text, without duplicates */
    int32_t first[257];               /* entries first[b] .. first[b + 1] - 1 begin with byte b */
};

/* Sorts the entries, which must live as long. The reading fails on texts that are equal or too
 * long. */
void rf_special_init(struct rf_special *special, struct rf_special_entry *entries,
                     int32_t n_entries, struct rf_reading *reading);

/* The longest token at the beginning of the text, or NULL. Control tokens must lie within the first
 * n_control bytes. */
const struct rf_special_entry *rf_special_match(const struct rf_special *special, const char *text,
                                                size_t n, size_t n_control);

#endif
