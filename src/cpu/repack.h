/* Quantised tensors, from the order of a model's file into panels (microkernels/panel.h). Every
 * value stays what it is, but for MXFP4's two lowest scales, 2^-127 and 2^-128, which count as
 * zero. */
#ifndef RF_CPU_REPACK_H
#define RF_CPU_REPACK_H

#include "microkernels/panel.h"
#include "model/dtype.h"

/* The format that holds a type's values; RF_FORMAT_BF16 for the float types. */
enum rf_format cpu_format_of(enum rf_dtype dtype);

/* Writes one panel, rf_panel_bytes(cpu_format_of(dtype), k) of them: `rows` (1 .. 16) rows of k
 * values of a quantised type at `data`, row_bytes apart and unaligned. k is a multiple of the
 * type's block. Rows that are missing are zero. */
void cpu_repack_panel(enum rf_dtype dtype, const void *data, size_t row_bytes, size_t rows,
                      size_t k, void *panel);

#endif
