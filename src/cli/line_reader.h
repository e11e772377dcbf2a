/* Reads the user's messages: lines with editing and history on a terminal, plain lines
 * otherwise. */
#ifndef CLI_LINE_READER_H
#define CLI_LINE_READER_H

#include <stddef.h>

#include "cli/buffer.h"

enum read_result {
    READ_TEXT,
    READ_END,         /* end of input, Ctrl-D */
    READ_CLEARED,     /* Ctrl-C cleared what was typed */
    READ_INTERRUPTED, /* Ctrl-C at an empty prompt */
    READ_FAILED       /* with a sentence on standard error */
};

struct line_reader;

/* `interactive`: edits on standard error, as standard output is for answers only. Never NULL. */
struct line_reader *line_reader_new(int interactive);
void line_reader_free(struct line_reader *reader);

/* Reads one message into `message`, without its marks: a line, lines joined by a final \, or
 * everything between two """. */
enum read_result line_reader_message(struct line_reader *reader, struct buffer *message);

#endif
