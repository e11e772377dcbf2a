/* Line editing on a terminal: libedit with UTF-8, multi-line pastes, and a saved history. */
#ifndef CLI_LINE_EDITOR_H
#define CLI_LINE_EDITOR_H

#include "cli/buffer.h"
#include "cli/line_reader.h"

struct line_editor;

/* NULL if the terminal cannot do it. */
struct line_editor *line_editor_new(void);
void line_editor_free(struct line_editor *editor);

/* A line without its newline. It contains newlines if several lines were pasted. The prompt is
 * `mark` and a space. */
enum read_result line_editor_read(struct line_editor *editor, char mark, struct buffer *line);

/* Adds a whole message to the history. */
void line_editor_remember(struct line_editor *editor, const char *message);

#endif
