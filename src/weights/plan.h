/* The plan of a weight: all that follows from a tensor, its role and the form that the model
 * computes in. infer/model.c makes it once for each tensor. Backends place weights by it, and the
 * costs of a model are estimated from it, before anything is loaded. */
#ifndef RF_WEIGHTS_PLAN_H
#define RF_WEIGHTS_PLAN_H

#include "microkernels/panel.h"
#include "model/tensors.h"
#include "quant/cast.h"

/* The values that a model computes with. */
enum rf_weight_form {
    RF_WEIGHTS_STORED, /* quantised tensors in their own bits; float matrices in BF16 */
    RF_WEIGHTS_BF16,   /* all matrices, and the values of tables, rounded to BF16 */
    /* Drafts: matrices of more bits are cast (quant/cast.h), the others stay as they are stored. */
    RF_WEIGHTS_MXFP4,
    RF_WEIGHTS_Q4,
    RF_WEIGHTS_W4 /* W4A8_G128 */
};

/* A row x of the operand of a matrix that is split is x, x, and what rounding left of x, so the
 * products have about 16 bits. */
enum { RF_SPLIT_PARTS = 3 };

struct rf_kept;
struct rf_weight; /* a tensor in a backend's memory; each backend defines its own */

/* A tensor is packed in strips, the least pieces that can be made alone: a panel of RF_PANEL_ROWS
 * rows, or a row of BF16 (other matrices) or F32 (vectors). The strips of one matrix lie one behind
 * the other, then come those of the next expert's. */
struct rf_weight_plan {
    /* The request. */
    const struct rf_tensor *tensor;
    enum rf_weight_role role;
    enum rf_weight_form form;
    int32_t layer;             /* -1: the tensor belongs to the whole model */
    struct rf_weight **weight; /* the backend writes its result there */
    int is_split;              /* a float matrix of an encoder: packed as three rows in BF16 one
                                  behind the other, w, what rounding left of it, and w again */
    int is_mapped;             /* the tensor lies in a file: its memory is given back once packed */

    /* Conclusions from the request: rf_plan_weight. */
    int is_matrix;              /* RF_WEIGHT_MATRIX, _ROUTER, _EXPERTS or _HEADS */
    int in_place;               /* the file's bytes can serve as they are: each matrix in BF16, a
                                   vector in F32, both aligned; or a table */
    int table_in_bf16;          /* rows of a table are rounded to BF16 as they are read */
    enum rf_dtype dtype;        /* type that a matrix is packed from; else the tensor's */
    enum rf_cast_target target; /* cast to `dtype`, where the tensor's type is another one */
    enum rf_format format;      /* layout of a matrix; RF_FORMAT_BF16 for tables and vectors */
    size_t n_experts;           /* matrices in the tensor; 1 for roles but _EXPERTS and _HEADS */
    size_t rows, columns;       /* shape of one matrix, table or vector */
    size_t strip_rows, strips;  /* rows of a strip; strips of one matrix */
    size_t strip_bytes;         /* distance of strips; 0 for tables */
    size_t matrix_bytes, bytes; /* packed: one matrix, all of them; 0 for tables */
    size_t cast_bytes;          /* a strip's rows after the cast; 0: no cast */
    size_t scratch_bytes;       /* memory that packing a strip needs (weights/pack.h) */

    /* Set by rf_kept_open (weights/kept.h) while the weights are loaded. */
    struct rf_kept *kept; /* has or gets this matrix's strips; NULL: nothing is kept */
    uint64_t kept_at;     /* place of the first one */
};

/* Columns of a matrix as it is packed. */
static inline size_t rf_plan_packed_columns(const struct rf_weight_plan *plan)
{
    return plan->columns * (plan->is_split ? RF_SPLIT_PARTS : 1);
}

/* Fills in what follows from the request. The tensor's data must be mapped, but are not read. */
void rf_plan_weight(struct rf_weight_plan *plan);

#endif
