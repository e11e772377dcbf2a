/* Fetches one model into the models' folder, with progress and sentences on standard error. A file
 * that is there is checked instead. The verb pull and the chat's offer call it. */
#ifndef MODELS_PULL_H
#define MODELS_PULL_H

#include "fetch/fetch.h"
#include "models/known_models.h"
#include "output/progress.h"

/* One model to fetch. Texts belong to others. Must not move while pull_run works. */
struct pull {
    const char *name, *path, *licence; /* licence "": unknown */
    struct fetch_order order;          /* callers may set sources, sha256 and the limits */
    struct progress_line progress;
};

/* A model of which only its name is known; order.sources is to be set before it is fetched. */
struct pull pull_file(const char *name, const char *path);
struct pull pull_known(const struct known_model *known, const char *path);

/* Fetches the file, or checks the one that is there. `verify`: hashes it even if its stamp holds.
 * CLI_OK, or an exit status with a sentence. */
int pull_run(struct pull *pull, int verify);

/* Offers to fetch MODEL, before a verb of a conversation opens it, if it is a known model that is
 * not on the disk and there is somebody to ask. CLI_OK, also where there was nothing to ask or the
 * answer was no; or an exit status with a sentence. */
int pull_offer(const char *model);

#endif
