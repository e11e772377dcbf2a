/* Whether counts are those of a distribution. */
#ifndef RF_TEST_CHI_SQUARE_H
#define RF_TEST_CHI_SQUARE_H

#include <math.h>
#include <stdint.h>

/* The value that chi-square exceeds once in ten thousand (Wilson and Hilferty, 1931; within 0.5 %
 * from ten degrees on). */
static inline double chi_square_critical(double degrees)
{
    const double rare = 3.719; /* a normal variable exceeds this once in ten thousand */
    double c = 2.0 / (9.0 * degrees);
    return degrees * pow(1.0 - c + rare * sqrt(c), 3.0);
}

/* The statistic over its critical value: over 1 the counts are not of these probabilities. Cells
 * that expect fewer than five are taken together; a count where nothing is possible is infinitely
 * much. */
static inline double chi_square_excess(const int32_t *counts, const double *p, int n)
{
    double chi_square = 0.0, few_wanted = 0.0, few_counted = 0.0, total = 0.0;
    int degrees = -1;
    for (int i = 0; i < n; i++) total += counts[i];
    for (int i = 0; i < n; i++) {
        double wanted = total * p[i];
        if (wanted == 0.0 && counts[i]) return INFINITY;
        if (wanted < 5.0) {
            few_wanted += wanted;
            few_counted += counts[i];
            continue;
        }
        chi_square += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
        degrees++;
    }
    if (few_wanted >= 5.0) {
        chi_square += (few_counted - few_wanted) * (few_counted - few_wanted) / few_wanted;
        degrees++;
    }
    return chi_square / chi_square_critical(degrees);
}

#endif
