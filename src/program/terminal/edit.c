/* The effect of keys on a text and a cursor. The cursor is always at the beginning of a character
 * or at the end; nothing here writes to the terminal. */
#include "terminal/edit.h"

#include <string.h>

#include "base/utf8.h"
#include "output/buffer.h"
#include "platform/terminal.h"

/* The mark at the end of a paste: https://en.wikipedia.org/wiki/Bracketed-paste */
static const char paste_end[] = "\033[201~";

static size_t length_at(const struct edit *edit, size_t at)
{
    return rf_utf8_length(edit->text.data + at, edit->text.count - at);
}

static uint32_t edit_code_at(const struct edit *edit, size_t at)
{
    return rf_utf8_decode(edit->text.data + at, length_at(edit, at));
}

/* Whether the character combines with the character before it. */
static int combines(const struct edit *edit, size_t at)
{
    uint32_t code = edit_code_at(edit, at);
    return code != '\n' && code != '\t' && rf_terminal_columns(code) == 0;
}

/* The end of a character and of the characters that combine with it. */
static size_t edit_next(const struct edit *edit, size_t at)
{
    if (at == edit->text.count) return at;
    do at += length_at(edit, at);
    while (at < edit->text.count && combines(edit, at));
    return at;
}

static size_t edit_previous(const struct edit *edit, size_t at)
{
    while (at > 0) {
        do at--;
        while (at > 0 && ((unsigned char)edit->text.data[at] & 0xc0) == 0x80);
        if (!combines(edit, at)) break;
    }
    return at;
}

