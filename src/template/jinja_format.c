/* Formats: the operator % and str.format, with widths, precisions and the letters of Python. Texts
 * keep their origins; numbers are the template's. jinja_compute.c, filters and methods call it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "template/jinja_parts.h"

enum {
    MAX_PRECISION = 300,
    MAX_WIDTH = 1 << 20,
    MAX_DIGITS = 1200 /* a number with such a precision, its groups separated */
};

struct spec {
    value fill;               /* one character */
    char align;               /* one of "<>^=", or 0 */
    char sign;                /* one of "+- ", or 0 */
    char group;               /* one of ",_", or 0 */
    char letter;              /* the conversion, or 0 */
    int alternate;            /* # */
    int64_t width, precision; /* -1: none */
};

static value unknown_format(struct rf_jinja_run *run)
{
    return rf_jinja_fail(run, RF_ERR_ARGUMENT, "a format is not known");
}

/* ---- filler ---- */

static void fill(struct rf_jinja_run *run, struct output *out, value character, int64_t n)
{
    while (n-- > 0 && !run->code) rf_jinja_write(run, out, character);
}

value rf_jinja_pad(struct rf_jinja_run *run, value text, int64_t width, value character, int before,
                   int after)
{
    struct output out = {0};
    int64_t n = rf_jinja_length(run, text), room = width > n ? width - n : 0;
    /* str.center puts the odd one to the left of texts whose width is odd. */
    int64_t left = !before ? 0 : !after ? room : room / 2 + (room & width & 1);
    if (run->code || room == 0) return text;
    if (width > MAX_WIDTH) return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "a text is too wide");
    fill(run, &out, character, left);
    rf_jinja_write(run, &out, text);
    fill(run, &out, character, room - left);
    return rf_jinja_written(run, &out);
}

/* Pads by the spec. `usual`: the alignment without one. `head`: bytes of sign and prefix, which
 * stay in front of filler with the alignment '='. */
static void write_padded(struct rf_jinja_run *run, struct output *out, value text,
                         const struct spec *spec, char usual, size_t head)
{
    char align = spec->align ? spec->align : usual;
    if (align == '=') {
        rf_jinja_write(run, out, rf_jinja_cut(text, 0, head));
        int64_t inner = spec->width - (int64_t)head;
        text = rf_jinja_pad(run, rf_jinja_cut(text, head, text.bytes), inner, spec->fill, 1, 0);
    } else if (align == '^') { /* format() puts the odd one to the right */
        int64_t room = spec->width - rf_jinja_length(run, text);
        text = rf_jinja_pad(run, text, spec->width - (room > 0 ? room - room / 2 : 0), spec->fill,
                            1, 0);
        text = rf_jinja_pad(run, text, spec->width, spec->fill, 0, 1);
    } else {
        text = rf_jinja_pad(run, text, spec->width, spec->fill, align == '>', align == '<');
    }
    rf_jinja_write(run, out, text);
}

static void write_text(struct rf_jinja_run *run, struct output *out, value text,
                       const struct spec *spec, char usual)
{
    size_t end = 0;
    if (spec->precision >= 0) {
        rf_jinja_charge(run, text.bytes);
        for (int64_t i = 0; i < spec->precision && end < text.bytes; i++)
            end += rf_jinja_char(rf_jinja_bytes(text), end);
        text = rf_jinja_cut(text, 0, end);
    }
    write_padded(run, out, text, spec, usual, 0);
}

/* ---- numbers ---- */

/* Inserts the separator between groups of the digits at the beginning of the text. */
static void group_digits(char *digits, char separator, size_t group)
{
    size_t n = strspn(digits, "0123456789abcdefABCDEF"), all = strlen(digits);
    for (size_t at = n; at > group && all + 1 < MAX_DIGITS; all++) {
        at -= group;
        memmove(digits + at + 1, digits + at, all + 1 - at);
        digits[at] = separator;
    }
}

static void write_number(struct rf_jinja_run *run, struct output *out, int negative,
                         const char *prefix, char *digits, const struct spec *spec)
{
    char text[MAX_DIGITS + 8];
    size_t by = spec->letter && strchr("bBoxX", spec->letter) ? 4 : 3;
    const char *sign = negative ? "-" : spec->sign == '+' ? "+" : spec->sign == ' ' ? " " : "";
    if (spec->group) group_digits(digits, spec->group, by);
    snprintf(text, sizeof text, "%s%s%s", sign, prefix, digits);
    write_padded(run, out, rf_jinja_text(text), spec, '>', strlen(sign) + strlen(prefix));
}

