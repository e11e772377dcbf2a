/* Takes bytes and little-endian integers from a block of file bytes. It never moves beyond the
 * end: a short block fails the reading. The parsers of GGUF and of safetensors headers call it. */
#include "model/cursor.h"

#include <inttypes.h>

const unsigned char *rf_cursor_take(struct rf_cursor *cursor, uint64_t n, const char *what)
{
    size_t left = rf_cursor_left(cursor), at = cursor->at;
    if (n > left)
        rf_bad(cursor->reading, RF_ERR_FORMAT,
               "%s at byte %zu needs %" PRIu64 " bytes, but %zu are left", what, at, n, left);
    cursor->at = cursor->reading->code ? cursor->bytes : at + (size_t)n;
    return cursor->reading->code ? NULL : cursor->data + at;
}

uint64_t rf_load_le(const unsigned char *data, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= (uint64_t)data[i] << (8 * i);
    return value;
}

uint32_t rf_cursor_u32(struct rf_cursor *cursor, const char *what)
{
    const unsigned char *data = rf_cursor_take(cursor, 4, what);
    return data ? (uint32_t)rf_load_le(data, 4) : 0;
}

uint64_t rf_cursor_u64(struct rf_cursor *cursor, const char *what)
{
    const unsigned char *data = rf_cursor_take(cursor, 8, what);
    return data ? rf_load_le(data, 8) : 0;
}
