/* Lists of whole numbers in the values of options: "1,2,4". The verbs bench and roofline parse
 * them. */
#ifndef OPTIONS_NUMBERS_H
#define OPTIONS_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

/* Parses a whole number between `least` and INT32_MAX and advances *at past it. 0: there is none.
 */
int parse_whole(const char **at, int32_t least, int32_t *value);

/* The numbers of a list, for free(); NULL if the text is something else. */
int32_t *parse_wholes(const char *text, int32_t least, size_t *count);

#endif
