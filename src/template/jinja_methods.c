/* Attributes, items and methods of values. No method changes a value: append, pop, update and the
 * like are missing, as in jinja2's immutable sandbox. The interpreter (jinja_eval.c) and filters
 * that take an attribute's name call rf_jinja_attribute. */
#include <stdlib.h>
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
    return all_are(run, self, is_decimal);
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
        return rf_jinja_bool(
            has_affix(rf_jinja_bytes(self),
                      rf_jinja_bytes(rf_jinja_text_argument(run, arguments, 0, "")), at_end));
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
    value prefix = rf_jinja_text_argument(run, arguments, 0, "");
    int has = has_affix(rf_jinja_bytes(self), rf_jinja_bytes(prefix), 0);
    return has ? rf_jinja_cut(self, prefix.bytes, self.bytes) : self;
}

FUNCTION(method_removesuffix)
{
    value suffix = rf_jinja_text_argument(run, arguments, 0, "");
    int has = has_affix(rf_jinja_bytes(self), rf_jinja_bytes(suffix), 1);
    return has ? rf_jinja_cut(self, 0, self.bytes - suffix.bytes) : self;
}

FUNCTION(method_replace)
{
    int64_t most = -1;
    rf_jinja_as_integer(ARGUMENT(2, "count", rf_jinja_none()), &most);
    value old = rf_jinja_text_argument(run, arguments, 0, "old");
    return rf_jinja_replace(run, self, old, rf_jinja_text_argument(run, arguments, 1, "new"), most);
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

static int64_t count_characters(struct rf_jinja_run *run, value string, size_t bytes)
{
    return rf_jinja_length(run, rf_jinja_cut(string, 0, bytes));
}

static value found_at(struct rf_jinja_run *run, value self, size_t at)
{
    return rf_jinja_integer(at == SIZE_MAX ? -1 : count_characters(run, self, at));
}

FUNCTION(method_find)
{
    struct rf_str wanted = rf_jinja_bytes(rf_jinja_text_argument(run, arguments, 0, ""));
    return found_at(run, self, rf_jinja_search(run, rf_jinja_bytes(self), wanted, 0));
}

FUNCTION(method_rfind)
{
    struct rf_str wanted = rf_jinja_bytes(rf_jinja_text_argument(run, arguments, 0, ""));
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
    struct rf_str wanted = rf_jinja_bytes(rf_jinja_text_argument(run, arguments, 0, ""));
    int64_t n = 0;
    if (wanted.bytes == 0) return rf_jinja_integer(rf_jinja_length(run, self) + 1);
    for (size_t at = 0; !run->code; at += wanted.bytes, n++) {
        at = rf_jinja_search(run, rf_jinja_bytes(self), wanted, at);
        if (at == SIZE_MAX) break;
    }
    return rf_jinja_integer(n);
}

/* ---- splitting ---- */

/* Splits at runs of white space; white space at either end makes no empty word. */
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
    return split_at(run, self, rf_jinja_text_argument(run, arguments, 0, "sep"), most);
}

FUNCTION(method_rsplit)
{
    value separator = ARGUMENT(0, "sep", rf_jinja_none()), parts = rf_jinja_list(run);
    int64_t most = -1;
    rf_jinja_as_integer(ARGUMENT(1, "maxsplit", rf_jinja_none()), &most);
    if (most < 0) return method_split(run, self, arguments);
    struct rf_str text = rf_jinja_bytes(self);
    struct rf_str wanted = rf_jinja_bytes(rf_jinja_text_argument(run, arguments, 0, "sep"));
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
    UNUSED;
    return rf_jinja_items(run, self.u.dict);
}

FUNCTION(method_keys)
{
    UNUSED;
    struct rf_jinja_list *keys = rf_jinja_iterate(run, self);
    return keys ? (value){.type = RF_JINJA_LIST, .u.list = keys} : (value){0};
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

/* The method of a type; NULL if there is none. */
static const struct builtin *find_method(value object, struct rf_str name)
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

/* ---- attributes and items ---- */

static value loop_attribute(struct rf_jinja_run *run, const struct rf_jinja_loop *loop, value self,
                            struct rf_str name)
{
    int64_t index = (int64_t)loop->index, n = (int64_t)loop->items->n;
    const struct {
        const char *name;
        value v;
    } known[] = {
        {"index", rf_jinja_integer(index + 1)},    {"index0", rf_jinja_integer(index)},
        {"revindex", rf_jinja_integer(n - index)}, {"revindex0", rf_jinja_integer(n - index - 1)},
        {"first", rf_jinja_bool(index == 0)},      {"last", rf_jinja_bool(index == n - 1)},
        {"length", rf_jinja_integer(n)},           {"depth", rf_jinja_integer(loop->depth + 1)},
        {"depth0", rf_jinja_integer(loop->depth)}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (rf_str_is(name, known[i].name)) return known[i].v;
    if (rf_str_is(name, "previtem") && index > 0) return loop->items->items[index - 1];
    if (rf_str_is(name, "nextitem") && index + 1 < n) return loop->items->items[index + 1];
    const struct builtin *method = find_method(self, name);
    return method ? rf_jinja_function(run, method, self) : rf_jinja_undefined(name);
}

static value sequence_item(struct rf_jinja_run *run, value object, int64_t index)
{
    if (object.type == RF_JINJA_STRING) {
        struct rf_str text = rf_jinja_bytes(object);
        if (index < 0) index += rf_jinja_length(run, object);
        size_t at = 0;
        rf_jinja_steps(run, text.bytes / 256);
        for (; index > 0 && at < text.bytes; index--) at += rf_jinja_char(text, at);
        if (index == 0 && at < text.bytes)
            return rf_jinja_cut(object, at, at + rf_jinja_char(text, at));
    } else {
        int64_t n = (int64_t)object.u.list->n;
        if (index < 0) index += n;
        if (index >= 0 && index < n) return object.u.list->items[index];
    }
    return rf_jinja_undefined(rf_str_of("an item beyond the end"));
}

/* object.name and object[name]: methods come first after a dot, items in brackets. */
value rf_jinja_attribute(struct rf_jinja_run *run, value object, value name, int dot_first)
{
    struct rf_str text = rf_jinja_bytes(name);
    const struct builtin *method = name.type == RF_JINJA_STRING ? find_method(object, text) : NULL;
    const value *member = NULL;
    int64_t index;
    if (object.type == RF_JINJA_UNDEFINED) return rf_jinja_mistyped(run, "look into", object);
    if (object.type == RF_JINJA_LOOP) return loop_attribute(run, object.u.loop, object, text);
    if (method && dot_first) return rf_jinja_function(run, method, object);
    if (object.type == RF_JINJA_DICT || object.type == RF_JINJA_NAMESPACE)
        member = rf_jinja_find(run, object.u.dict, name);
    else if ((rf_jinja_is_sequence(object) || object.type == RF_JINJA_STRING) &&
             rf_jinja_as_integer(name, &index))
        return sequence_item(run, object, index);
    if (member) return *member;
    return method ? rf_jinja_function(run, method, object) : rf_jinja_undefined(text);
}
