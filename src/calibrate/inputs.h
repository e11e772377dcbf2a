/* The rows of a text that go into some of a layer's matrices: H, the sum of their squares, and what
 * is added to its diagonal (quant/gptq.h). */
#ifndef RF_CALIBRATE_INPUTS_H
#define RF_CALIBRATE_INPUTS_H

#include "base/alloc.h"
#include "base/error.h"
#include "quant/blas.h"

struct inputs {
    size_t k, every; /* one row of every so many is taken */
    float *batch;    /* [rows squared at a time][k] */
    size_t n_batch;
    float *hessian; /* [k + 1][k] */
    /* Rows that are not zeros: their number, and the sums of their squares as if each had
     * the energy 1, [k], and of the energies' logarithms. */
    size_t n_energies;
    double *squares, log_energies;
    float *damping; /* [k] */
};

/* `n_rows`: rows of the text, of which only some are taken if they are wide. rf_inputs_free must
 * follow, even where this fails. */
int rf_inputs_new(struct inputs *inputs, size_t k, size_t n_rows,
                  const struct rf_allocator *allocator, struct rf_error *error);
void rf_inputs_free(struct inputs *inputs, const struct rf_allocator *allocator);
/* No row is counted. */
void rf_inputs_clear(struct inputs *inputs);
/* Counts a row, [k], multiplied by `factors`, [k], if these are not NULL. */
void rf_inputs_add(struct inputs *inputs, const struct rf_blas *blas, const float *row,
                   const float *factors);
/* Completes `hessian` and `damping` with the rows so far. */
void rf_inputs_finish(struct inputs *inputs, const struct rf_blas *blas);

#endif
