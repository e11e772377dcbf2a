/* The reason why a request is not answered, and its HTTP status. The first refusal of a request
 * ends it. */
#ifndef MESSAGES_REFUSAL_H
#define MESSAGES_REFUSAL_H

#include <stdint.h>

struct refusal {
    int status;       /* status of HTTP */
    const char *code; /* a word for programs, or NULL */
    char param[64];   /* the member that is wrong, or "" */
    char text[512];
};

/* Returns -1. */
int refuse(struct refusal *refusal, int status, const char *code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;
int refuse_memory(struct refusal *refusal);
/* Refuses with riffle_last_error(), after a call of the library that failed with the code. */
int refuse_last(struct refusal *refusal, int64_t code);
/* Names the member, after a refusal. Returns -1. */
int refuse_param(struct refusal *refusal, const char *name);
/* `name` is not what is `wanted`. */
int refuse_value(struct refusal *refusal, const char *name, const char *wanted);

#endif
