/* The levels of a chain, for people and as JSON. */
#ifndef CLI_LEVELS_H
#define CLI_LEVELS_H

#include <stdio.h>

#include "cli/json.h"
#include "riffle.h"

/* The member "levels" of an object. */
void levels_write(struct json_writer *json, const riffle_stats *stats);

/* A table with a line for each level, and for those that draft for the target how much was kept,
 * place by place. */
void levels_print(FILE *out, const riffle_stats *stats);

/* The escape sequence in which a token's text is painted; "" for the target's own. `level` as in
 * riffle_event. */
const char *level_colour(int32_t level);
/* The names of the levels, each in its colour, on a line. */
void levels_print_legend(FILE *out, const riffle_stats *stats);

#endif
