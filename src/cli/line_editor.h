/* Line editing on a terminal: libedit with UTF-8, pasted text of many lines, and a history that
 * stays. */
#ifndef CLI_LINE_EDITOR_H
#define CLI_LINE_EDITOR_H

#include "cli/buffer.h"
#include "cli/line_reader.h"

struct line_editor;

/* NULL if the terminal cannot be edited on. */
struct line_editor *line_editor_new(void);
void line_editor_free(struct line_editor *editor);

/* A line without its newline; it holds newlines where text of several lines was pasted. The prompt
 * is `mark` and a space. */
enum read_result line_editor_read(struct line_editor *editor, char mark, struct buffer *line);

/* Remembers a whole message for this and later sessions. */
void line_editor_remember(struct line_editor *editor, const char *message);

#endif
