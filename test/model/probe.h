/* Resources that the readers' tests watch: allocations, open mappings, temporary files. */
#ifndef RF_TEST_PROBE_H
#define RF_TEST_PROBE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "platform/memory.h"

/* An allocator that counts, and fails the n-th request (1 is the first; 0: none). */
struct probe {
    long requests, fail_at;
    long live;
    size_t largest;
};

static inline void *probe_alloc(void *user, size_t bytes)
{
    struct probe *probe = user;
    probe->requests++;
    if (bytes > probe->largest) probe->largest = bytes;
    if (probe->requests == probe->fail_at) return NULL;
    void *memory = rf_system_allocator.alloc(NULL, bytes);
    if (!memory) return NULL;
    memset(memory, 0xa5, bytes); /* nothing may count on zeroed memory */
    probe->live++;
    return memory;
}

static inline void probe_release(void *user, void *memory, size_t bytes)
{
    struct probe *probe = user;
    probe->live--;
    memset(memory, 0x5a, bytes);
    rf_system_allocator.release(NULL, memory, bytes);
}

static inline struct rf_allocator probe_allocator(struct probe *probe)
{
    return (struct rf_allocator){probe_alloc, probe_release, probe};
}

/* Mappings of this process whose path contains `text`; -1 where the system does not tell. */
static inline int probe_mappings(const char *text)
{
    FILE *file = fopen("/proc/self/maps", "r");
    if (!file) return -1;
    char line[1024];
    int n = 0;
    while (fgets(line, sizeof line, file)) n += strstr(line, text) != NULL;
    fclose(file);
    return n;
}

/* A new folder under $TMPDIR; the caller removes what it puts there. */
static inline int probe_folder(char *path, size_t bytes)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, bytes, "%s/riffle-test-XXXXXX", base && *base ? base : "/tmp");
    return mkdtemp(path) ? 0 : -1;
}

static inline int probe_write(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    if (!file) return -1;
    size_t n = bytes ? fwrite(data, 1, bytes, file) : 0;
    return fclose(file) == 0 && n == bytes ? 0 : -1;
}

#endif
