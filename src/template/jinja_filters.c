/* The filters and tests of templates, found by name when a template is parsed. Filters read values
 * and make new ones; none changes its subject. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "template/jinja_functions.h"

static const struct builtin *find_builtin(const struct builtin *table, size_t n, struct rf_str name)
{
    for (size_t i = 0; i < n; i++)
        if (rf_str_is(name, table[i].name)) return &table[i];
    return NULL;
}

FUNCTION(filter_tojson)
{
    struct json_style style = {.indent = -1};
    struct output out = {0};
    value indent = ARGUMENT(1, "indent", rf_jinja_none());
    value separators = ARGUMENT(2, "separators", rf_jinja_none());
    style.ascii = rf_jinja_truth(ARGUMENT(0, "ensure_ascii", rf_jinja_bool(0)));
    style.sorted = rf_jinja_truth(ARGUMENT(3, "sort_keys", rf_jinja_bool(0)));
    if (indent.type != RF_JINJA_NONE &&
        (!rf_jinja_as_integer(indent, &style.indent) || style.indent < 0 || style.indent > 64))
        return rf_jinja_mistyped(run, "indent JSON by", indent);
    style.item_separator = rf_jinja_text(style.indent < 0 ? ", " : ",");
    style.key_separator = rf_jinja_text(": ");
    if (separators.type != RF_JINJA_NONE) {
        if (!rf_jinja_is_sequence(separators) || separators.u.list->n != 2)
            return rf_jinja_mistyped(run, "separate JSON by", separators);
        style.item_separator = rf_jinja_str(run, separators.u.list->items[0]);
        style.key_separator = rf_jinja_str(run, separators.u.list->items[1]);
    }
    rf_jinja_write_json(run, &out, self, &style);
    return rf_jinja_written(run, &out);
}

/* ---- texts ---- */

FUNCTION(filter_trim)
{
    value text = rf_jinja_str(run, self);
    rf_jinja_steps(run, text.bytes / 64);
    return rf_jinja_strip(text, ARGUMENT(0, "chars", rf_jinja_none()), 1, 1);
}

FUNCTION(filter_string)
{
    UNUSED;
    return rf_jinja_str(run, self);
}

FUNCTION(filter_upper)
{
    UNUSED;
    return rf_jinja_recase(run, rf_jinja_str(run, self), CASE_UPPER);
}

FUNCTION(filter_lower)
{
    UNUSED;
    return rf_jinja_recase(run, rf_jinja_str(run, self), CASE_LOWER);
}

FUNCTION(filter_title)
{
    UNUSED;
    return rf_jinja_recase(run, rf_jinja_str(run, self), CASE_JINJA_TITLE);
}

FUNCTION(filter_capitalize)
{
    UNUSED;
    return rf_jinja_recase(run, rf_jinja_str(run, self), CASE_CAPITALIZED);
}

FUNCTION(filter_replace)
{
    int64_t most = -1;
    value old = ARGUMENT(0, "old", rf_jinja_none()), with = ARGUMENT(1, "new", rf_jinja_none());
    rf_jinja_as_integer(ARGUMENT(2, "count", rf_jinja_none()), &most);
    if (with.type == RF_JINJA_NONE) return rf_jinja_mistyped(run, "replace a text by", with);
    return rf_jinja_replace(run, rf_jinja_str(run, self), rf_jinja_str(run, old),
                            rf_jinja_str(run, with), most);
}

FUNCTION(filter_indent)
{
    value width = ARGUMENT(0, "width", rf_jinja_integer(4)), step;
    int first = rf_jinja_truth(ARGUMENT(1, "first", rf_jinja_bool(0)));
    int blank = rf_jinja_truth(ARGUMENT(2, "blank", rf_jinja_bool(0)));
    struct output spaces = {0}, out = {0}, text = {0};
    int64_t n = 0;
    if (rf_jinja_as_integer(width, &n)) {
        for (int64_t i = 0; i < n && !rf_jinja_steps(run, 1); i++)
            rf_jinja_write_text(run, &spaces, " ");
        step = rf_jinja_written(run, &spaces);
    } else {
        step = rf_jinja_str(run, width);
    }
    rf_jinja_write_str(run, &text, self);
    rf_jinja_write_text(run, &text, "\n");
    const struct rf_jinja_list *lines =
        rf_jinja_iterate(run, rf_jinja_lines(run, rf_jinja_written(run, &text), 0));
    for (size_t i = 0; lines && i < lines->n && !run->code; i++) {
        if (i) rf_jinja_write_text(run, &out, "\n");
        if (i ? blank || lines->items[i].bytes : first) rf_jinja_write(run, &out, step);
        rf_jinja_write(run, &out, lines->items[i]);
    }
    return rf_jinja_written(run, &out);
}

