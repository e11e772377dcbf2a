#include "text/template_tag.h"

static int is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int starts_with(const char *source, size_t n, size_t at, const char *text)
{
    size_t length = strlen(text);
    return n - at >= length && memcmp(source + at, text, length) == 0;
}

/* Reads a string literal. *at is at its quote, afterwards behind it. */
static const char *read_string(struct rf_tag *tag, const char *source, size_t n, size_t *at,
                               struct rf_str *value)
{
    static const char escapes[] = "n\nr\rt\t\\\\''\"\"";
    char quote = source[(*at)++];
    char *out = tag->strings + tag->strings_used;
    size_t made = 0;
    for (; *at < n && source[*at] != quote; (*at)++) {
        char c = source[*at];
        if (c == '\\') {
            if (++*at == n) break;
            size_t i = 0;
            while (escapes[i] && escapes[i] != source[*at]) i += 2;
            if (!escapes[i]) return "an escape sequence in a string";
            c = escapes[i + 1];
        }
        out[made++] = c;
    }
    if (*at >= n) return "a string that does not end";
    (*at)++;
    tag->strings_used += made;
    *value = (struct rf_str){out, made};
    return NULL;
}

int rf_tag_is(const struct rf_tag *tag, size_t i, const char *text)
{
    return i < tag->n_tokens && tag->tokens[i].kind != RF_TAG_STRING &&
           rf_str_is(tag->tokens[i].text, text);
}

/* 1 if token i opens a bracket, -1 if it closes one, else 0. */
static int nesting(const struct rf_tag *tag, size_t i)
{
    if (rf_tag_is(tag, i, "(") || rf_tag_is(tag, i, "[") || rf_tag_is(tag, i, "{")) return 1;
    return -(rf_tag_is(tag, i, ")") || rf_tag_is(tag, i, "]") || rf_tag_is(tag, i, "}"));
}

