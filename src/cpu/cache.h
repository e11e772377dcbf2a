/* The caches of the cores' backend: keys and values in blocks and groups, and states beside them.
 * Blocks may be held by several caches; only a cache that holds one alone writes to it. Passes and
 * the backend call these functions. The files form layers, and call only downwards: cache_saved;
 * cache; states; block. */
#ifndef RF_CPU_CACHE_H
#define RF_CPU_CACHE_H

#include <stdatomic.h>

#include "infer/backend.h"
#include "infer/window_kept.h"
#include "microkernels/kernels.h"

_Static_assert((int)RF_KV_POSITIONS == (int)RF_ATTENTION_CHUNK,
               "a block of the cache is a chunk of attention");
_Static_assert((int)RF_KV_RECENT == (int)RF_KV_GROUP, "the positions of a group");

/* ---- cache.c ---- */

/* RF_KV_POSITIONS positions in 16 bits of the layers of a kind, [layer][KV head]: K in blocks of 16
 * positions, then V rows; or RF_KV_GROUP positions quantised, [layer][KV head] upper planes, then
 * the lower ones. */
struct cpu_block {
    atomic_int holders; /* caches */
    void *data;
    struct cpu_slab *slab; /* holds the data, or NULL */
};

/* Memory of several groups, so large that it lies in huge pages: every layer reads a few KiB of
 * each group, which are on pages of their own otherwise. */
struct cpu_slab {
    atomic_int holders; /* blocks, and the cache that takes new ones from it */
    char *data;
    size_t used, n; /* blocks */
};

/* Where a pass takes the matrices of layers with the delta rule from, and where it leaves them. */
struct cpu_state_base {
    const struct cpu_block *block; /* a beginning or a copy; NULL: zeros, before the text */
    size_t at;                     /* the position that they are at */
    size_t first;                  /* of a layer's in the block: floats before its matrices */
    size_t stride;                 /* floats from a layer's to the next one's */
};

/* Matrices of all layers with the delta rule at one position. */
struct cpu_state_copy {
    struct cpu_block *block; /* NULL: none */
    size_t at;               /* the position; SIZE_MAX: of no position, a pass is writing it */
};

/* The states of layers that have one (states.c). Block b begins at position
 * b * RF_STATE_POSITIONS. */
struct cpu_states {
    /* [n_ctx / RF_STATE_POSITIONS + 1] each; NULL: not kept. Of a block, for each such layer: the
     * [conv_rows - 1][rf_state_row] rows before it, then its matrices (rf_state_matrices); and the
     * rows [RF_STATE_POSITIONS][rf_state_row] in it. The first block's beginning is always NULL:
     * no rows are before the text. */
    struct cpu_block **begins, **logs;
    unsigned char *is_whole; /* [n_blocks] the matrices of the beginning are there, too */
    size_t n_blocks;
    size_t settled;                  /* blocks before it have given up what settling takes */
    size_t begin_floats, log_floats; /* of one layer */
    /* Copies that move with passes: of those that begin where only settled entries are before
     * them, and of others, which read drafts. */
    struct cpu_state_copy moving[2];
    size_t judged; /* entries before it are settled, and no pass has replaced them since */
    /* The pass at hand, for layers with the delta rule. */
    struct cpu_state_base base;
    struct cpu_block *held;       /* the base's block, which others may give up meanwhile */
    struct cpu_state_copy *moved; /* where the pass leaves its matrices, or NULL */
};

/* Where a layer's heads are in the blocks and groups of its kind. */
struct cpu_kv_layer {
    enum rf_kv_kind kind;
    size_t n_heads;            /* 0: no keys and values of its own */
    size_t dim, padded_dim;    /* elements of a head in K and in V */
    size_t k_elements;         /* K of one block and head; V follows */
    size_t kv_elements;        /* K and V of one block and head */
    size_t first;              /* elements of a block before the layer's */
    size_t upper, lower;       /* bytes of one head's planes of a group */
    size_t upper_at, lower_at; /* bytes of a group before the layer's planes */
};

/* Keys and values of the layers of a kind. */
struct cpu_kv {
    /* [n_ctx / RF_KV_POSITIONS, rounded up]; NULL: never written, given up, or only quantised */
    struct cpu_block **blocks;
    struct cpu_block **groups; /* [n_ctx / RF_KV_GROUP] quantised ones, or NULL */
    struct cpu_slab *slab;     /* takes the next groups, or NULL */
    size_t keys, values; /* elements of a position in K and in V; 0: no layer is of the kind */
    size_t group_bytes;
};

