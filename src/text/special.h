/* Finds the texts of special tokens in a text, as HF's added-token trie does: leftmost first, then
 * longest. */
#ifndef RF_TEXT_SPECIAL_H
#define RF_TEXT_SPECIAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/vocab.h"

/* Longer texts are refused: the time of a search is bounded by this times the text's length. */
enum { RF_SPECIAL_MAX_BYTES = 256 };

struct rf_special_entry {
    struct rf_str text; /* borrowed */
    int32_t id;
    int32_t control; /* 1: only where control tokens may be recognised */
};

struct rf_special {
    struct rf_special_entry *entries; /* sorted by text, no two alike */
    int32_t first[257]; /* entries that begin with byte b: first[b] .. first[b + 1] - 1 */
};

/* Takes over `entries`, a block of the allocator, whatever it returns. Fails on texts that are
 * equal or too long. */
int rf_special_init(struct rf_special *special, struct rf_special_entry *entries, int32_t n_entries,
                    const char *path, const struct rf_allocator *allocator, struct rf_error *error);
void rf_special_free(struct rf_special *special, const struct rf_allocator *allocator);

/* The longest token at the beginning of text, or NULL; control tokens only within its first
 * n_control bytes. */
const struct rf_special_entry *rf_special_match(const struct rf_special *special, const char *text,
                                                size_t n, size_t n_control);

#endif
