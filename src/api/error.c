/* Errors, options and results at the border to the caller: the sentence of riffle_last_error(), and
 * structures whose size the caller's version decides (struct_size). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/handles.h"
#include "platform/memory.h"

_Static_assert((int)RIFFLE_OK == (int)RF_OK && (int)RIFFLE_ERR_ARGUMENT == (int)RF_ERR_ARGUMENT &&
                   (int)RIFFLE_ERR_MEMORY == (int)RF_ERR_MEMORY &&
                   (int)RIFFLE_ERR_IO == (int)RF_ERR_IO &&
                   (int)RIFFLE_ERR_FORMAT == (int)RF_ERR_FORMAT &&
                   (int)RIFFLE_ERR_UNSUPPORTED == (int)RF_ERR_UNSUPPORTED &&
                   (int)RIFFLE_ERR_CONTEXT == (int)RF_ERR_CONTEXT &&
                   (int)RIFFLE_ERR_CANCELLED == (int)RF_ERR_CANCELLED &&
                   (int)RIFFLE_ERR_SYSTEM == (int)RF_ERR_SYSTEM,
               "riffle_code differs from rf_code");

_Static_assert((int)RIFFLE_MAX_LEVELS == (int)RF_MAX_LEVELS &&
                   (int)RIFFLE_MAX_DRAFT == (int)RF_MAX_DRAFT,
               "the arrays of riffle_stats differ from those of the cascade");

/* One sentence for each thread, like errno: a call can fail before there is a handle, and threads
 * share models. */
static _Thread_local struct rf_error last_error;

int rf_api_fail(const struct rf_error *error)
{
    last_error = *error;
    return error->code;
}

int rf_api_error(int code, const char *format, ...)
{
    char text[sizeof last_error.text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return rf_fail(&last_error, code, "%s", text);
}

const char *riffle_last_error(void)
{
    return last_error.text;
}

const char *riffle_strerror(int code)
{
    switch (code) {
    case RIFFLE_ERR_ARGUMENT: return "invalid argument";
    case RIFFLE_ERR_MEMORY: return "out of memory";
    case RIFFLE_ERR_IO: return "input/output error";
    case RIFFLE_ERR_FORMAT: return "malformed file";
    case RIFFLE_ERR_UNSUPPORTED: return "not supported";
    case RIFFLE_ERR_CONTEXT: return "context full";
    case RIFFLE_ERR_CANCELLED: return "cancelled";
    case RIFFLE_ERR_SYSTEM: return "system error";
    default: return code >= 0 ? "success" : "unknown error";
    }
}

int rf_api_take(void *ours, size_t our_size, const void *given, size_t reserved, const char *name)
{
    if (!given) return 0;
    size_t size;
    memcpy(&size, given, sizeof size);
    if (size < sizeof size || size > 4096)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s: struct_size is %zu: start from %s_init()",
                            name, size, name);
    for (size_t at = reserved; at < size; at++)
        if (((const unsigned char *)given)[at])
            return rf_api_error(RIFFLE_ERR_ARGUMENT,
                                "%s: reserved, byte %zu, is not zero: version %s has no field "
                                "there; start from %s_init()",
                                name, at, riffle_version(), name);
    memcpy(ours, given, size < our_size ? size : our_size);
    return 0;
}

void rf_api_give(void *theirs, size_t their_size, const void *ours, size_t our_size)
{
    memset(theirs, 0, their_size);
    memcpy(theirs, ours, their_size < our_size ? their_size : our_size);
}

int rf_api_allocator(struct rf_allocator *ours, const riffle_allocator *given)
{
    *ours = rf_system_allocator;
    if (!given) return 0;
    if (!given->alloc || !given->release)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "allocator: alloc or release is NULL");
    *ours = (struct rf_allocator){given->alloc, given->release, given->user};
    return 0;
}
