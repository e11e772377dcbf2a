/* Checks of the layers that stand behind an encoder's rows: the head of classification, and linear
 * layers behind the pooling. layout.c calls this. */
#include <inttypes.h>
#include <stdio.h>

#include "model/layout.h"
#include "model/tensors.h"

/* Expects a linear layer's weight, [ne0, rows], and its bias where there is one. */
static void expect_linear(struct rf_reading *reading, unsigned char *expected, const char *stem,
                          int64_t ne0, int64_t rows)
{
    char name[64];
    struct rf_layout_shape shape = {.role = RF_WEIGHT_MATRIX, .ne0 = ne0, .ne1 = rows};
    snprintf(name, sizeof name, "%s.weight", stem);
    rf_layout_expect(reading, expected, name, &shape);
    snprintf(name, sizeof name, "%s.bias", stem);
    shape = (struct rf_layout_shape){.role = RF_WEIGHT_VECTOR, .ne0 = rows, .ne1 = 1};
    if (rf_source_tensor(reading->source, name)) rf_layout_expect(reading, expected, name, &shape);
}

/* The rows of a layer's weight; 0: there is none. */
static int64_t rows_of(struct rf_reading *reading, const char *stem)
{
    char name[64];
    snprintf(name, sizeof name, "%s.weight", stem);
    const struct rf_tensor *weight = rf_source_tensor(reading->source, name);
    if (weight && (weight->ne[1] < 1 || weight->ne[1] > UINT16_MAX))
        rf_bad(reading, RF_ERR_FORMAT, "tensor %s has %" PRId64 " rows",
               rf_layout_shown(reading, name).text, weight->ne[1]);
    return weight && !reading->code ? weight->ne[1] : 0;
}

/* The head of classification, which few encoders have: a linear layer with its function and maybe a
 * norm, then another linear layer; either may be missing. Sets the number of labels. A file that
 * names no pooling but has a head of one value is a reranker. */
static void expect_labels(struct rf_reading *reading, unsigned char *expected)
{
    struct rf_source *source = reading->source;
    int64_t n_embd = source->params.n_embd, out = rows_of(reading, RF_CLS_OUT),
            dense = rows_of(reading, RF_CLS);
    const struct rf_layout_shape norm = {.role = RF_WEIGHT_VECTOR, .ne0 = n_embd, .ne1 = 1};
    if (dense) expect_linear(reading, expected, RF_CLS, n_embd, out ? n_embd : dense);
    if (out) expect_linear(reading, expected, RF_CLS_OUT, n_embd, out);
    if (dense && out && rf_source_tensor(source, RF_CLS_NORM ".weight"))
        rf_layout_expect(reading, expected, RF_CLS_NORM ".weight", &norm);
    int64_t n_labels = out ? out : dense;
    source->n_labels = (int32_t)n_labels;
    if (source->pooling == RF_POOLING_NONE && n_labels == 1) source->pooling = RF_POOLING_RANK;
    if (source->pooling == RF_POOLING_RANK && n_labels != 1)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "is a reranker with %" PRId64 " values for a text; one is supported", n_labels);
}

/* Layers behind the pooling; vectors keep their width. */
static void expect_dense(struct rf_reading *reading, unsigned char *expected)
{
    static const char *const layers[] = {RF_DENSE_2, RF_DENSE_3};
    int64_t n_embd = reading->source->params.n_embd, width = n_embd;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        int64_t rows = rows_of(reading, layers[i]);
        if (!rows) continue;
        expect_linear(reading, expected, layers[i], width, rows);
        width = rows;
    }
    if (width != n_embd)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "the layers behind its pooling give %" PRId64 " values; only as many as the "
               "embedding has, %" PRId64 ", are supported",
               width, n_embd);
}

void rf_layout_expect_heads(struct rf_reading *reading, unsigned char *expected)
{
    expect_labels(reading, expected);
    expect_dense(reading, expected);
}
