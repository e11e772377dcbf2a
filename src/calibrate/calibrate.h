/* Rounds the matrices of a model to 4-bit types so that its layers' outputs on a text change least.
 *
 * Layer by layer: the inputs of its matrices are gathered while the text passes through it, its
 * matrices are rounded (quant/gptq.h), and the text passes through the rounded layer. So each layer
 * makes up for the losses of the layers before. Which matrices get more bits is measured before,
 * on the first windows. In memory are the text's rows between two layers, one layer, and what
 * rounding it takes. */
#ifndef RF_CALIBRATE_CALIBRATE_H
#define RF_CALIBRATE_CALIBRATE_H

#include "infer/backend.h"
#include "quant/quantize.h"

enum { RF_CALIBRATE_WINDOW = 512 /* tokens that follow one another */ };

struct rf_calibrate_options {
    struct rf_quantize_options quantize; /* `done` and `total` of its progress count windows */
    const struct rf_source *source;      /* the source of `in` */
    struct rf_backend *backend;
    const int32_t *tokens; /* [n_windows][RF_CALIBRATE_WINDOW] */
    int32_t n_windows;
    int32_t high_share; /* percent: whole matrices become RF_TARGET_Q6's types, those whose rounding
                           to four bits changes their layers' outputs most; they add at most this
                           share of the bytes that all would add */
};

/* rf_quantize, but with calibrated matrices. Finished layers are kept in "OUT.calibration" until
 * OUT is complete; another call with the same arguments continues with them. RF_ERR_UNSUPPORTED
 * where there is no OpenBLAS, and where no matrix of `in` has more bits than the target. */
int rf_calibrate(const char *in, const char *out, const struct rf_calibrate_options *options,
                 const struct rf_allocator *allocator, struct rf_error *error);

#endif
