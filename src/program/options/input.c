/* Reads the text of a verb before it runs. A text of at most 1 GiB is taken whole. */
#include "options/input.h"

#include <string.h>

#include "output/buffer.h"
#include "output/errors.h"
#include "platform/file.h"
#include "platform/terminal.h"

static const size_t most_bytes = (size_t)1 << 30;

int input_read(struct cli_options *options)
{
    struct input *input = &options->input;
    enum verb_bit verb = options->verb->bit;
    if (!(verb & (VERB_RUN | VERB_TOKENIZE | VERB_PERPLEXITY))) return CLI_OK;
    int is_message = verb == VERB_RUN && !options->raw;
    if (options->prompt) {
        input->name = "-p";
        input->bytes = strlen(options->prompt);
        input->text = cli_copy(options->prompt, input->bytes);
        return is_message && !input->bytes ? cli_usage_error("the text of -p is empty") : CLI_OK;
    }
    if (!options->file && rf_is_terminal(RF_STDIN))
        return cli_usage_error("there is no text: give %s-f FILE",
                               verb == VERB_PERPLEXITY ? "" : "-p TEXT or ");
    struct rf_error error;
    input->name = options->file ? options->file : "standard input";
    int code = rf_slurp(options->file, most_bytes, &input->text, &input->bytes, &error);
    if (code == RF_ERR_CANCELLED) return CLI_INTERRUPTED;
    if (code != RF_OK) return cli_fail("%s", error.text);
    /* The newline at the end of a file is not part of the message. */
    if (is_message && input->bytes && input->text[input->bytes - 1] == '\n')
        input->text[--input->bytes] = 0;
    return is_message && !input->bytes ? cli_fail("the text of %s is empty", input->name) : CLI_OK;
}