FUNCTION(filter_escape)
{
    static const char *const pairs[][2] = {
        {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&#34;"}};
    UNUSED;
    value text = rf_jinja_str(run, self);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        text =
            rf_jinja_replace(run, text, rf_jinja_text(pairs[i][0]), rf_jinja_text(pairs[i][1]), -1);
    return text;
}

FUNCTION(filter_format)
{
    return rf_jinja_format(run, rf_jinja_str(run, self), arguments);
}

/* ---- numbers ---- */

FUNCTION(filter_int)
{
    UNUSED;
    value otherwise = ARGUMENT(0, "default", rf_jinja_integer(0));
    double real;
    char text[64], *end;
    if (rf_jinja_as_number(self, &real)) {
        if (self.type != RF_JINJA_FLOAT) return rf_jinja_integer(self.u.integer);
    } else {
        struct rf_str shown = rf_jinja_bytes(rf_jinja_strip(self, rf_jinja_none(), 1, 1));
        if (self.type != RF_JINJA_STRING || shown.bytes == 0 || shown.bytes >= sizeof text)
            return otherwise;
        memcpy(text, shown.data, shown.bytes);
        text[shown.bytes] = 0;
        int64_t integer = strtoll(text, &end, 10);
        if (!*end && integer != INT64_MAX && integer != INT64_MIN) return rf_jinja_integer(integer);
        real = strtod(text, &end);
        if (*end) return otherwise;
    }
    return fabs(real) < 9e18 ? rf_jinja_integer((int64_t)real) : otherwise;
}

FUNCTION(filter_float)
{
    UNUSED;
    value otherwise = ARGUMENT(0, "default", rf_jinja_real(0));
    double real;
    char text[64], *end;
    if (rf_jinja_as_number(self, &real)) return rf_jinja_real(real);
    struct rf_str shown = rf_jinja_bytes(rf_jinja_strip(self, rf_jinja_none(), 1, 1));
    if (self.type != RF_JINJA_STRING || shown.bytes == 0 || shown.bytes >= sizeof text)
        return otherwise;
    memcpy(text, shown.data, shown.bytes);
    text[shown.bytes] = 0;
    real = strtod(text, &end);
    return *end ? otherwise : rf_jinja_real(real);
}

FUNCTION(filter_abs)
{
    double real;
    UNUSED;
    if (!rf_jinja_as_number(self, &real))
        return rf_jinja_mistyped(run, "take the absolute value of", self);
    if (self.type == RF_JINJA_FLOAT) return rf_jinja_real(fabs(real));
    if (self.u.integer == INT64_MIN)
        return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "a number is out of range");
    return rf_jinja_integer(self.u.integer < 0 ? -self.u.integer : self.u.integer);
}

FUNCTION(filter_round)
{
    double real;
    int64_t precision = 0;
    struct rf_str method = rf_jinja_bytes(ARGUMENT(1, "method", rf_jinja_text("common")));
    rf_jinja_as_integer(ARGUMENT(0, "precision", rf_jinja_integer(0)), &precision);
    if (!rf_jinja_as_number(self, &real) || precision < -300 || precision > 300)
        return rf_jinja_mistyped(run, "round", self);
    double scale = pow(10, (double)precision);
    if (rf_str_is(method, "ceil")) return rf_jinja_real(ceil(real * scale) / scale);
    if (rf_str_is(method, "floor")) return rf_jinja_real(floor(real * scale) / scale);
    if (precision <= 0) return rf_jinja_real(nearbyint(real * scale) / scale);
    char text[400];
    snprintf(text, sizeof text, "%.*f", (int)precision, real);
    return rf_jinja_real(strtod(text, NULL));
}

/* ---- lists ---- */

static value copy_list(struct rf_jinja_run *run, const struct rf_jinja_list *items)
{
    value list = rf_jinja_list(run);
    for (size_t i = 0; items && i < items->n && !run->code; i++)
        rf_jinja_add(run, list, items->items[i]);
    return list;
}

FUNCTION(filter_list)
{
    UNUSED;
    return copy_list(run, rf_jinja_iterate(run, self));
}

FUNCTION(filter_length)
{
    UNUSED;
    return rf_jinja_integer(rf_jinja_length(run, self));
}

FUNCTION(filter_first)
{
    UNUSED;
    const struct rf_jinja_list *items = rf_jinja_iterate(run, self);
    return items && items->n ? items->items[0] : rf_jinja_undefined(rf_str_of("a first item"));
}

FUNCTION(filter_last)
{
    UNUSED;
    const struct rf_jinja_list *items = rf_jinja_iterate(run, self);
    return items && items->n ? items->items[items->n - 1]
                             : rf_jinja_undefined(rf_str_of("a last item"));
}

FUNCTION(filter_reverse)
{
    UNUSED;
    const struct rf_jinja_list *items = rf_jinja_iterate(run, self);
    value list = rf_jinja_list(run);
    for (size_t i = items ? items->n : 0; i-- > 0 && !run->code;)
        rf_jinja_add(run, list, items->items[i]);
    return self.type == RF_JINJA_STRING ? rf_jinja_join(run, rf_jinja_text(""), list) : list;
}

FUNCTION(filter_default)
{
    value otherwise = ARGUMENT(0, "default_value", rf_jinja_text(""));
    int falsy = rf_jinja_truth(ARGUMENT(1, "boolean", rf_jinja_bool(0)));
    UNUSED;
    return self.type == RF_JINJA_UNDEFINED || (falsy && !rf_jinja_truth(self)) ? otherwise : self;
}

FUNCTION(filter_join)
{
    value attribute = ARGUMENT(1, "attribute", rf_jinja_none());
    value separator = rf_jinja_str(run, ARGUMENT(0, "d", rf_jinja_text("")));
    const struct rf_jinja_list *items = rf_jinja_iterate(run, self);
    value list = rf_jinja_list(run);
    for (size_t i = 0; items && i < items->n && !run->code; i++) {
        value item = items->items[i];
        if (attribute.type != RF_JINJA_NONE) item = rf_jinja_path(run, item, attribute);
        rf_jinja_add(run, list, rf_jinja_str(run, item));
    }
    return rf_jinja_join(run, separator, list);
}

FUNCTION(filter_items)
{
    UNUSED;
    if (self.type == RF_JINJA_UNDEFINED) return rf_jinja_list(run);
    if (self.type != RF_JINJA_DICT) return rf_jinja_mistyped(run, "take the items of", self);
    return rf_jinja_items(run, self.u.dict);
}

/* The arguments behind the first `n`. */
static struct arguments arguments_after(const struct arguments *arguments, size_t n)
{
    struct arguments rest = *arguments;
    n = n < rest.n ? n : rest.n;
    rest.positional += n;
    rest.n -= n;
    return rest;
}

FUNCTION(filter_map)
{
    const struct rf_jinja_list *items = rf_jinja_iterate(run, self);
    value list = rf_jinja_list(run), name = ARGUMENT(0, "", rf_jinja_none());
    value attribute = ARGUMENT(SIZE_MAX, "attribute", rf_jinja_none());
    value otherwise = ARGUMENT(SIZE_MAX, "default", rf_jinja_none());
    const struct builtin *filter = rf_jinja_filter(rf_jinja_bytes(name));
    struct arguments rest = {0};
    if (arguments->n) rest = arguments_after(arguments, 1);
    if (attribute.type == RF_JINJA_NONE && !filter)
        return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "map names no known filter");
    for (size_t i = 0; items && i < items->n && !rf_jinja_steps(run, 1); i++) {
        value v = items->items[i];
        if (arguments->n) {
            v = filter->call(run, v, &rest);
        } else {
            v = rf_jinja_path(run, v, attribute);
            if (v.type == RF_JINJA_UNDEFINED && otherwise.type != RF_JINJA_NONE) v = otherwise;
        }
        rf_jinja_add(run, list, v);
    }
    return list;
}

