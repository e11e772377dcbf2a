/* Memory and mapped files. */
#ifndef RF_PLATFORM_MEMORY_H
#define RF_PLATFORM_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

/* The default allocator. Blocks of 2 MiB and more are mapped with huge pages where possible. */
extern const struct rf_allocator rf_system_allocator;

struct rf_mapping {
    const unsigned char *data; /* NULL for an empty file */
    size_t bytes;
};

/* Maps a whole regular file read-only. 0, or a negative code with a sentence that names the path.
 */
int rf_map_file(struct rf_mapping *mapping, const char *path, struct rf_error *error);
void rf_unmap_file(struct rf_mapping *mapping);
int rf_is_directory(const char *path);
int rf_file_exists(const char *path);

uint64_t rf_memory_physical(void); /* bytes; the container's limit where that is lower */
uint64_t rf_memory_peak_rss(void); /* bytes */

#endif
