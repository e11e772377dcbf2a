/* GBNF: rules "name ::= expression", as llama.cpp has them. A rule ends with its line, except
 * within parentheses, after "::=" and around "|". */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "grammar/ir.h"

enum { MANY = 64 }; /* parts or ranges that are collected before they are packed */

struct reader {
    struct rf_ir *ir;
    struct rf_str text;
    size_t at;
    int depth;
};

static int at_end(const struct reader *r)
{
    return r->at >= r->text.bytes;
}

/* The next byte, or 0 at the end; rf_gbnf_read refuses zero bytes. */
static char peek(const struct reader *r)
{
    return at_end(r) ? 0 : r->text.data[r->at];
}

static void position(const struct reader *r, size_t at, int *line, int *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < at; i++) {
        if (r->text.data[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)r->text.data[i] & 0xc0) != 0x80) {
            ++*column;
        }
    }
}

static void bad_at(struct reader *r, size_t at, int code, const char *problem)
{
    int line, column;
    position(r, at, &line, &column);
    rf_ir_fail(r->ir, code, "line %d, column %d: %s", line, column, problem);
}

static void bad(struct reader *r, const char *problem)
{
    bad_at(r, r->at, RF_ERR_FORMAT, problem);
}

static void skip_comment(struct reader *r)
{
    while (!at_end(r) && peek(r) != '\n') r->at++;
}

static void skip_space(struct reader *r, int lines_too)
{
    for (;; r->at++) {
        char c = peek(r);
        if (c == '#') {
            skip_comment(r);
            c = peek(r);
        }
        if (c != ' ' && c != '\t' && c != '\r' && !(c == '\n' && lines_too)) return;
    }
}

static int is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static struct rf_str read_name(struct reader *r)
{
    size_t start = r->at;
    while (is_word(peek(r))) r->at++;
    return (struct rf_str){r->text.data + start, r->at - start};
}

/* The rule of that name; one that is only mentioned so far is added. */
static int32_t rule_of(struct reader *r, struct rf_str name, size_t at)
{
    int32_t rule = rf_ir_find_rule(r->ir, name);
    if (rule >= 0) return rule;
    char shown[128];
    int line, column;
    position(r, at, &line, &column);
    snprintf(shown, sizeof shown, "line %d, column %d: the rule \"%.*s\"", line, column,
             rf_shown(name), name.data);
    return rf_ir_add_rule(r->ir, name, shown);
}

/* ---- characters ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static uint32_t read_hex(struct reader *r, int digits)
{
    uint32_t value = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        int digit = hex_digit(peek(r));
        if (digit < 0) {
            bad(r, "expected a hexadecimal digit");
            return 0;
        }
        value = value << 4 | (uint32_t)digit;
    }
    if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) {
        bad(r, "the escape before is no Unicode character");
        return 0;
    }
    return value;
}

static uint32_t read_escape(struct reader *r)
{
    char c = peek(r);
    r->at++;
    switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^': return (uint32_t)c;
    case 'x': return read_hex(r, 2);
    case 'u': return read_hex(r, 4);
    case 'U': return read_hex(r, 8);
    default:
        r->at--;
        bad(r, "unknown escape; known are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xNN \\uNNNN "
               "\\UNNNNNNNN");
        return 0;
    }
}

/* One character of a literal or a class. */
static uint32_t read_char(struct reader *r)
{
    if (peek(r) == '\\') {
        r->at++;
        return read_escape(r);
    }
    size_t n = rf_utf8_length(r->text.data + r->at, r->text.bytes - r->at);
    uint32_t c = rf_utf8_decode(r->text.data + r->at, n);
    r->at += n;
    return c;
}

static const struct rf_expr *read_literal(struct reader *r)
{
    struct rf_bytes bytes = {0};
    struct rf_writer out = {r->ir->arena.allocator, &bytes, r->ir->error, 0};
    size_t start = r->at++;
    while (!r->ir->code && peek(r) != '"') {
        char encoded[4];
        if (at_end(r) || peek(r) == '\n') {
            bad_at(r, start, RF_ERR_FORMAT, "this text has no closing '\"' in its line");
            break;
        }
        rf_write(&out, encoded, rf_utf8_encode(read_char(r), encoded));
    }
    r->at++;
    if (out.code && !r->ir->code) r->ir->code = out.code;
    const struct rf_expr *expr = rf_ir_text(r->ir, (struct rf_str){bytes.data, bytes.count});
    rf_bytes_free(out.allocator, &bytes);
    return expr;
}

