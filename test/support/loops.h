/* Inner loops of the plain backend and of the reference. Sanitized builds do not instrument them,
 * as they do not instrument the tiers' kernels: a check for every number takes most of the time of
 * tests. The callers' side, which is instrumented, touches both ends of each vector instead. */
#ifndef SUPPORT_LOOPS_H
#define SUPPORT_LOOPS_H

#include <stddef.h>

double loop_dot_unchecked(const float *a, const float *b, size_t n);
void loop_add_unchecked(double *sums, const float *values, double factor, size_t n);

/* The sum of a[i] * b[i] for i from 0 to n - 1, in this order. */
static inline double loop_dot(const float *a, const float *b, size_t n)
{
    if (!n) return 0;
    (void)(*(const volatile float *)a + *(const volatile float *)b +
           *(const volatile float *)(a + n - 1) + *(const volatile float *)(b + n - 1));
    return loop_dot_unchecked(a, b, n);
}

/* sums[i] += values[i] * factor, for n numbers; the two do not overlap. */
static inline void loop_add(double *sums, const float *values, double factor, size_t n)
{
    if (!n) return;
    (void)(*(const volatile double *)sums + (double)*(const volatile float *)values +
           *(const volatile double *)(sums + n - 1) +
           (double)*(const volatile float *)(values + n - 1));
    loop_add_unchecked(sums, values, factor, n);
}

#endif
