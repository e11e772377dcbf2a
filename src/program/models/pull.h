/* Fetches one model into the models' folder, with progress and sentences on standard error. A file
 * that is there is checked instead. The verb pull and the chat's offer call it. */
#ifndef MODELS_PULL_H
#define MODELS_PULL_H

#include "fetch/fetch.h"
#include "models/known_models.h"
#include "output/progress.h"

/* One file to fetch. Texts belong to others. Must not move while it is worked on. */
struct pull {
    const char *name, *path, *licence; /* licence "": unknown */
    struct fetch_order order;          /* callers may set sources, sha256 and the limits */
    struct progress_line progress;
    const struct hub_name *hub; /* explains refusals; NULL: an address is asked */
    uint64_t before,
        total; /* bytes of a model's files before this one, and of all; 0, 0: one file */
};

/* A model of which only its name is known; order.sources is to be set before it is fetched. */
struct pull pull_file(const char *name, const char *path);
/* A listed model that no hub has. */
struct pull pull_known(const struct known_model *known, const char *path);

/* Fetches the file, or checks the one that is there. `verify`: hashes it even if its stamp holds.
 * CLI_OK, or an exit status with a sentence. */
int pull_run(struct pull *pull, int verify);

/* The parts of pull_run, for models of several files. Fetches the file into its folder, which is
 * made; `sha256` is what it hashes to. */
int pull_get(struct pull *pull, char sha256[SHA256_TEXT]);
/* Checks the file that is there as far as its size and hash are known. */
int pull_compare(struct pull *pull, int again);

/* The user's permissions. */
struct pull_limits {
    uint64_t most_bytes; /* 0: what fits on the disk */
    int timeout_seconds; /* 0: the default */
    int verify;          /* hash again what is there */
};

#endif
