/* The arithmetic of the emulated instructions, as Intel's Software Developer's Manual defines them:
 * no registers, no signals. */
#ifndef RF_TEST_EMULATE_OPS_H
#define RF_TEST_EMULATE_OPS_H

#include <stddef.h>
#include <stdint.h>

/* A vector instruction is known by its opcode in map 0F38 and its mandatory prefix. */
enum vex_prefix { VEX_NONE, VEX_66, VEX_F3, VEX_F2 };

/* Bytes of its last source operand in memory at a vector length of `width` bytes (16 or 32); 0: no
 * such instruction. */
size_t emulate_source_bytes(unsigned opcode, enum vex_prefix prefix, size_t width);
/* 1 if it also reads its destination and a second register; 0 if its only source is the last
 * operand. */
int emulate_is_dot(unsigned opcode);
/* 1 if its source can only be memory. */
int emulate_memory_only(unsigned opcode);
/* `destination` holds the old value and gets the new one, zero beyond its width; `a` is the second
 * operand, `b` the last. */
void emulate_vector(unsigned opcode, enum vex_prefix prefix, size_t width, uint8_t destination[32],
                    const uint8_t a[32], const uint8_t b[32]);

enum { EMULATE_TILES = 8, EMULATE_TILE_ROWS = 16, EMULATE_TILE_ROW_BYTES = 64 };

struct emulate_tiles {
    uint8_t config[64]; /* operand of ldtilecfg; all zero: not configured */
    uint8_t row[EMULATE_TILES][EMULATE_TILE_ROWS][EMULATE_TILE_ROW_BYTES];
};

enum tile_product {
    TILE_BF16,
    TILE_SS,
    TILE_SU,
    TILE_US,
    TILE_UU
}; /* signs of the bytes of the first and second source */

/* Each returns 0 where a processor would raise an exception. */
int emulate_tile_configure(struct emulate_tiles *tiles, const uint8_t config[64]);
int emulate_tile_zero(struct emulate_tiles *tiles, size_t tile);
int emulate_tile_load(struct emulate_tiles *tiles, size_t tile, const uint8_t *from,
                      ptrdiff_t stride);
int emulate_tile_store(struct emulate_tiles *tiles, size_t tile, uint8_t *to, ptrdiff_t stride);
int emulate_tile_product(struct emulate_tiles *tiles, enum tile_product product, size_t c, size_t a,
                         size_t b);

#endif
