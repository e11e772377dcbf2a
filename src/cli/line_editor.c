#include "cli/line_reader.h"

#include <histedit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/complete.h"
#include "cli/wrap.h"
#include "platform/file.h"
#include "platform/terminal.h"

enum { HISTORY_LINES = 1000, LONGEST_PATH = 4096, PROMPT_BYTES = 64, PROMPT_COLUMNS = 2 };

/* https://en.wikipedia.org/wiki/Bracketed-paste: on request, the terminal marks pasted text. */
static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l",
                  paste_end[] = "\033[201~";

struct line_editor {
    EditLine *edit;
    History *history;
    char history_path[LONGEST_PATH]; /* "" if there is none */
    char prompt[PROMPT_BYTES];
    int edits;    /* the terminal can: else lines are edited by the system */
    int escapes;  /* it understands escape sequences */
    int is_first; /* the line begins a message, so that it may be a command */
    int interrupted, had_text;
};

static struct line_editor *owner(EditLine *edit)
{
    void *data = NULL;
    el_get(edit, EL_CLIENTDATA, &data);
    return data;
}

static char *prompt_of(EditLine *edit)
{
    return owner(edit)->prompt;
}

/* Lines between the prompt and the cursor, after the terminal has broken them for its width. */
static int rows_above_cursor(struct line_editor *editor, int width)
{
    const LineInfo *line = el_line(editor->edit);
    int column = PROMPT_COLUMNS, rows = 0;
    size_t length;
    for (const char *p = line->buffer; p < line->cursor; p += length) {
        length = rf_utf8_length(p, (size_t)(line->cursor - p));
        if (length == 0) length = 1;
        int columns = rf_terminal_columns(rf_utf8_decode(p, length));
        int begins_row = *p == '\n' || column + columns > width;
        rows += begins_row;
        column = *p == '\n' ? 0 : begins_row ? columns : column + columns;
    }
    return rows + (column >= width);
}

/* Draws prompt and line again. The terminal has moved the cursor with the text if it only has
 * another size; after a stop it is where the shell left it. */
static void redraw(struct line_editor *editor, int is_resize)
{
    if (!editor->edits) return;
    if (editor->escapes) {
        int rows = is_resize ? rows_above_cursor(editor, rf_terminal_width(RF_STDERR)) : 0;
        fputs(is_resize ? "" : paste_on, stderr);
        if (rows) fprintf(stderr, "\033[%dA", rows);
        fputs("\r\033[J", stderr);
    } else {
        fputc('\n', stderr);
    }
    el_resize(editor->edit);
    el_set(editor->edit, EL_REFRESH);
}

/* The terminal's next byte, or -1. */
static int next_byte(struct line_editor *editor)
{
    char c;
    int64_t got;
    while ((got = rf_stdin_read(&c, 1)) == RF_READ_RESIZED || got == RF_READ_CONTINUED)
        redraw(editor, got == RF_READ_RESIZED);
    if (got == RF_READ_INTERRUPTED) {
        const LineInfo *line = el_line(editor->edit);
        editor->interrupted = 1;
        editor->had_text = line->lastchar > line->buffer;
    }
    return got == 1 ? (unsigned char)c : -1;
}

/* Reads a character for libedit; unlike libedit's own reader, Ctrl-C ends the wait. */
static int read_character(EditLine *edit, wchar_t *character)
{
    struct line_editor *editor = owner(edit);
    char bytes[4];
    size_t n = 0;
    for (;;) {
        int byte = next_byte(editor);
        if (byte < 0) return editor->interrupted ? -1 : 0;
        bytes[n++] = (char)byte;
        size_t length = rf_utf8_length(bytes, n);
        if (length == n) {
            *character = (wchar_t)rf_utf8_decode(bytes, n);
            return 1;
        }
        /* No character begins like this: drop it. */
        if (n == sizeof bytes || (byte < 0x80 && n > 1)) n = 0;
    }
}

/* Runs at the start mark of a paste. Inserts everything up to the end mark into the line, with
 * newlines, so that nothing is sent before the user presses Enter. */
static unsigned char paste(EditLine *edit, int key)
{
    (void)key;
    struct line_editor *editor = owner(edit);
    struct buffer text = {0};
    size_t n_end = sizeof paste_end - 1;
    for (;;) {
        int byte = next_byte(editor);
        if (byte < 0) break;
        char c = byte == '\r' ? '\n' : (char)byte;
        buffer_append(&text, &c, 1);
        if (text.count >= n_end && memcmp(text.data + text.count - n_end, paste_end, n_end) == 0) {
            text.count -= n_end;
            break;
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < text.count; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c >= 0x20 || c == '\n' || c == '\t') text.data[kept++] = (char)c;
    }
    if (text.data) text.data[kept] = 0;
    int inserted = kept == 0 || el_insertstr(edit, text.data) == 0;
    buffer_free(&text);
    return inserted ? CC_REFRESH : CC_ERROR;
}

/* Prints the words in columns below the line. */
static void list(const struct completion *completion)
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
        fprintf(stderr, "%s%s%*s%s", i == 0 ? "\n" : "", completion->words[i],
                ends_line ? 0 : widest + GAP - text_columns(completion->words[i]), "",
                ends_line ? "\n" : "");
    }
    if (shown < completion->count) fprintf(stderr, "and %zu more\n", completion->count - shown);
}

