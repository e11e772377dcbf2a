/* Generated kernels of 512 bits for weights in panels times rows of 8 bits (linear[] of microkernels/kernels.h, to the same
 * bits). docs/jit.md says how they work and what they gain. */
#ifndef RF_JIT_PANELS_H
#define RF_JIT_PANELS_H

#include <stdalign.h>

#include "base/error.h"
#include "jit/assembler.h"
#include "microkernels/kernels.h"
#include "platform/executable.h"

enum { RF_PANELS_MOST_ROWS = 8, RF_PANELS_MOST = 4 };

/* The one argument of a generated function, which covers n rows and p panels, both its own; the panels lie `part` bytes
 * apart, the rows `row_bytes`. `next_` is where the walk goes on: the function ends with asking for it. */
struct rf_panels_call {
    alignas(64) float sums[16][16];       /* [panel * n + row]: the results */
    uint8_t numbers[RF_PANELS_MOST][256]; /* Q4_K's unpacked scales */
    const uint8_t *codes, *scales;        /* of the first panel */
    const uint8_t *next_codes, *next_scales;
    size_t part;
    const struct rf_a8 *rows;
    size_t row_bytes;
    size_t units; /* of the format, at least 1 */
};

typedef void rf_panels_fn(struct rf_panels_call *call);

struct rf_panels_kernels {
    struct rf_executable code;
    rf_panels_fn
        *fn[RF_FORMAT_COUNT][RF_PANELS_MOST_ROWS][RF_PANELS_MOST]; /* [format][n - 1][p - 1], NULL where none is used */
};

/* 1 if there is a generator for the format. */
int rf_panels_can(enum rf_format format);
/* Emits the function for n rows and p panels. */
void rf_panels_emit(struct rf_assembler *assembler, enum rf_format format, int n, int p);

/* All functions. Fails with RF_ERR_SYSTEM where executable memory is refused. */
int rf_panels_generate(struct rf_panels_kernels *kernels, struct rf_error *error);
void rf_panels_free(struct rf_panels_kernels *kernels);

/* As rf_linear_fn, for any n. */
void rf_panels_linear(const struct rf_panels_kernels *kernels, enum rf_format format,
                      const struct rf_linear_args *args);

#endif
