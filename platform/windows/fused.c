/* A fused multiply-add in software, as mingw-w64's fmaf() rounds twice. The reference kernels call
 * it. */
#include "platform/fused.h"

#include <stdint.h>
#include <string.h>

/* The product is exact in a double. The sum is rounded to odd, which leaves the rounding to float
 * as if it were the only one, since a double has more than two bits to spare (S. Boldo and
 * G. Melquiond, Emulation of FMA and correctly rounded sums, 2008, theorem 1). */
float rf_fused(float a, float b, float c)
{
    double product = (double)a * b, sum = product + c, part = sum - product;
    double error = (product - (sum - part)) +
                   (c - part); /* rounding error of the sum; NaN where it is not finite */
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if ((error < 0.0 || error > 0.0) && !(bits & 1)) {
        bits += (error > 0.0) == (sum > 0.0) ? 1u : UINT64_MAX;
        memcpy(&sum, &bits, sizeof sum);
    }
    return (float)sum;
}
