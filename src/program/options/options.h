/* The parser of the command line: one for all verbs, driven by the table of options. main.c calls
 * it; the settings of a chat use its rows one at a time. */
#ifndef OPTIONS_OPTIONS_H
#define OPTIONS_OPTIONS_H

#include "options/option_table.h"

/* The option of the verb with that name, "--temp"; NULL: none. */
const struct option *option_find(const char *name, enum verb_bit verb);
/* Sets the option's field to a value that `text` gives. CLI_OK, or CLI_FAILED with a sentence that
 * names the option as `name`. */
int option_set(struct cli_options *options, const struct option *option, const char *name,
               const char *text);
/* Writes the value of an option that is a number or a choice; "" for others. */
void option_show(const struct cli_options *options, const struct option *option, char *text,
                 size_t cap);
/* Replaces values that were not given. */
void sampling_fill(riffle_sampling *given, const riffle_sampling *defaults);

/* Parses what follows the verb into options with `verb` and `start_seconds`. 0; 1 for --help; or
 * CLI_USAGE with a sentence on standard error. */
int options_parse(struct cli_options *options, int argc, char **argv);
void options_free(struct cli_options *options);

#endif