static void write_integer(struct rf_jinja_run *run, struct output *out, value v,
                          const struct spec *spec)
{
    char digits[MAX_DIGITS];
    if (v.type == RF_JINJA_BIG) {
        struct rf_str all = rf_jinja_bytes(v);
        int negative = *all.data == '-';
        if ((spec->letter && !strchr("dinu", spec->letter)) || all.bytes > MAX_DIGITS / 2) {
            rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "a number is out of range");
            return;
        }
        snprintf(digits, sizeof digits, "%.*s", (int)all.bytes - negative, all.data + negative);
        write_number(run, out, negative, "", digits, spec);
        return;
    }
    int negative = v.u.integer < 0;
    uint64_t rest = negative ? 0 - (uint64_t)v.u.integer : (uint64_t)v.u.integer;
    char letter = spec->letter ? spec->letter : 'd', *end = digits + 80;
    unsigned base = letter == 'b'                    ? 2
                    : letter == 'o'                  ? 8
                    : letter == 'x' || letter == 'X' ? 16
                                                     : 10;
    const char *letters = letter == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    *end = 0;
    do *--end = letters[rest % base];
    while ((rest /= base) != 0);
    while (spec->precision > digits + 80 - end && end > digits) *--end = '0';
    memmove(digits, end, strlen(end) + 1);
    const char *prefix = !spec->alternate ? "" : letter == 'b' ? "0b" : letter == 'o' ? "0o" : "";
    if (spec->alternate && base == 16) prefix = letter == 'X' ? "0X" : "0x";
    write_number(run, out, negative, prefix, digits, spec);
}

static void write_float(struct rf_jinja_run *run, struct output *out, double real,
                        const struct spec *spec)
{
    char digits[MAX_DIGITS], format[8] = "%.*f";
    char letter = spec->letter == '%'                    ? 'f'
                  : spec->letter == 'n' || !spec->letter ? 'g'
                                                         : spec->letter;
    double size = fabs(spec->letter == '%' ? real * 100 : real);
    int precision = spec->precision < 0 ? 6 : (int)spec->precision;
    rf_jinja_steps(run, 8);
    if (!spec->letter && spec->precision < 0) { /* str() */
        struct output shown = {0};
        rf_jinja_write_repr(run, &shown, rf_jinja_real(size));
        snprintf(digits, sizeof digits, "%.*s", (int)shown.n, shown.n ? shown.text : "");
    } else {
        if (spec->alternate) memcpy(format, "%#.*f", 6);
        format[strlen(format) - 1] = letter;
        snprintf(digits, sizeof digits - 2, format, precision, size);
        int whole = digits[strcspn(digits, ".eni")] == 0;
        if (!spec->letter && whole) strcat(digits, ".0");
        if (spec->letter == '%') strcat(digits, "%");
    }
    write_number(run, out, signbit(real) && !isnan(real), "", digits, spec);
}

static void write_character(struct rf_jinja_run *run, struct output *out, value v,
                            const struct spec *spec)
{
    char bytes[4];
    if (v.type == RF_JINJA_STRING && rf_jinja_length(run, v) == 1) {
        write_padded(run, out, v, spec, '<', 0);
        return;
    }
    if (v.type != RF_JINJA_INT || v.u.integer < 0 || v.u.integer > 0x10ffff ||
        (v.u.integer >= 0xd800 && v.u.integer < 0xe000)) {
        rf_jinja_mistyped(run, "format as a character", v);
        return;
    }
    size_t n = rf_utf8_encode((uint32_t)v.u.integer, bytes);
    write_padded(run, out, rf_jinja_string((struct rf_str){bytes, n}, 0), spec, '<', 0);
}

static void write_value(struct rf_jinja_run *run, struct output *out, value v,
                        const struct spec *spec)
{
    double real = 0;
    int is_number = rf_jinja_as_number(v, &real);
    if (spec->precision > MAX_PRECISION && is_number)
        rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "a precision is too high");
    else if (spec->letter == 'c')
        write_character(run, out, v, spec);
    else if (is_number && spec->letter && strchr("eEfFgG%", spec->letter))
        write_float(run, out, real, spec);
    else if (v.type == RF_JINJA_FLOAT && (!spec->letter || spec->letter == 'n'))
        write_float(run, out, real, spec);
    else if (is_number && v.type != RF_JINJA_FLOAT &&
             (!spec->letter || strchr("bdoxXn", spec->letter)))
        write_integer(run, out, v, spec);
    else if (v.type == RF_JINJA_STRING && (!spec->letter || spec->letter == 's'))
        write_text(run, out, v, spec, '<');
    else
        rf_jinja_mistyped(run, "format", v);
}

