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
 * Logs are kept for the last RF_STATE_TAIL positions, states also at every so many blocks
 * (rf_state_checkpoint). A text that is cut further back is read again from the nearest of them
 * (cache_resume).
 *
 * The state of a convolution is rows: those before the block. That of the delta rule is also a
 * matrix for each head, which a pass computes from the matrix at some position before it, its base,
 * and the log from there on. The same rows in the same order give the same bits, so any base does:
 * a block's beginning, or a copy that moves with the passes. A pass leaves a copy at its own first
 * row: all rows before it are the text's, and few rows follow until the next pass. Matrices
 * at beginnings behind a tree's path are written by the next pass that replays the path. */
#ifndef RF_INFER_STATE_KEPT_H
#define RF_INFER_STATE_KEPT_H

#include <stddef.h>

#include "infer/backend.h"

enum {
    RF_STATE_POSITIONS = 32,      /* positions of a block */
    RF_STATE_TAIL = RF_TREE_ROWS, /* positions that a text can be cut back without reading */
    RF_STATE_CHECKPOINT = 8,      /* blocks, at least (rf_state_checkpoint) */
    RF_STATE_COLUMNS = 16,        /* of a matrix, side by side in memory */
    RF_STATE_BLOCKS = RF_STATE_TAIL / RF_STATE_POSITIONS + RF_TREE_ROWS / RF_STATE_POSITIONS + 3
    /* blocks with a log at a time, at most: of the tail, of a draft, and three that are cut by ends
     */
};
_Static_assert((int)RF_MAX_CONV_ROWS <= (int)RF_STATE_POSITIONS,
               "a state lies in the log of one block");

/* Floats that a row of one layer leaves in the log: z of a convolution (RF_OP_SHORT_CONV); m, then
 * b and g of all heads of the delta rule (RF_OP_DELTA). */
static inline size_t rf_state_row(const struct rf_params *params)
{
    return params->delta_values ? (size_t)rf_delta_mixed(params) + 2 * (size_t)params->delta_values
                                : (size_t)params->n_embd;
}

/* Floats of the matrices of one layer with the delta rule, and the place of an element in them:
 * heads, then pieces of RF_STATE_COLUMNS columns, which need nothing from each other, then rows. */
static inline size_t rf_state_matrices(const struct rf_params *params)
{
    return (size_t)rf_delta_values(params) * (size_t)params->delta_key_dim;
}

static inline size_t rf_state_element(const struct rf_params *params, size_t head, size_t row,
                                      size_t column)
{
    size_t rows = (size_t)params->delta_key_dim, columns = (size_t)params->delta_value_dim,
           first = column / RF_STATE_COLUMNS * RF_STATE_COLUMNS,
           width = columns - first < RF_STATE_COLUMNS ? columns - first : RF_STATE_COLUMNS;
    return (head * columns + first) * rows + row * width + column - first;
}

/* Blocks from one state that is kept for long to the next: those of matrices take no more memory
 * than the keys and values between them in 16 bits. Powers of two, so that two devices with parts
 * of a model have some in common; one of them may have no keys. */
static inline size_t rf_state_checkpoint(const struct rf_params *params)
{
    size_t state = (size_t)rf_n_states(params, params->n_layer) * rf_state_matrices(params) *
                   sizeof(float),
           entries = (size_t)rf_n_attention(params, params->n_layer) * (size_t)params->n_head_kv *
                     (size_t)params->head_dim * 2 * sizeof(uint16_t) * RF_STATE_CHECKPOINT *
                     RF_STATE_POSITIONS;
    size_t blocks = RF_STATE_CHECKPOINT;
    for (size_t held = entries; entries && held < state; held += held) blocks *= 2;
    return blocks;
}

/* Whether the block's log is kept where the text or a pass ends at position n. */
static inline int rf_states_has_log(size_t block, size_t n)
{
    return (block + 1) * RF_STATE_POSITIONS + RF_STATE_TAIL > n;
}

/* Whether the state at its beginning is. */
static inline int rf_states_has_begin(const struct rf_params *params, size_t block, size_t n)
{
    return rf_states_has_log(block, n) || block % rf_state_checkpoint(params) == 0;
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
    return (size_t)(n - rf_states_saved_from(params, n)) * rf_state_row(params);
}

/* Most bytes of the states of a context. */
static inline uint64_t rf_states_bytes(const struct rf_params *params, int32_t n_ctx)
{
    uint64_t blocks = (uint64_t)n_ctx / RF_STATE_POSITIONS + 1,
             logs = blocks < RF_STATE_BLOCKS ? blocks : RF_STATE_BLOCKS,
             begins = logs + blocks / rf_state_checkpoint(params),
             rows = logs * RF_STATE_POSITIONS + begins * (uint64_t)(params->conv_rows - 1);
    uint64_t n_states = (uint64_t)rf_n_states(params, params->n_layer);
    if (!n_states) return 0;
    return n_states * sizeof(float) *
           (rows * rf_state_row(params) + (begins + 3) * rf_state_matrices(params));
}

#endif
