/* Computes the bytes that make a terminal show a prompt and a text. Rows and columns are counted as
 * terminals do, so that only changes are written. */
#include "terminal/edit_screen.h"

#include <limits.h>
#include <string.h>

#include "base/utf8.h"
#include "output/buffer.h"
#include "platform/terminal.h"

/* Terminals wrap when a character comes that does not fit, so column == width is a place, too. */
struct place {
    int row, column;
};

/* The character at a byte of a text. */
struct glyph {
    size_t bytes;
    uint32_t code;
};

static struct glyph glyph_at(const struct buffer *text, size_t at)
{
    struct glyph glyph = {rf_utf8_length(text->data + at, text->count - at), 0xfffd};
    if (glyph.bytes == 0) return (struct glyph){1, 0xfffd};
    glyph.code = rf_utf8_decode(text->data + at, glyph.bytes);
    return glyph;
}

/* Columns up to the next stop, or the edge. */
static int tab_columns(int column, int width)
{
    int stop = column - column % 8 + 8;
    return (stop < width ? stop : width) - column;
}

static struct place place_after(struct place place, uint32_t code, int width)
{
    if (code == '\n') return (struct place){place.row + 1, 0};
    int columns = code == '\t' ? 1 : rf_terminal_columns(code);
    if (place.column + columns > width) place = (struct place){place.row + 1, 0};
    if (code == '\t') columns = tab_columns(place.column, width);
    place.column += columns;
    return place;
}

/* The place of the byte `at` of the text. */
static struct place screen_place(const struct buffer *text, size_t at, int width)
{
    struct place place = {0, 0};
    for (size_t i = 0; i < at;) {
        struct glyph glyph = glyph_at(text, i);
        place = place_after(place, glyph.code, width);
        i += glyph.bytes;
    }
    return place;
}

/* The place of a cursor at that byte: the character's place, also if the character would come at
 * the end. At the edge there is no place for a newline. */
static struct place cursor_place(const struct buffer *text, size_t at, int width)
{
    struct place place = screen_place(text, at, width);
    if (place.column < width) return place;
    if (at < text->count && text->data[at] == '\n') return (struct place){place.row, width - 1};
    return (struct place){place.row + 1, 0};
}

/* The first byte that stands in the row or below it; a newline stands at the end of its row. */
static size_t row_begin(const struct buffer *text, int row, int width)
{
    struct place place = {0, 0};
    for (size_t i = 0; i < text->count;) {
        struct glyph glyph = glyph_at(text, i);
        struct place next = place_after(place, glyph.code, width);
        if ((glyph.code == '\n' ? place.row : next.row) >= row) return i;
        place = next;
        i += glyph.bytes;
    }
    return text->count;
}

static size_t screen_previous(const struct buffer *text, size_t at)
{
    do at--;
    while (at > 0 && ((unsigned char)text->data[at] & 0xc0) == 0x80);
    return at;
}

/* The bytes that need not be written again: whole characters with their combining ones. None is at
 * the edge, where terminals erase and combine differently. */
static size_t screen_unchanged(const struct edit_screen *screen, const struct buffer *now)
{
    const struct buffer *shown = &screen->shown;
    size_t n = 0;
    while (n < shown->count && n < now->count && shown->data[n] == now->data[n]) n++;
    if (n == now->count && n == shown->count) return n;
    while (n > 0 && n < now->count && ((unsigned char)now->data[n] & 0xc0) == 0x80) n--;
    while (n > 0 && ((n < now->count && rf_terminal_columns(glyph_at(now, n).code) == 0) ||
                     (n < shown->count && rf_terminal_columns(glyph_at(shown, n).code) == 0) ||
                     screen_place(now, n, screen->width).column >= screen->width))
        n = screen_previous(now, n);
    return n;
}

static void screen_move_to(struct edit_screen *screen, struct place place, struct buffer *out)
{
    if (place.row == screen->row && place.column == screen->column) return;
    if (place.row < screen->row) buffer_printf(out, "\033[%dA", screen->row - place.row);
    buffer_puts(out, "\r");
    for (int i = screen->row; i < place.row; i++) buffer_puts(out, "\n");
    if (place.column) buffer_printf(out, "\033[%dC", place.column);
    screen->row = place.row;
    screen->column = place.column;
}

