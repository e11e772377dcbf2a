/* Memory and files as the operating system gives them. */
#ifndef RF_PLATFORM_MEMORY_H
#define RF_PLATFORM_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

/* The default allocator: aligned blocks; those of 2 MiB and more are pages of their own with huge pages asked for. */
extern const struct rf_allocator rf_system_allocator;

struct rf_mapping {
    const unsigned char *data; /* NULL for an empty file */
    size_t bytes;
};

/* Maps a whole regular file read-only. 0, or a negative code with a sentence that names the path. */
int rf_map_file(struct rf_mapping *mapping, const char *path, struct rf_error *error);
void rf_unmap_file(struct rf_mapping *mapping);
/* Tells the system that a range of a mapping will be read soon. */
void rf_map_prefetch(const struct rf_mapping *mapping, size_t offset, size_t bytes);

/* Reads a whole file into a block of the allocator (free it with rf_free), with a terminating zero that is not counted.
 * Files over `limit` bytes are refused. */
int rf_read_file(const char *path, size_t limit, const struct rf_allocator *allocator, char **data, size_t *bytes,
                 struct rf_error *error);

int rf_is_directory(const char *path);
int rf_file_exists(const char *path);

uint64_t rf_memory_physical(void); /* bytes; the container's limit where that is lower */
uint64_t rf_memory_peak_rss(void); /* bytes */

#endif
