/* Reads patterns of JSON schemas, the regular part of ECMA 262's regular expressions, by
 * recursive descent. The result is the text as a JSON string writes it, or the text itself.
 * schema_scalars.c and the reader of choices call it. */
#include <string.h>

#include "base/utf8.h"
#include "grammar/json_text.h"

enum { MANY = 64, RANGES = 128 };

struct reader {
    struct rf_ir *ir;
    struct rf_str text;
    size_t at;
    int depth;
    enum rf_pattern_form form;
    const char *pointer;
};

struct class
{
    struct rf_range ranges[RANGES];
    size_t n;
};

static char pattern_peek(const struct reader *r)
{
    return r->at < r->text.bytes ? r->text.data[r->at] : 0;
}

static int pattern_at_end(const struct reader *r)
{
    return r->at >= r->text.bytes;
}

static void pattern_fail(struct reader *r, int code, const char *problem)
{
    rf_ir_fail(r->ir, code, "%s: byte %zu of the pattern: %s", r->pointer, r->at, problem);
}

static uint32_t pattern_char(struct reader *r)
{
    size_t n = rf_utf8_length(r->text.data + r->at, r->text.bytes - r->at);
    uint32_t c = n ? rf_utf8_decode(r->text.data + r->at, n) : 0;
    r->at += n ? n : 1;
    return c;
}

static void class_add(struct reader *r, struct class *class, uint32_t low, uint32_t high)
{
    if (class->n == RANGES) class->n = rf_ranges_join(class->ranges, class->n);
    if (class->n == RANGES) {
        pattern_fail(r, RF_ERR_UNSUPPORTED, "the class has too many ranges");
        return;
    }
    class->ranges[class->n++] = (struct rf_range){low, high};
}

static void negate(struct class *class)
{
    struct rf_range out[RANGES + 1];
    uint32_t next = 0;
    size_t n = 0, n_joined = rf_ranges_join(class->ranges, class->n);
    for (size_t i = 0; i < n_joined; i++) {
        if (class->ranges[i].low > next)
            out[n++] = (struct rf_range){next, class->ranges[i].low - 1};
        next = class->ranges[i].high + 1;
    }
    if (next <= 0x10ffff && n < RANGES) out[n++] = (struct rf_range){next, 0x10ffff};
    memcpy(class->ranges, out, n * sizeof *out);
    class->n = n;
}

static void class_add_all(struct reader *r, struct class *class, char name)
{
    struct class own = {.n = 0};
    switch (name | 0x20) {
    case 'd': class_add(r, &own, '0', '9'); break;
    case 'w':
        class_add(r, &own, '0', '9');
        class_add(r, &own, 'A', 'Z');
        class_add(r, &own, '_', '_');
        class_add(r, &own, 'a', 'z');
        break;
    default:
        class_add(r, &own, '\t', '\r');
        class_add(r, &own, ' ', ' ');
        class_add(r, &own, 0xa0, 0xa0);
        class_add(r, &own, 0x1680, 0x1680);
        class_add(r, &own, 0x2000, 0x200a);
        class_add(r, &own, 0x2028, 0x2029);
        class_add(r, &own, 0x202f, 0x202f);
        class_add(r, &own, 0x205f, 0x205f);
        class_add(r, &own, 0x3000, 0x3000);
        class_add(r, &own, 0xfeff, 0xfeff);
    }
    if (name < 'a') negate(&own);
    for (size_t i = 0; i < own.n; i++) class_add(r, class, own.ranges[i].low, own.ranges[i].high);
}

static const struct rf_expr *pattern_chars(struct reader *r, struct class *class)
{
    if (r->form == RF_PATTERN_QUOTED) return rf_text_string_chars(r->ir, class->ranges, class->n);
    class->n = rf_ranges_join(class->ranges, class->n);
    if (class->n && !class->ranges[0].low) class->ranges[0].low = 1; /* as in strings */
    size_t none = class->n && class->ranges[0].high < class->ranges[0].low;
    return rf_ir_chars(r->ir, class->ranges + none, class->n - none);
}

