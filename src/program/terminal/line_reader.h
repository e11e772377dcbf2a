/* Reads the user's messages: lines with editing and history on a terminal, plain lines otherwise.
 * The loop of the chat calls it. */
#ifndef TERMINAL_LINE_READER_H
#define TERMINAL_LINE_READER_H

#include "terminal/line_editor.h"

struct line_reader;

/* `interactive`: edits on standard error, as standard output is for answers only; `complete`
 * answers Tab. Never NULL. */
struct line_reader *line_reader_new(int interactive, completer *complete);
void line_reader_free(struct line_reader *reader);

/* Reads one message into `message`, without its marks: a line, lines joined by a final \, or
 * everything between two """. */
enum read_result line_reader_message(struct line_reader *reader, struct buffer *message);

#endif
