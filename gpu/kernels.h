/* The kernels of the CUDA backend: what each takes, and the functions that launch them. In C, so
 * that the files of the host need no CUDA compiler.
 *
 * Row independence: each result has one order of sums, whatever the number of rows of the pass.
 * Linear layers cut k into gpu_parts parts of fixed length, one for each warp of a block, and add
 * the parts' sums in order. Attention cuts a row's positions as gpu_cut_of says. */
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
    GPU_PARTS = 8,       /* parts of k: warps of a block */
    GPU_MORE_PARTS = 16, /* parts of matrices with few rows: all processors have enough to load */
    GPU_FEW_ROWS = 4096,
    GPU_PAIR = 64,        /* values of k that lie together: a pair of blocks */
    GPU_CHUNK = 128,      /* positions of attention, at least; RF_KV_RECENT */
    GPU_MOST_SPANS = 128, /* spans of a row's positions */
    GPU_TILE_ROWS = 8,    /* rows that attention takes together */
    GPU_MATRICES = 3,     /* matrices of one launch */
    GPU_SPLITS = 64,      /* parts of a row of logits */
    GPU_BEST = 8,         /* RF_MAX_BEST */
    GPU_KV_BLOCK = 256,   /* RF_KV_POSITIONS */
    GPU_WIDE_ROWS = 128,  /* rows of activations that wgmma's kernel takes together */
    GPU_NARROW_ROWS = 64, /* passes over more take wgmma where there is one */
    GPU_PIECE = 1280,     /* bytes of `pieces`: 8 rows and a pair of blocks */
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
 *     BF16    for each 32 values of k: [2][4 q][8 rows g][4 t][2] of the values 8t + 2q + (0, 1);
 *             first of the rows g, then of g + 8: ldmatrix gives lane l the values 8t .. 8t + 7,
 *             and wgmma takes them as they are
 *     others  for each pair of blocks the codes of the values 4t .. 4t + 3 and 16 + 4t .. of both
 *             rows and blocks: with 4 bits [32 lanes] of 16 bytes, with 6 bits also [32 lanes] of 8
 *             bytes with the upper bits, with 8 bits [2 blocks][32 lanes] of 16 bytes
 *
 * Behind the codes of a tile come its scales, for each pair [8 g] of gpu_scale_bytes, and, where
 * groups share an F16 number, for each 256 values [8 g] of gpu_unit_bytes. */
struct gpu_layout {
    size_t pairs;                /* pairs of blocks of a row, rounded up */
    size_t codes, scales, units; /* offsets in a tile */
    size_t bytes;                /* size of a tile */
};

struct gpu_layout gpu_layout(int format, size_t k);

/* Turns `rows` rows of k BF16 values into tiles; the last one is filled with zeros. */
cudaError_t gpu_tile_bf16(cudaStream_t stream, void *tiles, const void *values, size_t rows,
                          size_t k);
/* Turns n panels (microkernels/panel.h), panel_bytes apart, into tiles. */
cudaError_t gpu_tile_panels(cudaStream_t stream, void *tiles, const void *panels, size_t n,
                            size_t panel_bytes, int format, size_t k);

/* ---- rows of activations ---- */

/* An operation leaves rows in each form that is wanted (not NULL). Rows of operands lie in
 * groups of 8, as the lanes of a warp take them, so that a load meets few lines of the cache:
 *
 *     bf16    [rows / 8][pairs * 2][8 rows][32 values], zeros behind the width
 *     arranged  the same values as wgmma takes them: gpu_arranged_place
 *     codes   [rows / 8][pairs][8 rows][4 t][2 blocks][2][4 values 4t .. and 16 + 4t ..]
 *     low     the same
 *     scales  [rows / 8][pairs][2 blocks][8 rows][2]: d, the sum of the codes
 *     halves  the same: the sums of both halves
 *     pieces  [rows / 8][pairs] of GPU_PIECE bytes, as wgmma takes them: gpu_piece_code,
 *             gpu_piece_scales
 *
 * Codes are those of struct rf_a8 or, with `low`, of struct rf_a16: a signed upper byte in `codes`,
 * a lower one in `low`. */
enum { GPU_ROW_GROUP = 8 };

struct gpu_rows {
    float *f32; /* [rows][width] */
    uint16_t *bf16;
    uint16_t *arranged; /* takes the place of bf16 for layers of gpu_linear_wide */
    int8_t *codes;
    uint8_t *low;
    float *scales, *halves;
    char *pieces; /* takes the place of codes, scales and halves for layers of
                     gpu_linear_wide_panels */
    int32_t width, pairs;
};

