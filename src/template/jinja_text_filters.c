/* Filters that make a text of a text. jinja_names.c finds them by name. */
#include "base/utf8.h"
#include "template/jinja_functions.h"

/* A text of a text that is HTML if that was. */
static value soft(value self, value text)
{
    text.marked = self.type == RF_JINJA_STRING && self.marked;
    return text;
}

FUNCTION(filter_trim)
{
    value text = rf_jinja_str(run, self);
    return rf_jinja_strip(run, text, ARGUMENT(0, "chars", rf_jinja_none()), 1, 1);
}

FUNCTION(filter_string)
{
    UNUSED;
    return rf_jinja_str(run, self);
}

FUNCTION(filter_upper)
{
    UNUSED;
    return soft(self, rf_jinja_recase(run, rf_jinja_str(run, self), CASE_UPPER));
}

FUNCTION(filter_lower)
{
    UNUSED;
    return soft(self, rf_jinja_recase(run, rf_jinja_str(run, self), CASE_LOWER));
}

FUNCTION(filter_title)
{
    UNUSED;
    return rf_jinja_recase(run, rf_jinja_str(run, self), CASE_JINJA_TITLE);
}

FUNCTION(filter_capitalize)
{
    UNUSED;
    return soft(self, rf_jinja_recase(run, rf_jinja_str(run, self), CASE_CAPITALIZED));
}

FUNCTION(filter_replace)
{
    int64_t most = -1;
    value old = ARGUMENT(0, "old", rf_jinja_none()), with = ARGUMENT(1, "new", rf_jinja_none());
    rf_jinja_as_integer(ARGUMENT(2, "count", rf_jinja_none()), &most);
    if (with.type == RF_JINJA_NONE) return rf_jinja_mistyped(run, "replace a text by", with);
    value text = rf_jinja_replace(run, rf_jinja_str(run, self), rf_jinja_str(run, old),
                                  rf_jinja_str(run, with), most);
    text.marked = 0; /* outside of {% autoescape %} jinja2 replaces in the plain text */
    return text;
}

FUNCTION(filter_indent)
{
    value width = ARGUMENT(0, "width", rf_jinja_integer(4)), step;
    int first = rf_jinja_truth(ARGUMENT(1, "first", rf_jinja_bool(0)));
    int blank = rf_jinja_truth(ARGUMENT(2, "blank", rf_jinja_bool(0)));
    struct output spaces = {0}, out = {0}, text = {0};
    int64_t n = 0;
    if (self.type != RF_JINJA_STRING) return rf_jinja_mistyped(run, "indent", self);
    if (rf_jinja_as_integer(width, &n)) {
        for (int64_t i = 0; i < n && !run->code; i++) rf_jinja_write_text(run, &spaces, " ");
        step = rf_jinja_written(run, &spaces);
    } else {
        step = rf_jinja_str(run, width);
    }
    rf_jinja_write_str(run, &text, self);
    rf_jinja_write_text(run, &text, "\n");
    const struct rf_jinja_list *lines =
        rf_jinja_iterate(run, rf_jinja_lines(run, rf_jinja_written(run, &text), 0));
    for (size_t i = 0; lines && i < lines->n && !run->code; i++) {
        if (i) rf_jinja_write_text(run, &out, "\n");
        if (i ? blank || lines->items[i].bytes : first) rf_jinja_write(run, &out, step);
        rf_jinja_write(run, &out, lines->items[i]);
    }
    return soft(self, rf_jinja_written(run, &out));
}

FUNCTION(filter_format)
{
    if (arguments->n && arguments->n_named)
        return rf_jinja_fail(run, RF_ERR_ARGUMENT, "a format takes values by place or by name");
    return rf_jinja_percent(run, rf_jinja_str(run, self), arguments);
}

/* Bytes of the first n characters. */
static size_t filter_bytes_of(struct rf_str text, int64_t n)
{
    size_t at = 0;
    while (n-- > 0 && at < text.bytes) at += rf_jinja_char(text, at);
    return at;
}

