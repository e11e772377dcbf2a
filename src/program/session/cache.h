/* The folder of what can be computed again: measured speeds and casts of draft models, which the
 * library writes. Verbs that open a model give the folder to it; the verb cache lists and clears
 * it. */
#ifndef SESSION_CACHE_H
#define SESSION_CACHE_H

#include "models/known_models.h"

/* riffle in the user's cache folder, which need not exist. NULL: no home folder is known. */
const char *cache_folder(char path[LONGEST_PATH]);
/* The same, and makes it. NULL: it cannot be made. */
const char *cache_make_folder(char path[LONGEST_PATH]);

#endif
