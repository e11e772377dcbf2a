/* Rounding where the engine rounds, written for reading. The reference's forward pass (forward.c)
 * and its weights (weights.c) call it; a test of the engine never does. */
#ifndef RF_TEST_REFERENCE_ROUNDING_H
#define RF_TEST_REFERENCE_ROUNDING_H

/* The nearest BF16 or F16 value, ties to even. Finite numbers beyond F16's range become infinite.
 */
float reference_round_bf16(float x);
float reference_round_f16(float x);

/* Rows of n elements: to BF16, or each 32 elements to the nearest of 255 steps between minus and
 * plus their largest (microkernels/panel.h), or all n. n is a multiple of 32 there. `out` may be x.
 */
void reference_round_row_bf16(float *out, const float *x, int n);
void reference_round_row_8_bits(float *out, const float *x, int n);
void reference_round_whole_row_8_bits(float *out, const float *x, int n);

#endif
