/* Filters of lists, dicts and everything that can be iterated. jinja_names.c finds them by name. */
#include "template/jinja_functions.h"

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

/* The first or last item; None and numbers have none. */
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
        rf_jinja_add(run, list,
                     run->escapes ? rf_jinja_escape(run, item) : rf_jinja_str(run, item));
    }
    separator = run->escapes ? rf_jinja_escape(run, separator) : separator;
    separator.marked = run->escapes != 0;
    return rf_jinja_join(run, separator, list);
}

FUNCTION(filter_items)
{
    UNUSED;
    if (self.type == RF_JINJA_UNDEFINED) return rf_jinja_list(run);
    if (self.type != RF_JINJA_DICT) return rf_jinja_mistyped(run, "take the items of", self);
    return rf_jinja_items(run, self.u.dict);
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

/* A sum that begins with a list: all lists in one. Python refuses texts. */
static value add_all(struct rf_jinja_run *run, const struct rf_jinja_list *items, value attribute,
                     value start)
{
    if (start.type == RF_JINJA_STRING) return rf_jinja_mistyped(run, "sum", start);
    value sum = copy_list(run, start.u.list);
    sum.type = start.type;
    for (size_t i = 0; items && i < items->n && !rf_jinja_steps(run, 1); i++) {
        value v = items->items[i];
        if (attribute.type != RF_JINJA_NONE) v = rf_jinja_path(run, v, attribute);
        if (v.type != start.type) return rf_jinja_mistyped(run, "sum", v);
        for (size_t k = 0; k < v.u.list->n && !run->code; k++)
            rf_jinja_add(run, sum, v.u.list->items[k]);
    }
    return sum;
}

FUNCTION(filter_sum)
{
    value attribute = ARGUMENT(0, "attribute", rf_jinja_none());
    value start = ARGUMENT(1, "start", rf_jinja_integer(0));
    const struct rf_jinja_list *items = rf_jinja_iterate(run, self);
    double real = 0, one;
    int64_t integer = 0, whole;
    int wrapped = 0, exact = rf_jinja_as_integer(start, &integer);
    if (rf_jinja_is_sequence(start) || start.type == RF_JINJA_STRING)
        return add_all(run, items, attribute, start);
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

/* Pairs (grouper, list) of the items with one attribute, sorted by it. */
FUNCTION(filter_groupby)
{
    value attribute = ARGUMENT(0, "attribute", rf_jinja_none()), list = rf_jinja_list(run), group;
    value otherwise = ARGUMENT(1, "default", (value){0}), before = {0};
    int fold = !rf_jinja_truth(ARGUMENT(2, "case_sensitive", rf_jinja_bool(0)));
    value keyed = rf_jinja_list(run);
    const struct rf_jinja_list *items = rf_jinja_iterate(run, self);
    for (size_t i = 0; items && i < items->n && !run->code; i++) {
        value key = rf_jinja_path(run, items->items[i], attribute);
        if (key.type == RF_JINJA_UNDEFINED) key = otherwise;
        rf_jinja_add(run, keyed, rf_jinja_pair(run, key, items->items[i]));
    }
    const struct rf_jinja_list *sorted =
        run->code ? NULL
                  : rf_jinja_sort(run, keyed.u.list, rf_jinja_none(), rf_jinja_pair_key, fold, 0);
    group = list;
    for (size_t i = 0; sorted && i < sorted->n && !run->code; i++) {
        value key = rf_jinja_pair_key(sorted->items[i]), folded = rf_jinja_folded(run, key, fold);
        if (i == 0 || !rf_jinja_equal(run, folded, before)) {
            group = rf_jinja_list(run);
            value pair = rf_jinja_pair(run, key, group);
            pair.marked = 1;
            rf_jinja_add(run, list, pair);
        }
        rf_jinja_add(run, group, rf_jinja_pair_value(sorted->items[i]));
        before = folded;
    }
    return list;
}

const struct builtin rf_jinja_list_filters[] = {{"list", filter_list, 0},
                                                {"length", filter_length, BUILTIN_CONSTANT},
                                                {"count", filter_length, BUILTIN_CONSTANT},
                                                {"first", filter_first, BUILTIN_CONSTANT},
                                                {"last", filter_last, BUILTIN_CONSTANT},
                                                {"reverse", filter_reverse, 0},
                                                {"default", filter_default, BUILTIN_CONSTANT},
                                                {"d", filter_default, BUILTIN_CONSTANT},
                                                {"join", filter_join, 0},
                                                {"items", filter_items, 0},
                                                {"sort", filter_sort, 0},
                                                {"dictsort", filter_dictsort, 0},
                                                {"min", filter_min, 0},
                                                {"max", filter_max, 0},
                                                {"unique", filter_unique, 0},
                                                {"sum", filter_sum, 0},
                                                {"batch", filter_batch, 0},
                                                {"slice", filter_slice, 0},
                                                {"groupby", filter_groupby, 0},
                                                {NULL, NULL, 0}};
