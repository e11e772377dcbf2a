/* Breaks text between words while it arrives, and prints paragraphs and names with explanations.
 * The column is tracked as the terminal does, wide characters included. */
#include "output/wrap.h"

#include <stdarg.h>
#include <string.h>

#include "base/utf8.h"
#include "platform/terminal.h"

static const char reset[] = "\033[0m";
enum { JOINER = 0x200d }; /* makes one emoji of the two beside it */

static int is_one_of(uint32_t c, const uint32_t *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == c) return 1;
    return 0;
}

/* Characters that no line begins with, beside wide ones. */
static int closes(uint32_t c)
{
    static const uint32_t wide[] = {0x2019, 0x201d, 0x3001, 0x3002, 0x3005, 0x3009, 0x300b,
                                    0x300d, 0x300f, 0x3011, 0x3015, 0x30fc, 0xff01, 0xff09,
                                    0xff0c, 0xff0e, 0xff1a, 0xff1b, 0xff1f, 0xff3d, 0xff5d};
    if (c < 0x80) return c && strchr(",.!?:;)]}%'\"", (int)c);
    return is_one_of(c, wide, sizeof wide / sizeof *wide);
}

/* Characters that no line ends with. */
static int opens(uint32_t c)
{
    static const uint32_t wide[] = {0x2018, 0x201c, 0x3008, 0x300a, 0x300c, 0x300e,
                                    0x3010, 0x3014, 0xff08, 0xff3b, 0xff5b};
    if (c < 0x80) return c && strchr("([{'\"", (int)c);
    return is_one_of(c, wide, sizeof wide / sizeof *wide);
}

/* Whether a line may end between two characters, neither of them a space. Text in wide characters
 * has no spaces. */
static int may_break(uint32_t before, uint32_t c)
{
    enum { FIRST_SKIN = 0x1f3fb, LAST_SKIN = 0x1f3ff };
    if (rf_terminal_columns(before) != 2 && rf_terminal_columns(c) != 2) return 0;
    if (before == JOINER || (c >= FIRST_SKIN && c <= LAST_SKIN)) return 0; /* parts of an emoji */
    return rf_terminal_columns(c) > 0 && !closes(c) && !opens(before);
}

/* Adds to the word. A word that the terminal can erase is written at once. */
static void wrap_put(struct wrap *wrap, struct buffer *out, const char *text, size_t n)
{
    buffer_append(&wrap->word, text, n);
    if (wrap->escapes) buffer_append(out, text, n);
}

/* Leaves the word where it is; the next one begins. */
static void wrap_settle(struct wrap *wrap, struct buffer *out)
{
    if (!wrap->escapes) buffer_append(out, wrap->word.data, wrap->word.count);
    buffer_clear(&wrap->word);
    buffer_puts(&wrap->word, wrap->colour);
    wrap->word_column = wrap->column;
}

static void wrap_move_word(struct wrap *wrap, struct buffer *out)
{
    if (wrap->escapes && wrap->column > wrap->word_column)
        buffer_printf(out, "\r\033[%dC\033[K", wrap->word_column);
    buffer_printf(out, "\n%*s", wrap->indent, "");
    wrap->column += wrap->indent - wrap->word_column;
    wrap->word_column = wrap->indent;
    if (!wrap->escapes) return;
    if (wrap->colour[0]) buffer_puts(out, reset);
    buffer_append(out, wrap->word.data, wrap->word.count);
}

/* Advances as the terminal does: a character that does not fit goes to the next line. */
static void wrap_advance(struct wrap *wrap, int columns)
{
    int fits = !wrap->width || wrap->column + columns <= wrap->width;
    wrap->column = fits ? wrap->column + columns : columns;
}

static void wrap_add_space(struct wrap *wrap, struct buffer *out, char c)
{
    enum { TAB = 8 };
    int columns = c == '\t' ? TAB - wrap->column % TAB : 1;
    wrap_settle(wrap, out);
    wrap->before = 0;
    if (wrap->width && wrap->column + columns > wrap->width) {
        /* The end of the line stands for the space. */
        if (!wrap->is_code) wrap->column = wrap->width;
        if (!wrap->is_code) return;
        columns = c == '\t' ? wrap->width - wrap->column : 1;
    }
    buffer_append(out, &c, 1);
    wrap_advance(wrap, columns);
    wrap->word_column = wrap->column;
}

