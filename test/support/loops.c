/* Loops over numbers, which no build instruments (loops.h). Sums go from the first number to the
 * last, so the backends that call these give the bits of loops in place. */
#include "support/loops.h"

double loop_dot_unchecked(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

void loop_add_unchecked(double *sums, const float *values, double factor, size_t n)
{
    for (size_t i = 0; i < n; i++) sums[i] += (double)values[i] * factor;
}
