/* The memory of the plain backend's device: the host cannot reach it. Pages have no rights but
 * between plain_memory_open and plain_memory_close, so a stray pointer of the host's into it ends
 * the process. */
#ifndef RF_TEST_PLAIN_MEMORY_H
#define RF_TEST_PLAIN_MEMORY_H

#include <stddef.h>

#include "base/error.h"

struct plain_memory;

int plain_memory_new(struct plain_memory **memory, struct rf_error *error);
void plain_memory_free(struct plain_memory *memory);

/* The device works or copies: one thread at a time. */
void plain_memory_open(struct plain_memory *memory);
void plain_memory_close(struct plain_memory *memory);

/* While it is open: `count` floats, all NaN; NULL with an error when there is no room. */
float *plain_memory_take(struct plain_memory *memory, size_t count, const char *what,
                         struct rf_error *error);
void plain_memory_give(struct plain_memory *memory, float *taken); /* NULL is allowed */
void plain_memory_ruin(float *at, size_t count);                   /* makes them NaN */

const void *plain_memory_address(const struct plain_memory *memory);
/* Bytes that are taken. */
size_t plain_memory_taken(const struct plain_memory *memory);

#endif
