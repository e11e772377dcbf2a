/* Jinja's lexical rules, with trim_blocks and lstrip_blocks: a source to tokens, which point into
 * the source or the arena. jinja.c calls it once for each template. */
#include <string.h>

#include "base/utf8.h"
#include "template/jinja_parts.h"

struct lexer {
    struct rf_arena *arena;
    struct rf_error *error;
    const char *text;
    size_t n, at;
    uint32_t line;
    struct token *tokens;
    size_t n_tokens, cap;
    int line_start; /* the text before `at` is empty or ends a line */
    int code;
};

static void lexer_fail(struct lexer *lexer, const char *sentence)
{
    if (!lexer->code)
        lexer->code = rf_jinja_bad(lexer->error, RF_ERR_UNSUPPORTED, lexer->line, "%s", sentence);
}

static void lexer_add(struct lexer *lexer, enum token_kind kind, struct rf_str text)
{
    if (lexer->code) return;
    if (lexer->n_tokens == lexer->cap) {
        size_t cap = lexer->cap ? 2 * lexer->cap : 256;
        struct token *grown =
            rf_arena_alloc(lexer->arena, cap, sizeof *grown, "chat template", lexer->error);
        if (!grown) {
            lexer->code = RF_ERR_MEMORY;
            return;
        }
        if (lexer->n_tokens) memcpy(grown, lexer->tokens, lexer->n_tokens * sizeof *grown);
        lexer->tokens = grown;
        lexer->cap = cap;
    }
    lexer->tokens[lexer->n_tokens++] = (struct token){kind, lexer->line, text};
}

static int next_is(const struct lexer *lexer, const char *text)
{
    size_t n = strlen(text);
    return lexer->n - lexer->at >= n && memcmp(lexer->text + lexer->at, text, n) == 0;
}

static void lexer_advance(struct lexer *lexer, size_t n)
{
    for (size_t i = 0; i < n; i++) lexer->line += lexer->text[lexer->at + i] == '\n';
    lexer->at += n;
    if (n) lexer->line_start = lexer->text[lexer->at - 1] == '\n';
}

static int space_at(const struct lexer *lexer, size_t *length)
{
    struct rf_str rest = {lexer->text + lexer->at, lexer->n - lexer->at};
    *length = rf_utf8_length(rest.data, rest.bytes);
    return *length && rf_jinja_is_space(rf_utf8_decode(rest.data, *length));
}

static void lexer_skip_space(struct lexer *lexer)
{
    size_t length;
    while (lexer->at < lexer->n && space_at(lexer, &length)) lexer_advance(lexer, length);
}

/* Text before a tag: `sign` follows the tag's opening, `lstrip` says that layout in front of it
 * goes away. */
static void add_data(struct lexer *lexer, size_t from, size_t to, int line_start, char sign,
                     int lstrip)
{
    value text = rf_jinja_string((struct rf_str){lexer->text + from, to - from}, 0);
    if (sign == '-') {
        text = rf_jinja_strip(NULL, text, rf_jinja_none(), 0, 1);
    } else if (sign != '+' && lstrip) {
        size_t begin = text.bytes;
        while (begin && text.u.data[begin - 1] != '\n') begin--;
        value line = rf_jinja_cut(text, begin, text.bytes);
        if ((begin || line_start) && rf_jinja_strip(NULL, line, rf_jinja_none(), 1, 0).bytes == 0)
            text = rf_jinja_cut(text, 0, begin);
    }
    if (text.bytes) lexer_add(lexer, TOKEN_DATA, rf_jinja_bytes(text));
}

/* The bytes of a tag's end ("%}", "-%}", "+%}") with the layout that it takes along; 0: no end
 * here. */
static size_t end_at(const struct lexer *lexer, const char *end, int trim)
{
    struct lexer ahead = *lexer;
    char sign = ahead.at < ahead.n ? ahead.text[ahead.at] : 0;
    if (sign == '-' || (sign == '+' && trim)) ahead.at++;
    if (!next_is(&ahead, end)) return 0;
    ahead.at += strlen(end);
    if (sign == '-')
        lexer_skip_space(&ahead);
    else if (trim && sign != '+' && ahead.at < ahead.n && ahead.text[ahead.at] == '\n')
        ahead.at++;
    return ahead.at - lexer->at;
}

/* ---- inside tags ---- */

