/* The place of the cache folder. */
#include "session/cache.h"

#include <stdio.h>

#include "platform/file.h"

const char *cache_folder(char path[LONGEST_PATH])
{
    char base[LONGEST_PATH - 16];
    if (rf_user_folder(RF_FOLDER_CACHE, base, sizeof base) != 0) return NULL;
    snprintf(path, LONGEST_PATH, "%s/riffle", base);
    return path;
}

const char *cache_make_folder(char path[LONGEST_PATH])
{
    return cache_folder(path) && rf_make_folder(path) == 0 ? path : NULL;
}
