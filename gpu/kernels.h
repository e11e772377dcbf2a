/* The kernels of the CUDA backend: what each takes, and the functions that launch them. In C, so
 * that the files of the host need no CUDA compiler.
 *
 * Row independence: each result has one order of sums, whatever the number of rows of the pass.
 * Linear layers cut k into gpu_parts parts of fixed length, one for each warp of a block, and add
 * the parts' sums in order. Attention cuts a row's positions into chunks of GPU_CHUNK. */
#ifndef RF_GPU_KERNELS_H
#define RF_GPU_KERNELS_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "microkernels/panel.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    GPU_PARTS = 8,       /* of k: warps of a block */
    GPU_MORE_PARTS = 16, /* of matrices with few rows, so that all processors have enough to load */
    GPU_FEW_ROWS = 2048,
    GPU_PAIR = 64,      /* values of k that lie together: a pair of blocks */
    GPU_CHUNK = 128,    /* positions of attention */
    GPU_TILE_ROWS = 8,  /* rows that attention takes together */
    GPU_MATRICES = 3,   /* of one launch */
    GPU_SPLITS = 64,    /* parts of a row of logits */
    GPU_BEST = 8,       /* RF_MAX_BEST */
    GPU_KV_BLOCK = 256, /* RF_KV_POSITIONS */
    GPU_NO_MAP = -1
};

/* How launches are made. `overlap`: a kernel may begin before the one before it has ended; each
 * waits for it itself (programmatic dependent launch, from sm_90 on). */
struct gpu_launch {
    cudaStream_t stream;
    int overlap;
};

/* ---- weights (layout.cu) ----
 *
 * 16 rows of a matrix are a tile. It holds its values as the lanes of a warp take them for
 * mma.sync, so that each load of a warp is contiguous. Lane l has the rows g = l / 4 and g + 8, and
 * with t = l % 4
 *
 *     BF16    for each 32 values of k: [2][32 lanes] of the values 8t .. 8t + 7; first of row g,
 *             then of row g + 8
 *     others  for each pair of blocks the codes of the values 4t .. 4t + 3 and 16 + 4t .. of both
 *             rows and blocks: with 4 bits [32 lanes] of 16 bytes, with 6 bits also [32 lanes] of 8
 *             bytes with the upper bits, with 8 bits [2 blocks][32 lanes] of 16 bytes
 *
 * Behind the codes of a tile come its scales, for each pair [8 g] of gpu_scale_bytes, and, where
 * groups share an F16 number, for each 256 values [8 g] of gpu_unit_bytes. */
struct gpu_layout {
    size_t pairs;                /* of a row, rounded up */
    size_t codes, scales, units; /* where they begin in a tile */
    size_t bytes;                /* of a tile */
};

struct gpu_layout gpu_layout(int format, size_t k);

/* From `rows` rows of k BF16 values to tiles; the last one is filled with zeros. */
cudaError_t gpu_tile_bf16(cudaStream_t stream, void *tiles, const void *values, size_t rows,
                          size_t k);
/* From n panels (microkernels/panel.h), panel_bytes apart, to tiles. */
cudaError_t gpu_tile_panels(cudaStream_t stream, void *tiles, const void *panels, size_t n,
                            size_t panel_bytes, int format, size_t k);

/* ---- rows of activations ---- */

/* Where an operation leaves rows, in each form that is wanted (not NULL). Rows of operands lie in
 * groups of 8, as the lanes of a warp take them, so that a load meets few lines of the cache:
 *
 *     bf16    [rows / 8][pairs * 2][8 rows][32 values], zeros behind the width
 *     codes   [rows / 8][pairs][8 rows][4 t][2 blocks][2][4 values 4t .. and 16 + 4t ..]
 *     low     the same
 *     scales  [rows / 8][pairs][2 blocks][8 rows][2]: d, the sum of the codes
 *     halves  the same: the sums of both halves
 *
 * Codes are those of struct rf_a8 or, with `low`, of struct rf_a16: a signed upper byte in `codes`,
 * a lower one in `low`. */
enum { GPU_ROW_GROUP = 8 };

struct gpu_rows {
    float *f32; /* [rows][width] */
    uint16_t *bf16;
    void *arranged; /* where a layer leaves `bf16` as wgmma takes it, or NULL: it does without */
    int8_t *codes;
    uint8_t *low;
    float *scales, *halves;
    int32_t width, pairs;
};

/* Which of all [8 rows][n] pieces is that of a row and piece `at` of n. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline size_t
    gpu_row_place(size_t row, size_t n, size_t at)
{
    return (row / GPU_ROW_GROUP * n + at) * GPU_ROW_GROUP + row % GPU_ROW_GROUP;
}

struct gpu_row {
    int32_t position, slot;
    int32_t table; /* where its sequence's blocks begin among `blocks` */
    int32_t first; /* the first position that the pass writes */
    int32_t map;   /* where the slots of the positions from `first` on begin, or GPU_NO_MAP: the
                      positions themselves */
};

/* Rows of one sequence that attention takes together. */
struct gpu_tile {
    int32_t first, n;
};

