/* What a judge is offered to verify: the drafts of the levels below it, merged to one tree. */
#ifndef RF_SPECULATE_OFFER_H
#define RF_SPECULATE_OFFER_H

#include "speculate/cascade.h"

/* Makes a draft for `judge` by the drafter that is worth most now, with branches of up to `max`
 * tokens. Tokens of a drafter with passes stay ahead in the text. */
int rf_offer_make(struct rf_cascade *cascade, int32_t judge, int32_t max, struct rf_offer *offer,
                  struct rf_error *error);

/* Places up to `want` tokens ahead, which `level` drafts for `judge`, by rounds of its own where it
 * judges. Returns how many stay. *made: with those that were not worth it. */
int32_t rf_cascade_draft(struct rf_cascade *cascade, int32_t level, int32_t judge, int32_t want,
                         int32_t *made, struct rf_error *error);

#endif
