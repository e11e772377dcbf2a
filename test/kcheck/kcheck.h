/* What the kernel checks share. Each family's file loops over shapes with odd edges, calls the reference and the kernel on
 * random operands between guard pages, with poisoned outputs, and compares. */
#ifndef RF_TEST_KCHECK_H
#define RF_TEST_KCHECK_H

#include <stddef.h>
#include <stdint.h>

#include "microkernels/kernels.h"

struct kcheck {
    const struct rf_kernels *kernels, *ref;
    const char *tier;
    uint64_t random;
    int failures, checks;
};

/* bytes of memory that ends where an unreadable page begins; aligned as far as its size allows (a multiple of 64 gives 64).
 * Filled with a pattern that is a NaN in every float format. */
void *kcheck_guarded(size_t bytes);
void kcheck_release(void *memory, size_t bytes);

uint32_t kcheck_random(struct kcheck *check);
/* Roughly normal, mean 0, standard deviation about 1. */
float kcheck_normal(struct kcheck *check);
/* Uniform in [low, high]. */
size_t kcheck_between(struct kcheck *check, size_t low, size_t high);

/* Fails unless |got - wanted| <= tolerance, naming the kernel and the place. */
void kcheck_near(struct kcheck *check, double got, double wanted, double tolerance, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Fails unless the bytes are equal. */
void kcheck_same(struct kcheck *check, const void *got, const void *wanted, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

void kcheck_linear(struct kcheck *check);
void kcheck_panels(struct kcheck *check);
void kcheck_attention(struct kcheck *check);
void kcheck_rows(struct kcheck *check);

#endif
