/* Error sentences on standard error, and the exit statuses that go with them. A function that
 * returns another status than CLI_OK has printed exactly one sentence, unless it says otherwise.
 * Every part of the program reports its failures here. */
#ifndef OUTPUT_ERRORS_H
#define OUTPUT_ERRORS_H

#include <stddef.h>
#include <stdint.h>

#include "output/status.h"

/* The verb whose help cli_usage_error refers to; NULL: none. */
extern const char *cli_verb;
/* The way to make room in a full context where --ctx can no longer be given, "" where that was just
 * said; NULL: --ctx does. */
extern const char *cli_room;

/* Prints one sentence on standard error. Returns CLI_FAILED. */
int cli_fail(const char *format, ...) CLI_PRINTF(1, 2);
/* Has the sentences of this thread copied to text[0 .. cap), the last one counts; NULL: no more. */
void cli_copy_sentences(char *text, size_t cap);
/* Prints one sentence about wrong usage, and a reference to the help. Returns CLI_USAGE. */
int cli_usage_error(const char *format, ...) CLI_PRINTF(1, 2);
/* Only the reference to the help. Returns CLI_USAGE. */
int cli_usage_hint(void);
/* Prints a sentence of the library, and the option for a field that it names. Returns
 * CLI_FAILED. */
int cli_explain(const char *text);
/* The exit status for the result of a library call. If it is negative, prints the library's
 * sentence as cli_explain does. CLI_INTERRUPTED, without a sentence, if the user stopped the
 * call. */
int cli_status(int64_t result);

#endif
