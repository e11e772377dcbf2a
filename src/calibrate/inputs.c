/* Sums up the inputs of a layer's matrices, in batches that BLAS squares at once, and finds the
 * damping of their diagonal. calibrate.c fills one for each input of a layer. */
#include "calibrate/inputs.h"

#include <math.h>
#include <string.h>

enum {
    BATCH = 512,             /* rows that are squared at a time */
    MOST_VALUES = 150000000, /* values of all rows that are taken */
};

int rf_inputs_new(struct inputs *inputs, size_t k, size_t n_rows,
                  const struct rf_allocator *allocator, struct rf_error *error)
{
    static const char what[] = "calibrating";
    *inputs = (struct inputs){
        .k = k,
        .every = n_rows * k / MOST_VALUES + 1,
        .batch = rf_malloc(allocator, BATCH, k * sizeof(float), what, error),
        .hessian = rf_malloc(allocator, k + 1, k * sizeof(float), what, error),
        .squares = rf_malloc(allocator, k, sizeof(double), what, error),
        .damping = rf_malloc(allocator, k, sizeof(float), what, error),
    };
    return inputs->batch && inputs->hessian && inputs->squares && inputs->damping ? 0
                                                                                  : RF_ERR_MEMORY;
}

void rf_inputs_free(struct inputs *inputs, const struct rf_allocator *allocator)
{
    rf_free(allocator, inputs->batch);
    rf_free(allocator, inputs->hessian);
    rf_free(allocator, inputs->squares);
    rf_free(allocator, inputs->damping);
}

void rf_inputs_clear(struct inputs *inputs)
{
    memset(inputs->hessian, 0, inputs->k * inputs->k * sizeof *inputs->hessian);
    memset(inputs->squares, 0, inputs->k * sizeof *inputs->squares);
    inputs->n_batch = 0;
    inputs->n_energies = 0;
    inputs->log_energies = 0;
}

static void square(struct inputs *inputs, const struct rf_blas *blas)
{
    if (inputs->n_batch)
        rf_blas_add_squares(blas, inputs->hessian, inputs->k, inputs->batch, inputs->n_batch);
    inputs->n_batch = 0;
}

static void add_energy(struct inputs *inputs, const float *row)
{
    double energy = 0;
    for (size_t i = 0; i < inputs->k; i++) energy += (double)row[i] * (double)row[i];
    if (!(energy > 0)) return;
    inputs->n_energies++;
    inputs->log_energies += log(energy);
    for (size_t i = 0; i < inputs->k; i++)
        inputs->squares[i] += (double)row[i] * (double)row[i] / energy;
}

void rf_inputs_add(struct inputs *inputs, const struct rf_blas *blas, const float *row,
                   const float *factors)
{
    float *taken = inputs->batch + inputs->n_batch++ * inputs->k;
    memcpy(taken, row, inputs->k * sizeof *row);
    for (size_t i = 0; factors && i < inputs->k; i++) taken[i] *= factors[i];
    add_energy(inputs, taken);
    if (inputs->n_batch == BATCH) square(inputs, blas);
}

/* Few inputs say little about others, so the diagonal of H gets k / n of itself more, and a little
 * of its mean (docs/design/quantization.md). Rows count with their typical energy: in some layers
 * the first token's has a thousand times that, is always the same, and says nothing about others.
 * With an energy of 1 for each row, the mean of the diagonal is n / k. */
static void damp(struct inputs *inputs)
{
    const double least = 0.01;
    double n = (double)inputs->n_energies, k = (double)inputs->k;
    double energy = n > 0 ? exp(inputs->log_energies / n) : 1;
    double share = n > 0 ? k / n : 0, mean = n > 0 ? least * n / k : 1;
    for (size_t i = 0; i < inputs->k; i++)
        inputs->damping[i] = (float)(energy * (share * inputs->squares[i] + mean));
}

void rf_inputs_finish(struct inputs *inputs, const struct rf_blas *blas)
{
    square(inputs, blas);
    damp(inputs);
}