/* The number of piece `at` of a row's n pieces, in the order [rows / 8][n][8 rows]. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline size_t
    gpu_row_place(size_t row, size_t n, size_t at)
{
    return (row / GPU_ROW_GROUP * n + at) * GPU_ROW_GROUP + row % GPU_ROW_GROUP;
}

/* The place of value j of a row in `arranged`, of `groups` times 32 values:
 * [rows / 128][groups][4 q][128 rows][4 t][2], of the values 8t + 2q + (0, 1). */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline size_t
    gpu_arranged_place(size_t row, size_t groups, size_t j)
{
    size_t piece = (row / GPU_WIDE_ROWS * groups + j / 32) * 4 + j % 8 / 2;
    return (piece * GPU_WIDE_ROWS + row % GPU_WIDE_ROWS) * 8 + j % 32 / 8 * 2 + j % 2;
}

static inline size_t gpu_arranged_bytes(size_t rows, size_t pairs)
{
    size_t tiles = (rows + GPU_WIDE_ROWS - 1) / GPU_WIDE_ROWS;
    return tiles * GPU_WIDE_ROWS * pairs * GPU_PAIR * sizeof(uint16_t);
}

/* A piece holds codes as F16 numbers times 512, [2 blocks][2 halves][even values, odd values][8
 * rows] of 8 each; then for each block [2][4 t][2][2 rows 2t and 2t + 1] floats: first d and d
 * times the sum of the codes, then d times the sum of either half. These say at which byte of a
 * row's pieces a value's code begins, and a block's d. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline size_t
    gpu_piece_code(size_t row, size_t pairs, size_t j)
{
    return (row / GPU_ROW_GROUP * pairs + j / GPU_PAIR) * GPU_PIECE +
           (j % GPU_PAIR / 16 * 2 + j % 2) * 128 + row % GPU_ROW_GROUP * 16 + j % 16 / 2 * 2;
}

#ifdef __CUDACC__
__host__ __device__
#endif
    static inline size_t
    gpu_piece_scales(size_t row, size_t pairs, size_t block)
{
    return (row / GPU_ROW_GROUP * pairs + block / 2) * GPU_PIECE + 1024 + block % 2 * 128 +
           row % GPU_ROW_GROUP / 2 * 16 + row % 2 * 4;
}

static inline size_t gpu_pieces_bytes(size_t rows, size_t pairs)
{
    return (rows + GPU_ROW_GROUP - 1) / GPU_ROW_GROUP * pairs * GPU_PIECE;
}

struct gpu_row {
    int32_t position, slot;
    int32_t table; /* index in `blocks` of its sequence's first block */
    int32_t first; /* the first position that the pass writes */
    int32_t map;   /* index in `maps` of the slots of the positions from `first` on, or GPU_NO_MAP:
                      the positions themselves */
    int32_t set;   /* set of frequencies that the row rotates by, where a layer has no other one */
    int32_t groups, old_groups; /* index in `groups` of its sequence's first group; groups that
                                   were quantised before the pass */
};

/* A group that a pass quantises: its number, where its sequence's blocks and groups begin. */
struct gpu_group_job {
    int32_t group, table, groups;
    int32_t has_lower; /* planes, of 8 bits */
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
    uint8_t *const *groups;
};

/* The form of a cache's blocks: [layer][KV head][K, V][256][padded]. Groups (microkernels/kv.h)
 * hold the upper planes of all layers and KV heads first; then the lower ones, where the cache has
 * 8 bits. */
struct gpu_heads {
    int32_t n_head, n_head_kv, dim, padded;
    int32_t is_bf16;
    int32_t spans;     /* most spans of a row's positions: gpu_cut_of */
    int32_t quantised; /* bits of older positions (enum rf_kv_type): 8 or 4; 0: all have 16 */
    int32_t planes;    /* layers times KV heads */
    int32_t upper_bytes, lower_bytes; /* sizes of a plane */
};

/* How attention cuts what a row at some position sees; each part gives a partial result. First the
 * `groups` groups of GPU_CHUNK positions that it reads quantised, in `spans` parts of `span`
 * positions; then the positions behind them, in parts of `span`, or of GPU_CHUNK where the cache
 * quantises. Rows of a tile have one cut but for `parts`. */