/* select, reject, selectattr and rejectattr. */
static value select_items(struct rf_jinja_run *run, value self, const struct arguments *arguments,
                          int by_attribute, int wanted)
{
    const struct rf_jinja_list *items = rf_jinja_iterate(run, self);
    size_t place = by_attribute ? 1 : 0;
    value list = rf_jinja_list(run), attribute = ARGUMENT(0, "", rf_jinja_none()),
          name = ARGUMENT(place, "", rf_jinja_none());
    struct arguments rest = {0};
    if (arguments->n) rest = arguments_after(arguments, place + 1);
    const struct builtin *test =
        name.type == RF_JINJA_STRING ? rf_jinja_test(rf_jinja_bytes(name)) : NULL;
    if (name.type != RF_JINJA_NONE && !test)
        return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "select names no known test");
    for (size_t i = 0; items && i < items->n && !rf_jinja_steps(run, 1); i++) {
        value v = items->items[i];
        if (by_attribute) v = rf_jinja_path(run, v, attribute);
        if (test) v = test->call(run, v, &rest);
        if (rf_jinja_truth(v) == wanted) rf_jinja_add(run, list, items->items[i]);
    }
    return list;
}

FUNCTION(filter_select)
{
    return select_items(run, self, arguments, 0, 1);
}