/* ---- the operator % ---- */

struct percent {
    struct rf_str text; /* the format */
    size_t at;
    const struct arguments *arguments;
    size_t next; /* place of the next argument */
    value html;  /* the format: of HTML, other texts are escaped */
};

static value next_argument(struct rf_jinja_run *run, struct percent *p)
{
    if (p->next < p->arguments->n) return p->arguments->positional[p->next++];
    return rf_jinja_fail(run, RF_ERR_ARGUMENT, "a format has too few arguments");
}

static int at_char(const struct percent *p)
{
    return p->at < p->text.bytes ? (unsigned char)p->text.data[p->at] : 0;
}

/* A number of the format, or "*": an argument. */
static int64_t percent_number(struct rf_jinja_run *run, struct percent *p)
{
    int64_t number = 0;
    if (at_char(p) == '*') {
        p->at++;
        if (!rf_jinja_as_integer(next_argument(run, p), &number)) unknown_format(run);
        return number;
    }
    for (; at_char(p) >= '0' && at_char(p) <= '9' && number <= MAX_WIDTH; p->at++)
        number = number * 10 + at_char(p) - '0';
    return number;
}

/* "(name)" of a mapping; 1 if there is one. */
static int percent_name(struct rf_jinja_run *run, struct percent *p, value *found)
{
    if (at_char(p) != '(') return 0;
    size_t begin = ++p->at;
    while (at_char(p) && at_char(p) != ')') p->at++;
    struct rf_str name = {p->text.data + begin, p->at++ - begin};
    const value *v = rf_jinja_given(p->arguments, SIZE_MAX, name);
    if (!v && p->arguments->n == 1 && p->arguments->positional[0].type == RF_JINJA_DICT)
        v = rf_jinja_find(run, p->arguments->positional[0].u.dict, rf_jinja_string(name, 0));
    if (!v) rf_jinja_fail(run, RF_ERR_ARGUMENT, "a format names a value that is not given");
    *found = v ? *v : rf_jinja_none();
    return 1;
}

static void percent_value(struct rf_jinja_run *run, struct output *out, value v, struct spec *spec,
                          value html)
{
    struct output shown = {0};
    double real;
    if (spec->letter == 's' || spec->letter == 'r' || spec->letter == 'a') {
        if (spec->letter == 's')
            rf_jinja_write_str(run, &shown, v);
        else
            rf_jinja_write_repr(run, &shown, v);
        value text = rf_jinja_written(run, &shown);
        text.marked = v.type == RF_JINJA_STRING && v.marked;
        spec->letter = 's';
        if (spec->align == '=') spec->align = '>';
        if (spec->align == '>') spec->fill = rf_jinja_text(" ");
        write_text(run, out, rf_jinja_beside(run, text, html), spec, '>');
        return;
    }
    if (strchr("diuoxX", spec->letter) && v.type == RF_JINJA_FLOAT) {
        rf_jinja_as_number(v, &real);
        if (!(fabs(real) < 9e18) || strchr("oxX", spec->letter)) {
            rf_jinja_mistyped(run, "format as an integer", v);
            return;
        }
        v = rf_jinja_integer((int64_t)real);
    }
    if (spec->letter == 'i' || spec->letter == 'u') spec->letter = 'd';
    write_value(run, out, v, spec);
}

static void percent_conversion(struct rf_jinja_run *run, struct output *out, struct percent *p)
{
    struct spec spec = {.fill = rf_jinja_text(" "), .width = 0, .precision = -1};
    value v = {0};
    int named = percent_name(run, p, &v);
    for (; at_char(p) && strchr("-+ 0#", at_char(p)); p->at++) {
        char flag = (char)at_char(p);
        if (flag == '-') spec.align = '<';
        if (flag == '0' && spec.align != '<') spec.align = '=', spec.fill = rf_jinja_text("0");
        if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
        spec.alternate |= flag == '#';
    }
    spec.width = percent_number(run, p);
    if (spec.width < 0) spec.align = '<', spec.width = -spec.width;
    if (spec.align == '<') spec.fill = rf_jinja_text(" ");
    if (!spec.align) spec.align = '>';
    if (at_char(p) == '.') {
        p->at++;
        spec.precision = percent_number(run, p);
    }
    spec.letter = (char)at_char(p);
    if (!spec.letter || !strchr("sradiuoxXeEfFgGc%", spec.letter)) {
        unknown_format(run);
        return;
    }
    p->at++;
    if (spec.letter == '%')
        rf_jinja_write_text(run, out, "%");
    else
        percent_value(run, out, named ? v : next_argument(run, p), &spec, p->html);
}