struct gpu_cut {
    int32_t groups, span, spans, parts;
};

#ifdef __CUDACC__
__host__ __device__
#endif
    static inline struct gpu_cut
    gpu_cut_of(const struct gpu_heads *heads, int32_t position)
{
    struct gpu_cut cut = {0, GPU_CHUNK, 0, 0};
    int32_t chunk = position / GPU_CHUNK;
    cut.span *= position / (GPU_CHUNK * heads->spans) + 1;
    if (!heads->quantised) {
        cut.parts = position / cut.span + 1;
        return cut;
    }
    cut.groups = chunk > 1 ? chunk - 1 : 0;
    cut.spans = (cut.groups * GPU_CHUNK + cut.span - 1) / cut.span;
    cut.parts = cut.spans + chunk - cut.groups + 1;
    return cut;
}

/* The rest of struct rf_rope, besides the frequencies. `power`: rf_rope_growth for pair 1. */
struct gpu_turn {
    double magnitude, ntk_factor, power;
    int32_t ntk_from;
};

/* Cosines and sines of the rows' positions: by the rows' sets of frequencies, and by the local one
 * of models that have one. */
struct gpu_rotations {
    float *values;             /* [rows][2][half][2] */
    const double *frequencies; /* [sets][half] */
    int32_t half, local;       /* the local set, or 0: none */
    struct gpu_turn turns[2];  /* the rows' own sets, then the local one */
};

/* Copies the embeddings x [n][width] to `out`, and computes the rotations. */
cudaError_t gpu_begin(const struct gpu_launch *launch, float *out, const float *x, int32_t width,
                      const struct gpu_row *rows, int32_t n, const struct gpu_rotations *rotations);
struct gpu_norm_args {
    const float *x, *gain, *bias; /* bias: or NULL */
    float eps;
    int32_t is_centred;    /* of the row less its mean */
    const int32_t *picked; /* which of the rows of x, or NULL: all */
};
cudaError_t gpu_norm(const struct gpu_launch *launch, const struct gpu_rows *out,
                     const struct gpu_norm_args *args, int32_t n);

/* silu(gate) * up, gelu(gate) * up, or with a cap (u + 1) silu(scale g) / scale, where g and u are
 * gate and up within the cap (RF_OP_SILU_GATE). */
struct gpu_gate {
    const float *gate, *up; /* up: NULL: ones */
    int32_t is_gelu;
    float scale, cap;       /* 0: none */
    const int32_t *sources; /* rows by expert: negative ones are left out; or NULL */
};
cudaError_t gpu_gate(const struct gpu_launch *launch, const struct gpu_rows *out,
                     const struct gpu_gate *args, int32_t n);

/* out = x */
cudaError_t gpu_copy(const struct gpu_launch *launch, const struct gpu_rows *out, const float *x,
                     int32_t n);
/* out = x, after an RMS norm unless the gain is NULL, where `out` is a part of wider rows. */
struct gpu_part {
    float *out; /* the part of the first row */
    const float *x, *gain;
    int32_t width, whole; /* floats of the part, and of a row of `out` */
    float eps;
};
/* picked: as in gpu_norm. */
cudaError_t gpu_put_part(const struct gpu_launch *launch, const struct gpu_part *args,
                         const int32_t *picked, int32_t n);
/* out += scale * x, after an RMS norm of x unless its gain is NULL; unless `share` [rows] is NULL,
 * sigmoid(share) takes the place of `scale`. */
struct gpu_add {
    float *out;
    const float *x, *gain, *share;
    int32_t width;
    float eps, scale;
};
cudaError_t gpu_add(const struct gpu_launch *launch, const struct gpu_add *args, int32_t n);
/* out = scale * x, or with a cap cap * tanh(scale * x / cap), of n values. */
cudaError_t gpu_cap(const struct gpu_launch *launch, float *out, const float *x, float scale,
                    float cap, size_t n);

/* A norm folded into the layers around it: the rows before it hold x times the gain, rounded to
 * BF16, and the layer behind them multiplies its results by each row's 1 / rms(x). */
struct gpu_fold {
    const float *gain;
    float *squares; /* [rows][width / GPU_SQUARES]: sums of the squares of x; NULL: no norm */
    float *scales;  /* [rows]: 1 / rms(x), of passes over more than GPU_FOLDED_ROWS rows */
    float eps;
};
enum {
    GPU_SQUARES = 16,    /* values: a tile's rows */
    GPU_FOLDED_ROWS = 16 /* most rows where layers prepare the norm behind them */
};
/* Folds a norm of x: leaves out.bf16 or out.arranged, squares and scales. The width is a multiple
 * of GPU_SQUARES. */
