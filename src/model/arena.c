/* Allocates zeroed memory in blocks that end together. A large request gets a block of its own,
 * so that it wastes none of the current one. Readers of model files, templates and grammars call
 * it. */
#include "model/arena.h"

#include <stdint.h>
#include <string.h>

enum { ALIGNMENT = 16, SMALL_BLOCK = 64 << 10 };

struct rf_arena_block {
    struct rf_arena_block *next;
    unsigned char pad[ALIGNMENT - sizeof(struct rf_arena_block *)];
};

static unsigned char *arena_add_block(struct rf_arena *arena, size_t bytes, const char *what,
                                      struct rf_error *error)
{
    struct rf_arena_block *block =
        rf_malloc(arena->allocator, 1, sizeof *block + bytes, what, error);
    if (!block) return NULL;
    block->next = arena->blocks;
    arena->blocks = block;
    return (unsigned char *)(block + 1);
}

void *rf_arena_alloc(struct rf_arena *arena, size_t count, size_t size, const char *what,
                     struct rf_error *error)
{
    if (size && count > (SIZE_MAX / 2) / size) {
        rf_fail(error, RF_ERR_MEMORY, "%s: %zu elements of %zu bytes are more than memory can hold",
                what, count, size);
        return NULL;
    }
    size_t bytes = (count * size + ALIGNMENT - 1) & ~((size_t)ALIGNMENT - 1);
    if (bytes == 0) bytes = ALIGNMENT; /* an empty request gets a valid pointer, too */
    if (bytes > SMALL_BLOCK / 4) {
        void *own = arena_add_block(arena, bytes, what, error);
        return own ? memset(own, 0, bytes) : NULL;
    }
    if (bytes > arena->left) {
        unsigned char *block = arena_add_block(arena, SMALL_BLOCK, what, error);
        if (!block) return NULL;
        arena->at = block;
        arena->left = SMALL_BLOCK;
    }
    unsigned char *memory = arena->at;
    arena->at += bytes;
    arena->left -= bytes;
    return memset(memory, 0, bytes);
}

void rf_arena_free(struct rf_arena *arena)
{
    while (arena->blocks) {
        struct rf_arena_block *block = arena->blocks;
        arena->blocks = block->next;
        rf_free(arena->allocator, block);
    }
    arena->at = NULL;
    arena->left = 0;
}
