#include "cli/input.h"

#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/cli.h"
#include "platform/file.h"
#include "platform/terminal.h"

static const size_t most_bytes = (size_t)1 << 30;

int input_read(struct input *input, const struct cli_options *options)
{
    *input = (struct input){.name = options->file ? options->file : "standard input"};
    if (options->prompt) {
        input->name = "-p";
        input->bytes = strlen(options->prompt);
        input->text = cli_copy(options->prompt, input->bytes);
        return CLI_OK;
    }
    if (!options->file && rf_is_terminal(RF_STDIN))
        return cli_usage_error("there is no text: give %s-f FILE",
                               options->verb->bit == VERB_PERPLEXITY ? "" : "-p TEXT or ");
    struct rf_error error;
    int code = rf_slurp(options->file, most_bytes, &input->text, &input->bytes, &error);
    if (code == RF_ERR_CANCELLED) return CLI_INTERRUPTED;
    return code == RF_OK ? CLI_OK : cli_fail("%s", error.text);
}

void input_free(struct input *input)
{
    free(input->text);
    *input = (struct input){0};
}
