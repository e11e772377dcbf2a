/* Strings of the language: parts, case, lines, formats and the texts of values, as Python makes
 * them. Each byte keeps its origin, also through case, joining and formatting. Lexer, methods,
 * filters and the interpreter call it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "template/case.h"
#include "template/jinja_parts.h"

/* ---- parts ---- */

/* Python's str.isspace(). */
int rf_jinja_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Whether strip() takes a character away: white space if `characters` is not a string. */
static int is_stripped(struct rf_str text, size_t at, size_t length, value characters)
{
    if (characters.type != RF_JINJA_STRING)
        return rf_utf8_length(text.data + at, length) == length &&
               rf_jinja_is_space(rf_utf8_decode(text.data + at, length));
    struct rf_str set = rf_jinja_bytes(characters);
    for (size_t i = 0, n; i < set.bytes; i += n) {
        n = rf_jinja_char(set, i);
        if (n == length && memcmp(set.data + i, text.data + at, n) == 0) return 1;
    }
    return 0;
}

value rf_jinja_strip(struct rf_jinja_run *run, value string, value characters, int left, int right)
{
    struct rf_str text = rf_jinja_bytes(string);
    size_t from = 0, to = text.bytes;
    size_t cost = RF_JINJA_ITEM + 2 * (characters.type == RF_JINJA_STRING ? characters.bytes : 0);
    while (left && from < to && !(run && rf_jinja_charge(run, cost))) {
        size_t length = rf_jinja_char((struct rf_str){text.data, to}, from);
        if (!is_stripped(text, from, length, characters)) break;
        from += length;
    }
    while (right && to > from && !(run && rf_jinja_charge(run, cost))) {
        size_t length = 1;
        while (length < 4 && length < to - from &&
               ((unsigned char)text.data[to - length] & 0xc0) == 0x80)
            length++;
        if (rf_utf8_length(text.data + to - length, length) != length) length = 1;
        if (!is_stripped(text, to - length, length, characters)) break;
        to -= length;
    }
    return rf_jinja_cut(string, from, to);
}

/* ---- writing ---- */

void rf_jinja_write(struct rf_jinja_run *run, struct output *out, value string)
{
    size_t n = string.bytes;
    if (n == 0 || rf_jinja_charge(run, RF_JINJA_KEY + n / 4)) return;
    if (n > out->cap - out->n) {
        size_t cap = 2 * out->cap + n + 64;
        char *text = rf_jinja_take(run, cap, 1);
        uint8_t *origins = rf_jinja_take(run, cap, 1);
        if (!text || !origins || rf_jinja_charge(run, out->n / 4)) return;
        if (out->n) {
            memcpy(text, out->text, out->n);
            memcpy(origins, out->origins, out->n);
        }
        out->text = text;
        out->origins = origins;
        out->cap = cap;
    }
    memcpy(out->text + out->n, string.u.data, n);
    if (string.origins)
        memcpy(out->origins + out->n, string.origins, n);
    else
        memset(out->origins + out->n, string.origin, n);
    out->n += n;
}

void rf_jinja_write_text(struct rf_jinja_run *run, struct output *out, const char *text)
{
    rf_jinja_write(run, out, rf_jinja_text(text));
}

value rf_jinja_written(struct rf_jinja_run *run, const struct output *out)
{
    if (run->code || out->n == 0) return rf_jinja_string((struct rf_str){"", 0}, 0);
    value string = rf_jinja_string((struct rf_str){out->text, out->n}, out->origins[0]);
    if (memcmp(out->origins, out->origins + 1, out->n - 1) != 0) string.origins = out->origins;
    return string;
}

/* The shortest decimal that reads back as the number, in Python's layout. */
static void write_real(struct rf_jinja_run *run, struct output *out, double real)
{
    char text[40], digits[24];
    int precision = 0, power;
    if (rf_jinja_steps(run, 32)) return;
    if (!isfinite(real)) {
        rf_jinja_write_text(run, out, isnan(real) ? "nan" : real > 0 ? "inf" : "-inf");
        return;
    }
    do snprintf(text, sizeof text, "%.*e", precision, real);
    while (strtod(text, NULL) != real && ++precision < 17);
    power = atoi(strchr(text, 'e') + 1);
    size_t n = 0;
    for (const char *at = text; *at != 'e'; at++)
        if (*at >= '0' && *at <= '9') digits[n++] = *at;
    while (n > 1 && digits[n - 1] == '0') n--;
    const char *sign = signbit(real) ? "-" : "";
    if (power < -4 || power >= 16)
        snprintf(text, sizeof text, "%s%c%s%.*se%c%02d", sign, digits[0], n > 1 ? "." : "",
                 (int)n - 1, digits + 1, power < 0 ? '-' : '+', abs(power));
    else if (power < 0)
        snprintf(text, sizeof text, "%s0.%.*s%.*s", sign, -power - 1, "0000", (int)n, digits);
    else if ((int)n <= power + 1)
        snprintf(text, sizeof text, "%s%.*s%.*s.0", sign, (int)n, digits, power + 1 - (int)n,
                 "0000000000000000");
    else
        snprintf(text, sizeof text, "%s%.*s.%.*s", sign, power + 1, digits, (int)n - power - 1,
                 digits + power + 1);
    rf_jinja_write_text(run, out, text);
}

