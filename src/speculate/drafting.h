/* The draft that a level with passes writes for a judge: whether it goes on, the questions to a
 * level that drafts token by token, and what its passes cost. cascade.c has a draft written at
 * once, joint.c those of several texts together, a token of each in one pass. */
#ifndef RF_SPECULATE_DRAFTING_H
#define RF_SPECULATE_DRAFTING_H

#include "speculate/cascade.h"

/* Begins a draft of at most `want` tokens behind those that are ahead. */
void rf_drafting_begin(const struct rf_cascade *cascade, int32_t level, int32_t judge, int32_t want,
                       struct rf_drafting *drafting);
/* 1 if another token is wanted: always a first one, where the grammar has one; 0: none; or a code.
 * With a fixed gamma, tokens at the end that are not sure enough are taken back. */
int rf_drafting_goes_on(struct rf_cascade *cascade, struct rf_drafting *drafting,
                        struct rf_error *error);
/* How many tokens may still be drafted. */
int32_t rf_drafting_left(const struct rf_cascade *cascade, const struct rf_drafting *drafting);
/* To be called when no further token is wanted, or comes. */
void rf_drafting_end(struct rf_cascade *cascade, struct rf_drafting *drafting);

/* Makes the question for the next token of a level that drafts token by token. */
int rf_drafting_ask(struct rf_cascade *cascade, struct rf_drafting *drafting, struct rf_next *next,
                    struct rf_error *error);
/* Places the answer ahead. Returns how many tokens that are, or a code. */
int32_t rf_drafting_take(struct rf_cascade *cascade, struct rf_drafting *drafting,
                         const struct rf_next *next, const struct rf_next_cost *cost,
                         struct rf_error *error);
/* Both, with the level's answer for this text alone. */
int32_t rf_drafting_next(struct rf_cascade *cascade, struct rf_drafting *drafting,
                         struct rf_error *error);
/* Places a few tokens ahead, at most `max`, from another level that judges nothing. */
int32_t rf_drafting_some(struct rf_cascade *cascade, struct rf_drafting *drafting, int32_t max,
                         struct rf_error *error);
/* Drafting for a round has failed with this code, or not (0). RF_ERR_FORMAT: the drafter's logits
 * were not numbers, which is nothing that the answer depends on, so the round has no draft, and the
 * drafter is not asked again. Other codes stay. */
int rf_drafting_drop_damaged(struct rf_cascade *cascade, struct rf_round *round, int code);

#endif