struct cpu_cache {
    struct rf_cache base;
    int32_t *places; /* [n_layer]: number among the layers of its kind, with keys or with a state */
    struct cpu_states states; /* without blocks where no layer has one */
    struct cpu_kv kinds[RF_KV_KINDS];
    size_t n_groups;             /* groups that are quantised, of all kinds */
    size_t settled;              /* positions; passes behind them read drafts */
    struct cpu_kv_layer *layers; /* [n_layer] */
};

static inline size_t cpu_chunks(size_t positions)
{
    return (positions + RF_KV_POSITIONS - 1) / RF_KV_POSITIONS;
}

/* K and V of one layer and KV head over the positions from chunk * RF_KV_POSITIONS on. */
static inline uint16_t *k_cache(const struct cpu_cache *cache, size_t chunk, int32_t layer,
                                size_t head)
{
    const struct cpu_kv_layer *of = &cache->layers[layer];
    return (uint16_t *)cache->kinds[of->kind].blocks[chunk]->data + of->first +
           head * of->kv_elements;
}

static inline uint16_t *v_cache(const struct cpu_cache *cache, size_t chunk, int32_t layer,
                                size_t head)
{
    return k_cache(cache, chunk, layer, head) + cache->layers[layer].k_elements;
}

int rf_cpu_cache_new(struct rf_cache **cache, struct rf_backend *backend,
                     const struct rf_cache_shape *shape, struct rf_error *error);
int rf_cpu_cache_fork(struct rf_cache **copy, struct rf_cache *cache, int32_t n,
                      struct rf_error *error);
void rf_cpu_cache_free(struct rf_cache *cache);
void rf_cpu_cache_trim(struct rf_cache *cache, int32_t n);
void rf_cpu_cache_settle(struct rf_cache *cache, int32_t n);
int32_t rf_cpu_cache_resume(const struct rf_cache *cache, int32_t n);
int rf_cpu_cache_can_save(const struct rf_cache *cache, int32_t n);
uint64_t rf_cpu_kv_bytes(const struct rf_params *params, enum rf_kv_type kv, int32_t n_ctx);
int rf_cpu_cache_keep(struct rf_cache *cache, int32_t first_pos, const int32_t *path, int32_t n,
                      struct rf_error *error);
uint64_t rf_cpu_cache_size(const struct rf_cache *cache, int32_t n);
uint64_t rf_cpu_cache_held(const struct rf_cache *cache);
int rf_cpu_cache_save(struct rf_cache *cache, int32_t n, void *out, struct rf_error *error);
int rf_cpu_cache_load(struct rf_cache *cache, int32_t n, const void *in, struct rf_error *error);
/* Prepares a pass over the positions [first, first + n): makes their blocks the cache's own, with
 * the earlier positions that they hold, and new groups [n_groups, *n_groups_after) for the
 * positions that its last rows read quantised. The pass quantises them; then they count. */
int rf_cpu_cache_prepare(struct cpu_cache *cache, size_t first, size_t n, size_t *n_groups_after,
                         struct rf_error *error);
/* Quantises one head's group. */
void rf_cpu_cache_quantise(struct cpu_cache *cache, int32_t layer, size_t head, size_t group);
int rf_cpu_cache_has_group(const struct cpu_cache *cache, int32_t layer, size_t group);
/* One head's planes of a group: of 8 bits, or the upper one alone. */
struct rf_kv_group rf_cpu_cache_group(const struct cpu_cache *cache, int32_t layer, size_t head,
                                      size_t group, enum rf_kv_type as);
/* Writes one head's key and value (F32) at a position. */
void rf_cpu_cache_store(struct cpu_cache *cache, int32_t layer, size_t head, size_t pos,
                        const float *key, const float *value);
/* Most elements of one head's entry: the key [dim], the value [padded_dim]. And copying one. */
size_t rf_cpu_entry_elements(const struct rf_params *params);
void rf_cpu_cache_get(const struct cpu_cache *cache, int32_t layer, size_t head, size_t pos,
                      uint16_t *entry);
void rf_cpu_cache_put(struct cpu_cache *cache, int32_t layer, size_t head, size_t pos,
                      const uint16_t *entry);

/* ---- for cache_saved.c ---- */

/* K and V of all layers and heads of a kind, one behind the other: in a block, or in saved
 * positions, which need not be aligned. */
struct cpu_kv_place {
    char *data;
    size_t k, v; /* positions that a head's K and V have */
};