FUNCTION(filter_reject)
{
    return select_items(run, self, arguments, 0, 0);
}

FUNCTION(filter_selectattr)
{
    return select_items(run, self, arguments, 1, 1);
}

FUNCTION(filter_rejectattr)
{
    return select_items(run, self, arguments, 1, 0);
}

static value list_value(struct rf_jinja_list *list)
{
    return list ? (value){.type = RF_JINJA_LIST, .u.list = list} : (value){0};
}

FUNCTION(filter_sort)
{
    return list_value(
        rf_jinja_sort(run, rf_jinja_iterate(run, self), ARGUMENT(2, "attribute", rf_jinja_none()),
                      NULL, !rf_jinja_truth(ARGUMENT(1, "case_sensitive", rf_jinja_bool(0))),
                      rf_jinja_truth(ARGUMENT(0, "reverse", rf_jinja_bool(0)))));
}

FUNCTION(filter_dictsort)
{
    int by_value = rf_str_is(rf_jinja_bytes(ARGUMENT(1, "by", rf_jinja_text("key"))), "value");
    if (self.type != RF_JINJA_DICT) return rf_jinja_mistyped(run, "sort the items of", self);
    value items = rf_jinja_items(run, self.u.dict);
    if (run->code) return (value){0};
    return list_value(rf_jinja_sort(
        run, items.u.list, rf_jinja_none(), by_value ? rf_jinja_pair_value : rf_jinja_pair_key,
        !rf_jinja_truth(ARGUMENT(0, "case_sensitive", rf_jinja_bool(0))),
        rf_jinja_truth(ARGUMENT(2, "reverse", rf_jinja_bool(0)))));
}

static value extreme(struct rf_jinja_run *run, value self, const struct arguments *arguments,
                     int last)
{
    const struct rf_jinja_list *sorted =
        rf_jinja_sort(run, rf_jinja_iterate(run, self), ARGUMENT(1, "attribute", rf_jinja_none()),
                      NULL, !rf_jinja_truth(ARGUMENT(0, "case_sensitive", rf_jinja_bool(0))), last);
    return sorted && sorted->n ? sorted->items[0] : rf_jinja_undefined(rf_str_of("an item"));
}

FUNCTION(filter_min)
{
    return extreme(run, self, arguments, 0);
}

FUNCTION(filter_max)
{
    return extreme(run, self, arguments, 1);
}

FUNCTION(filter_unique)
{
    int fold = !rf_jinja_truth(ARGUMENT(0, "case_sensitive", rf_jinja_bool(0)));
    value attribute = ARGUMENT(1, "attribute", rf_jinja_none());
    const struct rf_jinja_list *items = rf_jinja_iterate(run, self);
    value list = rf_jinja_list(run), seen = rf_jinja_list(run);
    for (size_t i = 0; items && i < items->n && !run->code; i++) {
        value key = items->items[i];
        if (attribute.type != RF_JINJA_NONE) key = rf_jinja_path(run, key, attribute);
        key = rf_jinja_folded(run, key, fold);
        if (rf_jinja_contains(run, seen, key)) continue;
        rf_jinja_add(run, seen, key);
        rf_jinja_add(run, list, items->items[i]);
    }
    return list;
}

