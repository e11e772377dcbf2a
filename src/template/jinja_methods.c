/* The methods of strings. None changes its string; of HTML they make HTML, as markupsafe's do.
 * jinja_attribute.c finds them by name. */
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "template/jinja_functions.h"

/* ---- case ---- */

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

FUNCTION(method_casefold)
{
    UNUSED;
    return rf_jinja_recase(run, self, CASE_FOLD);
}

FUNCTION(method_swapcase)
{
    UNUSED;
    return rf_jinja_recase(run, self, CASE_SWAPPED);
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

/* A title: every word begins with a capital and goes on in small letters. */
FUNCTION(method_istitle)
{
    UNUSED;
    value title = rf_jinja_recase(run, self, CASE_TITLE);
    value lower = rf_jinja_recase(run, self, CASE_LOWER);
    return rf_jinja_bool(rf_jinja_equal(run, title, self) && !rf_jinja_equal(run, lower, self));
}

/* ---- kinds of characters ---- */

static int is_decimal(uint32_t c)
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
    return is_decimal(c) || is_alpha(c);
}

static value all_are(struct rf_jinja_run *run, value self, int (*is)(uint32_t))
{
    struct rf_str text = rf_jinja_bytes(self);
    for (size_t at = 0, length; at < text.bytes && !rf_jinja_charge(run, RF_JINJA_ITEM);
         at += length) {
        length = rf_jinja_char(text, at);
        if (!rf_utf8_length(text.data + at, length) || !is(rf_utf8_decode(text.data + at, length)))
            return rf_jinja_bool(0);
    }
    return rf_jinja_bool(text.bytes != 0);
}

FUNCTION(method_isdecimal)
{
    UNUSED;
    return all_are(run, self, is_decimal);
}

/* Also digits that no decimal number has, such as raised and circled ones. */
static int is_digit(uint32_t c)
{
    return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || (c >= 0x1369 && c <= 0x1371) ||
           c == 0x19da || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
           (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) ||
           (c >= 0x2474 && c <= 0x247c) || (c >= 0x2488 && c <= 0x2490) || c == 0x24ea ||
           (c >= 0x24f5 && c <= 0x24fd) || c == 0x24ff || (c >= 0x2776 && c <= 0x277e) ||
           (c >= 0x2780 && c <= 0x2788) || (c >= 0x278a && c <= 0x2792) ||
           (c >= 0x10a40 && c <= 0x10a43) || (c >= 0x10e60 && c <= 0x10e68) ||
           (c >= 0x11052 && c <= 0x1105a) || (c >= 0x1f100 && c <= 0x1f10a);
}

FUNCTION(method_isdigit)
{
    UNUSED;
    return all_are(run, self, is_digit);
}

