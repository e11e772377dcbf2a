/* The offer of a round at a judge: a tree merged from all drafters below it. Drafters without
 * passes are asked first; then at most one level with passes drafts, which cascade.c has done
 * between the two calls, since that level may be a judge with rounds of its own. */
#ifndef RF_SPECULATE_OFFER_H
#define RF_SPECULATE_OFFER_H

#include "speculate/cascade.h"

/* Begins an offer for a judge, with branches of up to `max` tokens. Afterwards offer->drafter is
 * the level with passes that should draft, or -1: the offer is complete. `tables` gets what
 * drafters without passes propose, for the second call. */
int rf_offer_begin(struct rf_cascade *cascade, int32_t judge, int32_t max, struct rf_offer *offer,
                   struct rf_draft *tables, struct rf_error *error);
/* Decides again, in another company, whether that level should draft, before it has. */
int rf_offer_keeps_drafter(struct rf_cascade *cascade, int32_t judge, int32_t max,
                           const struct rf_offer *offer);
/* Completes it with the tokens from offer->at on that the drafter has placed ahead. */
int rf_offer_complete(struct rf_cascade *cascade, int32_t judge, int32_t max,
                      struct rf_offer *offer, const struct rf_draft *tables,
                      struct rf_error *error);

#endif