/* Whether repr() shows a character as it is. */
static int is_repr_printable(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return 0;
    case UTF8PROC_CATEGORY_ZS: return c == ' ';
    default: return 1;
    }
}

static void write_repr_string(struct rf_jinja_run *run, struct output *out, value string)
{
    struct rf_str text = rf_jinja_bytes(string);
    int apostrophe = text.bytes && memchr(text.data, '\'', text.bytes);
    const char *quote = apostrophe && !memchr(text.data, '"', text.bytes) ? "\"" : "'";
    rf_jinja_write_text(run, out, string.marked ? "Markup(" : "");
    rf_jinja_write_text(run, out, quote);
    for (size_t at = 0, length; at < text.bytes && !rf_jinja_charge(run, RF_JINJA_ITEM);
         at += length) {
        char escape[16] = "";
        length = rf_jinja_char(text, at);
        uint32_t c = rf_utf8_length(text.data + at, length) ? rf_utf8_decode(text.data + at, length)
                                                            : 0xfffd;
        const char *plain = c && c < 0x80 ? strchr("\\\nn\rr\tt", (int)c) : NULL;
        if (c == (unsigned char)*quote || c == '\\')
            snprintf(escape, sizeof escape, "\\%c", (char)c);
        else if (plain && c < ' ')
            snprintf(escape, sizeof escape, "\\%c", plain[1]);
        else if (!is_repr_printable(c))
            snprintf(escape, sizeof escape,
                     c < 0x100     ? "\\x%02x"
                     : c < 0x10000 ? "\\u%04x"
                                   : "\\U%08x",
                     (unsigned)c);
        value shown = rf_jinja_cut(string, at, at + length);
        if (escape[0]) {
            uint8_t origin = shown.origins ? shown.origins[0] : shown.origin;
            shown = rf_jinja_string(rf_str_of(escape), origin);
        }
        rf_jinja_write(run, out, shown);
    }
    rf_jinja_write_text(run, out, quote);
    rf_jinja_write_text(run, out, string.marked ? ")" : "");
}

static void write_repr_list(struct rf_jinja_run *run, struct output *out, value v)
{
    const struct rf_jinja_list *list = v.u.list;
    int tuple = v.type == RF_JINJA_TUPLE;
    rf_jinja_write_text(run, out, tuple ? "(" : "[");
    for (size_t i = 0; i < list->n && !run->code; i++) {
        if (i) rf_jinja_write_text(run, out, ", ");
        rf_jinja_write_repr(run, out, list->items[i]);
    }
    rf_jinja_write_text(run, out, !tuple ? "]" : list->n == 1 ? ",)" : ")");
}

static void write_repr_dict(struct rf_jinja_run *run, struct output *out,
                            const struct rf_jinja_dict *dict)
{
    rf_jinja_write_text(run, out, "{");
    for (size_t i = 0; i < dict->n && !run->code; i++) {
        if (i) rf_jinja_write_text(run, out, ", ");
        rf_jinja_write_repr(run, out, dict->keys[i]);
        rf_jinja_write_text(run, out, ": ");
        rf_jinja_write_repr(run, out, dict->values[i]);
    }
    rf_jinja_write_text(run, out, "}");
}

void rf_jinja_write_repr(struct rf_jinja_run *run, struct output *out, value v)
{
    char text[32];
    if (run->depth >= RF_JINJA_MAX_DEPTH)
        rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "its values are nested too deeply");
    if (rf_jinja_steps(run, 1)) return;
    run->depth++;
    switch (v.type) {
    case RF_JINJA_UNDEFINED: rf_jinja_write_text(run, out, "Undefined"); break;
    case RF_JINJA_NONE: rf_jinja_write_text(run, out, "None"); break;
    case RF_JINJA_BOOL: rf_jinja_write_text(run, out, v.u.integer ? "True" : "False"); break;
    case RF_JINJA_INT:
        snprintf(text, sizeof text, "%" PRId64, v.u.integer);
        rf_jinja_write_text(run, out, text);
        break;
    case RF_JINJA_BIG:
        rf_jinja_write(run, out, rf_jinja_string(rf_jinja_bytes(v), v.origin));
        break;
    case RF_JINJA_FLOAT: write_real(run, out, v.u.real); break;
    case RF_JINJA_STRING: write_repr_string(run, out, v); break;
    case RF_JINJA_LIST:
    case RF_JINJA_TUPLE: write_repr_list(run, out, v); break;
    case RF_JINJA_DICT: write_repr_dict(run, out, v.u.dict); break;
    default: rf_jinja_mistyped(run, "write", v); break;
    }
    run->depth--;
}

