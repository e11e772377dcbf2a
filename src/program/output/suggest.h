/* "Did you mean X?": the nearest of some names to a misspelt one. Verbs, options, models and
 * commands of a chat are offered to it. */
#ifndef OUTPUT_SUGGEST_H
#define OUTPUT_SUGGEST_H

#include <stddef.h>

struct suggestion {
    const char *written;
    const char *name; /* the nearest so far; NULL if none is near enough */
    size_t distance;
    char text[96]; /* "; did you mean NAME?", or "" */
};

struct suggestion suggestion_for(const char *written);
void suggestion_offer(struct suggestion *best, const char *name);

#endif
