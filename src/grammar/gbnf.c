/* Reads GBNF, rules "name ::= expression" as llama.cpp has them, by recursive descent. A rule
 * ends with its line, except within parentheses, after "::=" and around "|". rf_grammar_new
 * calls it. */
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

static int gbnf_at_end(const struct reader *r)
{
    return r->at >= r->text.bytes;
}

/* The next byte, or 0 at the end; rf_gbnf_read refuses zero bytes. */
static char gbnf_peek(const struct reader *r)
{
    return gbnf_at_end(r) ? 0 : r->text.data[r->at];
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

static void gbnf_fail_at(struct reader *r, size_t at, int code, const char *problem)
{
    int line, column;
    position(r, at, &line, &column);
    rf_ir_fail(r->ir, code, "line %d, column %d: %s", line, column, problem);
}

static void gbnf_fail(struct reader *r, const char *problem)
{
    gbnf_fail_at(r, r->at, RF_ERR_FORMAT, problem);
}

static void skip_comment(struct reader *r)
{
    while (!gbnf_at_end(r) && gbnf_peek(r) != '\n') r->at++;
}

static void gbnf_skip_space(struct reader *r, int lines_too)
{
    for (;; r->at++) {
        char c = gbnf_peek(r);
        if (c == '#') {
            skip_comment(r);
            c = gbnf_peek(r);
        }
        if (c != ' ' && c != '\t' && c != '\r' && !(c == '\n' && lines_too)) return;
    }
}

static int is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static struct rf_str read_name(struct reader *r)
{
    size_t start = r->at;
    while (is_name_byte(gbnf_peek(r))) r->at++;
    return (struct rf_str){r->text.data + start, r->at - start};
}

/* The rule of that name; one that is only mentioned so far is added. */
static int32_t gbnf_rule(struct reader *r, struct rf_str name, size_t at)
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

static uint32_t gbnf_hex(struct reader *r, int digits)
{
    uint32_t value = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        int digit = hex_digit(gbnf_peek(r));
        if (digit < 0) {
            gbnf_fail(r, "expected a hexadecimal digit");
            return 0;
        }
        value = value << 4 | (uint32_t)digit;
    }
    if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) {
        gbnf_fail(r, "the escape before is no Unicode character");
        return 0;
    }
    return value;
}

static uint32_t gbnf_escape(struct reader *r)
{
    char c = gbnf_peek(r);
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
    case 'x': return gbnf_hex(r, 2);
    case 'u': return gbnf_hex(r, 4);
    case 'U': return gbnf_hex(r, 8);
    default:
        r->at--;
        gbnf_fail(r,
                  "unknown escape; known are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xNN \\uNNNN "
                  "\\UNNNNNNNN");
        return 0;
    }
}

