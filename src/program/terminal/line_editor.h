/* One line of text from a terminal: Emacs keys, UTF-8, multi-line pastes, completions and a saved
 * history. Where rf_terminal_edits says no, the terminal edits lines itself. */
#ifndef TERMINAL_LINE_EDITOR_H
#define TERMINAL_LINE_EDITOR_H

#include "output/buffer.h"
#include "terminal/completion.h"

enum read_result {
    READ_TEXT,
    READ_END,         /* end of input, Ctrl-D */
    READ_CLEARED,     /* Ctrl-C cleared what was typed */
    READ_INTERRUPTED, /* Ctrl-C at an empty prompt */
    READ_FAILED       /* a sentence is on standard error */
};

struct line_editor;

/* Stops the echo of the terminal; text that is typed meanwhile begins the next line.
 * line_editor_free gives the terminal back. NULL if the terminal cannot do it. `complete` answers
 * Tab. */
struct line_editor *line_editor_new(completer *complete);
void line_editor_free(struct line_editor *editor);

/* The prompts of a message's first line, where Tab completes commands, and of the next ones. */
enum { FIRST_MARK = '>', NEXT_MARK = '.' };

/* A line without its newline. It contains newlines if several lines were pasted. The prompt is
 * `mark` and a space. Until the next call the terminal does not echo what is typed. */
enum read_result line_editor_read(struct line_editor *editor, char mark, struct buffer *line);

/* Adds a whole message to the history. */
void line_editor_remember(struct line_editor *editor, const char *message);

#endif