static const struct rf_expr *read_class(struct reader *r)
{
    struct rf_range ranges[4 * MANY];
    size_t n = 0, start = r->at++;
    int negated = peek(r) == '^';
    r->at += (size_t)negated;
    while (!r->ir->code && peek(r) != ']') {
        if (at_end(r) || peek(r) == '\n') {
            bad_at(r, start, RF_ERR_FORMAT, "this class has no closing ']' in its line");
            break;
        }
        size_t first = r->at;
        struct rf_range range;
        range.low = range.high = read_char(r);
        if (peek(r) == '-' && r->at + 1 < r->text.bytes && r->text.data[r->at + 1] != ']') {
            r->at++;
            range.high = read_char(r);
        }
        if (range.low > range.high)
            bad_at(r, first, RF_ERR_FORMAT, "a range's first character is after its last");
        ranges[n++] = range;
        if (n == sizeof ranges / sizeof *ranges) n = rf_ranges_join(ranges, n);
        if (n == sizeof ranges / sizeof *ranges)
            bad_at(r, first, RF_ERR_UNSUPPORTED, "the class has too many ranges");
    }
    r->at++;
    return negated ? rf_ir_chars_without(r->ir, ranges, n) : rf_ir_chars(r->ir, ranges, n);
}

/* ---- expressions ---- */

static const struct rf_expr *read_choice(struct reader *r, int nested);

static const struct rf_expr *read_group(struct reader *r)
{
    size_t start = r->at++;
    if (++r->depth > RF_IR_NESTING) bad(r, "parentheses are nested too deeply");
    const struct rf_expr *expr = r->ir->code ? NULL : read_choice(r, 1);
    r->depth--;
    if (!r->ir->code && peek(r) != ')') {
        if (at_end(r))
            bad_at(r, start, RF_ERR_FORMAT, "this '(' has no closing ')'");
        else
            bad(r, "expected an element, '|' or ')'");
    }
    r->at++;
    return expr;
}

/* NULL where no element begins. */
static const struct rf_expr *read_element(struct reader *r)
{
    size_t at = r->at;
    char c = peek(r);
    if (c == '"') return read_literal(r);
    if (c == '[') return read_class(r);
    if (c == '(') return read_group(r);
    if (c == '.') {
        r->at++;
        return rf_ir_chars_without(r->ir, NULL, 0);
    }
    if (!is_word(c)) return NULL;
    int32_t rule = rule_of(r, read_name(r), at);
    return rule < 0 ? NULL : rf_ir_rule(r->ir, rule);
}

static int32_t read_count(struct reader *r)
{
    int32_t count = 0;
    if (peek(r) < '0' || peek(r) > '9') bad(r, "expected a number of repetitions");
    for (; peek(r) >= '0' && peek(r) <= '9'; r->at++) {
        count = count * 10 + (peek(r) - '0');
        if (count > RF_IR_REPEATS) {
            bad_at(r, r->at, RF_ERR_UNSUPPORTED, "more repetitions than can be counted");
            return 0;
        }
    }
    skip_space(r, 0);
    return count;
}

/* What follows an element: *, +, ?, {m}, {m,} or {m,n}; any number of them. */
static const struct rf_expr *read_repeats(struct reader *r, const struct rf_expr *expr)
{
    for (; !r->ir->code; skip_space(r, 0)) {
        int32_t least, most = -1;
        char c = peek(r);
        size_t start = r->at;
        if (c != '*' && c != '+' && c != '?' && c != '{') return expr;
        r->at++;
        least = c == '+';
        if (c == '?') most = 1;
        if (c == '{') {
            skip_space(r, 0);
            least = most = read_count(r);
            if (peek(r) == ',') {
                r->at++;
                skip_space(r, 0);
                most = peek(r) == '}' ? -1 : read_count(r);
            }
            if (peek(r) != '}') bad(r, "expected '}' after the number of repetitions");
            r->at++;
            if (most >= 0 && most < least)
                bad_at(r, start, RF_ERR_FORMAT, "the most repetitions are fewer than the least");
        }
        if (++r->depth > RF_IR_NESTING) bad(r, "repetitions are nested too deeply");
        expr = rf_ir_repeat(r->ir, expr, least, most);
    }
    return NULL;
}

