// Partial results of attention, and the queries of a tile. Every kernel of attention.cu and
// attention_kv.cu leaves its results here, and one kernel merges them.
#ifndef RF_GPU_ATTENTION_CUH
#define RF_GPU_ATTENTION_CUH

#include "gpu/launch.cuh"

// Scores are relative to 2, not to e.
static constexpr float LOG2_E = 1.44269504f;

__device__ inline size_t result_floats(const struct gpu_heads &heads)
{
    return (size_t)heads.padded + 2;
}

__device__ inline float *partial_of(const struct gpu_attention &args, int row, int head, int part)
{
    size_t at = ((size_t)(row - args.first_row) * args.heads.n_head + head) * args.parts + part;
    return args.partials + at * result_floats(args.heads);
}

// Query i of a tile and KV head: its row, its head, its floats.
struct query {
    int row, head;
    const float *x;
};

__device__ inline struct query query_at(const struct gpu_attention &args,
                                        const struct gpu_tile &tile, int kv_head, int i)
{
    const struct gpu_heads &heads = args.heads;
    int group = heads.n_head / heads.n_head_kv, row = tile.first + i / group,
        head = kv_head * group + i % group;
    return {row, head, args.q + ((size_t)row * heads.n_head + head) * heads.dim};
}

// The first position that a row sees.
__device__ inline int first_seen(const struct gpu_attention &args, int position)
{
    return args.window > 0 ? max(0, position + 1 - args.window) : 0;
}

// The positions that the rows of a tile see.
struct tile_range {
    int begin, end;         // positions that some row sees: [begin, end)
    int all_begin, all_end; // positions that all rows see
    struct gpu_cut cut;
};

__device__ inline struct tile_range range_of(const struct gpu_attention &args,
                                             const struct gpu_tile &tile)
{
    int least = args.pass.rows[tile.first].position, most = least;
    for (int i = 1; i < tile.n; i++) {
        int position = args.pass.rows[tile.first + i].position;
        least = min(least, position);
        most = max(most, position);
    }
    return {first_seen(args, least), most + 1, first_seen(args, most), least + 1,
            gpu_cut_of(&args.heads, least)};
}

// Maxima and sums over the lanes of a warp that have the same t = lane % 4.
__device__ inline float column_max(float x)
{
    for (int d = 4; d < WARP; d *= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
    return x;
}

__device__ inline float column_sum(float x)
{
    for (int d = 4; d < WARP; d *= 2) x += __shfl_xor_sync(~0u, x, d);
    return x;
}

#endif
