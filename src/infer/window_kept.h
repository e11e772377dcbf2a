/* The rule, on every device that gives them up, by which a cache keeps the keys and values of
 * layers with a window: rf_params.window positions at most, which is all that a row of such a layer
 * reads. Backends and tests call it.
 *
 * Layers with a window have blocks of their own, of the same RF_KV_POSITIONS positions as the
 * others. Blocks behind the window of the last RF_WINDOW_TAIL positions are given up once the judge
 * is past them. A text that is cut further back is read again from a place whose window is still
 * there (cache_resume), to the same bits. Such places are kept ever more sparsely towards the
 * text's beginning: the beginning of block b, while fewer blocks than twice the greatest power of
 * two that divides b are behind it. So a text of n blocks has a place for each power of two up to
 * n, and less than twice of what a cut takes away is read again. */
#ifndef RF_INFER_WINDOW_KEPT_H
#define RF_INFER_WINDOW_KEPT_H

#include <stddef.h>

#include "infer/backend.h"

enum { RF_WINDOW_TAIL = RF_TREE_ROWS /* positions that a text can be cut back without reading */ };

/* Kinds of layers in a cache, by what rows read of their keys and values. */
enum rf_kv_kind { RF_KV_WHOLE, RF_KV_WINDOW, RF_KV_KINDS };

static inline enum rf_kv_kind rf_kv_kind_of(const struct rf_params *params, int32_t layer)
{
    return params->window > 0 && rf_has_window(params, layer) ? RF_KV_WINDOW : RF_KV_WHOLE;
}

/* Number of the layers of a kind that have keys and values. */
static inline int32_t rf_n_of_kind(const struct rf_params *params, enum rf_kv_kind kind)
{
    int32_t n = 0;
    for (int32_t i = 0; i < params->n_layer; i++)
        n += rf_has_keys(params, i) && rf_kv_kind_of(params, i) == kind;
    return n;
}

/* The first position that must be there for a pass to begin at n or n - 1. At least a block before
 * it is: a cache that quantises reads so many in 16 bits, whatever the window. */
static inline size_t rf_window_from(const struct rf_params *params, size_t n)
{
    size_t window = (size_t)params->window;
    if (window < RF_KV_POSITIONS) window = RF_KV_POSITIONS;
    return n > window ? n - window : 0;
}

/* Blocks before the beginning of a block whose first row reads them. */
static inline size_t rf_window_blocks(const struct rf_params *params)
{
    size_t window = (size_t)params->window;
    return window > RF_KV_POSITIONS ? (window + RF_KV_POSITIONS - 1) / RF_KV_POSITIONS : 1;
}

/* Whether block c, which lies before position n, is kept when the judge has read n positions. */
static inline int rf_window_keeps(const struct rf_params *params, size_t c, size_t n)
{
    size_t tail = n > RF_WINDOW_TAIL ? n - RF_WINDOW_TAIL : 0, end = n / RF_KV_POSITIONS;
    if ((c + 1) * RF_KV_POSITIONS > rf_window_from(params, tail)) return 1;
    for (size_t b = c + 1; b <= end && b <= c + rf_window_blocks(params); b++)
        if (end - b < 2 * (b & (~b + 1))) return 1;
    return 0;
}

/* cache_resume, where has(user, c): block c is there. */
static inline int rf_window_is_whole(const struct rf_params *params, size_t n,
                                     int (*has)(const void *user, size_t c), const void *user)
{
    for (size_t c = rf_window_from(params, n) / RF_KV_POSITIONS; c * RF_KV_POSITIONS < n; c++)
        if (!has(user, c)) return 0;
    return 1;
}

static inline int32_t rf_window_resume(const struct rf_params *params, int32_t n,
                                       int (*has)(const void *user, size_t c), const void *user)
{
    if (rf_window_is_whole(params, (size_t)n, has, user)) return n;
    for (size_t b = (size_t)n / RF_KV_POSITIONS; b > 0; b--)
        if (rf_window_is_whole(params, b * RF_KV_POSITIONS, has, user))
            return (int32_t)(b * RF_KV_POSITIONS);
    return 0;
}

/* The first block of which a saved cache of n positions has the layers with a window. */
static inline size_t rf_window_saved_from(const struct rf_params *params, size_t n)
{
    return n ? rf_window_from(params, n - 1) / RF_KV_POSITIONS : 0;
}

/* Most positions that a context keeps of a layer with a window, those of a pass among them: the
 * newest, in one piece, and a place for each greater power of two. */
static inline size_t rf_window_most(const struct rf_params *params, size_t n_ctx)
{
    enum { ENDS = 2, PASS = RF_MAX_ROWS / RF_KV_POSITIONS };
    size_t blocks = (n_ctx + RF_KV_POSITIONS - 1) / RF_KV_POSITIONS, of = rf_window_blocks(params),
           tail = of + RF_WINDOW_TAIL / RF_KV_POSITIONS + ENDS, least = blocks;
    for (size_t near = 1; near <= blocks; near *= 2) {
        size_t newest = 2 * near + of, kept = newest > tail ? newest : tail;
        for (size_t far = 2 * near; far + 2 * near <= blocks; far *= 2) kept += of;
        if (kept < least) least = kept;
    }
    return least + PASS < blocks ? (least + PASS) * RF_KV_POSITIONS : n_ctx;
}

#endif
