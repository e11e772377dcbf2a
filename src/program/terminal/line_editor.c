/* Joins keys, text, screen and history into an editor of one line. Bytes are read one at a time, so
 * that nothing behind the line's end is taken from other readers. */
#include "terminal/line_editor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/buffer.h"
#include "output/wrap.h"
#include "platform/terminal.h"
#include "terminal/edit.h"
#include "terminal/edit_screen.h"

/* https://en.wikipedia.org/wiki/Bracketed-paste: on request, the terminal marks pasted text. */
static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";

struct line_editor {
    struct edit edit;
    struct edit_screen screen;
    struct history history;
    struct buffer prompt, out;
    char rest[4096]; /* read, but not yet a line: where the terminal edits */
    size_t begin, end;
    int edits; /* the terminal can: else it edits lines itself */
    char mark;
    completer *complete;
};

static void editor_flush(struct line_editor *editor)
{
    fflush(stderr);
    if (editor->out.count) rf_terminal_write(RF_STDERR, editor->out.data, editor->out.count);
    buffer_clear(&editor->out);
}

static struct edit_view editor_view(struct line_editor *editor)
{
    const struct edit *edit = &editor->edit;
    edit_prompt(edit, editor->mark, &editor->prompt);
    return (struct edit_view){editor->prompt.data, edit->text.data ? edit->text.data : "",
                              edit->cursor, rf_terminal_colour(RF_STDERR)};
}

static void editor_draw(struct line_editor *editor)
{
    struct edit_view view = editor_view(editor);
    edit_screen_draw(&editor->screen, &view, &editor->out);
    editor_flush(editor);
}

/* Leaves the text behind; the cursor goes to the line below. */
static void editor_finish(struct line_editor *editor)
{
    struct edit_view view = editor_view(editor);
    edit_screen_finish(&editor->screen, &view, &editor->out);
    editor_flush(editor);
}

static void editor_measure(struct line_editor *editor)
{
    int width = rf_terminal_width(RF_STDERR), height = rf_terminal_height(RF_STDERR);
    edit_screen_resize(&editor->screen, width < 4 ? 4 : width, height < 2 ? 2 : height,
                       &editor->out);
}

/* Writes the words in columns. */
static void editor_list_words(struct buffer *out, const struct completion *completion)
{
    enum { MOST = 200, GAP = 2 };
    int widest = 0, width = rf_terminal_width(RF_STDERR);
    size_t shown = completion->count < MOST ? completion->count : MOST;
    for (size_t i = 0; i < shown; i++) {
        int columns = text_columns(completion->words[i]);
        if (columns > widest) widest = columns;
    }
    int per_line = (width + GAP - 1) / (widest + GAP);
    if (per_line < 1) per_line = 1;
    for (size_t i = 0; i < shown; i++) {
        int ends_line = (i + 1) % (size_t)per_line == 0 || i + 1 == shown;
        buffer_printf(out, "%s%*s%s", completion->words[i],
                      ends_line ? 0 : widest + GAP - text_columns(completion->words[i]), "",
                      ends_line ? "\n" : "");
    }
    if (shown < completion->count) buffer_printf(out, "and %zu more\n", completion->count - shown);
}

/* Inserts the beginning that all completions share; if there is none, lists them. */
static void editor_complete(struct line_editor *editor)
{
    struct edit *edit = &editor->edit;
    char *before = cli_copy(edit->text.data, edit->cursor);
    struct completion completion = {0};
    if (editor->mark == FIRST_MARK) editor->complete(&completion, before);
    size_t typed = strlen(before) - completion.begin;
    if (completion.common > typed) {
        edit_insert(edit, completion.words[0] + typed, completion.common - typed);
    } else if (completion.count > 1) {
        editor_finish(editor);
        editor_list_words(&editor->out, &completion);
        editor_measure(editor);
    }
    completion_free(&completion);
    free(before);
}