struct cpu_kv_place rf_cpu_cache_place(const struct cpu_block *block);
/* Copies the first `positions` of a block, for each layer and head of the kind. K is copied in
 * whole groups of 16 positions. */
void rf_cpu_cache_copy(const struct cpu_cache *cache, enum rf_kv_kind kind, struct cpu_kv_place to,
                       struct cpu_kv_place from, size_t positions);
/* The parts of n positions of a kind in host memory: groups [first_group, groups), then blocks from
 * first_block on. */
struct cpu_saved {
    size_t first_group, groups, first_block;
};

/* Forgets all groups, and makes those parts of n positions the cache's own, with undefined content.
 */
int rf_cpu_cache_own(struct cpu_cache *cache, const struct cpu_saved saved[RF_KV_KINDS], size_t n,
                     struct rf_error *error);

/* ---- block.c ---- */

/* NULL without memory: count * bytes bytes of data, not cleared, with one holder. */
struct cpu_block *rf_cpu_block_new(const struct rf_allocator *allocator, size_t count, size_t bytes,
                                   struct rf_error *error);
/* One holder more, one less; the last frees. NULL: nothing. */
struct cpu_block *rf_cpu_block_hold(struct cpu_block *block);
void rf_cpu_block_drop(const struct rf_allocator *allocator, struct cpu_block *block);
void rf_cpu_slab_drop(const struct rf_allocator *allocator, struct cpu_slab *slab);
/* A holder's part of `bytes`; 0 for NULL. */
uint64_t rf_cpu_block_share(const struct cpu_block *block, size_t bytes);

/* ---- states.c: parts of the functions of caches ---- */

int rf_cpu_states_new(struct cpu_cache *cache, struct rf_error *error);
void rf_cpu_states_free(struct cpu_cache *cache);
void rf_cpu_states_fork(struct cpu_cache *made, const struct cpu_cache *cache, size_t n);
void rf_cpu_states_trim(struct cpu_cache *cache, size_t n);
void rf_cpu_states_settle(struct cpu_cache *cache, size_t n);
int32_t rf_cpu_states_resume(const struct cpu_cache *cache, int32_t n);
/* Makes the log of the first row's block the cache's own, and gives later blocks the logs and
 * beginnings that are kept at the pass's end. With the delta rule it also chooses the pass's base,
 * and owns what a replay from there on writes. rf_cpu_states_done: after the pass, which did not
 * fail, over rows that follow each other (`is_chain`) or a tree. */
int rf_cpu_states_prepare(struct cpu_cache *cache, size_t first, size_t n, struct rf_error *error);
void rf_cpu_states_done(struct cpu_cache *cache, size_t first, size_t n, int is_chain);
/* Where a layer's matrices are: of the pass's base, NULL before the text; of the copy that moves,
 * NULL where it does not; of a block's beginning that the pass writes, NULL: not kept. */
const float *rf_cpu_states_base(const struct cpu_cache *cache, int32_t layer);
float *rf_cpu_states_moved(const struct cpu_cache *cache, int32_t layer);
float *rf_cpu_states_matrices(const struct cpu_cache *cache, int32_t layer, size_t block);
void rf_cpu_states_keep(struct cpu_cache *cache, size_t first_pos, const int32_t *path, size_t n);
/* Whether the matrices at the beginning of the block of n - 1 are there. */
int rf_cpu_states_can_save(const struct cpu_cache *cache, int32_t n);
uint64_t rf_cpu_states_size(const struct cpu_cache *cache, int32_t n);
uint64_t rf_cpu_states_held(const struct cpu_cache *cache);
void rf_cpu_states_save(const struct cpu_cache *cache, int32_t n, void *out);
int rf_cpu_states_load(struct cpu_cache *cache, int32_t n, const void *in, struct rf_error *error);
/* A layer's row at `position`, up to RF_MAX_CONV_ROWS - 1 before the pass that begins at `first`.
 * NULL: it is before the text. */
const float *rf_cpu_states_row(const struct cpu_cache *cache, int32_t layer, size_t first,
                               int64_t position);
/* A row's place in the log; NULL: it is not kept. */
float *rf_cpu_states_log(const struct cpu_cache *cache, int32_t layer, size_t position);
/* The rows before a block, to be written; NULL: not kept. */
float *rf_cpu_states_begin(const struct cpu_cache *cache, int32_t layer, size_t block);
/* Writes the rows before a block, if they are kept: m of [conv_rows - 1] rows, the last one first.
 */
void rf_cpu_states_begin_rows(const struct cpu_cache *cache, int32_t layer, size_t block,
                              const float *const *rows);

#endif
