/* The user's token for each hub, which opens models that are not for everybody. */
#ifndef HUBS_TOKEN_H
#define HUBS_TOKEN_H

#include "hubs/name.h"

/* The variable that people set; NULL: the hub has no tokens. */
const char *hub_token_variable(enum hub hub);
/* Its value; for Hugging Face, else what `hf auth login` wrote. NULL: there is none. */
const char *hub_token(enum hub hub);

/* The folder of Hugging Face's own client: HF_HOME, else huggingface in $XDG_CACHE_HOME or
 * ~/.cache, on all systems. 0, or -1 where it is unknown. */
int hub_cache_folder(char *path, size_t cap);

#endif
