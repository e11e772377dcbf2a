/* Generated kernels for weights in panels times rows of 8 bits (linear[] of microkernels/kernels.h,
 * to the same bits). docs/jit.md says how they work and what they gain. */
#ifndef RF_JIT_PANELS_H
#define RF_JIT_PANELS_H

#include <stdalign.h>

#include "base/error.h"
#include "jit/assembler.h"
#include "microkernels/kernels.h"
#include "platform/executable.h"

/* The instructions that kernels are made of. */
enum rf_panels_form {
    RF_PANELS_AVX2,         /* vpmaddubsw, sums in 16 bits */
    RF_PANELS_AVXVNNI,      /* vpdpbusd, VEX */
    RF_PANELS_AVXVNNI_EVEX, /* the same for processors with AVX-512 VL, BW and VNNI, but without
                               AVX-VNNI */
    RF_PANELS_AVXVNNIINT8,  /* vpdpbssd */
    RF_PANELS_AVX512,       /* vpdpbusd, 512 bits; vpermb */
    RF_PANELS_FORM_COUNT
};

enum { RF_PANELS_MOST_ROWS = 16, RF_PANELS_MOST = 4, RF_PANELS_MOST_SUMS = 32 };

/* The one argument of a generated function, which covers n rows and p panels, both its own; the
 * panels lie `part` bytes apart, the rows `row_bytes`. `next_` is where the walk goes on: the
 * function ends with asking for it. */
struct rf_panels_call {
    /* [panel * n + row]: the results; products that a function lays aside behind them. */
    alignas(64) float sums[RF_PANELS_MOST_SUMS + RF_PANELS_MOST_ROWS][RF_PANEL_ROWS];
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
    enum rf_panels_form form;
    /* [format][n - 1][p - 1], NULL where none is used */
    rf_panels_fn *fn[RF_FORMAT_COUNT][RF_PANELS_MOST_ROWS][RF_PANELS_MOST];
};

/* 1 if the form has kernels for the format. */
int rf_panels_can(enum rf_panels_form form, enum rf_format format);
/* The most rows that one function of the form takes, at most RF_PANELS_MOST_ROWS. */
size_t rf_panels_rows(enum rf_panels_form form);
/* Panels that so many rows meet at once, 2 or 4. Functions exist for these, the half of them and so
 * on. */
size_t rf_panels_at_once(enum rf_panels_form form, size_t n);
/* Emits the function for n rows and p panels, of those that exist. */
void rf_panels_emit(struct rf_assembler *assembler, enum rf_panels_form form, enum rf_format format,
                    int n, int p);

/* All functions of a form. Says nothing about whether the processor can run them. Fails with
 * RF_ERR_SYSTEM where executable memory is refused. */
int rf_panels_generate(struct rf_panels_kernels *kernels, enum rf_panels_form form,
                       struct rf_error *error);
void rf_panels_free(struct rf_panels_kernels *kernels);

/* As rf_linear_fn, for any n; the kernels' form has the format. */
void rf_panels_linear(const struct rf_panels_kernels *kernels, enum rf_format format,
                      const struct rf_linear_args *args);

#endif
