/* All file headers are read through a cursor: a position in a block of bytes that never leaves the
 * block. The parsers of GGUF and safetensors headers own one each. */
#ifndef RF_MODEL_CURSOR_H
#define RF_MODEL_CURSOR_H

#include <assert.h>

#include "model/reader.h"

struct rf_cursor {
    const unsigned char *data;
    size_t bytes, at;
    struct rf_reading *reading;
};

static inline size_t rf_cursor_left(const struct rf_cursor *cursor)
{
    assert(cursor->at <= cursor->bytes);
    return cursor->bytes - cursor->at;
}

/* Takes the next n bytes, in place. If fewer are left, the reading fails with a sentence that says
 * where the file ended inside `what`. After a failure the result is NULL and nothing is left. */
const unsigned char *rf_cursor_take(struct rf_cursor *cursor, uint64_t n, const char *what);
/* Little-endian integers; 0 after a failure. */
uint32_t rf_cursor_u32(struct rf_cursor *cursor, const char *what);
uint64_t rf_cursor_u64(struct rf_cursor *cursor, const char *what);

/* Decodes a little-endian integer of 1, 2, 4 or 8 bytes. */
uint64_t rf_load_le(const unsigned char *data, size_t bytes);

#endif
