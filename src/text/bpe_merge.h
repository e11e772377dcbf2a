/* Merges the symbols of one word. */
#ifndef RF_TEXT_BPE_MERGE_H
#define RF_TEXT_BPE_MERGE_H

#include "model/reader.h"
#include "text/strmap.h"

/* (left, right) -> (rank, merged): a hash table with open addressing. */
struct rf_merges {
    struct rf_merge_slot {
        int32_t left, right; /* left -1: free */
        int32_t rank, merged;
    } * slots;
    uint32_t mask;
    uint64_t factors[2]; /* the hash's factors: random, so that no file can foresee collisions */
};

/* Makes room for n_merges, at most INT32_MAX / 4, in the reading's arena. */
void rf_merges_init(struct rf_merges *merges, size_t n_merges, struct rf_reading *reading);
/* If a pair is added again, its last rank counts, as in HF's tokenizers. */
void rf_merges_put(struct rf_merges *merges, int32_t left, int32_t right, int32_t rank,
                   int32_t merged);

/* Makes the table of the vocabulary's merges; `ids` has its tokens by spelling. The reading fails
 * on a merge of or into something that is not there. */
void rf_merges_read(struct rf_merges *merges, const struct rf_strmap *ids,
                    const struct rf_vocab *vocab, struct rf_reading *reading);

/* Merges in place, the pair of lowest rank first and the leftmost of equals, until none is left.
 * Returns the number of symbols that remain, or a negative code. Short words need no allocation;
 * long ones need O(n) memory and O(n log n) time. */
int64_t rf_merge_word(const struct rf_merges *merges, int32_t *symbols, size_t n,
                      const struct rf_allocator *allocator, struct rf_error *error);

#endif
