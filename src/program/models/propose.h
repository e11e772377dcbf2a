/* The known model that suits this machine. `riffle pull` without a name proposes it. */
#ifndef MODELS_PROPOSE_H
#define MODELS_PROPOSE_H

#include "models/model_list.h"

struct proposal {
    const struct known_model *model;
    char sentence[200]; /* without a full stop: "For 16.0 GB of memory, read at 20 GB/s, ..." */
};

/* Finds the largest known model for chats that fits the memory and answers at reading speed, as far
 * as half a second of measuring the memory shows; the smallest one where none does. CLI_OK, or an
 * exit status with a sentence. */
int propose_model(struct proposal *proposal);
/* The same for a given machine. */
const struct known_model *propose_for(uint64_t memory_bytes, double bytes_per_second);
/* The same among the complete models of a list, whatever they are for but embeddings; NULL: there
 * is none. */
const struct model_entry *propose_entry(const struct model_list *list, uint64_t memory_bytes,
                                        double bytes_per_second);

#endif
