/* The rule, on every device, by which a quantising cache keeps positions in 16 bits. Blocks that no
 * row to come reads are given up, but for the newest and every RF_KV_CHECKPOINTth: a text that is
 * cut somewhere is read again from the nearest of them, because a row's 16 bits can only be
 * computed from those of the rows before it. */
#ifndef RF_INFER_KV_KEPT_H
#define RF_INFER_KV_KEPT_H

#include <stddef.h>

#include "infer/backend.h"

enum {
    RF_KV_CHECKPOINT = 64, /* blocks: a 64th more memory */
    RF_KV_SPARE = 3        /* newest blocks that are kept although no row to come reads them */
};
_Static_assert(RF_MAX_ROWS <= (RF_KV_SPARE - 1) * RF_KV_POSITIONS,
               "a pass reads no block that is given up at its end");

/* Groups that a row reads quantised. */
static inline size_t rf_kv_groups_of_row(size_t position)
{
    return position / RF_KV_RECENT > 1 ? position / RF_KV_RECENT - 1 : 0;
}

/* The first block that a row reads in 16 bits. */
static inline size_t rf_kv_first_block(size_t position)
{
    return rf_kv_groups_of_row(position) * RF_KV_RECENT / RF_KV_POSITIONS;
}

/* Whether block c is given up before position n, where `n_groups` groups are quantised. */
static inline int rf_kv_is_given_up(size_t c, size_t n, size_t n_groups)
{
    return (c + 1 + RF_KV_SPARE) * RF_KV_POSITIONS <= n &&
           (c + 1) * RF_KV_POSITIONS <= n_groups * RF_KV_RECENT &&
           c % RF_KV_CHECKPOINT != RF_KV_CHECKPOINT - 1;
}

/* Positions of a context that are in 16 bits at a time, at most. */
static inline size_t rf_kv_most_halves(size_t n_ctx)
{
    size_t blocks = (n_ctx + RF_KV_POSITIONS - 1) / RF_KV_POSITIONS,
           newest = RF_KV_SPARE + 1, /* one that is not full */
        kept = newest + (blocks - (blocks < RF_KV_SPARE ? blocks : RF_KV_SPARE)) / RF_KV_CHECKPOINT;
    return kept < blocks ? kept * RF_KV_POSITIONS : n_ctx;
}

/* cache_resume, of a cache that quantises; has(user, c): it still has block c. The row before n is
 * readable as well: it may be asked again. Both need at most two blocks. */
static inline int32_t rf_kv_resume(int32_t n, int (*has)(const void *user, size_t c),
                                   const void *user)
{
    if (n == 0) return 0;
    size_t last = ((size_t)n - 1) / RF_KV_POSITIONS;
    if (has(user, rf_kv_first_block((size_t)n - 1)) && has(user, last)) return n;
    for (size_t c = (size_t)n / RF_KV_POSITIONS; c > 0; c--)
        if (has(user, c - 1)) return (int32_t)(c * RF_KV_POSITIONS);
    return 0;
}

#endif
