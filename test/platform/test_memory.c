/* Blocks, mappings and files as platform/memory.h and platform/file.h promise them. */
#define _DEFAULT_SOURCE
#include "platform/file.h"
#include "platform/memory.h"

#include <sys/stat.h>

#include "base/error.h"
#include "model/probe.h"
#include "support/check.h"

static char folder[512], path[600];

static void test_blocks(void)
{
    static const size_t sizes[] = {1,      63, 64, 65, 4096, (2 << 20) - 1, 2 << 20, (2 << 20) + 1,
                                   5 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *memory = rf_system_allocator.alloc(NULL, sizes[i]);
        CHECK_MSG(memory && (uintptr_t)memory % 64 == 0, "%zu bytes: %p", sizes[i], (void *)memory);
        if (!memory) continue;
        memset(memory, 1, sizes[i]);
        CHECK(memory[sizes[i] - 1] == 1);
        rf_system_allocator.release(NULL, memory, sizes[i]);
    }
    CHECK(rf_system_allocator.alloc(NULL, SIZE_MAX - 64) == NULL);
    CHECK(rf_system_allocator.alloc(NULL, SIZE_MAX / 2) == NULL);
}

static void test_mapping(void)
{
    struct rf_mapping mapping;
    struct rf_error error = {0};
    CHECK_INT(probe_write(path, "twelve bytes", 12), 0);
    CHECK(rf_file_bytes(path) >= 0);
    CHECK_INT(rf_map_file(&mapping, path, 0, &error), 0);
    CHECK(mapping.bytes == 12 && memcmp(mapping.data, "twelve bytes", 12) == 0);
    rf_unmap_file(&mapping);
    CHECK(mapping.data == NULL && mapping.bytes == 0 && probe_mappings(path) <= 0);
    rf_unmap_file(&mapping);

    CHECK_INT(probe_write(path, "", 0), 0);
    CHECK_INT(rf_map_file(&mapping, path, 0, &error), 0);
    CHECK(mapping.data == NULL && mapping.bytes == 0);
    rf_unmap_file(&mapping);

    CHECK_INT(rf_map_file(&mapping, folder, 0, &error), RF_ERR_IO);
    CHECK_MSG(strstr(error.text, folder) && strstr(error.text, "is a folder"), "%s", error.text);
    remove(path);
    CHECK_INT(rf_map_file(&mapping, path, 0, &error), RF_ERR_IO);
    CHECK_MSG(strstr(error.text, path) && strstr(error.text, "cannot open"), "%s", error.text);
    /* A pipe is refused, not waited for. */
    CHECK_INT(mkfifo(path, 0600), 0);
    CHECK_INT(rf_map_file(&mapping, path, 0, &error), RF_ERR_IO);
    CHECK_MSG(strstr(error.text, "not a regular file"), "%s", error.text);
    CHECK(rf_file_bytes(path) < 0 && !rf_is_directory(path));
    remove(path);
    CHECK(rf_is_directory(folder) && rf_file_bytes(folder) < 0);
}

static void test_sizes(void)
{
    enum { BLOCK = 64 << 20 };
    CHECK(rf_memory_physical() > 64 << 20);
    CHECK(rf_memory_peak_rss() > 64 << 10);
    volatile unsigned char *memory = rf_system_allocator.alloc(NULL, BLOCK);
    CHECK(memory != NULL);
    if (!memory) return;
    for (size_t i = 0; i < BLOCK; i += 4096) memory[i] = 1;
    CHECK(rf_memory_peak_rss() >= BLOCK);
    rf_system_allocator.release(NULL, (void *)(uintptr_t)memory, BLOCK);
    CHECK_MSG(rf_memory_peak_rss() >= BLOCK, "the peak went back");
}

int main(void)
{
    if (probe_folder(folder, sizeof folder)) {
        fprintf(stderr, "no temporary folder\n");
        return 1;
    }
    snprintf(path, sizeof path, "%s/file", folder);
    test_blocks();
    test_mapping();
    test_sizes();
    rmdir(folder);
    return check_result();
}
