/* The tokens that a cascade has placed ahead in its text, with a mark for each, and what a grammar
 * leaves of drafts. For the files of cascade_state.h alone. */
#ifndef RF_SPECULATE_AHEAD_H
#define RF_SPECULATE_AHEAD_H

#include <assert.h>

#include "speculate/cascade_state.h"

/* Length of the text with the tokens that are ahead. */
static inline int32_t rf_ahead_end(const struct rf_cascade *cascade)
{
    return rf_sequence_length(cascade->sequence);
}

/* The mark of text[i]. */
static inline struct mark *rf_ahead_mark(struct rf_cascade *cascade, int32_t i)
{
    assert(i >= cascade->base && i - cascade->base <= RF_MAX_DRAFT);
    return &cascade->marks[i - cascade->base];
}

/* runners_up: [RF_RUNNERS_UP], or NULL. */
void rf_ahead_set_mark(struct mark *mark, float confidence, int32_t origin,
                       const struct rf_choice *runners_up);

/* Places a token ahead. runners_up: [RF_RUNNERS_UP], or NULL. */
int rf_ahead_place(struct rf_cascade *cascade, const struct rf_choice *choice, int32_t origin,
                   const struct rf_choice *runners_up, struct rf_error *error);

/* Places up to `max` tokens that have no alternative. Returns how many, or a code. */
int32_t rf_ahead_place_forced(struct rf_cascade *cascade, int32_t max, struct rf_error *error);

/* The grammar's state after text[0 .. n). Without a grammar it means nothing. */
int32_t rf_ahead_state(struct rf_cascade *cascade, int32_t n);

/* 1 if the grammar's text can go on from that state, with a token of the vocabulary; or a code. */
int rf_ahead_can_go_on(struct rf_cascade *cascade, int32_t state, struct rf_error *error);

/* Takes out of a draft after text[0 .. at) what the grammar rejects, and what follows that. Nor is
 * there anything to verify behind a complete text. */
int rf_ahead_limit(struct rf_cascade *cascade, int32_t at, struct rf_draft *draft,
                   struct rf_error *error);

/* Finds what may follow text[0 .. at) and each token of a draft that rf_ahead_limit has seen. */
int rf_ahead_masks(struct rf_cascade *cascade, int32_t at, const struct rf_draft *draft,
                   const uint64_t **masks, struct rf_error *error);

/* Brings the state to the n committed tokens. */
int rf_ahead_follow(struct rf_cascade *cascade, int32_t n, struct rf_error *error);

#endif
