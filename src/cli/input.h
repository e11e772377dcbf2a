/* The input text of run, tokenize and perplexity: -p, -f or standard input. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include <stddef.h>

#include "cli/options.h"

struct input {
    char *text; /* for free(); ends with a zero that is not counted */
    size_t bytes;
    const char *name; /* "-p", the file's, "standard input" */
};

/* CLI_OK, or an exit status with a sentence on standard error. */
int input_read(struct input *input, const struct cli_options *options);
void input_free(struct input *input);

#endif
