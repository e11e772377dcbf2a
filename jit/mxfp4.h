/* Generated kernels for MXFP4 weights in panels times 1 to 16 rows of 8 bits (linear[RF_FORMAT_MXFP4] of
 * microkernels/kernels.h, to the same bits). docs/jit.md says how they work and what they gain. */
#ifndef RF_JIT_MXFP4_H
#define RF_JIT_MXFP4_H

#include "base/error.h"
#include "jit/assembler.h"
#include "microkernels/kernels.h"
#include "platform/executable.h"

/* The instructions that a kernel is made of. */
enum rf_mxfp4_form {
    RF_MXFP4_AVX2,         /* vpmaddubsw, sums in 16 bits */
    RF_MXFP4_AVXVNNI,      /* vpdpbusd, VEX */
    RF_MXFP4_AVXVNNI_EVEX, /* the same for processors with AVX-512 VL, BW and VNNI, but without AVX-VNNI */
    RF_MXFP4_AVXVNNIINT8,  /* vpdpbssd */
    RF_MXFP4_AVX512,       /* vpermb and vpdpbusd, 512 bits */
    RF_MXFP4_FORM_COUNT
};

enum { RF_MXFP4_MOST_ROWS = 16, RF_MXFP4_MOST_PANELS = 6 };

/* The one argument of a generated function. It covers n rows and p panels, both its own; the panels lie `part` bytes
 * apart, the rows `row_bytes`. */
struct rf_mxfp4_call {
    const uint8_t *codes, *scales; /* of the first panel */
    size_t part;
    const struct rf_a8 *rows;
    size_t row_bytes;
    size_t blocks; /* of 32 values of k, at least 1 */
    float *sums;   /* [p][n][16], 64-byte aligned: the results; [n][16] more are written behind them */
};

typedef void rf_mxfp4_fn(const struct rf_mxfp4_call *call);

struct rf_mxfp4_kernels {
    struct rf_executable code;
    size_t code_bytes;                                         /* that are used */
    rf_mxfp4_fn *fn[RF_MXFP4_MOST_ROWS][RF_MXFP4_MOST_PANELS]; /* [n - 1][p - 1] */
    int panels[RF_MXFP4_MOST_ROWS];                            /* [n - 1]: the most that are walked at once */
};

/* Emits the function for n rows and p panels. */
void rf_mxfp4_emit(struct rf_assembler *assembler, enum rf_mxfp4_form form, int n, int p);
/* Panels that n rows are best served by at once. */
int rf_mxfp4_panels(enum rf_mxfp4_form form, int n);

/* All functions of a form. Says nothing about whether the processor can run them. Fails with RF_ERR_SYSTEM where
 * executable memory is refused. */
int rf_mxfp4_generate(struct rf_mxfp4_kernels *kernels, enum rf_mxfp4_form form, struct rf_error *error);
void rf_mxfp4_free(struct rf_mxfp4_kernels *kernels);

/* As rf_linear_fn; n is at most RF_MXFP4_MOST_ROWS. */
void rf_mxfp4_linear(const struct rf_mxfp4_kernels *kernels, const struct rf_linear_args *args);

#endif