const char *rf_tag_read(struct rf_tag *tag, const char *source, size_t n, size_t at,
                        const char *close)
{
    static const char operators[][3] = {"==", "!=", "<=", ">=", "//", "**", "+", "-", "/",
                                        "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                        ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    int depth = 0;
    tag->n_tokens = 0;
    while (at < n) {
        char c = source[at];
        if (c == ' ' || c == '\n' || c == '\t' || c == '\v' || c == '\f') {
            at++;
            continue;
        }
        if (depth == 0) {
            int sign = (c == '-' || c == '+') && starts_with(source, n, at + 1, close);
            if (sign || starts_with(source, n, at, close)) {
                tag->sign = sign ? c : 0;
                tag->end = at + (sign ? 3 : 2);
                return NULL;
            }
        }
        if (tag->n_tokens == RF_TAG_MAX_TOKENS) return "a tag of that length";
        struct rf_tag_token *token = &tag->tokens[tag->n_tokens++];
        size_t begin = at;
        if (c == '\'' || c == '"') {
            token->kind = RF_TAG_STRING;
            const char *why = read_string(tag, source, n, &at, &token->text);
            if (why) return why;
            continue;
        }
        if (is_name_start(c)) {
            token->kind = RF_TAG_NAME;
            while (at < n && (is_name_start(source[at]) || is_digit(source[at]))) at++;
        } else if (is_digit(c)) {
            token->kind = RF_TAG_NUMBER;
            while (at < n && is_digit(source[at])) at++;
            if (at + 1 < n && (source[at] == '.' || source[at] == '_') && is_digit(source[at + 1]))
                return "a number that is not an integer";
        } else {
            token->kind = RF_TAG_OPERATOR;
            for (size_t i = 0; i < sizeof operators / sizeof *operators && at == begin; i++)
                if (starts_with(source, n, at, operators[i])) at += strlen(operators[i]);
            if (at == begin) return "a character outside strings";
        }
        token->text = (struct rf_str){source + begin, at - begin};
        depth += nesting(tag, tag->n_tokens - 1);
        if (depth < 0) return "brackets that do not match";
    }
    return "a tag that does not end";
}

/* ['role'] or ['content'] after a message is the same as .role or .content. */
static int is_subscript(const struct rf_tag *tag, size_t first, size_t i, size_t end)
{
    if (i == first || i + 3 > end || !rf_tag_is(tag, i, "[") || !rf_tag_is(tag, i + 2, "]"))
        return 0;
    if (tag->tokens[i - 1].kind != RF_TAG_NAME && !rf_tag_is(tag, i - 1, "]")) return 0;
    const struct rf_tag_token *key = &tag->tokens[i + 1];
    return key->kind == RF_TAG_STRING &&
           (rf_str_is(key->text, "role") || rf_str_is(key->text, "content"));
}

static void write_token(struct rf_writer *out, const struct rf_tag_token *token)
{
    if (token->kind != RF_TAG_STRING) {
        rf_write(out, token->text.data, token->text.bytes);
        return;
    }
    rf_write_text(out, "\"");
    for (size_t i = 0; i < token->text.bytes; i++) {
        char c = token->text.data[i];
        if (c == '"' || c == '\\') rf_write_text(out, "\\");
        rf_write(out, &c, 1);
    }
    rf_write_text(out, "\"");
}

void rf_tag_write(const struct rf_tag *tag, size_t first, size_t end, struct rf_writer *out)
{
    for (size_t i = first; i < end; i++) {
        const struct rf_tag_token *token = &tag->tokens[i];
        if (is_subscript(tag, first, i, end)) {
            rf_write_text(out, ".");
            rf_write(out, token[1].text.data, token[1].text.bytes);
            i += 2;
            continue;
        }
        int words =
            i > first && token->kind != RF_TAG_OPERATOR && token[-1].kind != RF_TAG_OPERATOR;
        if (words) rf_write_text(out, " ");
        write_token(out, token);
    }
}

/* ---- conditions ---- */

int rf_tag_absent_variable(struct rf_str name)
{
    static const char *const absent[RF_TAG_N_ABSENT] = {
        "tools",       "custom_tools",          "builtin_tools",   "documents",
        "date_string", "tools_in_user_message", "enable_thinking", "strftime_now"};
    for (int i = 0; i < RF_TAG_N_ABSENT; i++)
        if (rf_str_is(name, absent[i])) return i;
    return -1;
}

static enum rf_truth negate(enum rf_truth truth)
{
    return truth == RF_UNKNOWN ? RF_UNKNOWN : truth == RF_TRUE ? RF_FALSE : RF_TRUE;
}

/* NAME, NAME is defined, NAME is none, and the two with "not". */
static enum rf_truth test_truth(const struct rf_tag *tag, size_t first, size_t end,
                                const enum rf_tag_state states[RF_TAG_N_ABSENT])
{
    if (first >= end || tag->tokens[first].kind != RF_TAG_NAME) return RF_UNKNOWN;
    struct rf_str name = tag->tokens[first].text;
    int variable = rf_tag_absent_variable(name);
    if (end - first == 1)
        return variable >= 0 && states[variable] != RF_TAG_SET ? RF_FALSE : RF_UNKNOWN;
    if (!rf_tag_is(tag, first + 1, "is")) return RF_UNKNOWN;
    int is_not = rf_tag_is(tag, first + 2, "not");
    if (end - first != (is_not ? 4u : 3u)) return RF_UNKNOWN;
    enum rf_truth truth = RF_UNKNOWN;
    if (rf_tag_is(tag, end - 1, "defined")) {
        if (variable >= 0 && states[variable] == RF_TAG_UNDEFINED) truth = RF_FALSE;
        if (variable >= 0 && states[variable] == RF_TAG_NONE) truth = RF_TRUE;
        if (rf_str_is(name, "add_generation_prompt")) truth = RF_TRUE;
    } else if (rf_tag_is(tag, end - 1, "none") && variable >= 0 && states[variable] != RF_TAG_SET) {
        truth = states[variable] == RF_TAG_NONE ? RF_TRUE : RF_FALSE;
    }
    return is_not ? negate(truth) : truth;
}

size_t rf_tag_find(const struct rf_tag *tag, size_t first, size_t end, const char *word)
{
    int depth = 0;
    for (size_t i = first; i < end; i++) {
        depth += nesting(tag, i);
        if (depth == 0 && rf_tag_is(tag, i, word)) return i;
    }
    return end;
}

/* Terms joined by "and". */
static enum rf_truth all_true(const struct rf_tag *tag, size_t first, size_t end,
                              const enum rf_tag_state states[RF_TAG_N_ABSENT])
{
    enum rf_truth truth = RF_TRUE;
    while (first < end) {
        size_t stop = rf_tag_find(tag, first, end, "and");
        size_t from = first;
        while (from < stop && rf_tag_is(tag, from, "not")) from++;
        enum rf_truth term = test_truth(tag, from, stop, states);
        if ((from - first) % 2) term = negate(term);
        if (term == RF_FALSE) return RF_FALSE;
        if (term == RF_UNKNOWN) truth = RF_UNKNOWN;
        first = stop + 1;
    }
    return truth;
}

enum rf_truth rf_tag_truth(const struct rf_tag *tag, size_t first, size_t end,
                           const enum rf_tag_state states[RF_TAG_N_ABSENT])
{
    if (rf_tag_find(tag, first, end, "if") != end) return RF_UNKNOWN;
    enum rf_truth truth = RF_FALSE;
    while (first < end) {
        size_t stop = rf_tag_find(tag, first, end, "or");
        enum rf_truth part = all_true(tag, first, stop, states);
        if (part == RF_TRUE) return RF_TRUE;
        if (part == RF_UNKNOWN) truth = RF_UNKNOWN;
        first = stop + 1;
    }
    return truth;
}
