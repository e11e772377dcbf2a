/* Sentences and HTTP statuses of refusals. Each function returns -1, so that callers can return
 * it. */
#include "messages/refusal.h"

#include <riffle.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int refuse(struct refusal *refusal, int status, const char *code, const char *format, ...)
{
    va_list arguments;
    refusal->status = status;
    refusal->code = code;
    refusal->param[0] = '\0';
    va_start(arguments, format);
    vsnprintf(refusal->text, sizeof refusal->text, format, arguments);
    va_end(arguments);
    return -1;
}

int refuse_memory(struct refusal *refusal)
{
    return refuse(refusal, 503, NULL, "out of memory");
}

int refuse_last(struct refusal *refusal, int64_t code)
{
    return refuse(refusal, code == RIFFLE_ERR_MEMORY ? 503 : 400,
                  code == RIFFLE_ERR_CONTEXT ? "context_length_exceeded" : NULL, "%s",
                  riffle_last_error());
}

int refuse_param(struct refusal *refusal, const char *name)
{
    snprintf(refusal->param, sizeof refusal->param, "%s", name);
    return -1;
}

int refuse_value(struct refusal *refusal, const char *name, const char *wanted)
{
    refuse(refusal, 400, "invalid_value", "%s is not %s", name, wanted);
    return strchr(name, ' ') ? -1 : refuse_param(refusal, name);
}
