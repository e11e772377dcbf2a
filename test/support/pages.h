/* Pages of memory whose rights change, for operands that end where reading them faults. */
#ifndef RF_TEST_PAGES_H
#define RF_TEST_PAGES_H

#include <stddef.h>

enum { PAGE = 4096 };

static inline size_t pages_of(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Zeros that nobody may read or write yet, in whole pages. Ends the program without memory. */
void *pages_new(size_t bytes);
/* Allows to read and write these pages, or forbids it. */
void pages_allow(void *pages, size_t bytes, int is_allowed);
/* `bytes` as of pages_new. */
void pages_free(void *pages, size_t bytes);

#endif