FUNCTION(filter_sum)
{
    value attribute = ARGUMENT(0, "attribute", rf_jinja_none());
    value start = ARGUMENT(1, "start", rf_jinja_integer(0));
    const struct rf_jinja_list *items = rf_jinja_iterate(run, self);
    double real = 0, one;
    int64_t integer = 0, whole;
    int wrapped = 0, exact = rf_jinja_as_integer(start, &integer);
    if (!rf_jinja_as_number(start, &real)) return rf_jinja_mistyped(run, "sum", start);
    for (size_t i = 0; items && i < items->n && !rf_jinja_steps(run, 1); i++) {
        value v = items->items[i];
        if (attribute.type != RF_JINJA_NONE) v = rf_jinja_path(run, v, attribute);
        if (!rf_jinja_as_number(v, &one)) return rf_jinja_mistyped(run, "sum", v);
        exact &= rf_jinja_as_integer(v, &whole);
        if (exact) wrapped |= __builtin_add_overflow(integer, whole, &integer);
        real += one;
    }
    if (wrapped) return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "a number is out of range");
    return exact ? rf_jinja_integer(integer) : rf_jinja_real(real);
}

FUNCTION(filter_batch)
{
    const struct rf_jinja_list *items = rf_jinja_iterate(run, self);
    value list = rf_jinja_list(run), fill = ARGUMENT(1, "fill_with", rf_jinja_none()),
          part = rf_jinja_none();
    int64_t width = 0;
    rf_jinja_as_integer(ARGUMENT(0, "linecount", rf_jinja_none()), &width);
    if (width < 1) return rf_jinja_fail(run, RF_ERR_ARGUMENT, "a batch has no size");
    for (size_t i = 0; items && i < items->n && !run->code; i++) {
        if (i % (size_t)width == 0) rf_jinja_add(run, list, part = rf_jinja_list(run));
        rf_jinja_add(run, part, items->items[i]);
    }
    if (fill.type != RF_JINJA_NONE && part.type == RF_JINJA_LIST)
        while (!run->code && part.u.list->n < (size_t)width) rf_jinja_add(run, part, fill);
    return list;
}

/* The first n % slices of them are longer by one, and the others may get a filler. */
FUNCTION(filter_slice)
{
    const struct rf_jinja_list *items = rf_jinja_iterate(run, self);
    value list = rf_jinja_list(run), fill = ARGUMENT(1, "fill_with", rf_jinja_none());
    int64_t slices = 0;
    rf_jinja_as_integer(ARGUMENT(0, "slices", rf_jinja_none()), &slices);
    if (slices < 1) return rf_jinja_fail(run, RF_ERR_ARGUMENT, "there are no slices");
    size_t n = items ? items->n : 0, at = 0, longer = n % (size_t)slices;
    for (size_t s = 0; s < (size_t)slices && !run->code; s++) {
        value part = rf_jinja_list(run);
        size_t end = at + n / (size_t)slices + (s < longer);
        rf_jinja_add(run, list, part);
        while (at < end && !run->code) rf_jinja_add(run, part, items->items[at++]);
        if (s >= longer && fill.type != RF_JINJA_NONE) rf_jinja_add(run, part, fill);
    }
    return list;
}

/* Bytes of the first n characters. */
static size_t filter_bytes_of(struct rf_str text, int64_t n)
{
    size_t at = 0;
    while (n-- > 0 && at < text.bytes) at += rf_jinja_char(text, at);
    return at;
}

