// Turns weights from the order of the host into tiles (kernels.h), once, when a model is loaded.
// weights.c calls it; the other kernels read tiles in this layout.
#include "gpu/formats.cuh"

static size_t bits_of(int format)
{
    return (size_t)rf_panel_layout((enum rf_format)format)->bits;
}

extern "C" int gpu_has_small_groups(int format)
{
    switch (format) {
#define RF_ROW(name, FORMAT, ...) \
    case RF_FORMAT_##FORMAT: return format_traits<RF_FORMAT_##FORMAT>::group < RF_BLOCK;
        RF_EACH_DEVICE_PANEL_FORMAT(RF_ROW)
#undef RF_ROW
    default: return 0;
    }
}

extern "C" struct gpu_layout gpu_layout(int format, size_t k)
{
    struct gpu_layout layout = {};
    layout.pairs = (k + GPU_PAIR - 1) / GPU_PAIR;
    if (format == RF_FORMAT_BF16) {
        layout.bytes = layout.pairs * GPU_PAIR * RF_PANEL_ROWS * sizeof(uint16_t);
        return layout;
    }
    size_t units = gpu_unit_bytes(format) ? (k + RF_SUPERBLOCK - 1) / RF_SUPERBLOCK : 0;
    layout.scales = layout.pairs * GPU_PAIR * RF_PANEL_ROWS / 8 * bits_of(format);
    layout.units = layout.scales + layout.pairs * 8 * gpu_scale_bytes(format);
    layout.bytes = (layout.units + units * 8 * gpu_unit_bytes(format) + 127) & ~(size_t)127;
    return layout;
}

// One thread for each 16 bytes of a tile.
static __global__ void tile_bf16(uint4 *tiles, const uint16_t *values, size_t rows, size_t k,
                                 size_t per_tile, size_t n)
{
    size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    size_t in_tile = at % per_tile, half = in_tile / WARP % 2;
    size_t row = at / per_tile * RF_PANEL_ROWS + half * 8 + in_tile % 8;
    size_t first = in_tile / (2 * WARP) * RF_BLOCK + in_tile / 8 % 4 * 2;
    uint32_t words[4];
    for (int t = 0; t < 4; t++) {
        words[t] = 0;
        for (int j = 0; j < 2; j++)
            if (row < rows && first + 8 * t + j < k)
                words[t] |= (uint32_t)values[row * k + first + 8 * t + j] << 16 * j;
    }
    tiles[at] = make_uint4(words[0], words[1], words[2], words[3]);
}

static unsigned blocks_for(size_t n)
{
    return (unsigned)((n + 255) / 256);
}

