/* An arena: its memory is freed all at once. It holds what an open model points to, and what a
 * reader needs while it reads. */
#ifndef RF_MODEL_ARENA_H
#define RF_MODEL_ARENA_H

#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"

struct rf_arena {
    const struct rf_allocator *allocator;
    struct rf_arena_block *blocks;
    unsigned char *at; /* the next free byte of the block that serves small requests */
    size_t left;
};

/* `count` elements of `size` bytes, zeroed, 16-byte aligned. NULL with an error when the product
 * wraps or memory is short; `what` names the thing in the sentence. */
void *rf_arena_alloc(struct rf_arena *arena, size_t count, size_t size, const char *what,
                     struct rf_error *error);
void rf_arena_free(struct rf_arena *arena);

#endif
