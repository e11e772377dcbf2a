/* The known model that suits this machine. `riffle pull` without a name proposes it. */
#ifndef MODELS_PROPOSE_H
#define MODELS_PROPOSE_H

#include "models/known_models.h"

struct proposal {
    const struct known_model *model;
    char sentence[200]; /* without a full stop: "For 16.0 GB of memory and 8 cores, ..." */
};

/* Finds the largest known model for chats that fits the memory and answers at reading speed, by a
 * guess from the number of cores. The smallest one where none does. CLI_OK, or an exit status with
 * a sentence. */
int propose_model(struct proposal *proposal);
/* The same for a given machine. */
const struct known_model *propose_for(uint64_t memory_bytes, int cores);

#endif