extern "C" cudaError_t gpu_tile_bf16(cudaStream_t stream, void *tiles, const void *values,
                                     size_t rows, size_t k)
{
    size_t per_tile = gpu_layout(RF_FORMAT_BF16, k).bytes / sizeof(uint4);
    size_t n = (rows + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS * per_tile;
    tile_bf16<<<blocks_for(n), 256, 0, stream>>>((uint4 *)tiles, (const uint16_t *)values, rows, k,
                                                 per_tile, n);
    return cudaGetLastError();
}

// The code of row r and value j (0 .. 31) in a block of a panel; MXFP4's as an index.
static __device__ uint32_t panel_code_of(int bits, const uint8_t *block, int r, int j)
{
    if (bits == 8) return block[j / 4 * 64 + 4 * r + j % 4];
    uint32_t code = block[j / 8 * 64 + 4 * r + j % 4] >> (j % 8 / 4 * 4) & 15;
    if (bits == 6) code |= (block[256 + j / 16 * 64 + 4 * r + j % 4] >> (j % 16 / 4 * 2) & 3u) << 4;
    return code;
}

// Four codes, one in each byte: half h of lane t's values in a block.
static __device__ uint32_t four_codes(int bits, const uint8_t *block, int r, int t, int h)
{
    uint32_t word = 0;
    for (int i = 0; i < 4; i++) word |= panel_code_of(bits, block, r, 16 * h + 4 * t + i) << 8 * i;
    return word;
}

// Bytes 0 .. 3, each below 16, as four nibbles in 16 bits.
static __device__ uint32_t squeeze(uint32_t word)
{
    word = (word | word >> 4) & 0x00ff00ffu;
    return (word | word >> 8) & 0xffffu;
}

static __device__ uint32_t pack_nibbles(int format, uint32_t low, uint32_t high)
{
    return format == RF_FORMAT_MXFP4 ? squeeze(low) | squeeze(high) << 16 : low | high << 4;
}

struct panel_source {
    const uint8_t *codes, *scales;
    int blocks; // blocks of a row
    int format, bits, block_bytes;
};

// The codes of one lane and pair.
static __device__ void tile_codes(uint8_t *out, const struct panel_source &from, int pair, int lane)
{
    int g = lane / 4, t = lane % 4;
    uint32_t low[2][2] = {}, high[2] = {}, whole[2][4] = {};
    for (int b = 0; b < 2; b++) {
        if (2 * pair + b >= from.blocks) continue;
        const uint8_t *block = from.codes + (size_t)(2 * pair + b) * from.block_bytes;
        for (int r = 0; r < 2; r++) {
            uint32_t a = four_codes(from.bits, block, g + 8 * r, t, 0),
                     c = four_codes(from.bits, block, g + 8 * r, t, 1);
            whole[b][r] = a;
            whole[b][2 + r] = c;
            low[b][r] = pack_nibbles(from.format, a & 0x0f0f0f0fu, c & 0x0f0f0f0fu);
            high[b] |= ((a >> 4 & 0x03030303u) | (c >> 4 & 0x03030303u) << 2) << 4 * r;
        }
    }
    if (from.bits == 8) {
        uint4 *to = (uint4 *)out + (size_t)pair * 2 * WARP + lane;
        for (int b = 0; b < 2; b++)
            to[b * WARP] = make_uint4(whole[b][0], whole[b][1], whole[b][2], whole[b][3]);
        return;
    }
    uint8_t *to = out + (size_t)pair * (from.bits == 6 ? 768 : 512);
    ((uint4 *)to)[lane] = make_uint4(low[0][0], low[0][1], low[1][0], low[1][1]);
    if (from.bits == 6) ((uint2 *)(to + 512))[lane] = make_uint2(high[0], high[1]);
}

// rf_q4k_scale
static __device__ int q4k_scale(const uint8_t *packed, int i, int r)
{
    int vector = i / 4, place = i % 4 * 16 + r;
    if (vector < 3) return packed[vector * 64 + place] & 63;
    return packed[place] >> 6 | packed[64 + place] >> 6 << 2 | packed[128 + place] >> 6 << 4;
}

// The scales of rows g and g + 8 of a pair.
static __device__ void tile_scales(uint8_t *out, const struct panel_source &from, int pair, int g)
{
    uint8_t bytes[16] = {};
    for (int b = 0; b < 2; b++)
        for (int half = 0; half < 2; half++) {
            int block = 2 * pair + b, r = g + 8 * half, in_unit = block % 8;
            if (block >= from.blocks) continue;
            const uint8_t *unit = from.scales, *list;
            switch (from.format) {
            case RF_FORMAT_MXFP4: bytes[2 * b + half] = unit[block * 16 + r]; break;
            case RF_FORMAT_Q4_0:
            case RF_FORMAT_Q8_0:
            case RF_FORMAT_Q4_1:
            case RF_FORMAT_Q8_1: {
                int has_min = gpu_scale_bytes(from.format) == 16;
                list = unit + block * (has_min ? 64 : 32);
                for (int i = 0; i < 2; i++) {
                    bytes[4 * b + 2 * half + i] = list[2 * r + i];
                    if (has_min) bytes[8 + 4 * b + 2 * half + i] = list[32 + 2 * r + i];
                }
                break;
            }
            case RF_FORMAT_Q4_K:
                list = unit + block / 8 * 256;
                bytes[2 * b + half] = (uint8_t)q4k_scale(list, in_unit, r);
                bytes[4 + 2 * b + half] = (uint8_t)q4k_scale(list, 8 + in_unit, r);
                break;
            case RF_FORMAT_Q6_K:
            case RF_FORMAT_Q8_K:
                list = unit + block / 8 * (from.format == RF_FORMAT_Q6_K ? 288 : 576);
                for (int h = 0; h < 2; h++) {
                    bytes[4 * b + 2 * h + half] = list[(2 * in_unit + h) * 16 + r];
                    if (from.format == RF_FORMAT_Q8_K)
                        bytes[8 + 4 * b + 2 * h + half] = list[256 + (2 * in_unit + h) * 16 + r];
                }
                break;
            }
        }
    size_t n = gpu_scale_bytes(from.format);
    for (size_t i = 0; i < n; i++) out[((size_t)pair * 8 + g) * n + i] = bytes[i];
}

static __device__ void tile_unit(uint8_t *out, const struct panel_source &from, int unit, int g)
{
    size_t n = gpu_unit_bytes(from.format);
    int bytes = from.format == RF_FORMAT_Q4_K ? 256 : from.format == RF_FORMAT_Q6_K ? 288 : 576;
    const uint8_t *list = from.scales + (size_t)unit * bytes + bytes - (int)n * 8;
    for (size_t i = 0; i < n; i++)
        out[((size_t)unit * 8 + g) * n + i] =
            list[i / 4 * 32 + 2 * (g + 8 * (int)(i / 2 % 2)) + i % 2];
}

// A block of threads for each panel; a warp for each pair.
static __global__ void tile_panels(uint8_t *tiles, const uint8_t *panels, size_t panel_bytes,
                                   int format, int bits, int blocks, struct gpu_layout layout)
{
    struct panel_source from;
    from.codes = panels + blockIdx.x * panel_bytes;
    from.blocks = blocks;
    from.format = format;
    from.bits = bits;
    from.block_bytes = bits * 64;
    from.scales = from.codes + (size_t)blocks * from.block_bytes;
    uint8_t *tile = tiles + blockIdx.x * layout.bytes;
    int lane = threadIdx.x % WARP;
    for (int pair = threadIdx.x / WARP; pair < (int)layout.pairs; pair += blockDim.x / WARP) {
        tile_codes(tile, from, pair, lane);
        if (lane < 8) tile_scales(tile + layout.scales, from, pair, lane);
        if (lane < 8 && gpu_unit_bytes(format) && pair % 4 == 0)
            tile_unit(tile + layout.units, from, pair / 4, lane);
    }
}

extern "C" cudaError_t gpu_tile_panels(cudaStream_t stream, void *tiles, const void *panels,
                                       size_t n, size_t panel_bytes, int format, size_t k)
{
    tile_panels<<<(unsigned)n, 256, 0, stream>>>((uint8_t *)tiles, (const uint8_t *)panels,
                                                 panel_bytes, format, (int)bits_of(format),
                                                 (int)(k / RF_BLOCK), gpu_layout(format, k));
    return cudaGetLastError();
}