static int edit_is_word(const struct edit *edit, size_t at)
{
    unsigned char c = (unsigned char)edit->text.data[at];
    return c >= 0x80 || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static size_t word_end(const struct edit *edit, size_t at)
{
    while (at < edit->text.count && !edit_is_word(edit, at)) at = edit_next(edit, at);
    while (at < edit->text.count && edit_is_word(edit, at)) at = edit_next(edit, at);
    return at;
}

static size_t word_begin(const struct edit *edit, size_t at)
{
    while (at > 0 && !edit_is_word(edit, edit_previous(edit, at))) at = edit_previous(edit, at);
    while (at > 0 && edit_is_word(edit, edit_previous(edit, at))) at = edit_previous(edit, at);
    return at;
}

/* The beginning of a word for Ctrl-W, which only blanks divide. */
static size_t blank_word_begin(const struct edit *edit, size_t at)
{
    static const char blanks[] = " \t\n";
    while (at > 0 && strchr(blanks, edit->text.data[at - 1])) at--;
    while (at > 0 && !strchr(blanks, edit->text.data[at - 1])) at--;
    return at;
}

static size_t line_begin(const struct edit *edit, size_t at)
{
    while (at > 0 && edit->text.data[at - 1] != '\n') at--;
    return at;
}

static size_t line_end(const struct edit *edit, size_t at)
{
    while (at < edit->text.count && edit->text.data[at] != '\n') at++;
    return at;
}

static void remove_text(struct edit *edit, size_t begin, size_t end)
{
    if (begin == end) return;
    memmove(edit->text.data + begin, edit->text.data + end, edit->text.count - end + 1);
    edit->text.count -= end - begin;
    edit->cursor = begin;
}

static void kill_text(struct edit *edit, size_t begin, size_t end)
{
    if (begin == end) return;
    buffer_clear(&edit->killed);
    buffer_append(&edit->killed, edit->text.data + begin, end - begin);
    remove_text(edit, begin, end);
}

void edit_insert(struct edit *edit, const char *text, size_t n)
{
    struct buffer rest = {0};
    size_t cursor = edit->cursor, length;
    if (cursor < edit->text.count)
        buffer_append(&rest, edit->text.data + cursor, edit->text.count - cursor);
    edit->text.count = cursor;
    for (size_t i = 0; i < n; i += length) {
        length = rf_utf8_length(text + i, n - i);
        uint32_t code = length ? rf_utf8_decode(text + i, length) : 0;
        if (length == 0) length = 1;
        if ((code >= 0x20 && code < 0x7f) || code >= 0xa0 || code == '\n' || code == '\t')
            buffer_append(&edit->text, text + i, length);
    }
    edit->cursor = edit->text.count;
    if (rest.count) buffer_append(&edit->text, rest.data, rest.count);
    if (edit->text.data) edit->text.data[edit->text.count] = 0;
    buffer_free(&rest);
}

static void insert_code(struct edit *edit, uint32_t code)
{
    char bytes[4];
    edit_insert(edit, bytes, rf_utf8_encode(code, bytes));
}

static void edit_replace(struct edit *edit, const char *text, size_t n)
{
    buffer_clear(&edit->text);
    edit->cursor = 0;
    edit_insert(edit, text, n);
}

/* Shows message i of the history; for i = its count, the text that was typed before. */
static void edit_show_message(struct edit *edit, size_t i)
{
    size_t count = edit->history->count;
    if (i > count) return;
    if (edit->shown == count) {
        buffer_clear(&edit->typed);
        if (edit->text.count) buffer_append(&edit->typed, edit->text.data, edit->text.count);
    }
    edit->shown = i;
    if (i == count)
        edit_replace(edit, edit->typed.data, edit->typed.count);
    else
        edit_replace(edit, edit->history->messages[i], strlen(edit->history->messages[i]));
}

static size_t edit_count_characters(const struct edit *edit, size_t begin, size_t end)
{
    size_t n = 0;
    for (; begin < end; begin = edit_next(edit, begin)) n++;
    return n;
}

/* Moves to the line that begins at `line`, and keeps the cursor's distance from the line's
 * beginning. */
static void go_to_line(struct edit *edit, size_t line)
{
    size_t n = edit_count_characters(edit, line_begin(edit, edit->cursor), edit->cursor);
    size_t end = line_end(edit, line);
    for (edit->cursor = line; n > 0 && edit->cursor < end; n--)
        edit->cursor = edit_next(edit, edit->cursor);
}

static void go_up(struct edit *edit)
{
    size_t line = line_begin(edit, edit->cursor);
    if (line > 0)
        go_to_line(edit, line_begin(edit, line - 1));
    else if (edit->shown > 0)
        edit_show_message(edit, edit->shown - 1);
}

static void go_down(struct edit *edit)
{
    size_t end = line_end(edit, edit->cursor);
    if (end < edit->text.count)
        go_to_line(edit, end + 1);
    else
        edit_show_message(edit, edit->shown + 1);
}

/* Exchanges the two characters before the cursor; within a line, the two around it. */
static void edit_transpose(struct edit *edit)
{
    size_t end =
        edit->cursor < line_end(edit, edit->cursor) ? edit_next(edit, edit->cursor) : edit->cursor;
    size_t middle = edit_previous(edit, end), begin = edit_previous(edit, middle);
    if (begin == middle || begin < line_begin(edit, edit->cursor)) return;
    struct buffer first = {0};
    buffer_append(&first, edit->text.data + begin, middle - begin);
    remove_text(edit, begin, middle);
    edit->cursor = end - (middle - begin);
    edit_insert(edit, first.data, first.count);
    buffer_free(&first);
}

/* The newest message before `before` that has the query. */
static void search(struct edit *edit, size_t before)
{
    const char *query = edit->query.count ? edit->query.data : "";
    for (size_t i = before; i > 0; i--) {
        if (!strstr(edit->history->messages[i - 1], query)) continue;
        edit_show_message(edit, i - 1);
        const char *found = strstr(edit->text.data, query);
        if (found) edit->cursor = (size_t)(found - edit->text.data);
        edit->is_missing = 0;
        return;
    }
    edit->is_missing = 1;
}

static void drop_last(struct buffer *text)
{
    if (text->count == 0) return;
    do text->count--;
    while (text->count && ((unsigned char)text->data[text->count] & 0xc0) == 0x80);
    text->data[text->count] = 0;
}

/* Returns 1 if the key belongs to the search; else it ends it. */
static int search_key(struct edit *edit, uint32_t key)
{
    size_t count = edit->history->count, from = edit->shown < count ? edit->shown + 1 : count;
    char bytes[4];
    if (key == KEY_CTRL('R')) {
        if (edit->query.count) search(edit, edit->shown);
    } else if (key == KEY_CTRL('G')) {
        edit_show_message(edit, count);
        edit->is_search = 0;
    } else if (key == KEY_CTRL('H') || key == 0x7f) {
        drop_last(&edit->query);
        if (edit->query.count) search(edit, count);
    } else if (key >= 0x20 && key < KEY_UP) {
        buffer_append(&edit->query, bytes, rf_utf8_encode(key, bytes));
        search(edit, from);
    } else {
        edit->is_search = 0;
        return 0;
    }
    return 1;
}

/* Moves the cursor. Returns whether the key does. */
static int edit_move(struct edit *edit, uint32_t key)
{
    size_t at = edit->cursor;
    switch (key) {
    case KEY_LEFT:
    case KEY_CTRL('B'): edit->cursor = edit_previous(edit, at); break;
    case KEY_RIGHT:
    case KEY_CTRL('F'): edit->cursor = edit_next(edit, at); break;
    case KEY_HOME:
    case KEY_CTRL('A'): edit->cursor = line_begin(edit, at); break;
    case KEY_END:
    case KEY_CTRL('E'): edit->cursor = line_end(edit, at); break;
    case KEY_WORD_LEFT:
    case KEY_ALT | 'b': edit->cursor = word_begin(edit, at); break;
    case KEY_WORD_RIGHT:
    case KEY_ALT | 'f': edit->cursor = word_end(edit, at); break;
    case KEY_ALT | '<': edit->cursor = 0; break;
    case KEY_ALT | '>': edit->cursor = edit->text.count; break;
    case KEY_UP: go_up(edit); break;
    case KEY_DOWN: go_down(edit); break;
    case KEY_CTRL('P'):
        if (edit->shown > 0) edit_show_message(edit, edit->shown - 1);
        break;
    case KEY_CTRL('N'): edit_show_message(edit, edit->shown + 1); break;
    default: return 0;
    }
    return 1;
}

static void edit_apply_key(struct edit *edit, uint32_t key)
{
    size_t at = edit->cursor, end = line_end(edit, at);
    switch (key) {
    case KEY_CTRL('H'):
    case 0x7f: remove_text(edit, edit_previous(edit, at), at); break;
    case KEY_CTRL('D'):
    case KEY_DELETE:
        remove_text(edit, at, edit_next(edit, at));
        edit->cursor = at;
        break;
    case KEY_CTRL('K'): kill_text(edit, at, end == at ? edit_next(edit, at) : end); break;
    case KEY_CTRL('U'): kill_text(edit, line_begin(edit, at), at); break;
    case KEY_CTRL('W'): kill_text(edit, blank_word_begin(edit, at), at); break;
    case KEY_ALT | 0x7f:
    case KEY_ALT | KEY_CTRL('H'): kill_text(edit, word_begin(edit, at), at); break;
    case KEY_ALT | 'd': kill_text(edit, at, word_end(edit, at)); break;
    case KEY_CTRL('Y'): edit_insert(edit, edit->killed.data, edit->killed.count); break;
    case KEY_CTRL('T'): edit_transpose(edit); break;
    case KEY_ALT | '\r':
    case KEY_ALT | '\n': insert_code(edit, '\n'); break;
    case KEY_CTRL('R'):
        edit->is_search = 1;
        buffer_clear(&edit->query);
        break;
    default:
        if (key >= 0x20 && key < KEY_UP) insert_code(edit, key);
    }
}

static enum edit_result press(struct edit *edit, uint32_t key)
{
    if (edit->is_search && search_key(edit, key)) return EDIT_CHANGED;
    if (edit_move(edit, key)) return EDIT_CHANGED;
    switch (key) {
    case '\r':
    case '\n': return EDIT_DONE;
    case '\t': return EDIT_COMPLETE;
    case KEY_CTRL('L'): return EDIT_CLEAR;
    case KEY_CTRL('Z'): /* Windows's end of a file */
    case KEY_CTRL('D'):
        if (edit->text.count == 0) return EDIT_END;
    }
    edit_apply_key(edit, key);
    return EDIT_CHANGED;
}

/* Everything up to the end mark is text, so that nothing is sent before the user presses Enter. */
static enum edit_result push_pasted(struct edit *edit, char byte)
{
    struct buffer *pasted = &edit->pasted;
    size_t n_end = sizeof paste_end - 1;
    buffer_append(pasted, byte == '\r' ? "\n" : &byte, 1);
    if (pasted->count < n_end ||
        memcmp(pasted->data + pasted->count - n_end, paste_end, n_end) != 0)
        return EDIT_PART;
    edit_insert(edit, pasted->data, pasted->count - n_end);
    buffer_clear(pasted);
    edit->is_paste = 0;
    return EDIT_CHANGED;
}

enum edit_result edit_push(struct edit *edit, char byte)
{
    if (edit->is_paste) return push_pasted(edit, byte);
    uint32_t key = keys_push(&edit->keys, byte);
    if (key == KEY_PASTE) {
        edit->is_paste = 1;
        edit->is_search = 0;
        return EDIT_PART;
    }
    return key == KEY_NONE ? EDIT_PART : press(edit, key);
}

void edit_begin(struct edit *edit)
{
    buffer_clear(&edit->text);
    buffer_clear(&edit->pasted);
    edit->cursor = 0;
    edit->shown = edit->history->count;
    edit->is_search = edit->is_missing = edit->is_paste = 0;
    edit->keys.n = 0;
}

void edit_prompt(const struct edit *edit, char mark, struct buffer *prompt)
{
    buffer_clear(prompt);
    if (edit->is_search)
        buffer_printf(prompt, "search '%s'%s: ", edit->query.count ? edit->query.data : "",
                      edit->is_missing ? " (not found)" : "");
    else
        buffer_printf(prompt, "%c ", mark);
}

void edit_free(struct edit *edit)
{
    buffer_free(&edit->text);
    buffer_free(&edit->killed);
    buffer_free(&edit->typed);
    buffer_free(&edit->query);
    buffer_free(&edit->pasted);
}
