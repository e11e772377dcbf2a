/* The text that run, tokenize and perplexity read: -p, -f or standard input. A message of run joins
 * what is piped in and -p. main.c reads it before the verb runs. */
#ifndef OPTIONS_INPUT_H
#define OPTIONS_INPUT_H

#include "options/option_table.h"

/* Reads options->input if the verb takes one. CLI_OK, or an exit status with a sentence. */
int input_read(struct cli_options *options);

#endif
