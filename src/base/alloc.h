/* Allocation. All memory that a model or a session keeps comes from the allocator that its owner
 * was opened with. So a host can count it, and tests can make any single call fail. */
#ifndef RF_BASE_ALLOC_H
#define RF_BASE_ALLOC_H

#include <stddef.h>

struct rf_error;

struct rf_allocator {
    void *(*alloc)(void *user, size_t bytes); /* 64-byte aligned, or NULL */
    void (*release)(void *user, void *memory, size_t bytes);
    void *user;
};

/* The functions below store a block's size in front of it, so rf_free needs no size. */

/* `count` elements of `size` bytes, zeroed. NULL with an error when the product wraps or memory is
 * short; `what` names the thing in the sentence. count 0 gives a valid pointer. */
void *rf_calloc(const struct rf_allocator *allocator, size_t count, size_t size, const char *what,
                struct rf_error *error);
/* rf_calloc without zeros: for large buffers that are written before they are read. */
void *rf_malloc(const struct rf_allocator *allocator, size_t count, size_t size, const char *what,
                struct rf_error *error);
void rf_free(const struct rf_allocator *allocator, void *memory);
/* A copy of n bytes with a terminating zero. */
char *rf_strndup(const struct rf_allocator *allocator, const char *text, size_t n,
                 struct rf_error *error);

/* Room in a growing array for `more` elements behind the `count` that it has. Returns the array,
 * which may be another block than `old`, or NULL; `old` then stays as it is. */
void *rf_grow(const struct rf_allocator *allocator, void *old, size_t count, size_t more,
              size_t *cap, size_t size, const char *what, struct rf_error *error);

/* A growing array of bytes. A failed call leaves it unchanged. */
struct rf_bytes {
    char *data;
    size_t count, cap;
};
int rf_bytes_append(const struct rf_allocator *allocator, struct rf_bytes *bytes, const void *data,
                    size_t n, struct rf_error *error);
void rf_bytes_free(const struct rf_allocator *allocator, struct rf_bytes *bytes);

/* Appends to `bytes` until an append fails; `code` is then its code. */
struct rf_writer {
    const struct rf_allocator *allocator;
    struct rf_bytes *bytes;
    struct rf_error *error;
    int code;
};
void rf_write(struct rf_writer *writer, const void *data, size_t n);
void rf_write_text(struct rf_writer *writer, const char *text);

#endif
