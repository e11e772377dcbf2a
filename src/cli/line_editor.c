#include "cli/line_reader.h"

#include <histedit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "platform/file.h"
#include "platform/terminal.h"

enum { HISTORY_LINES = 1000, LONGEST_PATH = 4096, PROMPT_BYTES = 64 };

/* https://en.wikipedia.org/wiki/Bracketed-paste: on request, the terminal marks pasted text. */
static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l",
                  paste_end[] = "\033[201~";

struct line_editor {
    EditLine *edit;
    History *history;
    char history_path[LONGEST_PATH]; /* "" if there is none */
    char prompt[PROMPT_BYTES];
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

/* The terminal's next byte, or -1. */
static int next_byte(struct line_editor *editor)
{
    char c;
    int64_t got = rf_stdin_read(&c, 1);
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
    rf_terminal_use_utf8();
    struct line_editor *editor = cli_allocate(1, sizeof *editor);
    *editor = (struct line_editor){.edit = el_init("riffle", stdin, stderr, stderr)};
    if (!editor->edit) {
        free(editor);
        return NULL;
    }
    el_set(editor->edit, EL_CLIENTDATA, editor);
    el_set(editor->edit, EL_SIGNAL, 0);
    el_set(editor->edit, EL_EDITOR, "emacs");
    el_set(editor->edit, EL_GETCFN, read_character);
    el_set(editor->edit, EL_PROMPT_ESC, prompt_of, '\1');
    /* The wide form: the narrow one leaks copies of the names. */
    el_wset(editor->edit, EL_ADDFN, L"riffle-paste", L"insert pasted text", paste);
    el_set(editor->edit, EL_BIND, "\\e[200~", "riffle-paste", NULL);
    el_set(editor->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    open_history(editor);
    return editor;
}

void line_editor_free(struct line_editor *editor)
{
    if (!editor) return;
    if (editor->history) history_end(editor->history);
    el_end(editor->edit);
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
    editor->interrupted = 0;
    buffer_clear(line);

    /* Before the prompt appears: libedit prepares the terminal only after it, and loses what is
     * typed in between. */
    el_set(editor->edit, EL_PREP_TERM, 1);
    fputs(paste_on, stderr);
    fflush(stderr);
    el_resize(editor->edit);
    const char *text = el_gets(editor->edit, &n);
    fputs(paste_off, stderr);
    fflush(stderr);
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
