/* Output of a model's text, names and numbers. Untrusted text goes through here, so that it cannot
 * move the cursor of a terminal. */
#ifndef OUTPUT_OUTPUT_H
#define OUTPUT_OUTPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "output/wrap.h"

/* Writes text of a model to standard output and flushes it. A terminal gets lines broken between
 * words, in the colour (an escape sequence, or ""), and control characters, which could move the
 * cursor or change the window's title, as \xNN; a pipe gets the original bytes. `wrap` is all zero
 * at the beginning of a text, and output_end must follow its end. 0, or -1 if the output cannot be
 * written. */
int output_text(struct wrap *wrap, const char *text, size_t n, const char *colour);
int output_end(struct wrap *wrap);

/* Appends a name or text from a file, with all that a terminal would act on as \xNN or \uNNNN
 * (rf_utf8_show). */
void append_name(struct buffer *out, const char *name);
/* Prints a name or text from a file on one line, escaped in the same way. Returns the number of
 * characters shown. */
int print_name(FILE *out, const char *name);

/* "98.4 MB" */
const char *human_bytes(uint64_t bytes, char text[32]);
/* "134.5 million" */
const char *human_count(uint64_t count, char text[32]);

/* Tokens per second; 0 if `seconds` is 0. */
double tokens_per_second(uint64_t tokens, double seconds);

/* The ending of a noun: "" for 1, else "s". */
const char *plural(int64_t n);

/* Prints sentences, each with a newline, on standard error. */
void print_notes(const struct buffer *notes);

#endif
