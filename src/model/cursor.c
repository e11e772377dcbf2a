#include "model/cursor.h"

#include <inttypes.h>

int rf_cursor_take(struct rf_cursor *cursor, uint64_t n, const char *what,
                   const unsigned char **data)
{
    size_t left = rf_cursor_left(cursor);
    if (n > left)
        return rf_fail(cursor->error, RF_ERR_FORMAT,
                       "%s: %s at byte %zu needs %" PRIu64 " bytes, but %zu are left", cursor->path,
                       what, cursor->at, n, left);
    *data = cursor->data + cursor->at;
    cursor->at += (size_t)n;
    return 0;
}

uint64_t rf_load_le(const unsigned char *data, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= (uint64_t)data[i] << (8 * i);
    return value;
}

int rf_cursor_u8(struct rf_cursor *cursor, const char *what, uint8_t *value)
{
    const unsigned char *data = NULL;
    *value = 0;
    int code = rf_cursor_take(cursor, 1, what, &data);
    if (!code) *value = data[0];
    return code;
}

int rf_cursor_u32(struct rf_cursor *cursor, const char *what, uint32_t *value)
{
    const unsigned char *data = NULL;
    *value = 0;
    int code = rf_cursor_take(cursor, 4, what, &data);
    if (!code) *value = (uint32_t)rf_load_le(data, 4);
    return code;
}

int rf_cursor_u64(struct rf_cursor *cursor, const char *what, uint64_t *value)
{
    const unsigned char *data = NULL;
    *value = 0;
    int code = rf_cursor_take(cursor, 8, what, &data);
    if (!code) *value = rf_load_le(data, 8);
    return code;
}