/* One character of a literal or a class. */
static uint32_t gbnf_char(struct reader *r)
{
    if (gbnf_peek(r) == '\\') {
        r->at++;
        return gbnf_escape(r);
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
    while (!r->ir->code && gbnf_peek(r) != '"') {
        char encoded[4];
        if (gbnf_at_end(r) || gbnf_peek(r) == '\n') {
            gbnf_fail_at(r, start, RF_ERR_FORMAT, "this text has no closing '\"' in its line");
            break;
        }
        rf_write(&out, encoded, rf_utf8_encode(gbnf_char(r), encoded));
    }
    r->at++;
    if (out.code && !r->ir->code) r->ir->code = out.code;
    const struct rf_expr *expr = rf_ir_text(r->ir, (struct rf_str){bytes.data, bytes.count});
    rf_bytes_free(out.allocator, &bytes);
    return expr;
}

static const struct rf_expr *gbnf_class(struct reader *r)
{
    struct rf_range ranges[4 * MANY];
    size_t n = 0, start = r->at++;
    int negated = gbnf_peek(r) == '^';
    r->at += (size_t)negated;
    while (!r->ir->code && gbnf_peek(r) != ']') {
        if (gbnf_at_end(r) || gbnf_peek(r) == '\n') {
            gbnf_fail_at(r, start, RF_ERR_FORMAT, "this class has no closing ']' in its line");
            break;
        }
        size_t first = r->at;
        struct rf_range range;
        range.low = range.high = gbnf_char(r);
        if (gbnf_peek(r) == '-' && r->at + 1 < r->text.bytes && r->text.data[r->at + 1] != ']') {
            r->at++;
            range.high = gbnf_char(r);
        }
        if (range.low > range.high)
            gbnf_fail_at(r, first, RF_ERR_FORMAT, "a range's first character is after its last");
        ranges[n++] = range;
        if (n == sizeof ranges / sizeof *ranges) n = rf_ranges_join(ranges, n);
        if (n == sizeof ranges / sizeof *ranges)
            gbnf_fail_at(r, first, RF_ERR_UNSUPPORTED, "the class has too many ranges");
    }
    r->at++;
    return negated ? rf_ir_chars_without(r->ir, ranges, n) : rf_ir_chars(r->ir, ranges, n);
}

/* ---- expressions ---- */

static const struct rf_expr *gbnf_choice(struct reader *r, int nested);

static const struct rf_expr *gbnf_group(struct reader *r)
{
    size_t start = r->at++;
    if (++r->depth > RF_IR_NESTING) gbnf_fail(r, "parentheses are nested too deeply");
    const struct rf_expr *expr = r->ir->code ? NULL : gbnf_choice(r, 1);
    r->depth--;
    if (!r->ir->code && gbnf_peek(r) != ')') {
        if (gbnf_at_end(r))
            gbnf_fail_at(r, start, RF_ERR_FORMAT, "this '(' has no closing ')'");
        else
            gbnf_fail(r, "expected an element, '|' or ')'");
    }
    r->at++;
    return expr;
}

/* NULL where no element begins. */
static const struct rf_expr *read_element(struct reader *r)
{
    size_t at = r->at;
    char c = gbnf_peek(r);
    if (c == '"') return read_literal(r);
    if (c == '[') return gbnf_class(r);
    if (c == '(') return gbnf_group(r);
    if (c == '.') {
        r->at++;
        return rf_ir_chars_without(r->ir, NULL, 0);
    }
    if (!is_name_byte(c)) return NULL;
    int32_t rule = gbnf_rule(r, read_name(r), at);
    return rule < 0 ? NULL : rf_ir_rule(r->ir, rule);
}

static int32_t gbnf_count(struct reader *r)
{
    int32_t count = 0;
    if (gbnf_peek(r) < '0' || gbnf_peek(r) > '9') gbnf_fail(r, "expected a number of repetitions");
    for (; gbnf_peek(r) >= '0' && gbnf_peek(r) <= '9'; r->at++) {
        count = count * 10 + (gbnf_peek(r) - '0');
        if (count > RF_IR_REPEATS) {
            gbnf_fail_at(r, r->at, RF_ERR_UNSUPPORTED, "more repetitions than can be counted");
            return 0;
        }
    }
    gbnf_skip_space(r, 0);
    return count;
}

/* Repetitions behind an element, any number of them: *, +, ?, {m}, {m,} or {m,n}. */
static const struct rf_expr *read_repeats(struct reader *r, const struct rf_expr *expr)
{
    for (; !r->ir->code; gbnf_skip_space(r, 0)) {
        int32_t least, most = -1;
        char c = gbnf_peek(r);
        size_t start = r->at;
        if (c != '*' && c != '+' && c != '?' && c != '{') return expr;
        r->at++;
        least = c == '+';
        if (c == '?') most = 1;
        if (c == '{') {
            gbnf_skip_space(r, 0);
            least = most = gbnf_count(r);
            if (gbnf_peek(r) == ',') {
                r->at++;
                gbnf_skip_space(r, 0);
                most = gbnf_peek(r) == '}' ? -1 : gbnf_count(r);
            }
            if (gbnf_peek(r) != '}') gbnf_fail(r, "expected '}' after the number of repetitions");
            r->at++;
            if (most >= 0 && most < least)
                gbnf_fail_at(r, start, RF_ERR_FORMAT,
                             "the most repetitions are fewer than the least");
        }
        if (++r->depth > RF_IR_NESTING) gbnf_fail(r, "repetitions are nested too deeply");
        expr = rf_ir_repeat(r->ir, expr, least, most);
    }
    return NULL;
}

/* Packs full buffers, so that any number of parts fit. */
struct parts {
    const struct rf_expr *items[MANY];
    size_t n;
};

static void gbnf_add_part(struct reader *r, struct parts *parts, const struct rf_expr *part,
                          const struct rf_expr *(*pack)(struct rf_ir *,
                                                        const struct rf_expr *const *, size_t))
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
    for (gbnf_skip_space(r, nested); !r->ir->code; gbnf_skip_space(r, nested)) {
        const struct rf_expr *element = read_element(r);
        if (!element) break;
        gbnf_skip_space(r, 0);
        gbnf_add_part(r, &parts, read_repeats(r, element), rf_ir_sequence);
        r->depth = depth;
    }
    return rf_ir_sequence(r->ir, parts.items, parts.n);
}