cudaError_t gpu_fold_norm(const struct gpu_launch *launch, const struct gpu_rows *out,
                          const float *x, const struct gpu_fold *fold, int32_t n);

struct gpu_rope {
    struct gpu_heads heads;
    struct gpu_pass pass;
    float *q;
    const float *k, *v, *q_gain, *k_gain, *rotations;
    float eps;
    float temperature;        /* growth of queries (rf_query_growth); 0: none */
    int32_t temperature_step; /* positions */
    int32_t half;             /* values of a rotation: rope_dim / 2 */
    int32_t rope_dim, is_neox, is_local, layer;
};
cudaError_t gpu_rope_store(const struct gpu_launch *launch, const struct gpu_rope *args, int32_t n);

/* ---- linear layers ---- */

struct gpu_matrix {
    const void *tiles;
    const float *bias; /* [rows] or NULL; of experts [n_expert][rows] */
    float *y;          /* [n][rows] */
    int32_t rows;
    size_t of_expert; /* bytes from an expert's tiles to the next one's */
};

/* One row before its norm: gpu_norm of it are the codes and scales of x. x NULL: no norm. */
struct gpu_unnormed {
    const float *x, *gain;
    float eps;
};

/* Rows of x and y that take an expert's matrices: [first, first + n), where `first` is a multiple
 * of GPU_ROW_GROUP. */
struct gpu_group {
    int32_t expert, first, n;
};

/* y[i][r] = sum_j w[r][j] x[i][j], + bias[r], + y[i][r] if accumulate; of matrices of one format,
 * width and number of parts. */
struct gpu_linear {
    int32_t format, n, k, n_matrices, accumulate;
    int32_t parts; /* gpu_parts of all rows of the layer; of experts GPU_PARTS */
    struct gpu_matrix matrices[GPU_MATRICES];
    struct gpu_rows x;
    /* Experts: [n_groups] in the device's memory, of up to gpu_group_rows(n) rows each; a group of
     * none is left out. NULL: all rows take the same matrices. */
    const struct gpu_group *groups;
    int32_t n_groups;
    int32_t gates; /* silu(y) of the first matrix times y of the second goes to `gated`, and neither
                      goes to its y: gpu_can_gate */
    struct gpu_rows gated;
    int32_t
        rotates; /* the matrices are of q, k and v, and gpu_rope_store is done: gpu_can_rotate */
    struct gpu_rope rope;
    struct gpu_fold fold; /* the norm of x */
    struct gpu_fold next; /* the norm of y, left in `normed`: gpu_can_fold_next; no gain: none */
    struct gpu_rows normed;
    struct gpu_unnormed unnormed; /* takes the place of x's codes and scales: gpu_can_norm */
};
cudaError_t gpu_linear(const struct gpu_launch *launch, const struct gpu_linear *args);
int gpu_can_gate(const struct gpu_linear *args);
int gpu_can_rotate(const struct gpu_linear *args);
int gpu_can_fold_next(const struct gpu_linear *args);
int gpu_can_norm(const struct gpu_linear *args);
/* The same, of BF16 matrices and x.arranged. Where gpu_has_wide says so: on a device of compute
 * capability 9.0, if the kernels were built for 90a. */
int gpu_has_wide(int major, int minor);
/* 1 if a format has more than one scale for 32 values. */
int gpu_has_small_groups(int format);
cudaError_t gpu_linear_wide(const struct gpu_launch *launch, const struct gpu_linear *args);
/* The same, of panels and x.pieces. */
cudaError_t gpu_linear_wide_panels(const struct gpu_launch *launch, const struct gpu_linear *args);

/* The parts of k, which all rows of a layer's matrices decide together. */
static inline int gpu_parts(size_t rows)
{
    return rows <= GPU_FEW_ROWS ? GPU_MORE_PARTS : GPU_PARTS;
}

/* ---- experts (experts.cu) ----
 *
 * The rows of a pass that chose an expert lie one behind the other in buffers "by expert", those of
 * each expert from a multiple of GPU_ROW_GROUP on. Where they lie there changes no bits. */

/* A choice of a row, the greatest share first. */
struct gpu_share {
    int32_t expert, row; /* row: in buffers by expert */
    float share;
};

