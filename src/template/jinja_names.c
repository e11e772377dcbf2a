/* Filters and tests by name, and those that take the name of another one. The parser looks names up
 * here. */
#include "template/jinja_functions.h"

/* The arguments behind the first `n`. */
static struct arguments arguments_after(const struct arguments *arguments, size_t n)
{
    struct arguments rest = *arguments;
    n = n < rest.n ? n : rest.n;
    rest.positional += n;
    rest.n -= n;
    return rest;
}

/* The items; none of what counts as false, as None. */
static const struct rf_jinja_list *items_of(struct rf_jinja_run *run, value self)
{
    return rf_jinja_truth(self) ? rf_jinja_iterate(run, self) : NULL;
}

FUNCTION(filter_map)
{
    const struct rf_jinja_list *items = items_of(run, self);
    value list = rf_jinja_list(run), name = ARGUMENT(0, "", rf_jinja_none());
    value attribute = ARGUMENT(SIZE_MAX, "attribute", rf_jinja_none());
    value otherwise = ARGUMENT(SIZE_MAX, "default", rf_jinja_none());
    const struct builtin *filter = rf_jinja_filter(rf_jinja_bytes(name));
    struct arguments rest = {0};
    if (arguments->n) rest = arguments_after(arguments, 1);
    if (items && items->n && attribute.type == RF_JINJA_NONE && !filter)
        return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "map names no known filter");
    for (size_t i = 0; items && i < items->n && !rf_jinja_steps(run, 1); i++) {
        value v = items->items[i];
        if (arguments->n) {
            v = rf_jinja_call(run, filter, v, &rest);
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
    const struct rf_jinja_list *items = items_of(run, self);
    size_t place = by_attribute ? 1 : 0;
    value list = rf_jinja_list(run), attribute = ARGUMENT(0, "", rf_jinja_none()),
          name = ARGUMENT(place, "", rf_jinja_none());
    struct arguments rest = {0};
    if (arguments->n) rest = arguments_after(arguments, place + 1);
    const struct builtin *test =
        name.type == RF_JINJA_STRING ? rf_jinja_test(rf_jinja_bytes(name)) : NULL;
    if (items && items->n && name.type != RF_JINJA_NONE && !test)
        return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "select names no known test");
    for (size_t i = 0; items && i < items->n && !rf_jinja_steps(run, 1); i++) {
        value v = items->items[i];
        if (by_attribute) v = rf_jinja_path(run, v, attribute);
        if (test) v = rf_jinja_call(run, test, v, &rest);
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

FUNCTION(test_filter)
{
    UNUSED;
    return rf_jinja_bool(rf_jinja_filter(rf_jinja_bytes(self)) != NULL);
}

FUNCTION(test_test)
{
    UNUSED;
    return rf_jinja_bool(rf_jinja_test(rf_jinja_bytes(self)) != NULL);
}

static const struct builtin *find_builtin(const struct builtin *const *tables, size_t n,
                                          struct rf_str name)
{
    for (size_t i = 0; i < n; i++)
        for (const struct builtin *one = tables[i]; one->name; one++)
            if (rf_str_is(name, one->name)) return one;
    return NULL;
}

const struct builtin *rf_jinja_filter(struct rf_str name)
{
    static const struct builtin own[] = {{"map", filter_map, 0},
                                         {"select", filter_select, 0},
                                         {"reject", filter_reject, 0},
                                         {"selectattr", filter_selectattr, 0},
                                         {"rejectattr", filter_rejectattr, 0},
                                         {NULL, NULL, 0}};
    const struct builtin *const tables[] = {own, rf_jinja_value_filters, rf_jinja_text_filters,
                                            rf_jinja_list_filters, rf_jinja_html_filters};
    return find_builtin(tables, sizeof tables / sizeof *tables, name);
}

const struct builtin *rf_jinja_test(struct rf_str name)
{
    static const struct builtin own[] = {
        {"filter", test_filter, 0}, {"test", test_test, 0}, {NULL, NULL, 0}};
    const struct builtin *const tables[] = {own, rf_jinja_tests};
    return find_builtin(tables, sizeof tables / sizeof *tables, name);
}
