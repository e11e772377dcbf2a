/* "Did you mean X?": the nearest of some names. */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

#include <stddef.h>

struct suggestion {
    const char *written;
    const char *name; /* the nearest so far; NULL if none is near enough */
    size_t distance;
};

struct suggestion suggestion_for(const char *written);
void suggestion_offer(struct suggestion *best, const char *name);

#endif