/* Writes the text from a byte on, where the cursor is. */
static struct place screen_write_text(const struct buffer *text, size_t from, struct place place,
                                      int width, size_t bold_end, struct buffer *out)
{
    if (from < bold_end) buffer_puts(out, "\033[1m");
    for (size_t i = from; i < text->count;) {
        struct glyph glyph = glyph_at(text, i);
        struct place next = place_after(place, glyph.code, width);
        if (glyph.code == '\n')
            buffer_puts(out, "\n");
        else if (glyph.code == '\t')
            buffer_printf(out, "%*s", tab_columns(place.column % width, width), "");
        else
            buffer_append(out, text->data + i, glyph.bytes);
        place = next;
        i += glyph.bytes;
        if (from < bold_end && i == bold_end) buffer_puts(out, "\033[0m");
    }
    return place;
}

/* The part of a text that the terminal has rows for. */
struct part {
    size_t begin, end; /* bytes; no newline at the end of the last row */
    int has_end;       /* the place behind the text is in it, too */
};

/* The part around the cursor, as near the last part as possible. */
static struct part screen_visible(struct edit_screen *screen, const struct buffer *all,
                                  size_t cursor)
{
    int width = screen->width, height = screen->height, top = screen->top;
    int row = cursor_place(all, cursor, width).row;
    int rows = cursor_place(all, all->count, width).row + 1;
    if (top > rows - height) top = rows - height;
    if (top < 0) top = 0;
    if (row < top) top = row;
    if (row >= top + height) top = row - height + 1;
    screen->top = top;
    struct part part = {row_begin(all, top, width), all->count, rows - top <= height};
    if (!part.has_end) {
        part.end = row_begin(all, top + height, width);
        if (part.end > part.begin && all->data[part.end - 1] == '\n') part.end--;
    }
    return part;
}

void edit_screen_draw(struct edit_screen *screen, const struct edit_view *view, struct buffer *out)
{
    struct buffer all = {0}, now = {0};
    size_t n_prompt = strlen(view->prompt);
    int width = screen->width, top = screen->top;
    buffer_puts(&all, view->prompt);
    buffer_puts(&all, view->text);
    struct part part = screen_visible(screen, &all, n_prompt + view->cursor);
    buffer_append(&now, all.data + part.begin, part.end - part.begin);
    size_t same = screen->top == top ? screen_unchanged(screen, &now) : 0;
    size_t bold_end = part.begin == 0 && view->is_bold && n_prompt ? n_prompt - 1 : 0;
    if (same < n_prompt && part.begin == 0) same = 0;

    if (same < now.count || same < screen->shown.count) {
        struct place place = screen_place(&now, same, width);
        screen_move_to(screen, place, out);
        if (same < screen->shown.count) buffer_puts(out, "\033[J");
        place = screen_write_text(&now, same, place, width, bold_end, out);
        if (place.column >= width && part.has_end) {
            buffer_puts(out, " \r"); /* takes the cursor to the next row */
            place = (struct place){place.row + 1, 0};
        }
        screen->row = place.row;
        screen->column = place.column;
    }
    screen->cursor = n_prompt + view->cursor - part.begin;
    struct place cursor = cursor_place(&all, n_prompt + view->cursor, width);
    cursor.row -= screen->top;
    screen_move_to(screen, cursor, out);
    buffer_free(&screen->shown);
    screen->shown = now;
    buffer_free(&all);
}

void edit_screen_finish(struct edit_screen *screen, const struct edit_view *view,
                        struct buffer *out)
{
    struct edit_view end = *view;
    end.cursor = strlen(view->text);
    screen->height = INT_MAX;
    screen->top = 0;
    edit_screen_draw(screen, &end, out);
    if (screen->column) buffer_puts(out, "\n");
    edit_screen_forget(screen);
}

void edit_screen_resize(struct edit_screen *screen, int width, int height, struct buffer *out)
{
    screen->row = cursor_place(&screen->shown, screen->cursor, width).row;
    if (screen->row) buffer_printf(out, "\033[%dA", screen->row);
    if (screen->shown.count) buffer_puts(out, "\r\033[J");
    edit_screen_forget(screen);
    screen->width = width;
    screen->height = height;
}

void edit_screen_forget(struct edit_screen *screen)
{
    buffer_clear(&screen->shown);
    screen->row = screen->column = 0;
    screen->cursor = 0;
    screen->top = 0;
}

void edit_screen_free(struct edit_screen *screen)
{
    buffer_free(&screen->shown);
}
