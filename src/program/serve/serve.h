/* A model served over HTTP, as OpenAI's interface has it (docs/serving.md). The verb serve calls
 * it; this is all that it sees of the server. */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include <riffle.h>

#include "base/error.h"

/* An open model, with its owner's handle. */
struct rf_serve_model {
    riffle_model *model;
    riffle_sampling sampling; /* values that a request leaves open; its seed is not used */
    void *owner;
};

struct rf_serve_options {
    /* Opens the model: in the beginning, and anew for each SIGHUP, on another thread. A failure has
     * told its reason to people. */
    int (*open)(void *user, struct rf_serve_model *model);
    void (*close)(void *user, struct rf_serve_model *model);
    void *user;
    const char *name;                      /* name of the model in requests and answers */
    const riffle_session_options *session; /* options of all answers */
    const char *host;                      /* an address, or "localhost" */
    int32_t port;                          /* 0: any free one */
    const char *api_key;                   /* NULL: none, for an address of this machine only */
    int32_t answers, queue;                /* limits: answers under way; requests that wait */
    int64_t kept_bytes; /* memory for texts of later prompts; 0: the library's default */
};

/* RF_ERR_ARGUMENT where the host is no address, or one that others reach and there is no key. The
 * model and its name need not be known yet. */
int rf_serve_check(const struct rf_serve_options *options, struct rf_error *error);
/* Serves until the process is interrupted (rf_interrupts): then answers that were begun are
 * finished, unless there is another interrupt or they take too long. Writes a JSON object in a line
 * to standard output for each event. *is_told: the reason of a failure was told by `open`. */
int rf_serve(const struct rf_serve_options *options, int *is_told, struct rf_error *error);

#endif
