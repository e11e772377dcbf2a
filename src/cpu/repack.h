/* Repacks quantised tensors from the order of a model's file into panels (microkernels/panel.h).
 * Values do not change, except that MXFP4's two lowest scales, 2^-127 and 2^-128, become zero. */
#ifndef RF_CPU_REPACK_H
#define RF_CPU_REPACK_H

#include "microkernels/panel.h"
#include "model/dtype.h"

/* The format that holds a type's values; RF_FORMAT_BF16 for the float types. */
enum rf_format rf_cpu_format_of(enum rf_dtype dtype);

/* Writes one panel of rf_panel_bytes(rf_cpu_format_of(dtype), k) bytes. `data`: `rows` (1 .. 16)
 * rows of k values of a quantised type, row_bytes apart and unaligned. k is a multiple of the unit
 * of the format. Missing rows become zero. */
void rf_cpu_repack_panel(enum rf_dtype dtype, const void *data, size_t row_bytes, size_t rows,
                         size_t k, void *panel);

#endif
