#include "model/reader.h"

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

static void *allocate(struct rf_reading *reading, struct rf_arena *arena, size_t count, size_t size,
                      const char *what)
{
    if (reading->code) return NULL;
    void *memory = rf_arena_alloc(arena, count, size, what, reading->error);
    if (!memory) reading->code = RF_ERR_MEMORY;
    return memory;
}

void *rf_keep(struct rf_reading *reading, size_t count, size_t size, const char *what)
{
    return allocate(reading, &reading->source->private_->arena, count, size, what);
}

void *rf_take(struct rf_reading *reading, size_t count, size_t size, const char *what)
{
    return allocate(reading, &reading->arena, count, size, what);
}

char *rf_keep_text(struct rf_reading *reading, struct rf_str text)
{
    char *copy = rf_keep(reading, text.bytes + 1, 1, "text");
    if (copy && text.bytes) memcpy(copy, text.data, text.bytes);
    return copy;
}