FUNCTION(filter_truncate)
{
    value text = rf_jinja_str(run, self), end = ARGUMENT(2, "end", rf_jinja_text("..."));
    int64_t length = 255, leeway = 5;
    rf_jinja_as_integer(ARGUMENT(0, "length", rf_jinja_none()), &length);
    rf_jinja_as_integer(ARGUMENT(3, "leeway", rf_jinja_none()), &leeway);
    if (run->code) return (value){0};
    int64_t of_end = rf_jinja_length(run, end), room = length - of_end;
    if (of_end < 0 || room < 0 || leeway < 0 || leeway > INT64_MAX - length)
        return rf_jinja_fail(run, RF_ERR_ARGUMENT, "a text cannot be truncated to that length");
    if (rf_jinja_length(run, text) <= length + leeway || rf_jinja_charge(run, text.bytes))
        return text;
    struct rf_str bytes = rf_jinja_bytes(text);
    size_t kept = filter_bytes_of(bytes, room), word = kept;
    if (!rf_jinja_truth(ARGUMENT(1, "killwords", rf_jinja_bool(0)))) {
        while (word > 0 && bytes.data[word - 1] != ' ') word--;
        if (word) kept = word - 1;
    }
    struct output out = {0};
    rf_jinja_write(run, &out, rf_jinja_cut(text, 0, kept));
    rf_jinja_write(run, &out, end);
    return soft(self, rf_jinja_written(run, &out));
}

FUNCTION(filter_wordcount)
{
    UNUSED;
    struct rf_str text = rf_jinja_bytes(rf_jinja_str(run, self));
    int64_t n = 0;
    int inside = 0;
    if (rf_jinja_charge(run, text.bytes * RF_JINJA_KEY)) return (value){0};
    for (size_t at = 0, length; at < text.bytes; at += length) {
        int was_inside = inside;
        length = rf_jinja_char(text, at);
        inside = rf_utf8_length(text.data + at, length) &&
                 rf_jinja_is_word(rf_utf8_decode(text.data + at, length));
        n += inside && !was_inside;
    }
    return rf_jinja_integer(n);
}

FUNCTION(filter_center)
{
    int64_t width = 80;
    rf_jinja_as_integer(ARGUMENT(0, "width", rf_jinja_none()), &width);
    value text = rf_jinja_pad(run, rf_jinja_str(run, self), width, rf_jinja_text(" "), 1, 1);
    return soft(self, text);
}

/* ---- wrapping, as Python's textwrap does ---- */

struct wrapping {
    int64_t width;
    int breaks_words, breaks_hyphens;
    value separator;
    struct output out;
    value line;        /* the text to wrap */
    int n_lines;       /* lines of the text */
    size_t begin, end; /* the line that grows: bytes of `line`, */
    int64_t n;         /* and its characters */
};

static int is_layout(char c)
{
    return c && strchr(" \t\n\v\f\r", c);
}

static int is_letter_at(struct rf_str text, size_t at)
{
    size_t length = rf_utf8_length(text.data + at, text.bytes - at);
    uint32_t c = length ? rf_utf8_decode(text.data + at, length) : 0;
    return rf_jinja_is_word(c) && !(c >= '0' && c <= '9') && c != '_';
}

/* The end of the piece that begins at `at`, between which lines may be broken: a run of spaces, or
 * a word, which also ends behind a hyphen between letters. */
static size_t piece_end(const struct wrapping *w, size_t at)
{
    struct rf_str text = rf_jinja_bytes(w->line);
    size_t end = at;
    if (is_layout(text.data[at])) {
        while (end < text.bytes && is_layout(text.data[end])) end++;
        return end;
    }
    for (; end < text.bytes && !is_layout(text.data[end]); end++) {
        size_t back = end - 1;
        if (!w->breaks_hyphens || text.data[end] != '-' || end < at + 2) continue;
        while (back > at && ((unsigned char)text.data[back] & 0xc0) == 0x80) back--;
        if (is_letter_at(text, back) && end + 1 < text.bytes && is_letter_at(text, end + 1))
            return end + 1;
    }
    return end;
}

