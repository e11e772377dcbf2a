/* Buffers, comparisons and calls that the kernel checks share. Each family's file loops over shapes
 * with odd edges, calls the reference and the kernel on random operands between guard pages, with
 * poisoned outputs, and compares. */
#ifndef RF_TEST_KCHECK_H
#define RF_TEST_KCHECK_H

#include <stddef.h>
#include <stdint.h>

#include "microkernels/kernels.h"

typedef void kcheck_kernel(void); /* any kernel; see kcheck_call */

struct kcheck {
    const struct rf_kernels *kernels, *ref;
    const struct rf_kernels
        *generated; /* the same with generated kernels laid over (cpu/tiers.h), or NULL */
    const char *name;
    int emulated; /* 1: some instructions are emulated, each in microseconds, so fewer shapes are
                     checked */
    int is_generated;      /* the callee follows the System V convention on every system */
    int has_tiles;         /* the table may use tiles, and must release them */
    int has_split_rows;    /* 16-bit rows are struct rf_a16_split */
    int has_sixteens;      /* rows beside panels lie as amx/tier.h says */
    int is_translated;     /* compiled for another processor: registers are not left as there */
    uint32_t vector_bytes; /* see kcheck_vector_bytes */
    uint64_t random, emulated_before; /* instructions, when it began */
    int failures, checks;
    kcheck_kernel *called[256]; /* the kernels that were called */
    int n_called;
};

/* bytes of memory that ends where an unreadable page begins; aligned as far as its size allows (a
 * multiple of 64 gives 64). Filled with a pattern that is a NaN in every float format. */
void *kcheck_guarded(size_t bytes);
void kcheck_release(void *memory, size_t bytes);

uint32_t kcheck_random(struct kcheck *check);
/* Roughly normal, mean 0, standard deviation about 1. */
float kcheck_normal(struct kcheck *check);
/* Uniform in [low, high]. */
size_t kcheck_between(struct kcheck *check, size_t low, size_t high);
/* n, or fewer where instructions are emulated. */
size_t kcheck_shapes(const struct kcheck *check, size_t n, size_t few);

/* Fails unless |got - wanted| <= tolerance, naming the kernel and the place. */
void kcheck_near(struct kcheck *check, double got, double wanted, double tolerance,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Fails unless the bytes are equal. */
void kcheck_same(struct kcheck *check, const void *got, const void *wanted, size_t bytes,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Calls a kernel that takes up to four integers or pointers and, in any place among them, a float.
 * Fails unless it leaves registers and control words as the ABI asks, the upper halves of vector
 * registers zero and the tiles released. */
uint64_t kcheck_call(struct kcheck *check, const char *name, kcheck_kernel *kernel,
                     const uint64_t arguments[4], float number);
/* Bytes of the registers whose upper halves kcheck_call looks at: 0 without AVX, and in builds
 * whose compiler does not clear them (gcc does from -O2 on). */
uint32_t kcheck_vector_bytes(void);
/* Notes a call that is about to be made, for kcheck_all_called and for the message if it crashes.
 */
void kcheck_called(struct kcheck *check, const char *name, kcheck_kernel *kernel);

void kcheck_pack_part(struct kcheck *check, const struct rf_kernels *kernels, enum rf_operand form,
                      const struct rf_pack_args *args);
/* n rows of k values as an operand, in guarded memory of *bytes. */
void *kcheck_pack(struct kcheck *check, const struct rf_kernels *kernels, enum rf_operand form,
                  const float *x, size_t n, size_t k, size_t *bytes);
void kcheck_multiply(struct kcheck *check, const char *name, rf_linear_fn *linear,
                     const struct rf_linear_args *args);

/* Weights: codes and scales; hard ones: extremes. */
void kcheck_fill_panel(struct kcheck *check, enum rf_format format, uint8_t *panel, size_t k,
                       int hard);
/* 32 activations. Hard ones: all -127 or 127 in 8 bits, one large among small, nothing. Some 2^-20,
 * so that the greatest scale of MXFP4, 2^127, leaves results finite. */
void kcheck_fill_block(struct kcheck *check, float *x, int hard);

/* Results of a linear layer lie this far apart from row to row, so that what is written beyond a
 * row shows. */
static inline size_t kcheck_ldy(size_t m)
{
    return m + 5;
}

static inline size_t kcheck_y_bytes(size_t n, size_t m)
{
    return ((n - 1) * kcheck_ldy(m) + m) * sizeof(float);
}

/* Guarded memory for them: poison, or, to accumulate to, small numbers. */
float *kcheck_results(size_t n, size_t m, int accumulate);
/* Fails unless the poison between the rows is untouched. */
void kcheck_gaps(struct kcheck *check, const char *name, const float *y, size_t n, size_t m);

void kcheck_linear(struct kcheck *check);
void kcheck_panels(struct kcheck *check);
void kcheck_attention(struct kcheck *check);
void kcheck_rows(struct kcheck *check);
void kcheck_cast(struct kcheck *check);

/* Generated functions one by one, a form of instructions (an enum rf_panels_form) at a time. */
void kcheck_generated(struct kcheck *check, int form);
/* The tier whose instructions a form needs; -1 after the last form. */
int kcheck_generated_tier(int form);
const char *kcheck_generated_name(int form);
int kcheck_generated_is_native(int form);

/* A pointer as an argument of kcheck_call. */
static inline uint64_t kcheck_pointer(const void *pointer)
{
    return (uintptr_t)pointer;
}

#endif
