/* riffle_quantize: resolves the names of its options, then casts, rotates and calibrates. */
#ifndef RF_ENGINE_QUANTIZE_H
#define RF_ENGINE_QUANTIZE_H

#include <riffle.h>

#include "base/alloc.h"
#include "base/error.h"

/* Writes the model at `in` with weights of `type` to `out`, which is only replaced by a complete
 * file. options->allocator is not looked at. */
int rf_quantize_file(const char *in, const char *out, const char *type,
                     const riffle_quantize_options *options, const struct rf_allocator *allocator,
                     struct rf_error *error);

#endif