FUNCTION(filter_truncate)
{
    value text = rf_jinja_str(run, self), end = ARGUMENT(2, "end", rf_jinja_text("..."));
    int64_t length = 255, leeway = 5;
    rf_jinja_as_integer(ARGUMENT(0, "length", rf_jinja_none()), &length);
    rf_jinja_as_integer(ARGUMENT(3, "leeway", rf_jinja_none()), &leeway);
    if (run->code || rf_jinja_steps(run, text.bytes / 64)) return (value){0};
    int64_t of_end = rf_jinja_length(run, end), room = length - of_end;
    if (of_end < 0 || room < 0 || leeway < 0 || leeway > INT64_MAX - length)
        return rf_jinja_fail(run, RF_ERR_ARGUMENT, "a text cannot be truncated to that length");
    if (rf_jinja_length(run, text) <= length + leeway) return text;
    struct rf_str bytes = rf_jinja_bytes(text);
    size_t kept = filter_bytes_of(bytes, room), word = kept;
    if (!rf_jinja_truth(ARGUMENT(1, "killwords", rf_jinja_bool(0)))) {
        while (word > 0 && bytes.data[word - 1] != ' ') word--;
        if (word) kept = word - 1;
    }
    struct output out = {0};
    rf_jinja_write(run, &out, rf_jinja_cut(text, 0, kept));
    rf_jinja_write(run, &out, end);
    return rf_jinja_written(run, &out);
}

FUNCTION(filter_wordcount)
{
    UNUSED;
    struct rf_str text = rf_jinja_bytes(rf_jinja_str(run, self));
    int64_t n = 0;
    int inside = 0;
    if (rf_jinja_steps(run, text.bytes / 64)) return (value){0};
    for (size_t at = 0, length; at < text.bytes; at += length) {
        int was_inside = inside;
        length = rf_jinja_char(text, at);
        inside = rf_utf8_length(text.data + at, length) &&
                 rf_jinja_is_word(rf_utf8_decode(text.data + at, length));
        n += inside && !was_inside;
    }
    return rf_jinja_integer(n);
}

const struct builtin *rf_jinja_filter(struct rf_str name)
{
    static const struct builtin filters[] = {{"tojson", filter_tojson},
                                             {"trim", filter_trim},
                                             {"string", filter_string},
                                             {"safe", filter_string},
                                             {"upper", filter_upper},
                                             {"lower", filter_lower},
                                             {"title", filter_title},
                                             {"capitalize", filter_capitalize},
                                             {"replace", filter_replace},
                                             {"indent", filter_indent},
                                             {"escape", filter_escape},
                                             {"e", filter_escape},
                                             {"format", filter_format},
                                             {"int", filter_int},
                                             {"float", filter_float},
                                             {"abs", filter_abs},
                                             {"round", filter_round},
                                             {"list", filter_list},
                                             {"length", filter_length},
                                             {"count", filter_length},
                                             {"first", filter_first},
                                             {"last", filter_last},
                                             {"reverse", filter_reverse},
                                             {"default", filter_default},
                                             {"d", filter_default},
                                             {"join", filter_join},
                                             {"items", filter_items},
                                             {"map", filter_map},
                                             {"select", filter_select},
                                             {"reject", filter_reject},
                                             {"selectattr", filter_selectattr},
                                             {"rejectattr", filter_rejectattr},
                                             {"sort", filter_sort},
                                             {"dictsort", filter_dictsort},
                                             {"min", filter_min},
                                             {"max", filter_max},
                                             {"unique", filter_unique},
                                             {"sum", filter_sum},
                                             {"batch", filter_batch},
                                             {"slice", filter_slice},
                                             {"truncate", filter_truncate},
                                             {"wordcount", filter_wordcount}};
    return find_builtin(filters, sizeof filters / sizeof *filters, name);
}

/* ---- tests ---- */

