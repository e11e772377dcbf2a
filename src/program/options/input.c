/* Reads the text of a verb before it runs. A text of at most 1 GiB is taken whole. */
#include "options/input.h"

#include <stdlib.h>
#include <string.h>

#include "output/buffer.h"
#include "output/errors.h"
#include "platform/file.h"
#include "platform/terminal.h"

static const size_t most_bytes = (size_t)1 << 30;

/* Reads a file, or standard input for NULL. CLI_OK, or an exit status with a sentence. */
static int input_slurp(const char *file, char **text, size_t *bytes)
{
    struct rf_error error;
    int code = rf_slurp(file, most_bytes, text, bytes, &error);
    if (code == RF_ERR_CANCELLED) return CLI_INTERRUPTED;
    return code == RF_OK ? CLI_OK : cli_fail("%s", error.text);
}

/* The newline at the end of a file is not part of a message. */
static void drop_newline(char *text, size_t *bytes)
{
    if (*bytes && text[*bytes - 1] == '\n') text[--*bytes] = 0;
}

/* The text that is piped in, an empty line, and the message -p. */
static int input_join(struct input *input, const char *prompt)
{
    struct buffer joined = {0};
    char *text;
    size_t bytes;
    int status = input_slurp(NULL, &text, &bytes);
    if (status != CLI_OK) return status;
    drop_newline(text, &bytes);
    buffer_append(&joined, text, bytes);
    if (bytes) buffer_puts(&joined, "\n\n");
    buffer_puts(&joined, prompt);
    free(text);
    input->text = joined.data;
    input->bytes = joined.count;
    return CLI_OK;
}

int input_read(struct cli_options *options)
{
    struct input *input = &options->input;
    enum verb_bit verb = options->verb->bit;
    if (!(verb & (VERB_RUN | VERB_TOKENIZE | VERB_PERPLEXITY))) return CLI_OK;
    int is_message = verb == VERB_RUN && !options->raw;
    if (options->prompt) {
        input->name = "-p";
        input->bytes = strlen(options->prompt);
        if (is_message && !input->bytes) return cli_usage_error("the text of -p is empty");
        if (is_message && !options->messages && !rf_is_terminal(RF_STDIN))
            return input_join(input, options->prompt);
        input->text = cli_copy(options->prompt, input->bytes);
        return CLI_OK;
    }
    const char *file = options->file && strcmp(options->file, "-") != 0 ? options->file : NULL;
    if (!options->file && rf_is_terminal(RF_STDIN))
        return cli_usage_error("there is no text: give %s-f FILE",
                               verb == VERB_PERPLEXITY ? "" : "-p TEXT or ");
    input->name = file ? file : "standard input";
    int status = input_slurp(file, &input->text, &input->bytes);
    if (status != CLI_OK) return status;
    if (is_message) drop_newline(input->text, &input->bytes);
    return is_message && !input->bytes ? cli_fail("the text of %s is empty", input->name) : CLI_OK;
}
