/* Generated kernels for weights in panels times 8-bit rows: linear[] of microkernels/kernels.h,
 * with the same bits. docs/design/jit.md describes them. */
#ifndef RF_JIT_PANELS_H
#define RF_JIT_PANELS_H

#include <stdalign.h>

#include "base/error.h"
#include "jit/assembler.h"
#include "microkernels/kernels.h"
#include "platform/executable.h"

/* The instructions that kernels use. */
enum rf_panels_form {
    RF_PANELS_AVX2,         /* vpmaddubsw, sums in 16 bits */
    RF_PANELS_AVXVNNI,      /* vpdpbusd, VEX */
    RF_PANELS_AVXVNNI_EVEX, /* vpdpbusd, EVEX: AVX-512 VL, BW and VNNI without AVX-VNNI */
    RF_PANELS_AVXVNNIINT8,  /* vpdpbssd */
    RF_PANELS_AVX512,       /* vpdpbusd, 512 bits; vpermb */
    RF_PANELS_FORM_COUNT
};

enum { RF_PANELS_MOST_ROWS = 8, RF_PANELS_MOST = 4, RF_PANELS_MOST_SUMS = 16 };

/* The argument of a generated function, which is made for n rows and p panels. Panels are `part`
 * bytes apart, rows `row_bytes`. The function ends by prefetching the `next_` data. */
struct rf_panels_call {
    alignas(64) float sums[RF_PANELS_MOST_SUMS][RF_PANEL_ROWS]; /* [panel * n + row]: the results */
    uint8_t numbers[RF_PANELS_MOST][256];                       /* Q4_K's unpacked scales */
    /* Room in the L1 cache for functions of 256 bits: the F16 numbers of a unit of 256, as floats;
     * of a block, for further rows, its codes and the scales and minima of its groups; and sums. */
    float floats[RF_PANELS_MOST][2][RF_PANEL_ROWS];
    uint8_t block[RF_BLOCK][RF_PANEL_ROWS];
    float scales_of[2][2][RF_PANEL_ROWS];
    int32_t earlier[RF_PANELS_MOST_ROWS][RF_PANEL_ROWS];
    const uint8_t *codes, *scales; /* the first panel's */
    const uint8_t *next_codes, *next_scales;
    size_t part;
    const struct rf_a8 *rows;
    size_t row_bytes;
    size_t units; /* k in units of the format, at least 1 */
};

typedef void RF_GENERATED rf_panels_fn(struct rf_panels_call *call);

struct rf_panels_kernels {
    struct rf_executable code;
    enum rf_panels_form form;
    /* [format][n - 1][p - 1]; NULL where there is none */
    rf_panels_fn *fn[RF_FORMAT_COUNT][RF_PANELS_MOST_ROWS][RF_PANELS_MOST];
};

/* 1 if the form has kernels for the format. */
int rf_panels_can(enum rf_panels_form form, enum rf_format format);
/* The most panels, 2 or 4, that a function for n rows takes. There are functions for this number,
 * its half, and so on. */
size_t rf_panels_at_once(size_t n);
/* Emits the function for n rows and p panels, one of those above. */
void rf_panels_emit(struct rf_assembler *assembler, enum rf_panels_form form, enum rf_format format,
                    int n, int p);

/* The name of a function for debuggers and profilers: form, format, rows and panels, as in
 * "riffle_jit_avx512_mxfp4_a8_n4_p2". */
void rf_panels_name(char name[RF_FUNCTION_NAME], enum rf_panels_form form, enum rf_format format,
                    int n, int p);
/* Generates all functions of a form, whether or not the processor can run them, and describes them
 * to the system (rf_executable_describe). RF_ERR_SYSTEM: the system refuses executable memory. */
int rf_panels_generate(struct rf_panels_kernels *kernels, enum rf_panels_form form,
                       struct rf_error *error);
void rf_panels_free(struct rf_panels_kernels *kernels);

/* An rf_linear_fn for any n. The kernels' form must have the format (rf_panels_can). */
void rf_panels_linear(const struct rf_panels_kernels *kernels, enum rf_format format,
                      const struct rf_linear_args *args);

#endif
