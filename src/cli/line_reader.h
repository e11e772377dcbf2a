/* What a user types: lines with editing and history on a terminal, plain lines otherwise; messages
 * made of them. */
#ifndef CLI_LINE_READER_H
#define CLI_LINE_READER_H

#include <stddef.h>

#include "cli/buffer.h"

enum read_result {
    READ_TEXT,
    READ_END,         /* end of input, Ctrl-D */
    READ_CLEARED,     /* Ctrl-C dropped what was typed */
    READ_INTERRUPTED, /* Ctrl-C where there was nothing to drop */
    READ_FAILED       /* with a sentence on standard error */
};

struct line_reader;

/* `interactive` edits on standard error, so that standard output holds answers only. Never NULL. */
struct line_reader *line_reader_new(int interactive);
void line_reader_free(struct line_reader *reader);

/* One message: a line; lines that end in \ with those that follow them; or all between two """. The
 * message is in `message`, without the marks. */
enum read_result line_reader_message(struct line_reader *reader, struct buffer *message);

#endif