/* The pass, in the device's memory. */
struct gpu_pass {
    const struct gpu_row *rows;
    const struct gpu_tile *tiles;
    const int32_t *maps;
    uint16_t *const *blocks;
};

/* The form of a cache's blocks: [layer][KV head][K, V][256][padded]. */
struct gpu_heads {
    int32_t n_head, n_head_kv, dim, padded;
    int32_t is_bf16;
};

/* Copies the embeddings x [n][width] to `out`, and computes the rotations [n][half][2] of the rows'
 * positions, times `magnitude`. */
cudaError_t gpu_begin(const struct gpu_launch *launch, float *out, const float *x, int32_t width,
                      const struct gpu_row *rows, int32_t n, float *rotations,
                      const double *frequencies, int32_t half, double magnitude);
/* picked: which of the rows of x, or NULL: all. */
cudaError_t gpu_norm(const struct gpu_launch *launch, const struct gpu_rows *out, const float *x,
                     const float *gain, float eps, const int32_t *picked, int32_t n);
cudaError_t gpu_silu_gate(const struct gpu_launch *launch, const struct gpu_rows *out,
                          const float *gate, const float *up, int32_t n);

struct gpu_rope {
    struct gpu_heads heads;
    struct gpu_pass pass;
    float *q;
    const float *k, *v, *q_gain, *k_gain, *rotations;
    float eps;
    int32_t rope_dim, is_neox, layer;
};
cudaError_t gpu_rope_store(const struct gpu_launch *launch, const struct gpu_rope *args, int32_t n);

/* ---- linear layers ---- */

struct gpu_matrix {
    const void *tiles;
    const float *bias; /* [rows] or NULL */
    float *y;          /* [n][rows] */
    int32_t rows;
};

/* y[i][r] = sum_j w[r][j] x[i][j], + bias[r], + y[i][r] if accumulate; of matrices of one format,
 * width and number of parts. */
struct gpu_linear {
    int32_t format, n, k, n_matrices, accumulate;
    int32_t parts; /* gpu_parts of the matrices */
    struct gpu_matrix matrices[GPU_MATRICES];
    struct gpu_rows x;
};
cudaError_t gpu_linear(const struct gpu_launch *launch, const struct gpu_linear *args);
/* The same, of BF16 matrices, with x.arranged: gpu_arranged_bytes. Where gpu_has_wide says so: on a
 * device of compute capability 9.0, if the kernels were built for 90a. */
int gpu_has_wide(int major, int minor);
cudaError_t gpu_linear_wide(const struct gpu_launch *launch, const struct gpu_linear *args);
size_t gpu_arranged_bytes(size_t rows, size_t pairs);

/* The parts of k, which the matrix alone decides. */
static inline int gpu_parts(size_t rows)
{
    return rows <= GPU_FEW_ROWS ? GPU_MORE_PARTS : GPU_PARTS;
}

/* ---- attention ---- */

struct gpu_attention {
    struct gpu_heads heads;
    struct gpu_pass pass;
    const float *q;
    float *partials; /* [rows][n_head][chunks][padded + 2]: sums, greatest score, sum of weights */
    int32_t layer, chunks;
    int32_t first_tile, n_tiles, first_row;
    float scale;
};
/* Over tiles [first_tile, first_tile + n_tiles), whose rows begin with first_row. */
cudaError_t gpu_attention(const struct gpu_launch *launch, const struct gpu_attention *args);
/* The results of the rows [first_row, first_row + n). */
cudaError_t gpu_merge(const struct gpu_launch *launch, const struct gpu_attention *args,
                      const struct gpu_rows *out, int32_t n);

/* ---- answers ---- */

struct gpu_candidate {
    int32_t token;
    float logit;
};
/* struct rf_best */
struct gpu_answer {
    struct gpu_candidate top[GPU_BEST];
    int32_t n;
    float mass;
};
struct gpu_split {
    struct gpu_candidate top[GPU_BEST];
    int32_t n;
    float largest; /* of all logits in the part that count */
    double mass;   /* the sum of exp(logit - largest) */
};

struct gpu_choice {
    const float *logits;      /* [n][vocab] */
    const uint64_t *masks;    /* [n][words], or NULL */
    const int32_t *has_mask;  /* [n] */
    const int32_t *targets;   /* [n] with logprobs */
    struct gpu_split *splits; /* [n][GPU_SPLITS] */
    struct gpu_answer *best;  /* [n], or NULL */
    double *logprobs;         /* [n], or NULL */
    int32_t vocab, n_best;
};
cudaError_t gpu_choose(const struct gpu_launch *launch, const struct gpu_choice *args, int32_t n);

/* ---- caches ---- */

/* Entries move from the slots first + path[i] to first + i, i < n, in all layers and heads. blocks:
 * the cache's; path: in device memory. */
cudaError_t gpu_keep(cudaStream_t stream, uint16_t *const *blocks, const int32_t *path, int32_t n,
                     int32_t first, int32_t planes, int32_t padded);

/* Reads bytes (a multiple of 16) as fast as the memory allows. */
cudaError_t gpu_read(cudaStream_t stream, const void *data, size_t bytes, uint32_t *out);

#ifdef __cplusplus
}
#endif
#endif