struct gpu_experts {
    struct gpu_share *shares; /* [rows][used] */
    int32_t *sources;         /* [gpu_expert_rows]: the pass's row, or -1: none */
    struct gpu_group *groups; /* [gpu_expert_groups] */
    int32_t n_expert, used;
    int32_t norm; /* a row's shares add up to 1 */
};

/* Rows of a group in a pass over n rows, at most: up to 8 and up to 32 rows, each expert's weights
 * are read once. */
static inline int gpu_group_rows(int32_t n)
{
    return n <= 8 ? 8 : 32;
}

static inline int32_t gpu_expert_most(const struct gpu_experts *experts, int32_t n)
{
    return n * experts->used < experts->n_expert ? n * experts->used : experts->n_expert;
}

/* Rows by expert that a pass over n rows has, at most. */
static inline int32_t gpu_expert_rows(const struct gpu_experts *experts, int32_t n)
{
    int32_t rows = n * experts->used + (GPU_ROW_GROUP - 1) * gpu_expert_most(experts, n);
    return (rows + GPU_ROW_GROUP - 1) / GPU_ROW_GROUP * GPU_ROW_GROUP;
}

/* Groups, at most. */
static inline int32_t gpu_expert_groups(const struct gpu_experts *experts, int32_t n)
{
    int32_t each = gpu_group_rows(n), more = n > each ? n * experts->used / each : 0;
    return gpu_expert_most(experts, n) + more;
}

/* Chooses the experts of n rows by the router's results [n][n_expert], and groups the choices. */
cudaError_t gpu_choose_experts(const struct gpu_launch *launch, const struct gpu_experts *experts,
                               const float *routed, int32_t n);
/* Rows by expert: copies of the pass's rows x. */
cudaError_t gpu_gather(const struct gpu_launch *launch, const struct gpu_experts *experts,
                       const struct gpu_rows *out, const float *x, int32_t n);
/* out [n][width] += the sum of each row's experts in x, by expert, each times its share. */
cudaError_t gpu_sum_experts(const struct gpu_launch *launch, const struct gpu_experts *experts,
                            float *out, const float *x, int32_t width, int32_t n);

/* ---- attention ---- */

struct gpu_attention {
    struct gpu_heads heads;
    struct gpu_pass pass;
    const float *q;
    float *partials; /* [rows][n_head][parts][padded + 2]: sums, greatest score times log2 e, sum
                        of weights */
    int32_t layer, parts; /* parts: the most of any row, up to GPU_MOST_SPANS + 2 */
    int32_t first_tile, n_tiles, first_row;
    int32_t queries;    /* most queries of a tile and KV head; only speed depends on it */
    int32_t window;     /* positions that a row sees; 0: all before it */
    float scale, cap;   /* scores s are cap * tanh(s / cap); 0: none */
    const float *sinks; /* [n_head]: a score in each head's softmax that has no value; or NULL */
    int32_t has_spans;  /* 1: there are quantised positions; gpu_attention_kv comes before
                           gpu_attention */
};
/* Over tiles [first_tile, first_tile + n_tiles), whose rows begin with first_row. */
cudaError_t gpu_attention(const struct gpu_launch *launch, const struct gpu_attention *args);
/* The positions that the rows read quantised; gpu_attention then takes those behind them, at the
 * same time where kernels overlap. */
cudaError_t gpu_attention_kv(const struct gpu_launch *launch, const struct gpu_attention *args);
/* Quantises n groups of a layer. */
cudaError_t gpu_quantise(const struct gpu_launch *launch, const struct gpu_attention *args,
                         const struct gpu_group_job *jobs, int32_t n);
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
    float largest; /* greatest of the part's logits that count */
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

/* ---- measuring ---- */

/* Reads bytes (a multiple of 16) as fast as the memory allows. */
cudaError_t gpu_read(cudaStream_t stream, const void *data, size_t bytes, uint32_t *out);

enum gpu_peak { GPU_PEAK_BF16, GPU_PEAK_WGMMA, GPU_PEAK_INT8, GPU_PEAK_DP4A, GPU_PEAKS };

/* Repeats an instruction on all processors. *operations: how many that is, two for each product
 * and its sum. WGMMA only where gpu_has_wide says so. */
cudaError_t gpu_peak(cudaStream_t stream, enum gpu_peak which, int32_t loops, uint32_t *out,
                     double *operations);
/* Fills with random bits. */
cudaError_t gpu_fill(cudaStream_t stream, void *data, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
