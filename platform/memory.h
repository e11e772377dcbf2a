/* Memory as the operating system gives it. */
#ifndef RF_PLATFORM_MEMORY_H
#define RF_PLATFORM_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

/* The default allocator. Blocks of 2 MiB and more are mapped with huge pages where possible. */
extern const struct rf_allocator rf_system_allocator;
/* Whether they are, in a few words that follow "huge pages". */
const char *rf_memory_huge_pages(void);

/* Gives back the memory of a part of a mapped file. It is read again when it is touched. */
void rf_memory_give_back(const void *data, size_t bytes);

uint64_t rf_memory_physical(void); /* bytes; the container's limit where that is lower */
uint64_t rf_memory_peak_rss(void); /* bytes */

#endif
