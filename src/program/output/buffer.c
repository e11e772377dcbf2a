/* Growing texts, and memory that is never missing: the program exits instead. Nobody who calls
 * these functions has to check. */
#include "output/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cli_no_memory(void)
{
    fputs("riffle: out of memory\n", stderr);
    exit(CLI_FAILED);
}

void *cli_reallocate(void *block, size_t count, size_t size)
{
    size_t bytes = count && size ? count * size : 1;
    void *result = size && count > SIZE_MAX / size ? NULL : realloc(block, bytes);
    if (!result) cli_no_memory();
    return result;
}

void *cli_allocate(size_t count, size_t size)
{
    return cli_reallocate(NULL, count, size);
}

char *cli_copy(const char *text, size_t n)
{
    char *copy = cli_allocate(n + 1, 1);
    if (n) memcpy(copy, text, n);
    copy[n] = 0;
    return copy;
}

/* Makes room for n more bytes and a zero. */
static char *reserve(struct buffer *buffer, size_t n)
{
    if (buffer->cap - buffer->count < n + 1) {
        size_t cap = buffer->cap ? buffer->cap : 256;
        while (cap - buffer->count < n + 1) cap = cap > SIZE_MAX / 2 ? SIZE_MAX : cap * 2;
        buffer->data = cli_reallocate(buffer->data, cap, 1);
        buffer->cap = cap;
    }
    return buffer->data + buffer->count;
}

void buffer_append(struct buffer *buffer, const void *data, size_t n)
{
    char *end = reserve(buffer, n);
    if (n) memcpy(end, data, n);
    end[n] = 0;
    buffer->count += n;
}

void buffer_puts(struct buffer *buffer, const char *text)
{
    buffer_append(buffer, text, strlen(text));
}

void buffer_printf(struct buffer *buffer, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    size_t n = (size_t)vsnprintf(NULL, 0, format, arguments);
    vsnprintf(reserve(buffer, n), n + 1, format, again);
    buffer->count += n;
    va_end(again);
    va_end(arguments);
}

void buffer_write(const struct buffer *buffer, FILE *out)
{
    /* fwrite() takes no null pointer, of no bytes either. */
    if (buffer->count) fwrite(buffer->data, 1, buffer->count, out);
}

void buffer_clear(struct buffer *buffer)
{
    buffer->count = 0;
    if (buffer->data) buffer->data[0] = 0;
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){0};
}