static int is_numeric(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return is_decimal(c) || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

FUNCTION(method_isnumeric)
{
    UNUSED;
    return all_are(run, self, is_numeric);
}

static int is_ascii(uint32_t c)
{
    return c < 0x80;
}

FUNCTION(method_isascii)
{
    UNUSED;
    return self.bytes ? all_are(run, self, is_ascii) : rf_jinja_bool(1);
}

FUNCTION(method_isidentifier)
{
    UNUSED;
    int digit = self.bytes && self.u.data[0] >= '0' && self.u.data[0] <= '9';
    return digit ? rf_jinja_bool(0) : all_are(run, self, rf_jinja_is_word);
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
    return rf_jinja_strip(run, self, ARGUMENT(0, "", rf_jinja_none()), left, right);
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

/* The part of a string that "start" and "end", at a place of the arguments and behind it, choose by
 * characters; *inside is 0 where `start` lies behind the end, where nothing is found. */
static value chosen_part(struct rf_jinja_run *run, value self, const struct arguments *arguments,
                         size_t place, size_t *from, int *inside)
{
    struct rf_str text = rf_jinja_bytes(self);
    int64_t n, bounds[2] = {0, INT64_MAX};
    *from = 0;
    *inside = 1;
    if (arguments->n <= place) return self;
    n = rf_jinja_length(run, self);
    for (size_t i = 0; i < 2 && place + i < arguments->n; i++)
        rf_jinja_as_integer(arguments->positional[place + i], &bounds[i]);
    for (int i = 0; i < 2; i++)
        if (bounds[i] < 0) bounds[i] = bounds[i] < -n ? 0 : bounds[i] + n;
    *inside = bounds[0] <= n && bounds[0] <= bounds[1];
    rf_jinja_charge(run, text.bytes * RF_JINJA_KEY);
    for (int64_t i = 0; i < bounds[0] && *from < text.bytes; i++)
        *from += rf_jinja_char(text, *from);
    size_t to = *from;
    for (int64_t i = bounds[0]; i < bounds[1] && to < text.bytes; i++)
        to += rf_jinja_char(text, to);
    return rf_jinja_cut(self, *from, to);
}

/* startswith and endswith: one text, or a tuple of them. */
static value affix_test(struct rf_jinja_run *run, value self, const struct arguments *arguments,
                        int at_end)
{
    value wanted = ARGUMENT(0, "", rf_jinja_none());
    size_t from;
    int inside;
    value part = chosen_part(run, self, arguments, 1, &from, &inside);
    if (wanted.type != RF_JINJA_TUPLE) {
        struct rf_str affix = rf_jinja_bytes(rf_jinja_text_argument(run, arguments, 0, ""));
        rf_jinja_charge(run, affix.bytes);
        return rf_jinja_bool(inside && has_affix(rf_jinja_bytes(part), affix, at_end));
    }
    for (size_t i = 0; i < wanted.u.list->n && !run->code; i++) {
        if (wanted.u.list->items[i].type != RF_JINJA_STRING)
            return rf_jinja_mistyped(run, "take as a text", wanted.u.list->items[i]);
        struct rf_str affix = rf_jinja_bytes(wanted.u.list->items[i]);
        if (rf_jinja_charge(run, RF_JINJA_KEY + affix.bytes)) break;
        if (inside && has_affix(rf_jinja_bytes(part), affix, at_end)) return rf_jinja_bool(1);
    }
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
    value prefix = rf_jinja_text_argument(run, arguments, 0, "");
    rf_jinja_charge(run, prefix.bytes);
    int has = has_affix(rf_jinja_bytes(self), rf_jinja_bytes(prefix), 0);
    return has ? rf_jinja_cut(self, prefix.bytes, self.bytes) : self;
}

FUNCTION(method_removesuffix)
{
    value suffix = rf_jinja_text_argument(run, arguments, 0, "");
    rf_jinja_charge(run, suffix.bytes);
    int has = has_affix(rf_jinja_bytes(self), rf_jinja_bytes(suffix), 1);
    return has ? rf_jinja_cut(self, 0, self.bytes - suffix.bytes) : self;
}

FUNCTION(method_replace)
{
    int64_t most = -1;
    rf_jinja_as_integer(ARGUMENT(2, "count", rf_jinja_none()), &most);
    value old = rf_jinja_text_argument(run, arguments, 0, "old");
    value with = rf_jinja_text_argument(run, arguments, 1, "new");
    return rf_jinja_replace(run, self, old, rf_jinja_beside(run, with, self), most);
}

/* The last place of a text before `end`; SIZE_MAX if there is none. */
static size_t search_back(struct rf_jinja_run *run, struct rf_str text, struct rf_str wanted,
                          size_t end)
{
    if (wanted.bytes > end) return SIZE_MAX;
    for (size_t at = end - wanted.bytes + 1; at-- > 0;) {
        size_t same = 0;
        while (same < wanted.bytes && text.data[at + same] == wanted.data[same]) same++;
        if (same == wanted.bytes) return at;
        if (rf_jinja_charge(run, 1 + same)) break;
    }
    return SIZE_MAX;
}

static int64_t count_characters(struct rf_jinja_run *run, value string, size_t bytes)
{
    return rf_jinja_length(run, rf_jinja_cut(string, 0, bytes));
}

static value found_at(struct rf_jinja_run *run, value self, size_t at)
{
    return rf_jinja_integer(at == SIZE_MAX ? -1 : count_characters(run, self, at));
}

/* The place of a text in the part that the arguments choose; -1: none. */
static value find_text(struct rf_jinja_run *run, value self, const struct arguments *arguments,
                       int last)
{
    struct rf_str wanted = rf_jinja_bytes(rf_jinja_text_argument(run, arguments, 0, ""));
    size_t from, at = SIZE_MAX;
    int inside;
    value part = chosen_part(run, self, arguments, 1, &from, &inside);
    struct rf_str text = rf_jinja_bytes(part);
    if (inside)
        at = last ? search_back(run, text, wanted, text.bytes)
                  : rf_jinja_search(run, text, wanted, 0);
    return found_at(run, self, at == SIZE_MAX ? at : from + at);
}

FUNCTION(method_find)
{
    return find_text(run, self, arguments, 0);
}

FUNCTION(method_rfind)
{
    return find_text(run, self, arguments, 1);
}

static value must_be_found(struct rf_jinja_run *run, value at)
{
    if (at.u.integer < 0) rf_jinja_fail(run, RF_ERR_ARGUMENT, "a text is not found");
    return at;
}

FUNCTION(method_index)
{
    return must_be_found(run, find_text(run, self, arguments, 0));
}

FUNCTION(method_rindex)
{
    return must_be_found(run, find_text(run, self, arguments, 1));
}

FUNCTION(method_count)
{
    struct rf_str wanted = rf_jinja_bytes(rf_jinja_text_argument(run, arguments, 0, ""));
    int64_t n = 0;
    size_t from;
    int inside;
    value part = chosen_part(run, self, arguments, 1, &from, &inside);
    if (!inside) return rf_jinja_integer(0);
    if (wanted.bytes == 0) return rf_jinja_integer(rf_jinja_length(run, part) + 1);
    for (size_t at = 0; !run->code; at += wanted.bytes, n++) {
        at = rf_jinja_search(run, rf_jinja_bytes(part), wanted, at);
        if (at == SIZE_MAX) break;
    }
    return rf_jinja_integer(n);
}

/* ---- splitting ---- */

/* Splits at runs of white space; white space at either end makes no empty word. */
static value split_words(struct rf_jinja_run *run, value self, int64_t most)
{
    value list = rf_jinja_list(run);
    value rest = rf_jinja_strip(run, self, rf_jinja_none(), 1, 0);
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
        rf_jinja_charge(run, end * RF_JINJA_KEY);
        rest = rf_jinja_strip(run, rf_jinja_cut(rest, end, text.bytes), rf_jinja_none(), 1, 0);
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
    return split_at(run, self, rf_jinja_text_argument(run, arguments, 0, "sep"), most);
}

static value reversed(struct rf_jinja_run *run, value parts)
{
    value list = rf_jinja_list(run);
    for (size_t i = run->code ? 0 : parts.u.list->n; i-- > 0;)
        rf_jinja_add(run, list, parts.u.list->items[i]);
    return list;
}

/* Splits off words at the end; white space at either end makes no empty word. */
static value split_words_back(struct rf_jinja_run *run, value self, int64_t most)
{
    value parts = rf_jinja_list(run);
    value rest = rf_jinja_strip(run, self, rf_jinja_none(), 0, 1);
    for (; rest.bytes && !rf_jinja_steps(run, 1); most--) {
        struct rf_str text = rf_jinja_bytes(rest);
        size_t begin = most ? text.bytes : 0;
        while (begin > 0 &&
               rf_jinja_strip(NULL, rf_jinja_cut(rest, 0, begin), rf_jinja_none(), 0, 1).bytes ==
                   begin)
            begin--;
        rf_jinja_add(run, parts, rf_jinja_cut(rest, most ? begin : 0, rest.bytes));
        if (most == 0) break;
        rf_jinja_charge(run, 4 * RF_JINJA_ITEM * (text.bytes - begin));
        rest = rf_jinja_strip(run, rf_jinja_cut(rest, 0, begin), rf_jinja_none(), 0, 1);
    }
    return reversed(run, parts);
}

FUNCTION(method_rsplit)
{
    value separator = ARGUMENT(0, "sep", rf_jinja_none()), parts = rf_jinja_list(run);
    int64_t most = -1;
    rf_jinja_as_integer(ARGUMENT(1, "maxsplit", rf_jinja_none()), &most);
    if (most < 0) return method_split(run, self, arguments);
    if (separator.type == RF_JINJA_NONE) return split_words_back(run, self, most);
    struct rf_str text = rf_jinja_bytes(self);
    struct rf_str wanted = rf_jinja_bytes(rf_jinja_text_argument(run, arguments, 0, "sep"));
    size_t end = text.bytes;
    if (wanted.bytes == 0) return rf_jinja_fail(run, RF_ERR_ARGUMENT, "a text is split at nothing");
    for (; most > 0 && !run->code; most--) {
        size_t at = search_back(run, text, wanted, end);
        if (at == SIZE_MAX) break;
        rf_jinja_add(run, parts, rf_jinja_cut(self, at + wanted.bytes, end));
        end = at;
    }
    rf_jinja_add(run, parts, rf_jinja_cut(self, 0, end));
    return reversed(run, parts);
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
    value separator = rf_jinja_text_argument(run, arguments, 0, "");
    size_t at = rf_jinja_search(run, rf_jinja_bytes(self), rf_jinja_bytes(separator), 0);
    return partition(run, self, separator, at, 0);
}

FUNCTION(method_rpartition)
{
    value separator = rf_jinja_text_argument(run, arguments, 0, "");
    size_t at = search_back(run, rf_jinja_bytes(self), rf_jinja_bytes(separator), self.bytes);
    return partition(run, self, separator, at, 1);
}

FUNCTION(method_splitlines)
{
    return rf_jinja_lines(run, self, rf_jinja_truth(ARGUMENT(0, "keepends", rf_jinja_bool(0))));
}

/* ---- joining and formatting ---- */

FUNCTION(method_join)
{
    return rf_jinja_join(run, self, ARGUMENT(0, "", rf_jinja_none()));
}

FUNCTION(method_format)
{
    return rf_jinja_format(run, self, arguments);
}

FUNCTION(method_format_map)
{
    value map = ARGUMENT(0, "", rf_jinja_none());
    struct arguments named = {0};
    if (map.type != RF_JINJA_DICT) return rf_jinja_mistyped(run, "format with", map);
    named.names = rf_jinja_take(run, map.u.dict->n + 1, sizeof *named.names);
    named.named = map.u.dict->values;
    if (run->code) return (value){0};
    for (; named.n_named < map.u.dict->n; named.n_named++)
        named.names[named.n_named] = rf_jinja_bytes(map.u.dict->keys[named.n_named]);
    return rf_jinja_format(run, self, &named);
}

/* center, ljust and rjust. */
static value padded(struct rf_jinja_run *run, value self, const struct arguments *arguments,
                    int before, int after)
{
    int64_t width = 0;
    value fill = ARGUMENT(1, "", rf_jinja_text(" "));
    if (!rf_jinja_as_integer(ARGUMENT(0, "", rf_jinja_none()), &width) ||
        fill.type != RF_JINJA_STRING || rf_jinja_length(run, fill) != 1)
        return rf_jinja_mistyped(run, "fill a text up with", fill);
    return rf_jinja_pad(run, self, width, rf_jinja_beside(run, fill, self), before, after);
}

FUNCTION(method_center)
{
    return padded(run, self, arguments, 1, 1);
}

FUNCTION(method_ljust)
{
    return padded(run, self, arguments, 0, 1);
}

FUNCTION(method_rjust)
{
    return padded(run, self, arguments, 1, 0);
}

FUNCTION(method_zfill)
{
    int64_t width = 0;
    size_t sign = self.bytes && (self.u.data[0] == '-' || self.u.data[0] == '+') ? 1 : 0;
    struct output out = {0};
    rf_jinja_as_integer(ARGUMENT(0, "", rf_jinja_none()), &width);
    rf_jinja_write(run, &out, rf_jinja_cut(self, 0, sign));
    rf_jinja_write(run, &out,
                   rf_jinja_pad(run, rf_jinja_cut(self, sign, self.bytes), width - (int64_t)sign,
                                rf_jinja_text("0"), 1, 0));
    return rf_jinja_written(run, &out);
}

FUNCTION(method_expandtabs)
{
    int64_t size = 8, column = 0;
    struct output out = {0};
    struct rf_str text = rf_jinja_bytes(self);
    rf_jinja_as_integer(ARGUMENT(0, "tabsize", rf_jinja_none()), &size);
    for (size_t at = 0, length; at < text.bytes && !rf_jinja_charge(run, RF_JINJA_ITEM);
         at += length) {
        length = rf_jinja_char(text, at);
        if (text.data[at] == '\t') {
            int64_t room = size > 0 ? size - column % size : 0;
            column += room;
            for (; room > 0 && !run->code; room--) rf_jinja_write_text(run, &out, " ");
            continue;
        }
        column = text.data[at] == '\n' || text.data[at] == '\r' ? 0 : column + 1;
        rf_jinja_write(run, &out, rf_jinja_cut(self, at, at + length));
    }
    return rf_jinja_written(run, &out);
}

#define HTML BUILTIN_KEEPS_HTML
const struct builtin rf_jinja_string_methods[] = {
    {"strip", method_strip, HTML | BUILTIN_CONSTANT},
    {"lstrip", method_lstrip, HTML | BUILTIN_CONSTANT},
    {"rstrip", method_rstrip, HTML | BUILTIN_CONSTANT},
    {"split", method_split, HTML},
    {"rsplit", method_rsplit, HTML},
    {"splitlines", method_splitlines, HTML},
    {"partition", method_partition, HTML},
    {"rpartition", method_rpartition, HTML},
    {"startswith", method_startswith, BUILTIN_CONSTANT},
    {"endswith", method_endswith, BUILTIN_CONSTANT},
    {"removeprefix", method_removeprefix, HTML | BUILTIN_CONSTANT},
    {"removesuffix", method_removesuffix, HTML | BUILTIN_CONSTANT},
    {"replace", method_replace, HTML},
    {"find", method_find, 0},
    {"rfind", method_rfind, 0},
    {"index", method_index, 0},
    {"rindex", method_rindex, 0},
    {"count", method_count, 0},
    {"join", method_join, HTML},
    {"format", method_format, HTML},
    {"format_map", method_format_map, HTML},
    {"center", method_center, HTML},
    {"ljust", method_ljust, HTML},
    {"rjust", method_rjust, HTML},
    {"zfill", method_zfill, HTML},
    {"expandtabs", method_expandtabs, HTML},
    {"upper", method_upper, HTML},
    {"lower", method_lower, HTML},
    {"casefold", method_casefold, HTML},
    {"swapcase", method_swapcase, HTML},
    {"title", method_title, HTML},
    {"capitalize", method_capitalize, HTML},
    {"isupper", method_isupper, 0},
    {"islower", method_islower, 0},
    {"istitle", method_istitle, 0},
    {"isascii", method_isascii, 0},
    {"isdecimal", method_isdecimal, 0},
    {"isdigit", method_isdigit, 0},
    {"isnumeric", method_isnumeric, 0},
    {"isalpha", method_isalpha, 0},
    {"isalnum", method_isalnum, 0},
    {"isspace", method_isspace, 0},
    {"isidentifier", method_isidentifier, 0},
    {NULL, NULL, 0}};