void rf_jinja_write_str(struct rf_jinja_run *run, struct output *out, value v)
{
    if (v.type == RF_JINJA_STRING)
        rf_jinja_write(run, out, v);
    else if (v.type != RF_JINJA_UNDEFINED) /* whose text is empty */
        rf_jinja_write_repr(run, out, v);
}

value rf_jinja_str(struct rf_jinja_run *run, value v)
{
    struct output out = {0};
    if (v.type == RF_JINJA_STRING) return v;
    rf_jinja_write_str(run, &out, v);
    return rf_jinja_written(run, &out);
}

value rf_jinja_replace(struct rf_jinja_run *run, value string, value old, value with, int64_t most)
{
    struct output out = {0};
    struct rf_str text = rf_jinja_bytes(string), wanted = rf_jinja_bytes(old);
    size_t at = 0;
    while (most-- != 0 && !rf_jinja_charge(run, RF_JINJA_KEY)) {
        size_t found = rf_jinja_search(run, text, wanted, at);
        if (found == SIZE_MAX) break;
        rf_jinja_write(run, &out, rf_jinja_cut(string, at, found));
        rf_jinja_write(run, &out, with);
        at = found + wanted.bytes;
        if (wanted.bytes) continue;
        if (at == text.bytes) break; /* an empty text lies between all characters */
        size_t length = rf_jinja_char(text, at);
        rf_jinja_write(run, &out, rf_jinja_cut(string, at, at + length));
        at += length;
    }
    rf_jinja_write(run, &out, rf_jinja_cut(string, at, text.bytes));
    return rf_jinja_written(run, &out);
}

