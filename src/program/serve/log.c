/* Writes the log. Each event is one line and is flushed at once. */
#include "serve/log.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "platform/clock.h"

void log_event(const char *event, const char *format, ...)
{
    char time[RF_UTC_TEXT];
    json_error_t error;
    va_list arguments;
    rf_clock_utc(time);
    va_start(arguments, format);
    json_t *more = json_vpack_ex(&error, 0, format, arguments);
    va_end(arguments);
    json_t *line = json_pack("{s:s, s:s}", "time", time, "event", event);
    if (line && more) json_object_update(line, more);
    /* ASCII: a terminal acts on some characters, such as C1 controls. jansson leaves DEL. */
    const size_t flags = JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(6);
    char *text = line ? json_dumps(line, flags) : NULL;
    if (text) {
        for (const char *at = text; *at; at++)
            if (*at == 0x7f)
                fputs("\\u007f", stdout);
            else
                putchar(*at);
        putchar('\n');
        fflush(stdout);
    }
    free(text);
    json_decref(line);
    json_decref(more);
}

void log_answer(const riffle_answer *answer, const char *model)
{
    static const char *const finishes[] = {[RIFFLE_FINISH_NONE] = "none",
                                           [RIFFLE_FINISH_STOP] = "stop",
                                           [RIFFLE_FINISH_LENGTH] = "length",
                                           [RIFFLE_FINISH_CANCELLED] = "cancelled",
                                           [RIFFLE_FINISH_REPETITION] = "repetition"};
    log_event("answer", "{s:I, s:s, s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:f, s:f, s:f}", "id",
              (json_int_t)answer->id, "model", model, "finish",
              answer->code ? "error" : finishes[answer->finish], "sentence", answer->sentence,
              "prompt_tokens", answer->prompt_tokens, "kept_tokens", answer->kept_tokens,
              "generated_tokens", answer->generated_tokens, "drafted", (json_int_t)answer->drafted,
              "accepted", (json_int_t)answer->accepted, "waiting_s", answer->waiting_seconds,
              "first_token_s", answer->first_seconds, "seconds", answer->seconds);
}
