/* Checks of single tensors of a sorted source, for the layouts of models and of draft heads. A
 * failure is the reading's. */
#ifndef RF_MODEL_LAYOUT_H
#define RF_MODEL_LAYOUT_H

#include "model/reader.h"
#include "model/tensors.h"

struct rf_layout_shape {
    const char *name; /* GGUF's, of a layer's tensor without "blk.N." */
    enum rf_weight_role role;
    int64_t ne0, ne1;
    int used; /* the file must have it */
};

/* A tensor's name as the file has it. */
struct rf_layout_name {
    char text[256];
};
struct rf_layout_name rf_layout_shown(const struct rf_reading *reading, const char *name);

/* Expects a tensor of that name and shape, and marks it in `expected`, [n_tensors] flags. A vector
 * must be of a float type. */
void rf_layout_expect(struct rf_reading *reading, unsigned char *expected, const char *name,
                      const struct rf_layout_shape *shape);
/* Marks and reads a tensor with divisors of the rotation's frequencies, if there is one: llama3's
 * scaling or longrope in a GGUF file. */
void rf_layout_rope_factors(struct rf_reading *reading, unsigned char *expected, const char *name,
                            const float **to);

#endif