value rf_jinja_percent(struct rf_jinja_run *run, value format, const struct arguments *arguments)
{
    struct output out = {0};
    struct percent p = {rf_jinja_bytes(format), 0, arguments, 0, format};
    int named = 0;
    while (p.at < p.text.bytes && !rf_jinja_steps(run, 1)) {
        const char *found = memchr(p.text.data + p.at, '%', p.text.bytes - p.at);
        size_t end = found ? (size_t)(found - p.text.data) : p.text.bytes;
        rf_jinja_write(run, &out, rf_jinja_cut(format, p.at, end));
        p.at = end + 1;
        if (!found) break;
        named |= at_char(&p) == '(';
        percent_conversion(run, &out, &p);
    }
    int rest = p.next < arguments->n && !named &&
               !(arguments->n == 1 && (arguments->positional[0].type == RF_JINJA_DICT ||
                                       arguments->positional[0].type == RF_JINJA_LIST));
    if (rest) rf_jinja_fail(run, RF_ERR_ARGUMENT, "a format has too many arguments");
    value text = rf_jinja_written(run, &out);
    text.marked = format.marked;
    return text;
}

/* ---- str.format ---- */

struct braces {
    const struct arguments *arguments;
    size_t next;
    value html;
    int depth;
};

static value expand(struct rf_jinja_run *run, value format, struct braces *braces);

/* "[[fill]align][sign][z][#][0][width][group][.precision][letter]" */
static int read_spec(value text, struct spec *spec)
{
    struct rf_str s = rf_jinja_bytes(text);
    size_t at = 0, first = s.bytes ? rf_jinja_char(s, 0) : 0;
    *spec = (struct spec){.fill = rf_jinja_text(" "), .precision = -1};
    if (first < s.bytes && strchr("<>^=", s.data[first])) {
        spec->fill = rf_jinja_cut(text, 0, first);
        spec->align = s.data[first];
        at = first + 1;
    } else if (s.bytes && strchr("<>^=", s.data[0])) {
        spec->align = s.data[at++];
    }
    if (at < s.bytes && strchr("+- ", s.data[at])) spec->sign = s.data[at++];
    if (at < s.bytes && s.data[at] == '#') spec->alternate = 1, at++;
    if (at < s.bytes && s.data[at] == '0') {
        if (!spec->align) spec->align = '=', spec->fill = rf_jinja_text("0");
        at++;
    }
    for (; at < s.bytes && s.data[at] >= '0' && s.data[at] <= '9'; at++)
        spec->width = spec->width > MAX_WIDTH ? spec->width : spec->width * 10 + s.data[at] - '0';
    if (at < s.bytes && strchr(",_", s.data[at])) spec->group = s.data[at++];
    if (at < s.bytes && s.data[at] == '.') {
        spec->precision = 0;
        for (at++; at < s.bytes && s.data[at] >= '0' && s.data[at] <= '9'; at++)
            spec->precision = spec->precision > MAX_WIDTH ? spec->precision
                                                          : spec->precision * 10 + s.data[at] - '0';
    }
    if (at < s.bytes && strchr("bcdeEfFgGnosxX%", s.data[at])) spec->letter = s.data[at++];
    return at == s.bytes;
}

