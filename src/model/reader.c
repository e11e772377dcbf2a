/* The state of a reading: its first failure, its memory, and the bounds on both. Both
 * containers' readers call it. */
#include "model/reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

struct rf_reading rf_reading_of(struct rf_source *source, const char *path, struct rf_error *error)
{
    return (struct rf_reading){.source = source,
                               .path = path,
                               .error = error,
                               .arena.allocator = &source->private_->allocator};
}

int rf_bad_part(struct rf_reading *reading, const char *part, int code, const char *format, ...)
{
    if (reading->code) return reading->code;
    char sentence[sizeof reading->error->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    reading->code = rf_fail(reading->error, code, "%s%s%s: %s", reading->path, part ? "/" : "",
                            part ? part : "", sentence);
    return code;
}

int rf_charge(struct rf_reading *reading, const char *part, uint64_t bytes, const char *what)
{
    if (reading->code || !reading->source) return reading->code;
    struct rf_source_private *private_ = reading->source->private_;
    uint64_t most = private_->options.metadata_bytes;
    if (!most) most = ((uint64_t)160 << 20) + 2 * private_->stored_bytes;
    if (bytes > most - private_->metadata_bytes)
        return rf_bad_part(reading, part, RF_ERR_MEMORY,
                           "its metadata takes more than %" PRIu64
                           " MB (%s); metadata_bytes sets the limit",
                           most / 1000000, what);
    private_->metadata_bytes += bytes;
    return 0;
}

int rf_count(struct rf_reading *reading, uint64_t n, const char *what)
{
    uint64_t most = reading->source->private_->options.metadata_items;
    if (!most) most = 1 << 20;
    if (n > most)
        rf_bad(reading, RF_ERR_MEMORY,
               "%" PRIu64 " %s are more than %" PRIu64 "; metadata_items sets the limit", n, what,
               most);
    return reading->code;
}

static void *reading_alloc(struct rf_reading *reading, struct rf_arena *arena, size_t count,
                           size_t size, const char *what)
{
    uint64_t bytes;
    if (rf_mul_wraps(count, size, &bytes)) bytes = UINT64_MAX;
    if (rf_charge(reading, reading->part, bytes, what)) return NULL;
    void *memory = rf_arena_alloc(arena, count, size, what, reading->error);
    if (!memory) reading->code = RF_ERR_MEMORY;
    return memory;
}

void *rf_keep(struct rf_reading *reading, size_t count, size_t size, const char *what)
{
    return reading_alloc(reading, &reading->source->private_->arena, count, size, what);
}

void *rf_take(struct rf_reading *reading, size_t count, size_t size, const char *what)
{
    return reading_alloc(reading, &reading->arena, count, size, what);
}

char *rf_keep_text(struct rf_reading *reading, struct rf_str text)
{
    char *copy = rf_keep(reading, text.bytes + 1, 1, "text");
    if (copy && text.bytes) memcpy(copy, text.data, text.bytes);
    return copy;
}