/* Call at the end of a line: 1 if the next one begins with '|'; then goes there. */
static int continues(struct reader *r)
{
    size_t before = r->at;
    gbnf_skip_space(r, 1);
    if (gbnf_peek(r) == '|') return 1;
    r->at = before;
    return 0;
}

static const struct rf_expr *gbnf_choice(struct reader *r, int nested)
{
    struct parts parts = {.n = 0};
    for (;;) {
        gbnf_add_part(r, &parts, read_sequence(r, nested), rf_ir_choice);
        if (r->ir->code || (gbnf_peek(r) != '|' && !continues(r))) break;
        r->at++;
        gbnf_skip_space(r, 1);
    }
    return rf_ir_choice(r->ir, parts.items, parts.n);
}

static void read_rule(struct reader *r)
{
    size_t start = r->at;
    struct rf_str name = read_name(r);
    if (name.bytes == 0) {
        gbnf_fail(r, "expected the name of a rule");
        return;
    }
    int32_t rule = gbnf_rule(r, name, start);
    if (rule < 0) return;
    if (r->ir->rules[rule].expr)
        gbnf_fail_at(r, start, RF_ERR_FORMAT, "this rule is defined twice");
    gbnf_skip_space(r, 0);
    if (r->text.bytes - r->at < 3 || memcmp(r->text.data + r->at, "::=", 3) != 0) {
        gbnf_fail(r, "expected \"::=\" after the name of a rule");
        return;
    }
    r->at += 3;
    gbnf_skip_space(r, 1);
    const struct rf_expr *expr = gbnf_choice(r, 0);
    if (!r->ir->code && !gbnf_at_end(r) && gbnf_peek(r) != '\n')
        gbnf_fail(r, "expected an element, '|' or the end of the line");
    r->ir->rules[rule].expr = expr;
}

int rf_gbnf_read(struct rf_ir *ir, struct rf_str text)
{
    struct reader r = {.ir = ir, .text = text};
    size_t valid = rf_utf8_valid_prefix(text.data, text.bytes);
    const char *zero = text.bytes ? memchr(text.data, 0, text.bytes) : NULL;
    if (valid < text.bytes) gbnf_fail_at(&r, valid, RF_ERR_FORMAT, "the grammar is not UTF-8 here");
    if (zero)
        gbnf_fail_at(&r, (size_t)(zero - text.data), RF_ERR_FORMAT,
                     "the grammar has a zero byte here");
    for (gbnf_skip_space(&r, 1); !ir->code && !gbnf_at_end(&r); gbnf_skip_space(&r, 1))
        read_rule(&r);
    for (size_t i = 0; !ir->code && i < ir->n_rules; i++)
        if (!ir->rules[i].expr)
            rf_ir_fail(ir, RF_ERR_FORMAT, "%s is not defined", ir->rules[i].shown);
    ir->root = rf_ir_find_rule(ir, rf_str_of("root"));
    if (!ir->code && ir->root < 0)
        rf_ir_fail(ir, RF_ERR_FORMAT, "there is no rule \"root\", which a grammar begins with");
    return ir->code;
}