/* Runs on Tab. Inserts what all ways to go on have in common; if that is nothing, lists them. */
static unsigned char complete(EditLine *edit, int key)
{
    (void)key;
    const LineInfo *line = el_line(edit);
    char *before = cli_copy(line->buffer, (size_t)(line->cursor - line->buffer));
    struct completion completion = {0};
    unsigned char result = CC_NORM;
    if (owner(edit)->is_first) complete_chat(&completion, before);
    size_t typed = strlen(before) - completion.begin;
    if (completion.common > typed) {
        completion.words[0][completion.common] = 0;
        result = el_insertstr(edit, completion.words[0] + typed) == 0 ? CC_REFRESH : CC_ERROR;
    } else if (completion.count > 1) {
        list(&completion);
        el_set(edit, EL_REFRESH);
    }
    completion_free(&completion);
    free(before);
    return result;
}

static void open_history(struct line_editor *editor)
{
    HistEvent event;
    char folder[LONGEST_PATH - 64];
    editor->history = history_init();
    if (!editor->history) return;
    history(editor->history, &event, H_SETSIZE, HISTORY_LINES);
    history(editor->history, &event, H_SETUNIQUE, 1);
    el_set(editor->edit, EL_HIST, history, editor->history);
    if (rf_user_folder(RF_FOLDER_STATE, folder, sizeof folder) != 0) return;
    snprintf(editor->history_path, sizeof editor->history_path, "%s/riffle", folder);
    if (rf_make_folder(editor->history_path) != 0) {
        editor->history_path[0] = 0;
        return;
    }
    strcat(editor->history_path, "/history");
    history(editor->history, &event, H_LOAD, editor->history_path);
}

struct line_editor *line_editor_new(void)
{
    struct line_editor *editor = cli_allocate(1, sizeof *editor);
    int escapes = rf_terminal_escapes(RF_STDERR);
    /* libedit learns the user's control characters only from a terminal that is not quiet. */
    rf_terminal_quiet(escapes ? paste_off : "");
    rf_terminal_restore();
    *editor =
        (struct line_editor){.edit = el_init("riffle", stdin, stderr, stderr), .escapes = escapes};
    if (!editor->edit) {
        free(editor);
        return NULL;
    }
    rf_terminal_quiet(escapes ? paste_off : "");
    fputs(escapes ? paste_on : "", stderr);
    fflush(stderr);
    el_set(editor->edit, EL_CLIENTDATA, editor);
    el_set(editor->edit, EL_SIGNAL, 0);
    el_set(editor->edit, EL_EDITOR, "emacs");
    el_set(editor->edit, EL_GETCFN, read_character);
    el_set(editor->edit, EL_PROMPT_ESC, prompt_of, '\1');
    /* The wide form: the narrow one leaks copies of the names. */
    el_wset(editor->edit, EL_ADDFN, L"riffle-paste", L"insert pasted text", paste);
    el_set(editor->edit, EL_BIND, "\\e[200~", "riffle-paste", NULL);
    el_wset(editor->edit, EL_ADDFN, L"riffle-complete", L"complete commands and files", complete);
    el_set(editor->edit, EL_BIND, "^I", "riffle-complete", NULL);
    el_set(editor->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_get(editor->edit, EL_EDITMODE, &editor->edits);
    open_history(editor);
    return editor;
}

void line_editor_free(struct line_editor *editor)
{
    if (!editor) return;
    if (editor->history) history_end(editor->history);
    el_end(editor->edit);
    rf_terminal_restore();
    free(editor);
}

enum read_result line_editor_read(struct line_editor *editor, char mark, struct buffer *line)
{
    int n = 0;
    /* libedit draws an escape with the character after it, so the last escape precedes the
     * space. */
    int bold = rf_terminal_colour(RF_STDERR);
    snprintf(editor->prompt, sizeof editor->prompt, "%s%c%s ", bold ? "\1\033[1m\1" : "", mark,
             bold ? "\1\033[0m\1" : "");
    editor->is_first = mark == FIRST_MARK;
    editor->interrupted = 0;
    buffer_clear(line);

    /* Before the prompt appears: libedit prepares the terminal only after it, and loses what is
     * typed in between. */
    if (editor->edits)
        el_set(editor->edit, EL_PREP_TERM, 1);
    else
        rf_terminal_restore();
    el_resize(editor->edit);
    const char *text = el_gets(editor->edit, &n);
    rf_terminal_quiet(editor->escapes ? paste_off : "");
    if (editor->interrupted) {
        fputc('\n', stderr);
        return editor->had_text ? READ_CLEARED : READ_INTERRUPTED;
    }
    if (!text || n <= 0) {
        fputc('\n', stderr);
        return READ_END;
    }
    size_t length = strlen(text);
    if (length && text[length - 1] == '\n') length--;
    buffer_append(line, text, length);
    return READ_TEXT;
}

void line_editor_remember(struct line_editor *editor, const char *message)
{
    HistEvent event;
    if (!editor->history) return;
    history(editor->history, &event, H_ENTER, message);
    /* Saved immediately, as the process may be killed. */
    if (editor->history_path[0]) history(editor->history, &event, H_SAVE, editor->history_path);
}
