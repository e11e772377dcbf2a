/* Line editing by the console itself: Windows's edits a line, keeps a history for as long as the
 * program runs, and is read by rf_stdin_read. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/line_reader.h"
#include "platform/terminal.h"

struct line_editor {
    char rest[4096]; /* read, but not yet a line */
    size_t begin, end;
};

struct line_editor *line_editor_new(void)
{
    return cli_allocate(1, sizeof(struct line_editor));
}

void line_editor_free(struct line_editor *editor)
{
    free(editor);
}

enum read_result line_editor_read(struct line_editor *editor, char mark, struct buffer *line)
{
    int bold = rf_terminal_colour(RF_STDERR);
    fprintf(stderr, "%s%c%s ", bold ? "\033[1m" : "", mark, bold ? "\033[0m" : "");
    fflush(stderr);
    buffer_clear(line);
    for (;;) {
        if (editor->begin == editor->end) {
            int64_t got = rf_stdin_read(editor->rest, sizeof editor->rest);
            if (got == RF_READ_INTERRUPTED) {
                fputc('\n', stderr);
                return line->count ? READ_CLEARED : READ_INTERRUPTED;
            }
            if (got <= 0) return line->count ? READ_TEXT : READ_END;
            editor->begin = 0;
            editor->end = (size_t)got;
        }
        char c = editor->rest[editor->begin++];
        if (c == '\n') return READ_TEXT;
        buffer_append(line, &c, 1);
    }
}

/* The console keeps its own history. */
void line_editor_remember(struct line_editor *editor, const char *message)
{
    (void)editor;
    (void)message;
}