static void wrap_add_character(struct wrap *wrap, struct buffer *out, const char *text, size_t n)
{
    uint32_t c = rf_utf8_decode(text, n);
    int columns = rf_terminal_columns(c);
    if (wrap->before && may_break(wrap->before, c)) wrap_settle(wrap, out);
    if (wrap->width && wrap->column + columns > wrap->width && columns > 0) {
        if (!wrap->is_code && wrap->word_column > wrap->indent) {
            wrap_move_word(wrap, out);
        } else {
            wrap_settle(wrap, out);
            wrap->word_column = 0;
        }
    }
    wrap_put(wrap, out, text, n);
    wrap_advance(wrap, columns);
    if (columns > 0 || c == JOINER) wrap->before = c;
}

static void wrap_add_newline(struct wrap *wrap, struct buffer *out)
{
    wrap_settle(wrap, out);
    buffer_puts(out, "\n");
    wrap->column = wrap->word_column = wrap->ticks = 0;
    wrap->before = 0;
}

/* Finds the lines of ``` around code. */
static void wrap_watch_ticks(struct wrap *wrap, char c)
{
    if (wrap->ticks < 0 || (c == ' ' && wrap->ticks == 0)) return;
    wrap->ticks = c == '`' ? wrap->ticks + 1 : -1;
    if (wrap->ticks != 3) return;
    wrap->is_code = !wrap->is_code;
    wrap->ticks = -1;
}

/* Most terminals break long lines anew for another width. */
static void wrap_follow_width(struct wrap *wrap, struct buffer *out)
{
    if (wrap->last_width && wrap->width && wrap->width != wrap->last_width) {
        wrap_settle(wrap, out);
        if (wrap->column > wrap->width) wrap->column = (wrap->column - 1) % wrap->width + 1;
        wrap->word_column = wrap->column;
    }
    wrap->last_width = wrap->width;
}

void wrap_add(struct wrap *wrap, struct buffer *out, const char *text, size_t n, const char *colour)
{
    wrap->colour = "";
    wrap_follow_width(wrap, out);
    wrap->colour = colour;
    wrap_put(wrap, out, colour, strlen(colour));
    for (size_t i = 0, length; i < n; i += length) {
        length = rf_utf8_length(text + i, n - i);
        if (length == 0) length = 1;
        if (text[i] != '\n') wrap_watch_ticks(wrap, text[i]);
        if (text[i] == '\n')
            wrap_add_newline(wrap, out);
        else if (text[i] == ' ' || text[i] == '\t')
            wrap_add_space(wrap, out, text[i]);
        else
            wrap_add_character(wrap, out, text + i, length);
    }
    if (colour[0]) wrap_put(wrap, out, reset, sizeof reset - 1);
}

void wrap_end(struct wrap *wrap, struct buffer *out)
{
    wrap->colour = "";
    wrap_settle(wrap, out);
    buffer_free(&wrap->word);
}

int text_columns(const char *text)
{
    int columns = 0;
    for (size_t n = strlen(text), length; n; text += length, n -= length) {
        length = rf_utf8_length(text, n);
        if (length == 0) length = 1;
        columns += rf_terminal_columns(rf_utf8_decode(text, length));
    }
    return columns;
}

int text_width(FILE *out, int most)
{
    enum rf_stream stream = out == stdout ? RF_STDOUT : RF_STDERR;
    int width = rf_is_terminal(stream) ? rf_terminal_width(stream) : most;
    return width < most ? width : most;
}

void print_paragraph(FILE *out, const char *text, int indent, int width)
{
    struct wrap wrap = {
        .width = width, .indent = indent, .column = indent, .word_column = indent, .ticks = -1};
    struct buffer lines = {0};
    wrap_add(&wrap, &lines, text, strlen(text), "");
    wrap_end(&wrap, &lines);
    buffer_puts(&lines, "\n");
    size_t kept = 0;
    for (size_t i = 0; i < lines.count; i++) {
        /* The space before a break is no longer needed. */
        while (lines.data[i] == '\n' && kept && lines.data[kept - 1] == ' ') kept--;
        lines.data[kept++] = lines.data[i];
    }
    lines.count = kept;
    buffer_write(&lines, out);
    buffer_free(&lines);
}

void print_entry(FILE *out, const char *name, const char *text, int indent, int width)
{
    fprintf(out, "  %-*s", indent - 2, name);
    if ((int)strlen(name) > indent - 3) fprintf(out, "\n%*s", indent, "");
    print_paragraph(out, text, indent, width);
}

void inform(const char *format, ...)
{
    char sentence[2048], shown[RF_UTF8_SHOWN];
    struct buffer safe = {0};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    size_t n = strlen(sentence);
    for (size_t i = 0, used; i < n; i += used)
        buffer_append(&safe, shown, rf_utf8_show(sentence + i, n - i, shown, &used));
    print_paragraph(stderr, n ? safe.data : "", 0,
                    rf_is_terminal(RF_STDERR) ? text_width(stderr, INFORMATION_WIDTH) : 0);
    buffer_free(&safe);
}