struct line_editor *line_editor_new(completer *complete)
{
    struct line_editor *editor = cli_allocate(1, sizeof *editor);
    *editor = (struct line_editor){.edits = rf_terminal_edits(RF_STDERR), .complete = complete};
    editor->edit.history = &editor->history;
    history_open_default(&editor->history);
    rf_terminal_quiet(editor->edits ? paste_off : "");
    buffer_puts(&editor->out, editor->edits ? paste_on : "");
    editor_flush(editor);
    return editor;
}

void line_editor_free(struct line_editor *editor)
{
    if (!editor) return;
    rf_terminal_restore();
    history_free(&editor->history);
    edit_free(&editor->edit);
    edit_screen_free(&editor->screen);
    buffer_free(&editor->prompt);
    buffer_free(&editor->out);
    free(editor);
}

/* The terminal's next line, without an editor. */
static enum read_result editor_read_plain(struct line_editor *editor, struct buffer *line)
{
    fprintf(stderr, "%c ", editor->mark);
    fflush(stderr);
    for (;;) {
        if (editor->begin == editor->end) {
            int64_t got = rf_stdin_read(editor->rest, sizeof editor->rest);
            if (got == RF_READ_INTERRUPTED) return line->count ? READ_CLEARED : READ_INTERRUPTED;
            if (got <= 0) return line->count ? READ_TEXT : READ_END;
            editor->begin = 0;
            editor->end = (size_t)got;
        }
        char c = editor->rest[editor->begin++];
        if (c == '\n') return READ_TEXT;
        if (c) buffer_append(line, &c, 1);
    }
}

/* Waits for the next byte. READ_TEXT: it came; else the reason why there is none. */
static enum read_result editor_next_byte(struct line_editor *editor, char *byte)
{
    int64_t got;
    while ((got = rf_stdin_read(byte, 1)) == RF_READ_RESIZED || got == RF_READ_CONTINUED) {
        if (got == RF_READ_CONTINUED) { /* the cursor is where the shell left it */
            edit_screen_forget(&editor->screen);
            buffer_puts(&editor->out, "\r\033[J");
            buffer_puts(&editor->out, paste_on);
        }
        editor_measure(editor);
        editor_draw(editor);
    }
    if (got == RF_READ_INTERRUPTED)
        return editor->edit.text.count ? READ_CLEARED : READ_INTERRUPTED;
    return got == 1 ? READ_TEXT : READ_END;
}

/* Reads keys until one ends the line. */
static enum read_result editor_edit_line(struct line_editor *editor)
{
    enum read_result result;
    char byte;
    edit_begin(&editor->edit);
    edit_screen_forget(&editor->screen);
    editor_measure(editor);
    editor_draw(editor);
    while ((result = editor_next_byte(editor, &byte)) == READ_TEXT) {
        enum edit_result change = edit_push(&editor->edit, byte);
        if (change == EDIT_DONE) break;
        if (change == EDIT_END) {
            result = READ_END;
            break;
        }
        if (change == EDIT_COMPLETE) editor_complete(editor);
        if (change == EDIT_CLEAR) {
            buffer_puts(&editor->out, "\033[H\033[2J");
            edit_screen_forget(&editor->screen);
        }
        if (change != EDIT_PART) editor_draw(editor);
    }
    editor_finish(editor);
    return result;
}

enum read_result line_editor_read(struct line_editor *editor, char mark, struct buffer *line)
{
    const struct buffer *text = &editor->edit.text;
    enum read_result result;
    buffer_clear(line);
    editor->mark = mark;
    if (editor->edits) {
        result = editor_edit_line(editor);
        if (result == READ_TEXT && text->count) buffer_append(line, text->data, text->count);
        return result;
    }
    rf_terminal_restore();
    result = editor_read_plain(editor, line);
    rf_terminal_quiet("");
    if (result != READ_TEXT) fputc('\n', stderr);
    return result;
}

void line_editor_remember(struct line_editor *editor, const char *message)
{
    history_add(&editor->history, message);
}
