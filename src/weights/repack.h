/* Repacks quantised tensors from the order of a model's file into panels (microkernels/panel.h):
 * the step of loading that gives weights the layout that kernels read. Values do not change, with
 * one exception: an MXFP4 block whose exponent byte is 0 or 1 becomes zero. Its scale is 2^-127 or
 * 2^-126 (OCP E8M0: 2^(byte - 127)). */
#ifndef RF_WEIGHTS_REPACK_H
#define RF_WEIGHTS_REPACK_H

#include "microkernels/panel.h"
#include "model/source.h"

/* The format that holds a type's values; RF_FORMAT_BF16 for the float types. */
enum rf_format rf_format_of(enum rf_dtype dtype);

/* Writes one panel of rf_panel_bytes(rf_format_of(dtype), k) bytes. `data`: `rows` (1 .. 16) rows
 * of k values of a quantised type, row_bytes apart and unaligned. k is a multiple of the unit of
 * the format. Missing rows become zero. */
void rf_repack_panel(enum rf_dtype dtype, const void *data, size_t row_bytes, size_t rows, size_t k,
                     void *panel);

/* Whether the rows of a tensor of W4A8_G128 or W4A8_ROW have one scale each, and groups the
 * integers that panels can have. Other types pass. It reads the tensor once. */
int rf_check_rows(const struct rf_tensor *tensor, struct rf_error *error);

#endif
