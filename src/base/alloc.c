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

int rf_bytes_append(const struct rf_allocator *allocator, struct rf_bytes *bytes, const void *data,
                    size_t n, struct rf_error *error)
{
    if (n > SIZE_MAX / 4 - bytes->count)
        return rf_fail(error, RF_ERR_MEMORY, "text: more than memory can hold");
    if (bytes->count + n > bytes->cap) {
        size_t cap = bytes->cap ? bytes->cap * 2 : 256;
        while (cap < bytes->count + n) cap *= 2;
        char *grown = rf_malloc(allocator, cap, 1, "text", error);
        if (!grown) return RF_ERR_MEMORY;
        if (bytes->count) memcpy(grown, bytes->data, bytes->count);
        rf_free(allocator, bytes->data);
        bytes->data = grown;
        bytes->cap = cap;
    }
    if (n) memcpy(bytes->data + bytes->count, data, n);
    bytes->count += n;
    return 0;
}

void rf_bytes_free(const struct rf_allocator *allocator, struct rf_bytes *bytes)
{
    rf_free(allocator, bytes->data);
    *bytes = (struct rf_bytes){0};
}
