/* The median and other quantiles of measurements. */
#ifndef RF_BASE_MEDIAN_H
#define RF_BASE_MEDIAN_H

#include <stdlib.h>

static inline int rf_compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Sorts the values and returns the median: the mean of the middle two if their number is even, 0 if
 * there are none. */
static inline double rf_median(double *values, size_t n)
{
    if (n == 0) return 0;
    qsort(values, n, sizeof *values, rf_compare_doubles);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/* The quantile at 0 <= part <= 1 of values sorted upwards, linear between two values; 0 of none. */
static inline double rf_quantile(const double *sorted, size_t n, double part)
{
    if (n == 0) return 0;
    double at = part * (double)(n - 1);
    size_t below = (size_t)at;
    if (below + 1 >= n) return sorted[n - 1];
    return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

#endif
