/* A growing text. The program exits with a sentence if memory runs out: it has nothing to save. */
#ifndef OUTPUT_BUFFER_H
#define OUTPUT_BUFFER_H

#include <stddef.h>
#include <stdio.h>

#include "output/status.h"

/* `data` is NULL or ends with a zero byte that is not counted. All zero is an empty buffer. */
struct buffer {
    char *data;
    size_t count, cap;
};

void buffer_append(struct buffer *buffer, const void *data, size_t n);
void buffer_puts(struct buffer *buffer, const char *text);
void buffer_printf(struct buffer *buffer, const char *format, ...) CLI_PRINTF(2, 3);
void buffer_write(const struct buffer *buffer, FILE *out);
void buffer_clear(struct buffer *buffer);
void buffer_free(struct buffer *buffer);

/* Exits with a sentence. */
_Noreturn void cli_no_memory(void);
/* Counterparts of malloc, realloc and strdup that never return NULL; count * size is checked. */
void *cli_allocate(size_t count, size_t size);
void *cli_reallocate(void *block, size_t count, size_t size);
char *cli_copy(const char *text, size_t n);

#endif
