/* The levels of a chain, as text and as JSON. The verbs run and bench and the chat show them. */
#ifndef SESSION_LEVELS_H
#define SESSION_LEVELS_H

#include <stdio.h>

#include "output/json.h"
#include "riffle.h"

/* The member "levels" of an object. */
void levels_write(struct json_writer *json, const riffle_stats *stats);

/* A table with a line for each level. For levels that draft for the target also the percentage
 * accepted at each place of a draft. */
void levels_print(FILE *out, const riffle_stats *stats);

/* The escape sequence for the colour of a token's text; "" for the target's tokens. `level` as in
 * riffle_event. */
const char *level_colour(int32_t level);
/* Prints the names of the levels on a line, each in its colour. */
void levels_print_legend(FILE *out, const riffle_stats *stats);

#endif