/* Packs full buffers, so that any number of parts fit. */
struct parts {
    const struct rf_expr *items[MANY];
    size_t n;
};

static void add_part(struct reader *r, struct parts *parts, const struct rf_expr *part,
                     const struct rf_expr *(*pack)(struct rf_ir *, const struct rf_expr *const *,
                                                   size_t))
{
    if (parts->n == MANY) {
        parts->items[0] = pack(r->ir, parts->items, MANY);
        parts->n = 1;
    }
    parts->items[parts->n++] = part;
}

static const struct rf_expr *read_sequence(struct reader *r, int nested)
{
    struct parts parts = {.n = 0};
    int depth = r->depth;
    for (skip_space(r, nested); !r->ir->code; skip_space(r, nested)) {
        const struct rf_expr *element = read_element(r);
        if (!element) break;
        skip_space(r, 0);
        add_part(r, &parts, read_repeats(r, element), rf_ir_sequence);
        r->depth = depth;
    }
    return rf_ir_sequence(r->ir, parts.items, parts.n);
}

/* At the end of a line: 1 if the next one begins with '|'; then goes there. */
static int continues(struct reader *r)
{
    size_t before = r->at;
    skip_space(r, 1);
    if (peek(r) == '|') return 1;
    r->at = before;
    return 0;
}

static const struct rf_expr *read_choice(struct reader *r, int nested)
{
    struct parts parts = {.n = 0};
    for (;;) {
        add_part(r, &parts, read_sequence(r, nested), rf_ir_choice);
        if (r->ir->code || (peek(r) != '|' && !continues(r))) break;
        r->at++;
        skip_space(r, 1);
    }
    return rf_ir_choice(r->ir, parts.items, parts.n);
}

static void read_rule(struct reader *r)
{
    size_t start = r->at;
    struct rf_str name = read_name(r);
    if (name.bytes == 0) {
        bad(r, "expected the name of a rule");
        return;
    }
    int32_t rule = rule_of(r, name, start);
    if (rule < 0) return;
    if (r->ir->rules[rule].expr) bad_at(r, start, RF_ERR_FORMAT, "this rule is defined twice");
    skip_space(r, 0);
    if (r->text.bytes - r->at < 3 || memcmp(r->text.data + r->at, "::=", 3) != 0) {
        bad(r, "expected \"::=\" after the name of a rule");
        return;
    }
    r->at += 3;
    skip_space(r, 1);
    const struct rf_expr *expr = read_choice(r, 0);
    if (!r->ir->code && !at_end(r) && peek(r) != '\n')
        bad(r, "expected an element, '|' or the end of the line");
    r->ir->rules[rule].expr = expr;
}

int rf_gbnf_read(struct rf_ir *ir, struct rf_str text)
{
    struct reader r = {.ir = ir, .text = text};
    size_t valid = rf_utf8_valid_prefix(text.data, text.bytes);
    const char *zero = text.bytes ? memchr(text.data, 0, text.bytes) : NULL;
    if (valid < text.bytes) bad_at(&r, valid, RF_ERR_FORMAT, "the grammar is not UTF-8 here");
    if (zero)
        bad_at(&r, (size_t)(zero - text.data), RF_ERR_FORMAT, "the grammar has a zero byte here");
    for (skip_space(&r, 1); !ir->code && !at_end(&r); skip_space(&r, 1)) read_rule(&r);
    for (size_t i = 0; !ir->code && i < ir->n_rules; i++)
        if (!ir->rules[i].expr)
            rf_ir_fail(ir, RF_ERR_FORMAT, "%s is not defined", ir->rules[i].shown);
    ir->root = rf_ir_find_rule(ir, rf_str_of("root"));
    if (!ir->code && ir->root < 0)
        rf_ir_fail(ir, RF_ERR_FORMAT, "there is no rule \"root\", which a grammar begins with");
    return ir->code;
}