int rf_jinja_is_word(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return c == '_' || (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
           (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

/* ---- case, lines and formats ---- */

static int is_cased(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
           category == UTF8PROC_CATEGORY_LT;
}

static int is_case_ignorable(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return 1;
    default: return c == '\'' || c == '.' || c == ':' || c == 0xb7 || c == 0x2019;
    }
}

/* Whether a word begins behind a character. */
static int begins_word(uint32_t before, enum letter_case to)
{
    if (to == CASE_TITLE) return !is_cased(before);
    return rf_jinja_is_space(before) || (before < 0x80 && before && strchr("-({[<", (int)before));
}

/* Whether the capital sigma at `at` ends a word: Python looks past characters that case ignores. */
static int is_final_sigma(struct rf_jinja_run *run, struct rf_str text, size_t at, size_t length)
{
    enum { REACH = 64 }; /* bytes that are looked at on each side */
    size_t behind = at + length, before = at;
    uint32_t c = 0;
    while (before > 0 && at - before < REACH) {
        do before--;
        while (before > 0 && ((unsigned char)text.data[before] & 0xc0) == 0x80);
        c = rf_utf8_length(text.data + before, text.bytes - before)
                ? rf_utf8_decode(text.data + before, rf_jinja_char(text, before))
                : 0;
        if (rf_jinja_charge(run, RF_JINJA_ITEM) || !is_case_ignorable(c)) break;
    }
    if (before == at || !is_cased(c)) return 0;
    for (; behind < text.bytes && behind - at < REACH; behind += length) {
        length = rf_jinja_char(text, behind);
        c = rf_utf8_length(text.data + behind, length) ? rf_utf8_decode(text.data + behind, length)
                                                       : 0;
        if (rf_jinja_charge(run, RF_JINJA_ITEM) || !is_case_ignorable(c)) return !is_cased(c);
    }
    return 1;
}

static enum rf_case case_of(uint32_t c, enum letter_case to, int begins, int first)
{
    switch (to) {
    case CASE_UPPER: return RF_CASE_UPPER;
    case CASE_FOLD: return RF_CASE_FOLD;
    case CASE_SWAPPED:
        return utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_LU ? RF_CASE_LOWER
                                                                              : RF_CASE_UPPER;
    case CASE_CAPITALIZED: return first ? RF_CASE_TITLE : RF_CASE_LOWER;
    case CASE_TITLE: return begins ? RF_CASE_TITLE : RF_CASE_LOWER;
    case CASE_JINJA_TITLE: return begins ? RF_CASE_UPPER : RF_CASE_LOWER;
    default: return RF_CASE_LOWER;
    }
}

value rf_jinja_recase(struct rf_jinja_run *run, value string, enum letter_case to)
{
    struct output out = {0};
    struct rf_str text = rf_jinja_bytes(string);
    uint32_t before = ' ';
    /* A character is looked up in several tables, which takes as long as a step. */
    for (size_t at = 0, length; at < text.bytes && !rf_jinja_charge(run, RF_JINJA_STEP);
         at += length) {
        char changed[RF_CASE_BYTES];
        value shown;
        length = rf_jinja_char(text, at);
        shown = rf_jinja_cut(string, at, at + length);
        if (rf_utf8_length(text.data + at, length)) {
            uint32_t c = rf_utf8_decode(text.data + at, length);
            enum rf_case wanted = case_of(c, to, at == 0 || begins_word(before, to), at == 0);
            before = c;
            uint8_t origin = shown.origins ? shown.origins[0] : shown.origin;
            int ends =
                wanted == RF_CASE_LOWER && c == 0x3a3 && is_final_sigma(run, text, at, length);
            size_t n = ends ? rf_utf8_encode(0x3c2, changed) : rf_case_map(c, wanted, changed);
            shown = rf_jinja_string((struct rf_str){changed, n}, origin);
        }
        rf_jinja_write(run, &out, shown);
    }
    return rf_jinja_written(run, &out);
}

int rf_jinja_has_case(struct rf_jinja_run *run, value string, int upper)
{
    struct rf_str text = rf_jinja_bytes(string);
    int cased = 0;
    rf_jinja_charge(run, text.bytes * RF_JINJA_KEY);
    for (size_t at = 0, length; at < text.bytes && !run->code; at += length) {
        length = rf_jinja_char(text, at);
        if (!rf_utf8_length(text.data + at, length)) continue;
        uint32_t c = rf_utf8_decode(text.data + at, length);
        if (!is_cased(c)) continue;
        int is_upper = utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_LU;
        if (is_upper != upper) return 0;
        cased = 1;
    }
    return cased;
}

static int ends_line(uint32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

value rf_jinja_lines(struct rf_jinja_run *run, value string, int keep_ends)
{
    value list = rf_jinja_list(run);
    struct rf_str text = rf_jinja_bytes(string);
    size_t begin = 0;
    rf_jinja_charge(run, text.bytes * RF_JINJA_KEY);
    for (size_t at = 0, length; at < text.bytes && !run->code; at += length) {
        length = rf_jinja_char(text, at);
        if (!rf_utf8_length(text.data + at, length) ||
            !ends_line(rf_utf8_decode(text.data + at, length)))
            continue;
        if (text.data[at] == '\r' && at + 1 < text.bytes && text.data[at + 1] == '\n') length = 2;
        rf_jinja_add(run, list, rf_jinja_cut(string, begin, keep_ends ? at + length : at));
        begin = at + length;
    }
    if (begin < text.bytes) rf_jinja_add(run, list, rf_jinja_cut(string, begin, text.bytes));
    return list;
}

/* Escapes texts that are joined with HTML. */
value rf_jinja_join(struct rf_jinja_run *run, value separator, value items)
{
    struct output out = {0};
    const struct rf_jinja_list *list = rf_jinja_iterate(run, items);
    for (size_t i = 0; list && i < list->n && !rf_jinja_steps(run, 1); i++) {
        if (i) rf_jinja_write(run, &out, separator);
        if (list->items[i].type != RF_JINJA_STRING)
            rf_jinja_mistyped(run, "join", list->items[i]);
        else
            rf_jinja_write(run, &out, rf_jinja_beside(run, list->items[i], separator));
    }
    value joined = rf_jinja_written(run, &out);
    return separator.marked ? rf_jinja_html(joined) : joined;
}

/* ---- HTML ---- */

value rf_jinja_html(value string)
{
    string.marked = 1;
    return string;
}

value rf_jinja_escape(struct rf_jinja_run *run, value v)
{
    static const char plain[] = "&<>'\"";
    static const char *const escapes[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    value string = rf_jinja_str(run, v);
    struct rf_str text = rf_jinja_bytes(string);
    struct output out = {0};
    if (string.marked) return string;
    for (size_t at = 0, end; at < text.bytes && !run->code; at = end) {
        const char *found = NULL;
        for (end = at; end < text.bytes; end++)
            if (text.data[end] && (found = strchr(plain, text.data[end])) != NULL) break;
        rf_jinja_write(run, &out, rf_jinja_cut(string, at, end));
        if (end == text.bytes) break;
        value escape = rf_jinja_text(escapes[found - plain]); /* keeps the character's origin */
        escape.origin = string.origins ? string.origins[end] : string.origin;
        rf_jinja_write(run, &out, escape);
        end++;
    }
    return rf_jinja_html(rf_jinja_written(run, &out));
}

value rf_jinja_beside(struct rf_jinja_run *run, value v, value beside)
{
    int html = beside.type == RF_JINJA_STRING && beside.marked;
    return html ? rf_jinja_escape(run, v) : v;
}
