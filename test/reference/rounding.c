/* Rounding to BF16, F16 and 8 bits, one value at a time: an independent second version of what the
 * engine's kernels do to many values at a time. */
#include "reference/rounding.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

float reference_round_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isfinite(x)) bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

float reference_round_f16(float x)
{
    if (x == 0 || !isfinite(x)) return x;
    int exponent;
    (void)frexpf(x, &exponent); /* |x| = m * 2^exponent with m in [1/2, 1) */
    int last_bit = exponent - 11 < -24 ? -24 : exponent - 11;
    float rounded = ldexpf(nearbyintf(ldexpf(x, -last_bit)), last_bit);
    return fabsf(rounded) > 65504.0f ? copysignf(INFINITY, x) : rounded;
}

void reference_round_row_bf16(float *out, const float *x, int n)
{
    for (int i = 0; i < n; i++) out[i] = reference_round_bf16(x[i]);
}

void reference_round_whole_row_8_bits(float *out, const float *x, int n)
{
    float largest = 0;
    for (int i = 0; i < n; i++) largest = fmaxf(largest, fabsf(x[i]));
    for (int i = 0; i < n; i++)
        out[i] = largest > 0 ? rintf(x[i] * (127.0f / largest)) * (largest / 127.0f) : 0;
}

void reference_round_row_8_bits(float *out, const float *x, int n)
{
    for (int first = 0; first < n; first += 32)
        reference_round_whole_row_8_bits(out + first, x + first, 32);
}
