/* The definitions follow the manual's pseudo-code line by line where rounding or saturation depend
 * on it. */
#include "emulate/emulate_ops.h"

#include <math.h>
#include <string.h>

enum {
    DOT_BYTES = 0x50,
    DOT_BYTES_SATURATE,
    DOT_WORDS,
    DOT_WORDS_SATURATE,
    F32_TO_BF16 = 0x72,
    CONVERT_HALF = 0xb0, /* the even or the odd ones of the source */
    BROADCAST_HALF
};

size_t emulate_source_bytes(unsigned opcode, enum vex_prefix prefix, size_t width)
{
    switch (opcode) {
    case DOT_BYTES:
    case DOT_BYTES_SATURATE: return width;
    case DOT_WORDS:
    case DOT_WORDS_SATURATE: return prefix == VEX_66 ? width : 0;
    case F32_TO_BF16: return prefix == VEX_F3 ? width : 0;
    case CONVERT_HALF: return width;
    case BROADCAST_HALF: return prefix == VEX_66 || prefix == VEX_F3 ? 2 : 0;
    default: return 0;
    }
}

int emulate_is_dot(unsigned opcode)
{
    return opcode >= DOT_BYTES && opcode <= DOT_WORDS_SATURATE;
}

int emulate_memory_only(unsigned opcode)
{
    return opcode == CONVERT_HALF || opcode == BROADCAST_HALF;
}

static int64_t saturate(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static void dot_bytes(int a_signed, int b_signed, int saturates, size_t width, uint8_t *destination,
                      const uint8_t *a, const uint8_t *b)
{
    for (size_t i = 0; i < width; i += 4) {
        uint32_t old;
        memcpy(&old, destination + i, sizeof old);
        int sum = 0; /* sum of four products, none beyond 255 * 255 */
        for (size_t t = i; t < i + 4; t++)
            sum += (a_signed ? (int8_t)a[t] : (int)a[t]) * (b_signed ? (int8_t)b[t] : (int)b[t]);
        uint32_t value = old + (uint32_t)sum;
        if (saturates && (a_signed || b_signed))
            value = (uint32_t)saturate((int64_t)(int32_t)old + sum, INT32_MIN, INT32_MAX);
        else if (saturates)
            value = (uint32_t)saturate((int64_t)old + sum, 0, UINT32_MAX);
        memcpy(destination + i, &value, sizeof value);
    }
}

static void dot_words(int saturates, size_t width, uint8_t *destination, const uint8_t *a,
                      const uint8_t *b)
{
    for (size_t i = 0; i < width; i += 4) {
        int32_t old;
        int16_t x[2], y[2];
        memcpy(&old, destination + i, sizeof old);
        memcpy(x, a + i, sizeof x);
        memcpy(y, b + i, sizeof y);
        int64_t sum = old + (int64_t)x[0] * y[0] + (int64_t)x[1] * y[1];
        uint32_t value = (uint32_t)(saturates ? saturate(sum, INT32_MIN, INT32_MAX) : sum);
        memcpy(destination + i, &value, sizeof value);
    }
}

/* Subnormal values count as zero; the others go to the nearest, ties to even. */
static uint16_t bf16_of(uint32_t x)
{
    uint32_t magnitude = x & 0x7fffffff;
    if (magnitude < 0x00800000) return (uint16_t)(x >> 16 & 0x8000);
    if (magnitude > 0x7f800000) return (uint16_t)(x >> 16 | 0x40);
    return (uint16_t)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}

static uint32_t f32_of(uint16_t half, int bf16)
{
    if (bf16) return (uint32_t)half << 16;
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31,
             fraction = half & 0x3ff;
    if (exponent == 31) return sign | 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0);
    if (exponent) return sign | (exponent + 112) << 23 | fraction << 13;
    if (!fraction) return sign;
    for (exponent = 113; !(fraction & 0x400); fraction <<= 1) exponent--;
    return sign | exponent << 23 | (fraction & 0x3ff) << 13;
}

/* float i becomes half number step * i + first of the source. */
static void convert(int bf16, size_t step, size_t first, size_t width, uint8_t *destination,
                    const uint8_t *b)
{
    for (size_t i = 0; i < width / 4; i++) {
        uint16_t half;
        memcpy(&half, b + 2 * (step * i + first), sizeof half);
        uint32_t value = f32_of(half, bf16);
        memcpy(destination + 4 * i, &value, sizeof value);
    }
}

