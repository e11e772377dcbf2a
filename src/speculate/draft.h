/* What drafters hand to judges. */
#ifndef RF_SPECULATE_DRAFT_H
#define RF_SPECULATE_DRAFT_H

#include "infer/sampler.h"

enum {
    RF_MAX_DRAFT = 15, /* rows of one verification, less the row that is read anyway */
    RF_MAX_LEVELS = 8  /* of a chain, the target included */
};

#endif