#define TYPE_TEST(name, condition)       \
    FUNCTION(test_##name)                \
    {                                    \
        UNUSED;                          \
        return rf_jinja_bool(condition); \
    }

TYPE_TEST(defined, self.type != RF_JINJA_UNDEFINED)
TYPE_TEST(undefined, self.type == RF_JINJA_UNDEFINED)
TYPE_TEST(none, self.type == RF_JINJA_NONE)
TYPE_TEST(string, self.type == RF_JINJA_STRING)
TYPE_TEST(boolean, self.type == RF_JINJA_BOOL)
TYPE_TEST(integer, self.type == RF_JINJA_INT)
TYPE_TEST(float, self.type == RF_JINJA_FLOAT)
TYPE_TEST(number,
          self.type == RF_JINJA_BOOL || self.type == RF_JINJA_INT || self.type == RF_JINJA_FLOAT)
TYPE_TEST(true, self.type == RF_JINJA_BOOL && self.u.integer)
TYPE_TEST(false, self.type == RF_JINJA_BOOL && !self.u.integer)
TYPE_TEST(mapping, self.type == RF_JINJA_DICT)
TYPE_TEST(callable, self.type == RF_JINJA_CALLABLE || self.type == RF_JINJA_UNDEFINED)
/* An undefined value is an empty sequence to jinja2. */
TYPE_TEST(sequence, rf_jinja_is_sequence(self) || self.type == RF_JINJA_STRING ||
                        self.type == RF_JINJA_DICT || self.type == RF_JINJA_UNDEFINED)
TYPE_TEST(iterable, rf_jinja_is_sequence(self) || self.type == RF_JINJA_STRING ||
                        self.type == RF_JINJA_DICT || self.type == RF_JINJA_UNDEFINED ||
                        self.type == RF_JINJA_LOOP)
TYPE_TEST(lower, rf_jinja_has_case(run, rf_jinja_str(run, self), 0))
TYPE_TEST(upper, rf_jinja_has_case(run, rf_jinja_str(run, self), 1))

#define OTHER ARGUMENT(0, "", rf_jinja_none())
TYPE_TEST(eq, rf_jinja_equal(run, self, OTHER))
TYPE_TEST(ne, !rf_jinja_equal(run, self, OTHER))
TYPE_TEST(lt, rf_jinja_order(run, self, OTHER) < 0)
TYPE_TEST(le, rf_jinja_order(run, self, OTHER) <= 0)
TYPE_TEST(gt, rf_jinja_order(run, self, OTHER) > 0)
TYPE_TEST(ge, rf_jinja_order(run, self, OTHER) >= 0)
TYPE_TEST(in, rf_jinja_contains(run, OTHER, self))
TYPE_TEST(sameas, self.type == OTHER.type && rf_jinja_equal(run, self, OTHER))
TYPE_TEST(filter, rf_jinja_filter(rf_jinja_bytes(self)) != NULL)
TYPE_TEST(test, rf_jinja_test(rf_jinja_bytes(self)) != NULL)

static value divisible(struct rf_jinja_run *run, value self, int64_t by, int64_t rest)
{
    int64_t integer;
    if (!rf_jinja_as_integer(self, &integer) || by == 0)
        return rf_jinja_mistyped(run, "divide", self);
    return rf_jinja_bool(by == -1 || integer % by == rest || integer % by == -rest);
}

FUNCTION(test_odd)
{
    UNUSED;
    return divisible(run, self, 2, 1);
}

FUNCTION(test_even)
{
    UNUSED;
    return divisible(run, self, 2, 0);
}

FUNCTION(test_divisibleby)
{
    int64_t by = 0;
    rf_jinja_as_integer(OTHER, &by);
    return divisible(run, self, by, 0);
}

const struct builtin *rf_jinja_test(struct rf_str name)
{
    static const struct builtin tests[] = {{"defined", test_defined},
                                           {"undefined", test_undefined},
                                           {"none", test_none},
                                           {"string", test_string},
                                           {"boolean", test_boolean},
                                           {"integer", test_integer},
                                           {"float", test_float},
                                           {"number", test_number},
                                           {"true", test_true},
                                           {"false", test_false},
                                           {"mapping", test_mapping},
                                           {"callable", test_callable},
                                           {"sequence", test_sequence},
                                           {"iterable", test_iterable},
                                           {"lower", test_lower},
                                           {"upper", test_upper},
                                           {"eq", test_eq},
                                           {"equalto", test_eq},
                                           {"==", test_eq},
                                           {"ne", test_ne},
                                           {"!=", test_ne},
                                           {"lt", test_lt},
                                           {"lessthan", test_lt},
                                           {"<", test_lt},
                                           {"le", test_le},
                                           {"<=", test_le},
                                           {"gt", test_gt},
                                           {"greaterthan", test_gt},
                                           {">", test_gt},
                                           {"ge", test_ge},
                                           {">=", test_ge},
                                           {"in", test_in},
                                           {"sameas", test_sameas},
                                           {"odd", test_odd},
                                           {"even", test_even},
                                           {"divisibleby", test_divisibleby},
                                           {"filter", test_filter},
                                           {"test", test_test}};
    return find_builtin(tests, sizeof tests / sizeof *tests, name);
}