static void narrow(size_t width, uint8_t *destination, const uint8_t *b)
{
    for (size_t i = 0; i < width / 4; i++) {
        uint32_t value;
        memcpy(&value, b + 4 * i, sizeof value);
        uint16_t half = bf16_of(value);
        memcpy(destination + 2 * i, &half, sizeof half);
    }
}

void emulate_vector(unsigned opcode, enum vex_prefix prefix, size_t width, uint8_t destination[32],
                    const uint8_t a[32], const uint8_t b[32])
{
    int bf16 = prefix >= VEX_F3; /* meant for conversions only */
    memset(destination + width, 0, 32 - width);
    switch (opcode) {
    case DOT_BYTES:
    case DOT_BYTES_SATURATE:
        dot_bytes(prefix == VEX_F3 || prefix == VEX_F2, prefix == VEX_66 || prefix == VEX_F2,
                  opcode == DOT_BYTES_SATURATE, width, destination, a, b);
        break;
    case DOT_WORDS:
    case DOT_WORDS_SATURATE:
        dot_words(opcode == DOT_WORDS_SATURATE, width, destination, a, b);
        break;
    case F32_TO_BF16:
        memset(destination, 0, 32);
        narrow(width, destination, b);
        break;
    case CONVERT_HALF:
        convert(bf16, 2, prefix == VEX_NONE || prefix == VEX_F2, width, destination, b);
        break;
    case BROADCAST_HALF: convert(bf16, 0, 0, width, destination, b); break;
    default: break;
    }
}

/* The configuration: palette, first row of an interrupted load or store, then for each tile its
 * bytes a row and its rows. */
enum { PALETTE = 0, START_ROW = 1, ROW_BYTES = 16, ROWS = 48, CONFIG_BYTES = 64 };

static size_t row_bytes(const struct emulate_tiles *tiles, size_t tile)
{
    return tiles->config[ROW_BYTES + 2 * tile] | (size_t)tiles->config[ROW_BYTES + 2 * tile + 1]
                                                     << 8;
}

static size_t rows(const struct emulate_tiles *tiles, size_t tile)
{
    return tiles->config[ROWS + tile];
}

int emulate_tile_configure(struct emulate_tiles *tiles, const uint8_t config[64])
{
    struct emulate_tiles fresh = {{0}, {{{0}}}};
    if (config[PALETTE] > 1) return 0;
    if (config[PALETTE]) {
        memcpy(fresh.config, config, CONFIG_BYTES);
        for (size_t i = START_ROW + 1; i < ROW_BYTES; i++)
            if (config[i]) return 0;
        for (size_t tile = 0; tile < EMULATE_TILES; tile++) {
            if (row_bytes(&fresh, tile) > EMULATE_TILE_ROW_BYTES ||
                rows(&fresh, tile) > EMULATE_TILE_ROWS)
                return 0;
            if (!row_bytes(&fresh, tile) != !rows(&fresh, tile)) return 0;
        }
        for (size_t i = EMULATE_TILES; i < 16; i++)
            if (row_bytes(&fresh, i) || rows(&fresh, i)) return 0;
    }
    *tiles = fresh;
    return 1;
}

/* 1 if the tile is configured. */
static int usable(const struct emulate_tiles *tiles, size_t tile)
{
    return tiles->config[PALETTE] && rows(tiles, tile);
}

int emulate_tile_zero(struct emulate_tiles *tiles, size_t tile)
{
    if (!usable(tiles, tile)) return 0;
    memset(tiles->row[tile], 0, sizeof tiles->row[tile]);
    tiles->config[START_ROW] = 0;
    return 1;
}

int emulate_tile_load(struct emulate_tiles *tiles, size_t tile, const uint8_t *from,
                      ptrdiff_t stride)
{
    size_t first = tiles->config[START_ROW], width = row_bytes(tiles, tile);
    if (!usable(tiles, tile)) return 0;
    /* The rest of a tile, beyond its rows and their bytes, is zero since it was configured. */
    for (size_t i = first; i < rows(tiles, tile); i++)
        memcpy(tiles->row[tile][i], from + (ptrdiff_t)i * stride, width);
    tiles->config[START_ROW] = 0;
    return 1;
}

