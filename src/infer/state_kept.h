/* The rule, on every device, by which a cache keeps the states of layers that have one in place of
 * keys and values. Backends and tests call it.
 *
 * A state of fixed size forgets, so a text that is cut needs the state that it had there. A cache
 * has it in blocks of RF_STATE_POSITIONS positions: the state at the block's beginning, and a log
 * of what its rows left. A pass that begins within a block takes the state and the rows of the log
 * before it; its own rows go on from there, each from the row that it follows, and are logged. So a
 * draft that is taken back costs nothing, branches of a tree go on from their parents, and a block
 * that was written is never changed by what follows.
 *
 * Logs are kept for the last RF_STATE_TAIL positions, states also at every RF_STATE_CHECKPOINTth
 * block. A text that is cut further back is read again from the nearest of them (cache_resume). */
#ifndef RF_INFER_STATE_KEPT_H
#define RF_INFER_STATE_KEPT_H

#include <stddef.h>

#include "infer/backend.h"

enum {
    RF_STATE_POSITIONS = 32,      /* positions of a block */
    RF_STATE_TAIL = RF_TREE_ROWS, /* positions that a text can be cut back without reading */
    RF_STATE_CHECKPOINT = 8,      /* blocks */
    RF_STATE_BLOCKS = RF_STATE_TAIL / RF_STATE_POSITIONS + RF_TREE_ROWS / RF_STATE_POSITIONS + 3
    /* blocks with a log at a time, at most: of the tail, of a draft, and three that are cut by ends
     */
};
_Static_assert((int)RF_MAX_CONV_ROWS <= (int)RF_STATE_POSITIONS,
               "a state lies in the log of one block");

/* Whether the block's log is kept where the text or a pass ends at position n. */
static inline int rf_states_has_log(size_t block, size_t n)
{
    return (block + 1) * RF_STATE_POSITIONS + RF_STATE_TAIL > n;
}

/* Whether the state at its beginning is. */
static inline int rf_states_has_begin(size_t block, size_t n)
{
    return rf_states_has_log(block, n) || block % RF_STATE_CHECKPOINT == 0;
}

/* cache_resume, where has(user, p): a pass may begin at position p. */
static inline int32_t rf_states_resume(int32_t n, int (*has)(const void *user, size_t p),
                                       const void *user)
{
    if (has(user, (size_t)n)) return n;
    for (size_t block = (size_t)n / RF_STATE_POSITIONS; block > 0; block--)
        if (has(user, block * RF_STATE_POSITIONS)) return (int32_t)(block * RF_STATE_POSITIONS);
    return 0;
}

/* The first position of which a saved cache of n positions has a row: those that the row n - 1 and
 * later ones read, from the beginning of its block on. It may be before the text. */
static inline int32_t rf_states_saved_from(const struct rf_params *params, int32_t n)
{
    if (n == 0) return 0;
    return (n - 1) / RF_STATE_POSITIONS * RF_STATE_POSITIONS - (params->conv_rows - 1);
}

/* F32 of the rows of one layer. */
static inline size_t rf_states_saved_floats(const struct rf_params *params, int32_t n)
{
    return (size_t)(n - rf_states_saved_from(params, n)) * (size_t)params->n_embd;
}

/* Most bytes of the states of a context. */
static inline uint64_t rf_states_bytes(const struct rf_params *params, int32_t n_ctx)
{
    uint64_t blocks = (uint64_t)n_ctx / RF_STATE_POSITIONS + 1,
             logs = blocks < RF_STATE_BLOCKS ? blocks : RF_STATE_BLOCKS,
             rows = logs * RF_STATE_POSITIONS +
                    (logs + blocks / RF_STATE_CHECKPOINT) * (uint64_t)(params->conv_rows - 1);
    uint64_t n_conv = (uint64_t)rf_n_conv(params, params->n_layer);
    return n_conv ? n_conv * (uint64_t)params->n_embd * rows * sizeof(float) : 0;
}

#endif
