/* Finds the factors that make the columns of ffn_down equally large. calibrate.c divides by them
 * and multiplies the rows of ffn_up, so that the model computes the same. */
#include "calibrate/even.h"

#include <math.h>

/* Columns of almost nothing need not have the size of others. */
static float bounded_factor(double factor)
{
    const double most = 256;
    return (float)(factor > most ? most : factor > 1 / most ? factor : 1 / most);
}

int rf_even_columns(const struct rf_tensor *down, float *factors,
                    const struct rf_allocator *allocator, struct rf_error *error)
{
    static const char what[] = "calibrating";
    size_t k = (size_t)down->ne[0], m = (size_t)down->ne[1], n = 0;
    size_t row_bytes = rf_dtype_bytes(down->dtype, k);
    double *squares = rf_calloc(allocator, k, sizeof *squares, what, error), log_sum = 0;
    if (!squares) return RF_ERR_MEMORY;
    for (size_t i = 0; i < m; i++) {
        rf_dequantize_f32(down->dtype, (const char *)down->data + i * row_bytes, factors, k);
        for (size_t j = 0; j < k; j++) squares[j] += (double)factors[j] * (double)factors[j];
    }
    for (size_t j = 0; j < k; j++)
        if (squares[j] > 0) {
            log_sum += log(squares[j]);
            n++;
        }
    for (size_t j = 0; j < k; j++)
        factors[j] = squares[j] > 0
                         ? bounded_factor(exp((log(squares[j]) - log_sum / (double)n) / 2))
                         : 1.0f;
    rf_free(allocator, squares);
    return 0;
}