int emulate_tile_store(struct emulate_tiles *tiles, size_t tile, uint8_t *to, ptrdiff_t stride)
{
    size_t first = tiles->config[START_ROW], width = row_bytes(tiles, tile);
    if (!usable(tiles, tile)) return 0;
    for (size_t i = first; i < rows(tiles, tile); i++)
        memcpy(to + (ptrdiff_t)i * stride, tiles->row[tile][i], width);
    tiles->config[START_ROW] = 0;
    return 1;
}

struct operands {
    uint8_t (*c)[EMULATE_TILE_ROW_BYTES];
    const uint8_t (*a)[EMULATE_TILE_ROW_BYTES], (*b)[EMULATE_TILE_ROW_BYTES];
    size_t m, n, k; /* rows of c, 4-byte columns of c, 4-byte columns of a */
};

static void product_bytes(const struct operands *o, int a_signed, int b_signed)
{
    for (size_t m = 0; m < o->m; m++)
        for (size_t k = 0; k < o->k; k++) {
            uint8_t a[EMULATE_TILE_ROW_BYTES]; /* the same four bytes for every column */
            for (size_t n = 0; n < o->n; n++) memcpy(a + 4 * n, o->a[m] + 4 * k, 4);
            dot_bytes(a_signed, b_signed, 0, 4 * o->n, o->c[m], a, o->b[k]);
        }
}

static inline float half_at(const uint8_t *row, size_t i)
{
    uint16_t half;
    memcpy(&half, row + 2 * i, sizeof half);
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Even and odd products have a sum each, made of FMAs; the two are added, then the result to c. */
__attribute__((noinline, target("avx2,fma"))) static void product_bf16(const struct operands *o)
{
    for (size_t m = 0; m < o->m; m++) {
        float even[16] = {0}, odd[16] = {0}, c[16];
        for (size_t k = 0; k < o->k; k++) {
            float a_even = half_at(o->a[m], 2 * k), a_odd = half_at(o->a[m], 2 * k + 1);
            for (size_t n = 0; n < o->n; n++) {
                even[n] = fmaf(a_even, half_at(o->b[k], 2 * n), even[n]);
                odd[n] = fmaf(a_odd, half_at(o->b[k], 2 * n + 1), odd[n]);
            }
        }
        memcpy(c, o->c[m], 4 * o->n);
        for (size_t n = 0; n < o->n; n++) c[n] = c[n] + (even[n] + odd[n]);
        memcpy(o->c[m], c, 4 * o->n);
    }
}

/* Subnormal operands and results are zero whatever MXCSR says: the processor's own arithmetic does
 * this as asked. */
static void product_bf16_flushed(const struct operands *o)
{
    const uint32_t flushing = 0x9fc0; /* DAZ, FTZ, all exceptions masked, to the nearest */
    uint32_t before;
    __asm__ volatile("stmxcsr %0" : "=m"(before) : : "memory");
    __asm__ volatile("ldmxcsr %0" : : "m"(flushing) : "memory");
    product_bf16(o);
    __asm__ volatile("ldmxcsr %0" : : "m"(before) : "memory");
}

int emulate_tile_product(struct emulate_tiles *tiles, enum tile_product product, size_t c, size_t a,
                         size_t b)
{
    if (!usable(tiles, c) || !usable(tiles, a) || !usable(tiles, b) || c == a || c == b || a == b)
        return 0;
    if (row_bytes(tiles, c) % 4 || row_bytes(tiles, a) % 4 || row_bytes(tiles, b) % 4) return 0;
    if (rows(tiles, c) != rows(tiles, a) || row_bytes(tiles, c) != row_bytes(tiles, b)) return 0;
    if (row_bytes(tiles, a) / 4 != rows(tiles, b)) return 0;
    struct operands o = {.c = tiles->row[c],
                         .a = (const uint8_t(*)[EMULATE_TILE_ROW_BYTES])tiles->row[a],
                         .b = (const uint8_t(*)[EMULATE_TILE_ROW_BYTES])tiles->row[b],
                         .m = rows(tiles, c),
                         .n = row_bytes(tiles, c) / 4,
                         .k = row_bytes(tiles, a) / 4};
    if (product == TILE_BF16)
        product_bf16_flushed(&o);
    else
        product_bytes(&o, product == TILE_SS || product == TILE_SU,
                      product == TILE_SS || product == TILE_US);
    tiles->config[START_ROW] = 0;
    return 1;
}
