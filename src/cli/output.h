/* The model's text and numbers on their way to people. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "riffle.h"

/* Writes text of a model to standard output at once. On a terminal control characters, which could
 * move the cursor or retitle the window, are shown as \xNN; a pipe gets the bytes as they are.
 * `after` follows as it is. 0, or -1 where nobody reads any more. */
int output_text(const char *text, size_t n, const char *after);

/* A name or a text that a file brought, on one line: all control characters are shown as \xNN.
 * Returns how many characters were shown. */
int print_name(FILE *out, const char *name);

/* "98.4 MB" */
const char *human_bytes(uint64_t bytes, char text[32]);
/* "134.5 million" */
const char *human_count(uint64_t count, char text[32]);

/* Tokens per second; 0 where there is no time to divide by. */
double rate(uint64_t tokens, double seconds);

const char *finish_name(riffle_finish finish);

#endif
