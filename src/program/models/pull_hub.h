/* Fetches a model of a hub: one file, the parts of a split one, or a folder of safetensors. The
 * verb pull and pull_offer call it. */
#ifndef MODELS_PULL_HUB_H
#define MODELS_PULL_HUB_H

#include "models/pull.h"

/* Asks the hub, and fetches what is not here, or checks what is. `path` gets the model's path, also
 * where another program has the same file, which is then used. CLI_OK, or an exit status with a
 * sentence. */
int pull_hub(const struct hub_name *name, const struct pull_limits *limits,
             char path[LONGEST_PATH]);

/* Fetches a known model, or what a hub's name means, without asking. CLI_OK, or an exit status with
 * a sentence. */
int pull_by_name(const char *name);

/* Offers to fetch MODEL, before a verb that answers opens it, if it is a known model or a hub's
 * name that is not on the disk. Where nobody can be asked, a hub's name is fetched, and a known
 * model is left to the verb. CLI_OK, also where there was nothing to do or the answer was no; or an
 * exit status with a sentence. */
int pull_offer(const char *model);

#endif
