/* Models served over HTTP, as OpenAI's interface has them (docs/serving.md). The verb serve calls
 * it; this is all that it sees of the server. */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include <riffle.h>

#include "base/error.h"

/* An open model, with its owner's handle. */
struct rf_serve_model {
    riffle_model *model;
    riffle_sampling sampling; /* values that a request leaves open; its seed is not used */
    uint64_t bytes;           /* the memory that it takes, about */
    void *owner;
};

/* A model that requests may name. Both texts are for free(). */
struct rf_serve_entry {
    char *name; /* in replies and lists */
    char *path; /* NULL: it is still to be fetched */
};

struct rf_serve_options {
    /* The models. Any thread calls these, several at a time, without a lock. A failure is a
     * negative code; its sentence was also told to people. */
    /* The model that a request's name means; never one by its path. 0, or 1: there is none. */
    int (*find)(void *user, const char *name, struct rf_serve_entry *entry);
    /* Calls `take` for each model that is on the disk. */
    void (*each)(void *user, void (*take)(void *to, const char *name, const char *path), void *to);
    /* Fetches a model without a path; `find` has its path then. */
    int (*fetch)(void *user, const char *name, struct rf_error *error);
    /* The memory that the model takes: about, without opening it. */
    int (*cost)(void *user, const char *path, uint64_t *bytes, struct rf_error *error);
    /* Opens the model: also anew, for a SIGHUP. */
    int (*open)(void *user, const char *path, struct rf_serve_model *model, struct rf_error *error);
    void (*close)(void *user, struct rf_serve_model *model);
    void *user;

    const char *const *given; /* [n_given] names of models to be open in the beginning */
    size_t n_given;           /* the first is meant where a request names none */
    uint64_t models_bytes;    /* limit of the memory of open models; 0: none */
    int32_t keep_alive;       /* seconds that an unused model stays open; -1: for ever */
    int32_t model_wait;       /* seconds that a request waits for its model */

    const riffle_session_options *session; /* options of all answers */
    const char *build;                     /* the program's version, for fingerprints */
    const char *host;                      /* an address, or "localhost" */
    int32_t port;                          /* 0: any free one */
    const char *api_key;                   /* NULL: none, for an address of this machine only */
    const char *const *origins;            /* [n_origins] of pages that may ask; "*": any */
    size_t n_origins;
    int32_t answers, queue;   /* limits: answers under way; requests that wait */
    int64_t kept_bytes;       /* memory for texts of later prompts; 0: the library's default */
    const char *store_folder; /* a folder for such texts, of this user; NULL: none */
    uint64_t store_bytes;     /* limit of what it holds */
};

/* RF_ERR_ARGUMENT where the host is no address, or one that others reach and there is no key, or an
 * origin is malformed. The models need not be known yet. */
int rf_serve_check(const struct rf_serve_options *options, struct rf_error *error);
/* Serves until the process is interrupted (rf_interrupts): then answers that were begun are
 * finished, unless there is another interrupt or they take too long. Writes a JSON object in a line
 * to standard output for each event. *is_told: the reason of a failure was told by a callback. */
int rf_serve(const struct rf_serve_options *options, int *is_told, struct rf_error *error);

#endif
