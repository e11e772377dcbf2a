/* Reads the user's messages: lines with editing and history on a terminal, plain lines
 * otherwise. */
#ifndef CLI_LINE_READER_H
#define CLI_LINE_READER_H

#include "output/buffer.h"

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

/* Line editing on a terminal: Emacs keys, UTF-8, multi-line pastes, and a saved history.
 * Where rf_terminal_edits says no, the terminal edits lines itself. */
struct line_editor;

/* From now on the terminal does not echo what is typed, which the next line begins with.
 * line_editor_free gives the terminal back. NULL if the terminal cannot do it. */
struct line_editor *line_editor_new(void);
void line_editor_free(struct line_editor *editor);

/* The prompts of a message's first line, where Tab completes commands, and of the next ones. */
enum { FIRST_MARK = '>', NEXT_MARK = '.' };

/* A line without its newline. It contains newlines if several lines were pasted. The prompt is
 * `mark` and a space. Until the next call the terminal does not echo what is typed. */
enum read_result line_editor_read(struct line_editor *editor, char mark, struct buffer *line);

/* Adds a whole message to the history. */
void line_editor_remember(struct line_editor *editor, const char *message);

#endif