static uint32_t pattern_hex(struct reader *r, int n)
{
    uint32_t value = 0;
    for (int i = 0; i < n; i++, r->at++) {
        char c = pattern_peek(r);
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) {
            pattern_fail(r, RF_ERR_FORMAT, "expected a hexadecimal digit");
            return 0;
        }
        value = value << 4 | (uint32_t)digit;
    }
    return value;
}

/* Reads behind a backslash. A class of characters is added; a single character is put into *single.
 */
static void pattern_escape(struct reader *r, struct class *class, int32_t *single)
{
    char c = pattern_peek(r);
    uint32_t value = (unsigned char)c;
    *single = -1;
    r->at++;
    switch (c) {
    case 'd':
    case 'D':
    case 'w':
    case 'W':
    case 's':
    case 'S': class_add_all(r, class, c); return;
    case 'n': value = '\n'; break;
    case 'r': value = '\r'; break;
    case 't': value = '\t'; break;
    case 'f': value = '\f'; break;
    case 'v': value = '\v'; break;
    case 'x': value = pattern_hex(r, 2); break;
    case 'u': value = pattern_hex(r, 4); break;
    default:
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
            (c & 0x80) || !c) {
            r->at--;
            pattern_fail(r, RF_ERR_UNSUPPORTED, "this escape is not supported");
        }
    }
    *single = (int32_t)value;
    class_add(r, class, value, value);
}

static const struct rf_expr *pattern_class(struct reader *r)
{
    struct class class = {.n = 0};
    r->at++;
    int negated = pattern_peek(r) == '^';
    r->at += (size_t)negated;
    while (!r->ir->code && pattern_peek(r) != ']') {
        int32_t first, last;
        if (pattern_at_end(r)) {
            pattern_fail(r, RF_ERR_FORMAT, "the class has no closing ']'");
            break;
        }
        if (pattern_peek(r) == '\\') {
            r->at++;
            pattern_escape(r, &class, &first);
        } else {
            first = (int32_t)pattern_char(r);
            class_add(r, &class, (uint32_t)first, (uint32_t)first);
        }
        if (first < 0 || pattern_peek(r) != '-' || r->at + 1 >= r->text.bytes ||
            r->text.data[r->at + 1] == ']')
            continue;
        r->at++;
        struct class end = {.n = 0};
        if (pattern_peek(r) == '\\') {
            r->at++;
            pattern_escape(r, &end, &last);
        } else {
            last = (int32_t)pattern_char(r);
        }
        if (last < first)
            pattern_fail(r, RF_ERR_FORMAT, "a range's first character is after its last");
        else
            class_add(r, &class, (uint32_t)first, (uint32_t)last);
    }
    r->at++;
    if (negated) negate(&class);
    return pattern_chars(r, &class);
}

static const struct rf_expr *pattern_choice(struct reader *r, int top);

static const struct rf_expr *pattern_group(struct reader *r)
{
    r->at++;
    if (pattern_peek(r) == '?') {
        r->at++;
        if (pattern_peek(r) != ':')
            pattern_fail(r, RF_ERR_UNSUPPORTED, "of groups with '?' only (?: is supported");
        r->at++;
    }
    if (++r->depth > RF_IR_NESTING / 4)
        pattern_fail(r, RF_ERR_UNSUPPORTED, "groups are nested too deeply");
    const struct rf_expr *expr = r->ir->code ? NULL : pattern_choice(r, 0);
    r->depth--;
    if (pattern_peek(r) != ')') pattern_fail(r, RF_ERR_FORMAT, "a group has no closing ')'");
    r->at++;
    return expr;
}

/* Any character; all but the ends of lines if `in_line`. */
static const struct rf_expr *any(struct reader *r, int in_line)
{
    struct class class = {.n = 0};
    if (in_line) {
        class_add(r, &class, '\n', '\n');
        class_add(r, &class, '\r', '\r');
        class_add(r, &class, 0x2028, 0x2029);
    }
    negate(&class);
    return pattern_chars(r, &class);
}

