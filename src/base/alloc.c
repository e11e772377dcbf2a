/* Allocation through struct rf_allocator. A header of 64 bytes in front of each block keeps its
 * size, so that blocks stay aligned and rf_free needs no size. */
#include "base/alloc.h"

#include <stdint.h>
#include <string.h>

#include "base/error.h"

/* Precedes every block and keeps it 64-byte aligned. */
struct header {
    size_t bytes;
    unsigned char pad[64 - sizeof(size_t)];
};

void *rf_malloc(const struct rf_allocator *allocator, size_t count, size_t size, const char *what,
                struct rf_error *error)
{
    if (size && count > (SIZE_MAX - sizeof(struct header)) / size) {
        rf_fail(error, RF_ERR_MEMORY, "%s: %zu elements of %zu bytes are more than memory can hold",
                what, count, size);
        return NULL;
    }
    size_t bytes = sizeof(struct header) + count * size;
    struct header *block = allocator->alloc(allocator->user, bytes);
    if (!block) {
        rf_fail(error, RF_ERR_MEMORY, "%s: no memory for %zu bytes", what, count * size);
        return NULL;
    }
    block->bytes = bytes;
    return block + 1;
}

void *rf_calloc(const struct rf_allocator *allocator, size_t count, size_t size, const char *what,
                struct rf_error *error)
{
    void *memory = rf_malloc(allocator, count, size, what, error);
    if (memory) memset(memory, 0, count * size);
    return memory;
}

void rf_free(const struct rf_allocator *allocator, void *memory)
{
    if (!memory) return;
    struct header *block = (struct header *)memory - 1;
    allocator->release(allocator->user, block, block->bytes);
}

char *rf_strndup(const struct rf_allocator *allocator, const char *text, size_t n,
                 struct rf_error *error)
{
    if (n == SIZE_MAX) {
        rf_fail(error, RF_ERR_MEMORY, "text: more than memory can hold");
        return NULL;
    }
    char *copy = rf_malloc(allocator, n + 1, 1, "text", error);
    if (!copy) return NULL;
    if (n) memcpy(copy, text, n);
    copy[n] = 0;
    return copy;
}

void *rf_grow(const struct rf_allocator *allocator, void *old, size_t count, size_t more,
              size_t *cap, size_t size, const char *what, struct rf_error *error)
{
    if (more > SIZE_MAX / 16 - count) {
        rf_fail(error, RF_ERR_MEMORY, "%s: more than memory can hold", what);
        return NULL;
    }
    if (old && count + more <= *cap) return old;
    size_t grown_cap = *cap ? *cap * 2 : 256;
    while (grown_cap < count + more) grown_cap *= 2;
    void *grown = rf_malloc(allocator, grown_cap, size, what, error);
    if (!grown) return NULL;
    if (count) memcpy(grown, old, count * size);
    rf_free(allocator, old);
    *cap = grown_cap;
    return grown;
}

int rf_bytes_append(const struct rf_allocator *allocator, struct rf_bytes *bytes, const void *data,
                    size_t n, struct rf_error *error)
{
    if (n == 0) return 0;
    char *grown = rf_grow(allocator, bytes->data, bytes->count, n, &bytes->cap, 1, "text", error);
    if (!grown) return RF_ERR_MEMORY;
    bytes->data = grown;
    memcpy(bytes->data + bytes->count, data, n);
    bytes->count += n;
    return 0;
}

void rf_bytes_free(const struct rf_allocator *allocator, struct rf_bytes *bytes)
{
    rf_free(allocator, bytes->data);
    *bytes = (struct rf_bytes){0};
}

void rf_write(struct rf_writer *writer, const void *data, size_t n)
{
    if (!writer->code)
        writer->code = rf_bytes_append(writer->allocator, writer->bytes, data, n, writer->error);
}

void rf_write_text(struct rf_writer *writer, const char *text)
{
    rf_write(writer, text, strlen(text));
}