/* Writes the line that has grown, without the spaces behind it. */
static void end_line(struct rf_jinja_run *run, struct wrapping *w)
{
    while (w->end > w->begin && is_layout(w->line.u.data[w->end - 1])) w->end--;
    if (w->end > w->begin) {
        if (w->n_lines++) rf_jinja_write(run, &w->out, w->separator);
        rf_jinja_write(run, &w->out, rf_jinja_cut(w->line, w->begin, w->end));
    }
    w->begin = w->end;
    w->n = 0;
}

static void wrap_line(struct rf_jinja_run *run, struct wrapping *w)
{
    struct rf_str text = rf_jinja_bytes(w->line);
    int first = 1;
    w->begin = w->end = 0;
    w->n = 0;
    for (size_t at = 0, end; at < text.bytes && !rf_jinja_steps(run, 1); at = end) {
        end = piece_end(w, at);
        int64_t n = rf_jinja_length(run, rf_jinja_cut(w->line, at, end));
        if (w->n == 0) {
            w->begin = w->end = at;
            if (is_layout(text.data[at]) && !first) { /* no line but the first begins with spaces */
                w->begin = w->end = end;
                continue;
            }
        }
        if (w->n + n <= w->width) {
            w->end = end;
            w->n += n;
            first = 0;
        } else if (n > w->width && w->breaks_words) {
            int64_t room = w->width - w->n;
            for (end = at; room > 0; room--) end += rf_jinja_char(text, end);
            w->end = end;
            end_line(run, w);
            first = 0;
        } else if (w->n) {
            end_line(run, w);
            first = 0;
            end = at;
        } else {
            w->end = end;
            end_line(run, w);
            first = 0;
        }
    }
    end_line(run, w);
}

FUNCTION(filter_wordwrap)
{
    struct wrapping w = {.width = 79, .separator = rf_jinja_text("\n")};
    rf_jinja_as_integer(ARGUMENT(0, "width", rf_jinja_none()), &w.width);
    w.breaks_words = rf_jinja_truth(ARGUMENT(1, "break_long_words", rf_jinja_bool(1)));
    value separator = ARGUMENT(2, "wrapstring", rf_jinja_none());
    w.breaks_hyphens = rf_jinja_truth(ARGUMENT(3, "break_on_hyphens", rf_jinja_bool(1)));
    if (separator.type == RF_JINJA_STRING) w.separator = separator;
    if (w.width <= 0 || self.type != RF_JINJA_STRING) return rf_jinja_mistyped(run, "wrap", self);
    const struct rf_jinja_list *lines = rf_jinja_iterate(run, rf_jinja_lines(run, self, 0));
    for (size_t i = 0; lines && i < lines->n && !run->code; i++) {
        if (i) rf_jinja_write(run, &w.out, w.separator);
        w.n_lines = 0;
        w.line = lines->items[i];
        wrap_line(run, &w);
    }
    return rf_jinja_written(run, &w.out);
}

const struct builtin rf_jinja_text_filters[] = {{"trim", filter_trim, BUILTIN_CONSTANT},
                                                {"string", filter_string, BUILTIN_CONSTANT},
                                                {"upper", filter_upper, 0},
                                                {"lower", filter_lower, 0},
                                                {"title", filter_title, 0},
                                                {"capitalize", filter_capitalize, 0},
                                                {"replace", filter_replace, 0},
                                                {"indent", filter_indent, 0},
                                                {"format", filter_format, 0},
                                                {"truncate", filter_truncate, 0},
                                                {"wordcount", filter_wordcount, 0},
                                                {"center", filter_center, 0},
                                                {"wordwrap", filter_wordwrap, 0},
                                                {NULL, NULL, 0}};