static const struct rf_expr *read_atom(struct reader *r)
{
    struct class class = {.n = 0};
    int32_t ignored;
    char c = pattern_peek(r);
    if (c == '(') return pattern_group(r);
    if (c == '[') return pattern_class(r);
    if (c == '.') {
        r->at++;
        return any(r, 1);
    }
    if (c == '^' || c == '$') {
        pattern_fail(r, RF_ERR_UNSUPPORTED,
                     "'^' and '$' are supported only around a whole alternative");
        return NULL;
    }
    if (strchr("*+?{}", c)) {
        pattern_fail(r, RF_ERR_FORMAT, "there is nothing to repeat");
        return NULL;
    }
    if (c == '\\') {
        r->at++;
        pattern_escape(r, &class, &ignored);
    } else {
        uint32_t single = pattern_char(r);
        class_add(r, &class, single, single);
    }
    return pattern_chars(r, &class);
}

static int32_t pattern_count(struct reader *r)
{
    int32_t count = 0;
    if (pattern_peek(r) < '0' || pattern_peek(r) > '9')
        pattern_fail(r, RF_ERR_FORMAT, "expected a number of repetitions");
    for (; pattern_peek(r) >= '0' && pattern_peek(r) <= '9'; r->at++) {
        count = count * 10 + (pattern_peek(r) - '0');
        if (count > RF_IR_REPEATS) {
            pattern_fail(r, RF_ERR_UNSUPPORTED, "more repetitions than can be counted");
            return 0;
        }
    }
    return count;
}

static const struct rf_expr *read_repeat(struct reader *r, const struct rf_expr *expr)
{
    char c = pattern_peek(r);
    if (!c || !strchr("*+?{", c)) return expr;
    int32_t least = c == '+', most = c == '?' ? 1 : -1;
    r->at++;
    if (c == '{') {
        least = most = pattern_count(r);
        if (pattern_peek(r) == ',') {
            r->at++;
            most = pattern_peek(r) == '}' ? -1 : pattern_count(r);
        }
        if (pattern_peek(r) != '}')
            pattern_fail(r, RF_ERR_FORMAT, "expected '}' after the number of repetitions");
        r->at++;
        if (most >= 0 && most < least)
            pattern_fail(r, RF_ERR_FORMAT, "the most repetitions are fewer than the least");
    }
    if (pattern_peek(r) == '?') r->at++; /* lazy: it matches the same texts */
    return rf_ir_repeat(r->ir, expr, least, most);
}

/* One alternative. At the top, what has no '^' or no '$' may have any text around it. */
static const struct rf_expr *read_alternative(struct reader *r, int top)
{
    const struct rf_expr *parts[MANY];
    size_t n = 0;
    int begins = !top || r->form == RF_PATTERN_WHOLE, ends = begins;
    if (top && pattern_peek(r) == '^') {
        r->at++;
        begins = 1;
    }
    if (!begins) parts[n++] = rf_ir_repeat(r->ir, any(r, 0), 0, -1);
    while (!r->ir->code && !pattern_at_end(r) && pattern_peek(r) != '|' && pattern_peek(r) != ')') {
        if (top && pattern_peek(r) == '$' &&
            (r->at + 1 == r->text.bytes || r->text.data[r->at + 1] == '|')) {
            r->at++;
            ends = 1;
            break;
        }
        if (n + 1 == MANY) {
            parts[0] = rf_ir_sequence(r->ir, parts, n);
            n = 1;
        }
        const struct rf_expr *atom = read_atom(r);
        parts[n++] = read_repeat(r, atom);
    }
    if (!ends) parts[n++] = rf_ir_repeat(r->ir, any(r, 0), 0, -1);
    return rf_ir_sequence(r->ir, parts, n);
}

static const struct rf_expr *pattern_choice(struct reader *r, int top)
{
    const struct rf_expr *parts[MANY];
    for (size_t n = 0;;) {
        if (n == MANY) {
            parts[0] = rf_ir_choice(r->ir, parts, n);
            n = 1;
        }
        parts[n++] = read_alternative(r, top);
        if (r->ir->code || pattern_peek(r) != '|') return rf_ir_choice(r->ir, parts, n);
        r->at++;
    }
}

const struct rf_expr *rf_text_pattern(struct rf_ir *ir, struct rf_str pattern,
                                      enum rf_pattern_form form, const char *pointer)
{
    struct reader r = {.ir = ir, .text = pattern, .form = form, .pointer = pointer};
    const struct rf_expr *expr = pattern_choice(&r, 1);
    if (!pattern_at_end(&r)) pattern_fail(&r, RF_ERR_FORMAT, "a ')' without a '('");
    return expr;
}
