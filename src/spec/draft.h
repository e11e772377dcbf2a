/* What drafters hand to judges. */
#ifndef RF_SPEC_DRAFT_H
#define RF_SPEC_DRAFT_H

#include <stdint.h>

enum { RF_MAX_DRAFT = 15 }; /* rows of one verification, less the row that is read anyway */

/* A token, and how sure its drafter is of it: an estimate of the probability, in [0, 1]. */
struct rf_choice {
    int32_t token;
    float confidence;
};

#endif
