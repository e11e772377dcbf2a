/* Attention over quantised groups: the driver, which divides the queries of a call. A tier defines
 * its vectors (attention_kv_common.h), and RF_NAMED(kernel), which puts the tier in front of the
 * kernel's name, before it includes this.
 *
 * There are two ways. Many queries are lanes (attention_kv_columns.h): no step sums over lanes, and
 * codes are decoded once for all columns of queries. Up to FEW queries that do not fill a column,
 * and fewer than COLUMN_LEAST that are left, are taken one by one (attention_kv_rows.h). A query's
 * bits are the same: sums of integers are exact, and those of floats have one order. */
#ifndef RF_MICROKERNELS_ATTENTION_KV_H
#define RF_MICROKERNELS_ATTENTION_KV_H

#include "microkernels/attention_kv_columns.h"
#include "microkernels/attention_kv_rows.h"

/* The n queries of a call from `begin` on. */
INLINE struct part part_of(const struct rf_attention_kv_args *args, size_t begin, size_t n)
{
    struct part part = {*args, begin == 0};
    part.args.q += begin;
    if (args->first) part.args.first += begin;
    part.args.out += begin * args->ldo;
    part.args.n_q = n;
    if (begin + n < args->n_q) part.args.next = NULL;
    return part;
}

/* How many of n queries are lanes. */
INLINE size_t queries_in_columns(size_t n)
{
    size_t left = n % LANES;
    if (n <= FEW && n != LANES) return 0;
    return left < COLUMN_LEAST ? n - left : n;
}

static void RF_NAMED(attention_kv)(const struct rf_attention_kv_args *args)
{
    enum { PAIR = 2 * LANES }; /* columns are multiplied in pairs */
    size_t in_columns = queries_in_columns(args->n_q), begin = 0, n;
    size_t most = columns_at_once(rf_padded(args->head_dim)) * LANES;
    for (size_t parts = (in_columns + most - 1) / most; begin < in_columns; parts--, begin += n) {
        size_t left = in_columns - begin, even = (left + parts - 1) / parts;
        n = least(least((even + PAIR - 1) / PAIR * PAIR, most), left);
        struct part part = part_of(args, begin, n);
        attend_columns(&part);
    }
    if (begin == args->n_q) return;
    struct part part = part_of(args, begin, args->n_q - begin);
    attend_rows(&part);
}

#endif
