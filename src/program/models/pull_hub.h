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

#endif