/* The value of "name", "0" or "", with ".member" and "[item]" behind it. */
static value field_value(struct rf_jinja_run *run, value field, struct braces *braces)
{
    struct rf_str s = rf_jinja_bytes(field);
    size_t end = 0;
    while (end < s.bytes && s.data[end] != '.' && s.data[end] != '[') end++;
    struct rf_str name = {s.data, end};
    int digits = end > 0 && end < 9;
    for (size_t i = 0; i < end; i++) digits &= s.data[i] >= '0' && s.data[i] <= '9';
    size_t place = end == 0 ? braces->next++ : digits ? (size_t)atoi(s.data) : SIZE_MAX;
    const value *found = rf_jinja_given(braces->arguments, place, name);
    while (found && end < s.bytes && !rf_jinja_steps(run, 1)) {
        int item = s.data[end] == '[';
        size_t begin = ++end;
        while (end < s.bytes &&
               (item ? s.data[end] != ']' : s.data[end] != '.' && s.data[end] != '['))
            end++;
        value key = rf_jinja_cut(field, begin, end), object = *found;
        if (item) end++;
        found = NULL;
        size_t index =
            item && key.bytes && key.bytes < 9 && key.u.data[0] >= '0' && key.u.data[0] <= '9'
                ? (size_t)atoi(key.u.data)
                : SIZE_MAX;
        if (object.type == RF_JINJA_DICT || object.type == RF_JINJA_NAMESPACE)
            found = rf_jinja_find(run, object.u.dict, key);
        else if (rf_jinja_is_sequence(object) && index < object.u.list->n)
            found = &object.u.list->items[index];
    }
    if (found) return *found;
    return rf_jinja_fail(run, RF_ERR_ARGUMENT, "a format names a value that is not given");
}

/* A field "name!r:spec" without its braces. */
static void write_field(struct rf_jinja_run *run, struct output *out, value field,
                        struct braces *braces)
{
    struct rf_str s = rf_jinja_bytes(field);
    struct spec spec;
    size_t colon = 0, end;
    for (int brackets = 0; colon < s.bytes && (s.data[colon] != ':' || brackets); colon++)
        brackets = s.data[colon] == '[' ? 1 : s.data[colon] == ']' ? 0 : brackets;
    char conversion = 0;
    end = colon;
    if (end >= 2 && s.data[end - 2] == '!') conversion = s.data[end - 1], end -= 2;
    value v = field_value(run, rf_jinja_cut(field, 0, end), braces);
    value text = rf_jinja_cut(field, colon + 1, s.bytes);
    if (text.bytes) text = expand(run, text, braces);
    if (conversion && !strchr("rsa", conversion)) unknown_format(run);
    if (run->code) return;
    struct output shown = {0};
    if (conversion == 'r' || conversion == 'a') {
        rf_jinja_write_repr(run, &shown, v);
        v = rf_jinja_written(run, &shown);
    } else if (conversion || text.bytes == 0) {
        v = rf_jinja_str(run, v);
    }
    if (text.bytes == 0)
        rf_jinja_write(run, out, rf_jinja_beside(run, v, braces->html));
    else if (!read_spec(text, &spec))
        unknown_format(run);
    else
        write_value(run, out, rf_jinja_beside(run, v, braces->html), &spec);
}

/* The end of the field that begins at `at`; braces in it are matched. */
static size_t field_end(struct rf_str s, size_t at)
{
    for (int depth = 1; at < s.bytes; at++) {
        depth += s.data[at] == '{' ? 1 : s.data[at] == '}' ? -1 : 0;
        if (depth == 0) break;
    }
    return at;
}

static value expand(struct rf_jinja_run *run, value format, struct braces *braces)
{
    struct output out = {0};
    struct rf_str s = rf_jinja_bytes(format);
    if (++braces->depth > 2) return unknown_format(run);
    for (size_t at = 0; at < s.bytes && !rf_jinja_steps(run, 1);) {
        size_t end = at;
        while (end < s.bytes && s.data[end] != '{' && s.data[end] != '}') end++;
        rf_jinja_write(run, &out, rf_jinja_cut(format, at, end));
        if (end >= s.bytes) break;
        if (end + 1 < s.bytes && s.data[end + 1] == s.data[end]) {
            rf_jinja_write(run, &out, rf_jinja_cut(format, end, end + 1));
            at = end + 2;
            continue;
        }
        size_t close = field_end(s, end + 1);
        if (s.data[end] == '}' || close >= s.bytes) return unknown_format(run);
        rf_jinja_charge(run, close - end);
        write_field(run, &out, rf_jinja_cut(format, end + 1, close), braces);
        at = close + 1;
    }
    braces->depth--;
    return rf_jinja_written(run, &out);
}

value rf_jinja_format(struct rf_jinja_run *run, value format, const struct arguments *arguments)
{
    struct braces braces = {arguments, 0, format, 0};
    value text = expand(run, format, &braces);
    text.marked = format.marked;
    return text;
}
