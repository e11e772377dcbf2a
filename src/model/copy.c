/* Recognises an output head that repeats the embeddings. Converters write such a copy of a tied
 * matrix in a type of its own, so values are compared, not bytes; in safetensors files copies have
 * the same bytes. */
#include <string.h>

#include "model/dtype.h"
#include "model/reader.h"
#include "model/tensors.h"

/* A piece is a whole number of blocks of every type. */
enum { ROWS = 16, PIECE = 256 };

/* The cosine of two copies is 0.98 or more, also between 2 and 8 bits; that of two matrices which
 * were trained apart is far below. */
static const double least_cosine = 0.95;

static int is_comparable(const struct rf_tensor *table, const struct rf_tensor *head)
{
    return table && head && table->n_dims == 2 && head->n_dims == 2 &&
           table->ne[0] == head->ne[0] && table->ne[1] == head->ne[1] && table->ne[1] >= ROWS &&
           !table->scattered && !head->scattered;
}

/* Values of a row from `first` on. */
static void read_piece(const struct rf_tensor *tensor, size_t row, size_t first, size_t n,
                       float values[PIECE])
{
    size_t row_bytes = rf_dtype_bytes(tensor->dtype, (size_t)tensor->ne[0]);
    const unsigned char *data = tensor->data;
    rf_dequantize_f32(tensor->dtype, data + row * row_bytes + rf_dtype_bytes(tensor->dtype, first),
                      values, n);
}

int rf_source_head_is_copy(const struct rf_source *source)
{
    float a[PIECE], b[PIECE];
    double product = 0, a_square = 0, b_square = 0;
    const struct rf_tensor *table = rf_source_tensor(source, RF_TOKEN_EMBD),
                           *head = rf_source_tensor(source, RF_OUTPUT);
    if (source->params.tied_output || !is_comparable(table, head)) return 0;
    size_t width = (size_t)table->ne[0], step = (size_t)table->ne[1] / ROWS;
    for (size_t row = 0; row < ROWS * step; row += step) {
        for (size_t at = 0, n; at < width; at += n) {
            n = width - at < PIECE ? width - at : PIECE;
            read_piece(table, row, at, n, a);
            read_piece(head, row, at, n, b);
            for (size_t i = 0; i < n; i++) {
                product += (double)a[i] * (double)b[i];
                a_square += (double)a[i] * (double)a[i];
                b_square += (double)b[i] * (double)b[i];
            }
        }
    }
    /* Squared, so that no root is needed; rows of zeros or of NaNs are no copies. */
    return product > 0 && product * product > least_cosine * least_cosine * a_square * b_square;
}

void rf_tensors_tie(struct rf_reading *reading)
{
    struct rf_source *source = reading->source;
    const struct rf_tensor *table = rf_source_tensor(source, RF_TOKEN_EMBD),
                           *head = rf_source_tensor(source, RF_OUTPUT);
    if (!table || !head || table->dtype != head->dtype ||
        memcmp(table->ne, head->ne, sizeof table->ne) != 0)
        return;
    size_t n = (size_t)table->ne[1], row = (size_t)table->bytes / n, step = (n + ROWS - 1) / ROWS;
    const char *a = table->data, *b = head->data;
    for (size_t i = 0; i < n; i += step)
        if (memcmp(a + i * row, b + i * row, row) != 0) return;
    size_t at = (size_t)(head - source->tensors), after = (size_t)source->n_tensors - at - 1;
    memmove(source->tensors + at, source->tensors + at + 1, after * sizeof *source->tensors);
    source->n_tensors--;
}
