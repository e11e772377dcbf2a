/* The parts of a split GGUF model, NAME-00001-of-0000N.gguf, as llama.cpp's gguf-split writes them.
 * The first part has the metadata; tensors of the others are added to its own. gguf.c calls it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/gguf.h"

enum { SUFFIX = 20, /* bytes of "-00001-of-00003.gguf" */ LONGEST_PATH = 4096 };

/* Writes the path of part `number`, which is counted from 1. 0, or -1 if the path of the first part
 * is not that of a part of so many. */
static int part_path(const char *first, int64_t number, int64_t count, char path[LONGEST_PATH])
{
    size_t n = strlen(first);
    char suffix[2 * SUFFIX];
    snprintf(suffix, sizeof suffix, "-00001-of-%05" PRId64 ".gguf", count);
    if (n < SUFFIX || n >= LONGEST_PATH || strcmp(first + n - SUFFIX, suffix) != 0) return -1;
    snprintf(path, LONGEST_PATH, "%.*s-%05" PRId64 "-of-%05" PRId64 ".gguf", (int)(n - SUFFIX),
             first, number, count);
    return 0;
}

/* Checks the keys of a part, of which `no` comes before. Its tensors are the source's now. */
static void check_part(struct rf_gguf *part, int64_t no, int64_t count)
{
    int64_t its_count = rf_gguf_integer(part, "split.count", 0, UINT16_MAX, 0);
    int64_t its_no = rf_gguf_integer(part, "split.no", 0, UINT16_MAX, -1);
    if (its_no != no || its_count != count)
        rf_bad(part->reading, RF_ERR_FORMAT,
               "is part %" PRId64 " of %" PRId64 " by its metadata (split.no, split.count), not "
               "part %" PRId64 " of %" PRId64,
               its_no + 1, its_count, no + 1, count);
}

/* Puts `n` tensors of the parts before in front of the source's. */
static void join_tensors(struct rf_reading *reading, const struct rf_tensor *before, int32_t n)
{
    struct rf_source *source = reading->source;
    int32_t n_new = source->n_tensors;
    size_t all = (size_t)n + (size_t)n_new;
    rf_count(reading, all, "tensors");
    struct rf_tensor *joined = rf_keep(reading, all, sizeof *joined, "tensors");
    if (!joined) return;
    if (n) memcpy(joined, before, (size_t)n * sizeof *joined);
    if (n_new) memcpy(joined + n, source->tensors, (size_t)n_new * sizeof *joined);
    source->tensors = joined;
    source->n_tensors = (int32_t)all;
}

/* Reads one part and adds its tensors. Returns a code. */
static int add_part(struct rf_source *source, const char *path, int64_t no, int64_t count,
                    struct rf_error *error)
{
    struct rf_reading reading = rf_reading_of(source, path, error);
    struct rf_gguf part = {.reading = &reading};
    const struct rf_tensor *before = source->tensors;
    int32_t n_before = source->n_tensors;
    struct rf_mapping mapping;
    int code = rf_source_map(source, path, &mapping, error);
    if (code) return code;
    source->tensors = NULL;
    source->n_tensors = 0;
    if (rf_gguf_parse(&part, mapping.data, mapping.bytes) == 0) check_part(&part, no, count);
    if (!reading.code) join_tensors(&reading, before, n_before);
    rf_arena_free(&reading.arena);
    return reading.code;
}

void rf_gguf_join_parts(struct rf_gguf *gguf)
{
    struct rf_reading *reading = gguf->reading;
    struct rf_source *source = reading->source;
    char path[LONGEST_PATH];
    int64_t count = rf_gguf_integer(gguf, "split.count", 0, UINT16_MAX, 1);
    int64_t no = rf_gguf_integer(gguf, "split.no", 0, UINT16_MAX, 0);
    int64_t n_tensors = rf_gguf_integer(gguf, "split.tensors.count", 0, INT32_MAX, -1);
    if (reading->code || count <= 1) return;
    if (no != 0)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "is part %" PRId64 " of the %" PRId64
               " of a split model (split.no): open the first one",
               no + 1, count);
    else if (part_path(reading->path, 1, count, path) != 0)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "is the first of %" PRId64
               " parts of a split model (split.count), but is not called "
               "NAME-00001-of-%05" PRId64 ".gguf, so that the others cannot be found",
               count, count);
    for (int64_t i = 1; !reading->code && i < count; i++) {
        part_path(reading->path, i + 1, count, path);
        reading->code = add_part(source, path, i, count, reading->error);
    }
    if (n_tensors >= 0 && source->n_tensors != n_tensors)
        rf_bad(reading, RF_ERR_FORMAT,
               "has %" PRId32 " tensors in all its parts, not %" PRId64 " (split.tensors.count)",
               source->n_tensors, n_tensors);
    gguf->is_joined = 1;
}