static int is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static int is_ascii_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int hex(char c)
{
    return is_ascii_digit(c)      ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* \xHH, \uHHHH and \UHHHHHHHH. Returns the bytes of the escape, 0 for a broken one. */
static size_t hex_escape(struct lexer *lexer, const char *at, size_t left, char *out, size_t *n)
{
    size_t digits = at[1] == 'x' ? 2 : at[1] == 'u' ? 4 : 8;
    uint32_t code_point = 0;
    if (left < 2 + digits) return 0;
    for (size_t i = 0; i < digits; i++) {
        int digit = hex(at[2 + i]);
        if (digit < 0 || code_point > 0x10ffff) return 0;
        code_point = code_point * 16 + (uint32_t)digit;
    }
    if (code_point > 0x10ffff || (code_point >= 0xd800 && code_point < 0xe000)) {
        lexer_fail(lexer, "a string has a character that does not exist");
        return 0;
    }
    *n += rf_utf8_encode(code_point, out + *n);
    return 2 + digits;
}

/* Decodes the escapes of a string literal, as Python does. */
static void add_string(struct lexer *lexer, const char *text, size_t n)
{
    static const char letters[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
    char *out = rf_arena_alloc(lexer->arena, n + 1, 1, "chat template", lexer->error);
    size_t used = 0;
    if (!out) lexer->code = RF_ERR_MEMORY;
    for (size_t i = 0; i < n && !lexer->code;) {
        const char *known = text[i] == '\\' && i + 1 < n ? strchr(letters, text[i + 1]) : NULL;
        if (text[i] != '\\' || i + 1 == n) {
            out[used++] = text[i++];
        } else if (known && *known) {
            out[used++] = values[known - letters];
            i += 2;
        } else if (text[i + 1] == '\n') {
            i += 2;
        } else if (strchr("xuU", text[i + 1])) {
            size_t taken = hex_escape(lexer, text + i, n - i, out, &used);
            if (!taken) lexer_fail(lexer, "a string has a broken escape");
            i += taken;
        } else if (text[i + 1] >= '0' && text[i + 1] <= '7') {
            uint32_t code_point = 0;
            size_t end = i + 1;
            while (end < n && end < i + 4 && text[end] >= '0' && text[end] <= '7')
                code_point = code_point * 8 + (uint32_t)(text[end++] - '0');
            used += rf_utf8_encode(code_point, out + used);
            i = end;
        } else {
            out[used++] = text[i++];
        }
    }
    if (out) lexer_add(lexer, TOKEN_STRING, (struct rf_str){out, used});
}

static void lex_string(struct lexer *lexer)
{
    char quote = lexer->text[lexer->at];
    size_t end = lexer->at + 1;
    while (end < lexer->n && lexer->text[end] != quote)
        end += lexer->text[end] == '\\' && end + 1 < lexer->n ? 2 : 1;
    if (end >= lexer->n) {
        lexer_fail(lexer, "a string does not end");
        return;
    }
    add_string(lexer, lexer->text + lexer->at + 1, end - lexer->at - 1);
    lexer_advance(lexer, end + 1 - lexer->at);
}

static void lex_number(struct lexer *lexer)
{
    size_t end = lexer->at;
    enum token_kind kind = TOKEN_INTEGER;
    const char *text = lexer->text;
    if (text[end] == '0' && end + 1 < lexer->n && strchr("xXbBoO", text[end + 1])) {
        end += 2;
        while (end < lexer->n && (hex(text[end]) >= 0 || text[end] == '_')) end++;
    } else {
        while (end < lexer->n && (is_ascii_digit(text[end]) || text[end] == '_')) end++;
        if (end + 1 < lexer->n && text[end] == '.' && is_ascii_digit(text[end + 1])) {
            kind = TOKEN_FLOAT;
            end++;
            while (end < lexer->n && is_ascii_digit(text[end])) end++;
        }
        size_t power = end + 1;
        if (power < lexer->n && (text[power] == '-' || text[power] == '+')) power++;
        if (power < lexer->n && (text[end] == 'e' || text[end] == 'E') &&
            is_ascii_digit(text[power])) {
            kind = TOKEN_FLOAT;
            end = power;
            while (end < lexer->n && is_ascii_digit(text[end])) end++;
        }
    }
    if (end - lexer->at > 60) lexer_fail(lexer, "a number is too long");
    lexer_add(lexer, kind, (struct rf_str){text + lexer->at, end - lexer->at});
    lexer_advance(lexer, end - lexer->at);
}

static void lex_operator(struct lexer *lexer, size_t *open)
{
    static const char *const two[] = {"//", "**", "==", "!=", "<=", ">="};
    char c = lexer->text[lexer->at];
    size_t n = 0;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (next_is(lexer, two[i])) n = 2;
    if (!n && c && strchr("+-*/%~<>=()[]{}.,:|", c)) n = 1;
    if (!n) {
        lexer_fail(lexer, "a character is out of place");
        return;
    }
    if (strchr("([{", c)) (*open)++;
    if (strchr(")]}", c)) {
        if (!*open) lexer_fail(lexer, "a bracket closes nothing");
        *open -= *open > 0;
    }
    lexer_add(lexer, TOKEN_OPERATOR, (struct rf_str){lexer->text + lexer->at, n});
    lexer_advance(lexer, n);
}

static void lex_tag(struct lexer *lexer, const char *end, enum token_kind end_kind)
{
    int trim = end_kind == TOKEN_BLOCK_END;
    for (size_t open = 0; !lexer->code;) {
        lexer_skip_space(lexer);
        if (lexer->at == lexer->n) {
            lexer_fail(lexer, "a tag does not end");
            return;
        }
        size_t bytes = open ? 0 : end_at(lexer, end, trim);
        char c = lexer->text[lexer->at];
        if (bytes) {
            lexer_add(lexer, end_kind, (struct rf_str){"", 0});
            lexer_advance(lexer, bytes);
            return;
        }
        if (c == '"' || c == '\'') {
            lex_string(lexer);
        } else if (is_ascii_digit(c)) {
            lex_number(lexer);
        } else if (is_letter(c)) {
            size_t to = lexer->at;
            while (to < lexer->n && (is_letter(lexer->text[to]) || is_ascii_digit(lexer->text[to])))
                to++;
            lexer_add(lexer, TOKEN_NAME, (struct rf_str){lexer->text + lexer->at, to - lexer->at});
            lexer_advance(lexer, to - lexer->at);
        } else {
            lex_operator(lexer, &open);
        }
    }
}

/* ---- between tags ---- */

static char sign_at(const struct lexer *lexer)
{
    char c = lexer->at < lexer->n ? lexer->text[lexer->at] : 0;
    return c == '-' || c == '+' ? c : 0;
}

static void lex_comment(struct lexer *lexer)
{
    for (; lexer->at < lexer->n; lexer_advance(lexer, 1)) {
        size_t bytes = end_at(lexer, "#}", 1);
        if (!bytes) continue;
        lexer_advance(lexer, bytes);
        return;
    }
    lexer_fail(lexer, "a comment does not end");
}

/* Whether "{% NAME %}" is here; then moves behind it and sets the sign in front of NAME. */
static int take_word_tag(struct lexer *lexer, const char *name, char *sign)
{
    struct lexer ahead = *lexer;
    if (!next_is(&ahead, "{%")) return 0;
    ahead.at += 2;
    *sign = sign_at(&ahead);
    if (*sign) ahead.at++;
    lexer_skip_space(&ahead);
    if (!next_is(&ahead, name)) return 0;
    ahead.at += strlen(name);
    lexer_skip_space(&ahead);
    size_t bytes = end_at(&ahead, "%}", strcmp(name, "raw") != 0);
    if (!bytes) return 0;
    lexer_advance(lexer, ahead.at + bytes - lexer->at);
    return 1;
}

static void lex_raw(struct lexer *lexer)
{
    size_t from = lexer->at;
    int line_start = lexer->line_start;
    for (; lexer->at < lexer->n; lexer_advance(lexer, 1)) {
        char sign;
        size_t to = lexer->at;
        if (!take_word_tag(lexer, "endraw", &sign)) continue;
        add_data(lexer, from, to, line_start, sign, 1);
        return;
    }
    lexer_fail(lexer, "{% raw %} does not end");
}

static int tag_begins(const struct lexer *lexer)
{
    return next_is(lexer, "{{") || next_is(lexer, "{%") || next_is(lexer, "{#");
}

static void lex_template(struct lexer *lexer)
{
    while (lexer->at < lexer->n && !lexer->code) {
        size_t from = lexer->at, to = from;
        int line_start = lexer->line_start;
        while (to < lexer->n) {
            struct lexer there = *lexer;
            there.at = to;
            if (tag_begins(&there)) break;
            to++;
        }
        struct lexer tag = *lexer;
        tag.at = to + 2;
        char kind = to < lexer->n ? lexer->text[to + 1] : 0, sign = kind ? sign_at(&tag) : '+';
        add_data(lexer, from, to, line_start, sign, kind != '{');
        lexer_advance(lexer, to - from);
        if (!kind || (kind == '%' && take_word_tag(lexer, "raw", &sign))) {
            if (kind) lex_raw(lexer);
            continue;
        }
        enum token_kind begin = kind == '{' ? TOKEN_PRINT : TOKEN_BLOCK;
        if (kind != '#') lexer_add(lexer, begin, (struct rf_str){"", 0});
        lexer_advance(lexer, sign ? 3 : 2);
        if (kind == '#')
            lex_comment(lexer);
        else
            lex_tag(lexer, kind == '{' ? "}}" : "%}", (enum token_kind)(begin + 1));
    }
}

/* Line ends as \n, without the last one of the source. */
static struct rf_str normal_lines(struct lexer *lexer, struct rf_str source)
{
    char *out = rf_arena_alloc(lexer->arena, source.bytes + 1, 1, "chat template", lexer->error);
    size_t n = 0;
    if (!out) {
        lexer->code = RF_ERR_MEMORY;
        return (struct rf_str){"", 0};
    }
    for (size_t i = 0; i < source.bytes; i++) {
        int pair = source.data[i] == '\r' && i + 1 < source.bytes && source.data[i + 1] == '\n';
        if (!pair) out[n++] = source.data[i] == '\r' ? '\n' : source.data[i];
    }
    if (n && out[n - 1] == '\n') n--;
    return (struct rf_str){out, n};
}

int rf_jinja_lex(struct rf_arena *arena, struct rf_str source, struct token **tokens,
                 struct rf_error *error)
{
    struct lexer lexer = {.arena = arena, .error = error, .line = 1, .line_start = 1};
    struct rf_str text = normal_lines(&lexer, source);
    lexer.text = text.data;
    lexer.n = text.bytes;
    lex_template(&lexer);
    lexer_add(&lexer, TOKEN_END, (struct rf_str){"", 0});
    *tokens = lexer.tokens;
    return lexer.code;
}
