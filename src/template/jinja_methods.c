/* The methods of values and the functions of templates. A value cannot be changed: append, pop,
 * update and the like are missing, as in jinja2's immutable sandbox. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "platform/clock.h"
#include "template/jinja_parts.h"

#define FUNCTION(name) \
    static value name(struct rf_jinja_run *run, value self, const struct arguments *arguments)
#define UNUSED (void)run, (void)self, (void)arguments
#define ARGUMENT(place, name, otherwise) rf_jinja_argument(arguments, place, name, otherwise)

/* A string argument. */
static value text_argument(struct rf_jinja_run *run, const struct arguments *arguments,
                           size_t place, const char *name)
{
    value v = ARGUMENT(place, name, rf_jinja_none());
    if (v.type == RF_JINJA_STRING) return v;
    rf_jinja_mistyped(run, "take as a text", v);
    return rf_jinja_text("");
}

/* ---- case ---- */

static int is_cased(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
           category == UTF8PROC_CATEGORY_LT;
}

/* Whether a word begins behind a character. */
static int begins_word(uint32_t before, enum letter_case to)
{
    if (to == CASE_TITLE) return !is_cased(before);
    return rf_jinja_is_space(before) || (before < 0x80 && before && strchr("-({[<", (int)before));
}

value rf_jinja_recase(struct rf_jinja_run *run, value string, enum letter_case to)
{
    struct output out = {0};
    struct rf_str text = rf_jinja_bytes(string);
    uint32_t before = ' ';
    for (size_t at = 0, length; at < text.bytes && !rf_jinja_steps(run, 1); at += length) {
        char changed[4];
        value shown;
        length = rf_jinja_char(text, at);
        shown = rf_jinja_cut(string, at, at + length);
        if (rf_utf8_length(text.data + at, length)) {
            uint32_t c = rf_utf8_decode(text.data + at, length);
            int upper = to == CASE_UPPER || (to == CASE_CAPITALIZED && at == 0) ||
                        (to >= CASE_TITLE && begins_word(before, to));
            before = c;
            utf8proc_int32_t mapped = upper ? utf8proc_toupper((utf8proc_int32_t)c)
                                            : utf8proc_tolower((utf8proc_int32_t)c);
            uint8_t origin = shown.origins ? shown.origins[0] : shown.origin;
            size_t n = rf_utf8_encode((uint32_t)mapped, changed);
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
    rf_jinja_steps(run, text.bytes / 32);
    for (size_t at = 0, length; at < text.bytes; at += length) {
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

FUNCTION(method_upper)
{
    UNUSED;
    return rf_jinja_recase(run, self, CASE_UPPER);
}

FUNCTION(method_lower)
{
    UNUSED;
    return rf_jinja_recase(run, self, CASE_LOWER);
}

FUNCTION(method_title)
{
    UNUSED;
    return rf_jinja_recase(run, self, CASE_TITLE);
}

FUNCTION(method_capitalize)
{
    UNUSED;
    return rf_jinja_recase(run, self, CASE_CAPITALIZED);
}

FUNCTION(method_isupper)
{
    UNUSED;
    return rf_jinja_bool(rf_jinja_has_case(run, self, 1));
}

FUNCTION(method_islower)
{
    UNUSED;
    return rf_jinja_bool(rf_jinja_has_case(run, self, 0));
}

/* ---- kinds of characters ---- */

static int is_digit(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_ND;
}

static int is_alpha(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

static int is_alnum(uint32_t c)
{
    return is_digit(c) || is_alpha(c);
}

int rf_jinja_is_word(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return c == '_' || is_alpha(c) ||
           (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

static value all_are(struct rf_jinja_run *run, value self, int (*is)(uint32_t))
{
    struct rf_str text = rf_jinja_bytes(self);
    rf_jinja_steps(run, text.bytes / 64);
    for (size_t at = 0, length; at < text.bytes; at += length) {
        length = rf_jinja_char(text, at);
        if (!rf_utf8_length(text.data + at, length) || !is(rf_utf8_decode(text.data + at, length)))
            return rf_jinja_bool(0);
    }
    return rf_jinja_bool(text.bytes != 0);
}

FUNCTION(method_isdigit)
{
    UNUSED;
    return all_are(run, self, is_digit);
}

FUNCTION(method_isalpha)
{
    UNUSED;
    return all_are(run, self, is_alpha);
}

FUNCTION(method_isalnum)
{
    UNUSED;
    return all_are(run, self, is_alnum);
}

FUNCTION(method_isspace)
{
    UNUSED;
    return all_are(run, self, rf_jinja_is_space);
}

/* ---- parts ---- */

static value strip(struct rf_jinja_run *run, value self, const struct arguments *arguments,
                   int left, int right)
{
    rf_jinja_steps(run, self.bytes / 64);
    return rf_jinja_strip(self, ARGUMENT(0, "", rf_jinja_none()), left, right);
}

FUNCTION(method_strip)
{
    return strip(run, self, arguments, 1, 1);
}

FUNCTION(method_lstrip)
{
    return strip(run, self, arguments, 1, 0);
}

FUNCTION(method_rstrip)
{
    return strip(run, self, arguments, 0, 1);
}

static int has_affix(struct rf_str text, struct rf_str affix, int at_end)
{
    return text.bytes >= affix.bytes &&
           (affix.bytes == 0 || memcmp(at_end ? text.data + text.bytes - affix.bytes : text.data,
                                       affix.data, affix.bytes) == 0);
}

/* startswith and endswith: one text, or a tuple of them. */
static value affix_test(struct rf_jinja_run *run, value self, const struct arguments *arguments,
                        int at_end)
{
    value wanted = ARGUMENT(0, "", rf_jinja_none());
    rf_jinja_steps(run, wanted.type == RF_JINJA_STRING ? wanted.bytes / 256 : 1);
    if (wanted.type != RF_JINJA_TUPLE)
        return rf_jinja_bool(has_affix(
            rf_jinja_bytes(self), rf_jinja_bytes(text_argument(run, arguments, 0, "")), at_end));
    for (size_t i = 0; i < wanted.u.list->n && !rf_jinja_steps(run, 1); i++)
        if (has_affix(rf_jinja_bytes(self), rf_jinja_bytes(wanted.u.list->items[i]), at_end))
            return rf_jinja_bool(1);
    return rf_jinja_bool(0);
}

FUNCTION(method_startswith)
{
    return affix_test(run, self, arguments, 0);
}

FUNCTION(method_endswith)
{
    return affix_test(run, self, arguments, 1);
}

FUNCTION(method_removeprefix)
{
    value prefix = text_argument(run, arguments, 0, "");
    int has = has_affix(rf_jinja_bytes(self), rf_jinja_bytes(prefix), 0);
    return has ? rf_jinja_cut(self, prefix.bytes, self.bytes) : self;
}

FUNCTION(method_removesuffix)
{
    value suffix = text_argument(run, arguments, 0, "");
    int has = has_affix(rf_jinja_bytes(self), rf_jinja_bytes(suffix), 1);
    return has ? rf_jinja_cut(self, 0, self.bytes - suffix.bytes) : self;
}

FUNCTION(method_replace)
{
    int64_t most = -1;
    rf_jinja_as_integer(ARGUMENT(2, "count", rf_jinja_none()), &most);
    value old = text_argument(run, arguments, 0, "old");
    return rf_jinja_replace(run, self, old, text_argument(run, arguments, 1, "new"), most);
}

/* The last place of a text before `end`; SIZE_MAX if there is none. */
static size_t search_back(struct rf_jinja_run *run, struct rf_str text, struct rf_str wanted,
                          size_t end)
{
    if (wanted.bytes > end) return SIZE_MAX;
    for (size_t at = end - wanted.bytes + 1; at-- > 0;) {
        if (wanted.bytes == 0 || memcmp(text.data + at, wanted.data, wanted.bytes) == 0) return at;
        if (at % 64 == 0 && rf_jinja_steps(run, 1 + wanted.bytes / 64)) break;
    }
    return SIZE_MAX;
}

static int64_t characters(struct rf_jinja_run *run, value string, size_t bytes)
{
    return rf_jinja_length(run, rf_jinja_cut(string, 0, bytes));
}

static value found_at(struct rf_jinja_run *run, value self, size_t at)
{
    return rf_jinja_integer(at == SIZE_MAX ? -1 : characters(run, self, at));
}

FUNCTION(method_find)
{
    struct rf_str wanted = rf_jinja_bytes(text_argument(run, arguments, 0, ""));
    return found_at(run, self, rf_jinja_search(run, rf_jinja_bytes(self), wanted, 0));
}

FUNCTION(method_rfind)
{
    struct rf_str wanted = rf_jinja_bytes(text_argument(run, arguments, 0, ""));
    return found_at(run, self, search_back(run, rf_jinja_bytes(self), wanted, self.bytes));
}

FUNCTION(method_index)
{
    value at = method_find(run, self, arguments);
    if (at.u.integer < 0) rf_jinja_fail(run, RF_ERR_ARGUMENT, "a text is not found");
    return at;
}

FUNCTION(method_count)
{
    struct rf_str wanted = rf_jinja_bytes(text_argument(run, arguments, 0, ""));
    int64_t n = 0;
    if (wanted.bytes == 0) return rf_jinja_integer(rf_jinja_length(run, self) + 1);
    for (size_t at = 0; !run->code; at += wanted.bytes, n++) {
        at = rf_jinja_search(run, rf_jinja_bytes(self), wanted, at);
        if (at == SIZE_MAX) break;
    }
    return rf_jinja_integer(n);
}

/* ---- splitting ---- */

/* At runs of white space, which also end words at both ends. */
static value split_words(struct rf_jinja_run *run, value self, int64_t most)
{
    value list = rf_jinja_list(run);
    value rest = rf_jinja_strip(self, rf_jinja_none(), 1, 0);
    while (rest.bytes && !rf_jinja_steps(run, 1)) {
        struct rf_str text = rf_jinja_bytes(rest);
        size_t end = 0;
        for (size_t length; end < text.bytes; end += length) {
            length = rf_jinja_char(text, end);
            if (rf_utf8_length(text.data + end, length) &&
                rf_jinja_is_space(rf_utf8_decode(text.data + end, length)))
                break;
        }
        if (most-- == 0) end = text.bytes;
        rf_jinja_add(run, list, rf_jinja_cut(rest, 0, end));
        rest = rf_jinja_strip(rf_jinja_cut(rest, end, text.bytes), rf_jinja_none(), 1, 0);
    }
    return list;
}

static value split_at(struct rf_jinja_run *run, value self, value separator, int64_t most)
{
    value list = rf_jinja_list(run);
    struct rf_str text = rf_jinja_bytes(self), wanted = rf_jinja_bytes(separator);
    size_t at = 0;
    if (wanted.bytes == 0) return rf_jinja_fail(run, RF_ERR_ARGUMENT, "a text is split at nothing");
    while (most-- != 0 && !run->code) {
        size_t found = rf_jinja_search(run, text, wanted, at);
        if (found == SIZE_MAX) break;
        rf_jinja_add(run, list, rf_jinja_cut(self, at, found));
        at = found + wanted.bytes;
    }
    rf_jinja_add(run, list, rf_jinja_cut(self, at, text.bytes));
    return list;
}

FUNCTION(method_split)
{
    value separator = ARGUMENT(0, "sep", rf_jinja_none());
    int64_t most = -1;
    rf_jinja_as_integer(ARGUMENT(1, "maxsplit", rf_jinja_none()), &most);
    if (most < 0) most = -1;
    if (separator.type == RF_JINJA_NONE) return split_words(run, self, most);
    return split_at(run, self, text_argument(run, arguments, 0, "sep"), most);
}

FUNCTION(method_rsplit)
{
    value separator = ARGUMENT(0, "sep", rf_jinja_none()), parts = rf_jinja_list(run);
    int64_t most = -1;
    rf_jinja_as_integer(ARGUMENT(1, "maxsplit", rf_jinja_none()), &most);
    if (most < 0) return method_split(run, self, arguments);
    struct rf_str text = rf_jinja_bytes(self);
    struct rf_str wanted = rf_jinja_bytes(text_argument(run, arguments, 0, "sep"));
    size_t end = text.bytes;
    if (separator.type == RF_JINJA_NONE || wanted.bytes == 0)
        return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "rsplit needs a separator");
    for (; most > 0 && !run->code; most--) {
        size_t at = search_back(run, text, wanted, end);
        if (at == SIZE_MAX) break;
        rf_jinja_add(run, parts, rf_jinja_cut(self, at + wanted.bytes, end));
        end = at;
    }
    rf_jinja_add(run, parts, rf_jinja_cut(self, 0, end));
    value list = rf_jinja_list(run);
    for (size_t i = run->code ? 0 : parts.u.list->n; i-- > 0;)
        rf_jinja_add(run, list, parts.u.list->items[i]);
    return list;
}

static value partition(struct rf_jinja_run *run, value self, value separator, size_t at, int last)
{
    value parts = rf_jinja_tuple(run), none = rf_jinja_text("");
    int found = at != SIZE_MAX;
    rf_jinja_add(run, parts, found ? rf_jinja_cut(self, 0, at) : last ? none : self);
    rf_jinja_add(run, parts, found ? separator : none);
    rf_jinja_add(run, parts,
                 found  ? rf_jinja_cut(self, at + separator.bytes, self.bytes)
                 : last ? self
                        : none);
    return parts;
}

FUNCTION(method_partition)
{
    value separator = text_argument(run, arguments, 0, "");
    size_t at = rf_jinja_search(run, rf_jinja_bytes(self), rf_jinja_bytes(separator), 0);
    return partition(run, self, separator, at, 0);
}

FUNCTION(method_rpartition)
{
    value separator = text_argument(run, arguments, 0, "");
    size_t at = search_back(run, rf_jinja_bytes(self), rf_jinja_bytes(separator), self.bytes);
    return partition(run, self, separator, at, 1);
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
    for (size_t at = 0, length; at < text.bytes && !run->code; at += length) {
        length = rf_jinja_char(text, at);
        if (at % 64 == 0) rf_jinja_steps(run, 1);
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

FUNCTION(method_splitlines)
{
    return rf_jinja_lines(run, self, rf_jinja_truth(ARGUMENT(0, "keepends", rf_jinja_bool(0))));
}

/* ---- joining and formatting ---- */

value rf_jinja_join(struct rf_jinja_run *run, value separator, value items)
{
    struct output out = {0};
    const struct rf_jinja_list *list = rf_jinja_iterate(run, items);
    for (size_t i = 0; list && i < list->n && !rf_jinja_steps(run, 1); i++) {
        if (i) rf_jinja_write(run, &out, separator);
        if (list->items[i].type != RF_JINJA_STRING)
            rf_jinja_mistyped(run, "join", list->items[i]);
        else
            rf_jinja_write(run, &out, list->items[i]);
    }
    return rf_jinja_written(run, &out);
}

FUNCTION(method_join)
{
    return rf_jinja_join(run, self, ARGUMENT(0, "", rf_jinja_none()));
}

/* One conversion of the % operator: `spec` is what lies between "%" and the letter. */
static void convert(struct rf_jinja_run *run, struct output *out, const char *spec, char letter,
                    value v)
{
    char format[24], text[512];
    double real = 0;
    if (letter == 's' && !spec[0]) {
        rf_jinja_write_str(run, out, v);
    } else if (letter == 'r' && !spec[0]) {
        rf_jinja_write_repr(run, out, v);
    } else if (strchr("dixX", letter) && rf_jinja_as_number(v, &real)) {
        int64_t integer = v.type == RF_JINJA_FLOAT ? (int64_t)real : v.u.integer;
        snprintf(format, sizeof format, "%%%s" PRId64, spec);
        format[strlen(format) - 1] = letter;
        snprintf(text, sizeof text, format, integer);
        rf_jinja_write_text(run, out, text);
    } else if (strchr("feg", letter) && rf_jinja_as_number(v, &real)) {
        snprintf(format, sizeof format, "%%%s%c", spec, letter);
        snprintf(text, sizeof text, format, real);
        rf_jinja_write_text(run, out, text);
    } else {
        rf_jinja_mistyped(run, "format", v);
    }
}

/* The format's % conversions: of texts, and of numbers with a width and a precision. */
value rf_jinja_format(struct rf_jinja_run *run, value format, const struct arguments *arguments)
{
    struct output out = {0};
    struct rf_str text = rf_jinja_bytes(format);
    size_t next = 0;
    for (size_t at = 0; at < text.bytes && !rf_jinja_steps(run, 1);) {
        size_t end = at;
        char spec[8];
        size_t n = 0;
        while (end < text.bytes && text.data[end] != '%') end++;
        rf_jinja_write(run, &out, rf_jinja_cut(format, at, end));
        if (end++ >= text.bytes) break;
        while (end < text.bytes && strchr("-+ 0.123456789", text.data[end]) && n < 6)
            spec[n++] = text.data[end++];
        spec[n] = 0;
        at = end + 1;
        if (end < text.bytes && text.data[end] == '%' && n == 0)
            rf_jinja_write_text(run, &out, "%");
        else if (end < text.bytes && text.data[end] && strchr("srdixXfeg", text.data[end]) &&
                 next < arguments->n && strlen(spec) < 5)
            convert(run, &out, spec, text.data[end], arguments->positional[next++]);
        else
            return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "a format is not known");
    }
    return rf_jinja_written(run, &out);
}

/* str.format with {}, {0} and {name}. */
FUNCTION(method_format)
{
    struct output out = {0};
    struct rf_str text = rf_jinja_bytes(self);
    size_t next = 0;
    for (size_t at = 0; at < text.bytes && !rf_jinja_steps(run, 1);) {
        size_t end = at;
        while (end < text.bytes && text.data[end] != '{' && text.data[end] != '}') end++;
        rf_jinja_write(run, &out, rf_jinja_cut(self, at, end));
        if (end >= text.bytes) break;
        if (end + 1 < text.bytes && text.data[end + 1] == text.data[end]) {
            rf_jinja_write(run, &out, rf_jinja_cut(self, end, end + 1));
            at = end + 2;
            continue;
        }
        size_t close = end + 1;
        while (close < text.bytes && text.data[close] != '}') close++;
        value name = rf_jinja_cut(self, end + 1, close), missing = {0}, v;
        size_t place = name.bytes == 0 ? next++ : SIZE_MAX;
        if (name.bytes && name.bytes < 9 && name.u.data[0] >= '0' && name.u.data[0] <= '9')
            place = (size_t)atoi(name.u.data);
        v = missing;
        if (place != SIZE_MAX) v = ARGUMENT(place, "", missing);
        for (size_t i = 0; place == SIZE_MAX && i < arguments->n_named; i++)
            if (rf_str_same(arguments->names[i], rf_jinja_bytes(name))) v = arguments->named[i];
        if (close >= text.bytes || v.type == RF_JINJA_UNDEFINED)
            return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "a format is not known");
        rf_jinja_write_str(run, &out, v);
        at = close + 1;
    }
    return rf_jinja_written(run, &out);
}

/* ---- dicts, lists and loops ---- */

FUNCTION(method_items)
{
    return rf_jinja_filter(rf_str_of("items"))->call(run, self, arguments);
}

FUNCTION(method_keys)
{
    UNUSED;
    return rf_jinja_filter(rf_str_of("list"))->call(run, self, arguments);
}

FUNCTION(method_values)
{
    UNUSED;
    value list = rf_jinja_list(run);
    for (size_t i = 0; i < self.u.dict->n && !run->code; i++)
        rf_jinja_add(run, list, self.u.dict->values[i]);
    return list;
}

FUNCTION(method_get)
{
    const value *found = rf_jinja_find(run, self.u.dict, ARGUMENT(0, "key", rf_jinja_none()));
    return found ? *found : ARGUMENT(1, "default", rf_jinja_none());
}

FUNCTION(method_list_index)
{
    value wanted = ARGUMENT(0, "", rf_jinja_none());
    for (size_t i = 0; i < self.u.list->n && !run->code; i++)
        if (rf_jinja_equal(run, self.u.list->items[i], wanted)) return rf_jinja_integer((int64_t)i);
    return rf_jinja_fail(run, RF_ERR_ARGUMENT, "an item is not found");
}

FUNCTION(method_list_count)
{
    value wanted = ARGUMENT(0, "", rf_jinja_none());
    int64_t n = 0;
    for (size_t i = 0; i < self.u.list->n && !run->code; i++)
        n += rf_jinja_equal(run, self.u.list->items[i], wanted);
    return rf_jinja_integer(n);
}

FUNCTION(method_cycle)
{
    if (arguments->n == 0) return rf_jinja_fail(run, RF_ERR_ARGUMENT, "a cycle has no items");
    return arguments->positional[self.u.loop->index % arguments->n];
}

FUNCTION(method_changed)
{
    value now = rf_jinja_tuple(run);
    for (size_t i = 0; i < arguments->n; i++) rf_jinja_add(run, now, arguments->positional[i]);
    int changed = !rf_jinja_equal(run, self.u.loop->changed, now);
    self.u.loop->changed = now;
    return rf_jinja_bool(changed);
}

const struct builtin *rf_jinja_method(value object, struct rf_str name)
{
    static const struct builtin of_string[] = {{"strip", method_strip},
                                               {"lstrip", method_lstrip},
                                               {"rstrip", method_rstrip},
                                               {"split", method_split},
                                               {"rsplit", method_rsplit},
                                               {"splitlines", method_splitlines},
                                               {"partition", method_partition},
                                               {"rpartition", method_rpartition},
                                               {"startswith", method_startswith},
                                               {"endswith", method_endswith},
                                               {"removeprefix", method_removeprefix},
                                               {"removesuffix", method_removesuffix},
                                               {"replace", method_replace},
                                               {"find", method_find},
                                               {"rfind", method_rfind},
                                               {"index", method_index},
                                               {"count", method_count},
                                               {"join", method_join},
                                               {"format", method_format},
                                               {"upper", method_upper},
                                               {"lower", method_lower},
                                               {"title", method_title},
                                               {"capitalize", method_capitalize},
                                               {"isupper", method_isupper},
                                               {"islower", method_islower},
                                               {"isdigit", method_isdigit},
                                               {"isnumeric", method_isdigit},
                                               {"isalpha", method_isalpha},
                                               {"isalnum", method_isalnum},
                                               {"isspace", method_isspace},
                                               {NULL, NULL}};
    static const struct builtin of_dict[] = {{"items", method_items},
                                             {"keys", method_keys},
                                             {"values", method_values},
                                             {"get", method_get},
                                             {NULL, NULL}};
    static const struct builtin of_list[] = {
        {"index", method_list_index}, {"count", method_list_count}, {NULL, NULL}};
    static const struct builtin of_loop[] = {
        {"cycle", method_cycle}, {"changed", method_changed}, {NULL, NULL}};
    static const struct builtin none[] = {{NULL, NULL}};
    const struct builtin *method = object.type == RF_JINJA_STRING ? of_string
                                   : object.type == RF_JINJA_DICT ? of_dict
                                   : rf_jinja_is_sequence(object) ? of_list
                                   : object.type == RF_JINJA_LOOP ? of_loop
                                                                  : none;
    for (; method->name; method++)
        if (rf_str_is(name, method->name)) return method;
    return NULL;
}

/* ---- functions ---- */

enum { MAX_RANGE = 100000 }; /* of jinja2's sandbox */

FUNCTION(global_range)
{
    int64_t bounds[3] = {0, 0, 1};
    value list = rf_jinja_list(run);
    for (size_t i = 0; i < arguments->n && i < 3; i++)
        if (!rf_jinja_as_integer(arguments->positional[i], &bounds[i]))
            return rf_jinja_mistyped(run, "count to", arguments->positional[i]);
    (void)self;
    if (arguments->n == 1) {
        bounds[1] = bounds[0];
        bounds[0] = 0;
    }
    if (arguments->n == 0 || arguments->n > 3 || bounds[2] == 0)
        return rf_jinja_fail(run, RF_ERR_ARGUMENT, "a range is wrong");
    int up = bounds[2] > 0;
    for (int64_t i = bounds[0]; (up ? i < bounds[1] : i > bounds[1]) && !rf_jinja_steps(run, 1);) {
        if (list.u.list->n == MAX_RANGE)
            return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "a range is too long");
        rf_jinja_add(run, list, rf_jinja_integer(i));
        if (__builtin_add_overflow(i, bounds[2], &i)) break;
    }
    return list;
}

FUNCTION(global_dict)
{
    value dict = rf_jinja_dict(run), first = ARGUMENT(0, "", rf_jinja_none());
    (void)self;
    if (dict.type != RF_JINJA_DICT) return dict;
    if (first.type == RF_JINJA_DICT)
        for (size_t i = 0; i < first.u.dict->n && !run->code; i++)
            rf_jinja_insert(run, dict.u.dict, first.u.dict->keys[i], first.u.dict->values[i]);
    else if (first.type != RF_JINJA_NONE)
        return rf_jinja_mistyped(run, "make a dict of", first);
    for (size_t i = 0; i < arguments->n_named && !run->code; i++)
        rf_jinja_insert(run, dict.u.dict, rf_jinja_string(arguments->names[i], 0),
                        arguments->named[i]);
    return dict;
}

FUNCTION(global_namespace)
{
    value dict = global_dict(run, self, arguments);
    if (dict.type == RF_JINJA_DICT) dict.type = RF_JINJA_NAMESPACE;
    return dict;
}

/* self: [separator, whether a call came before]. */
FUNCTION(call_joiner)
{
    value *state = self.u.list->items;
    int used = rf_jinja_truth(state[1]);
    (void)run, (void)arguments;
    state[1] = rf_jinja_bool(1);
    return used ? state[0] : rf_jinja_text("");
}

FUNCTION(global_joiner)
{
    static const struct builtin joiner = {"joiner", call_joiner};
    (void)self;
    value state = rf_jinja_list(run);
    rf_jinja_add(run, state, ARGUMENT(0, "sep", rf_jinja_text(", ")));
    rf_jinja_add(run, state, rf_jinja_bool(0));
    return run->code ? (value){0} : rf_jinja_function(run, &joiner, state);
}

/* self: [the cycler, its items, the place of the current one]. Moves there. */
static value cycle_to(struct rf_jinja_run *run, value self, int64_t at)
{
    value *state = self.u.list->items;
    const struct rf_jinja_list *items = state[1].u.list;
    state[2] = rf_jinja_integer(at % (int64_t)items->n);
    rf_jinja_insert(run, state[0].u.dict, rf_jinja_text("current"),
                    items->items[state[2].u.integer]);
    return rf_jinja_none();
}

FUNCTION(call_cycler_next)
{
    const value *state = self.u.list->items;
    value current = state[1].u.list->items[state[2].u.integer];
    (void)arguments;
    cycle_to(run, self, state[2].u.integer + 1);
    return current;
}

FUNCTION(call_cycler_reset)
{
    (void)arguments;
    return cycle_to(run, self, 0);
}

FUNCTION(global_cycler)
{
    static const struct builtin next = {"next", call_cycler_next},
                                reset = {"reset", call_cycler_reset};
    value cycler = rf_jinja_dict(run), state = rf_jinja_list(run), items = rf_jinja_list(run);
    (void)self;
    if (arguments->n == 0) return rf_jinja_fail(run, RF_ERR_ARGUMENT, "a cycler has no items");
    for (size_t i = 0; i < arguments->n && !run->code; i++)
        rf_jinja_add(run, items, arguments->positional[i]);
    cycler.type = RF_JINJA_NAMESPACE;
    rf_jinja_add(run, state, cycler);
    rf_jinja_add(run, state, items);
    rf_jinja_add(run, state, rf_jinja_integer(0));
    if (run->code) return (value){0};
    cycle_to(run, state, 0);
    rf_jinja_insert(run, cycler.u.dict, rf_jinja_text("next"),
                    rf_jinja_function(run, &next, state));
    rf_jinja_insert(run, cycler.u.dict, rf_jinja_text("reset"),
                    rf_jinja_function(run, &reset, state));
    return cycler;
}

FUNCTION(global_raise_exception)
{
    struct rf_str text = rf_jinja_bytes(rf_jinja_str(run, ARGUMENT(0, "message", rf_jinja_none())));
    (void)self;
    return rf_jinja_fail(run, RF_ERR_ARGUMENT, "%.*s", rf_shown_up_to(text, 350), text.data);
}

FUNCTION(global_strftime_now)
{
    char format[64], text[256];
    struct rf_str wanted = rf_jinja_bytes(text_argument(run, arguments, 0, "format"));
    (void)self;
    if (wanted.bytes >= sizeof format)
        return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "a format of dates is too long");
    memcpy(format, wanted.data, wanted.bytes);
    format[wanted.bytes] = 0;
    struct output out = {0};
    size_t n = rf_clock_format(run->now, format, text, sizeof text);
    rf_jinja_write(run, &out, rf_jinja_string((struct rf_str){text, n}, 0));
    return rf_jinja_written(run, &out);
}

const struct builtin *rf_jinja_global(struct rf_str name)
{
    static const struct builtin globals[] = {{"range", global_range},
                                             {"dict", global_dict},
                                             {"namespace", global_namespace},
                                             {"joiner", global_joiner},
                                             {"cycler", global_cycler},
                                             {"raise_exception", global_raise_exception},
                                             {"strftime_now", global_strftime_now}};
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
        if (rf_str_is(name, globals[i].name)) return &globals[i];
    return NULL;
}
