/* Attributes, items and the methods of dicts, lists and loops. No method changes a value: append,
 * pop, update and the like are missing, as in jinja2's immutable sandbox. The interpreter
 * (jinja_eval.c) and filters that take an attribute's name call rf_jinja_attribute. */
#include <math.h>

#include "template/jinja_functions.h"

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
    int64_t n = (int64_t)self.u.list->n, bounds[2] = {0, n};
    for (size_t i = 0; i < 2; i++) {
        rf_jinja_as_integer(ARGUMENT(1 + i, "", rf_jinja_none()), &bounds[i]);
        if (bounds[i] < 0) bounds[i] = bounds[i] < -n ? 0 : bounds[i] + n;
    }
    for (int64_t i = bounds[0]; i < bounds[1] && i < n && !run->code; i++)
        if (rf_jinja_equal(run, self.u.list->items[i], wanted)) return rf_jinja_integer(i);
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

FUNCTION(method_list_copy)
{
    value list = rf_jinja_list(run);
    (void)arguments;
    for (size_t i = 0; i < self.u.list->n && !run->code; i++)
        rf_jinja_add(run, list, self.u.list->items[i]);
    return list;
}

FUNCTION(method_dict_copy)
{
    value dict = rf_jinja_dict(run);
    (void)arguments;
    for (size_t i = 0; i < self.u.dict->n && !run->code; i++)
        rf_jinja_insert(run, dict.u.dict, self.u.dict->keys[i], self.u.dict->values[i]);
    return dict;
}

FUNCTION(method_is_integer)
{
    UNUSED;
    return rf_jinja_bool(self.u.real == floor(self.u.real) && isfinite(self.u.real));
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
    static const struct builtin of_dict[] = {
        {"items", method_items, 0},    {"keys", method_keys, 0},
        {"values", method_values, 0},  {"get", method_get, BUILTIN_CONSTANT},
        {"copy", method_dict_copy, 0}, {NULL, NULL, 0}};
    static const struct builtin of_list[] = {{"index", method_list_index, BUILTIN_CONSTANT},
                                             {"count", method_list_count, BUILTIN_CONSTANT},
                                             {"copy", method_list_copy, 0},
                                             {NULL, NULL, 0}};
    static const struct builtin of_float[] = {{"is_integer", method_is_integer, 0},
                                              {NULL, NULL, 0}};
    static const struct builtin of_loop[] = {
        {"cycle", method_cycle, BUILTIN_CONSTANT}, {"changed", method_changed, 0}, {NULL, NULL, 0}};
    static const struct builtin none[] = {{NULL, NULL, 0}};
    const struct builtin *method = object.type == RF_JINJA_STRING  ? rf_jinja_string_methods
                                   : object.type == RF_JINJA_DICT  ? of_dict
                                   : rf_jinja_is_sequence(object)  ? of_list
                                   : object.type == RF_JINJA_LOOP  ? of_loop
                                   : object.type == RF_JINJA_FLOAT ? of_float
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
        size_t last = index < 0 || (uint64_t)index > text.bytes ? text.bytes : (size_t)index;
        rf_jinja_charge(run, last * 2 * RF_JINJA_KEY);
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
    if (object.type == RF_JINJA_TUPLE && object.marked && object.u.list->n == 2)
        for (int i = 0; i < 2; i++)
            if (rf_str_is(text, i ? "list" : "grouper")) return object.u.list->items[i];
    if (method && dot_first) return rf_jinja_function(run, method, object);
    if (object.type == RF_JINJA_DICT || object.type == RF_JINJA_NAMESPACE)
        member = rf_jinja_find(run, object.u.dict, name);
    else if ((rf_jinja_is_sequence(object) || object.type == RF_JINJA_STRING) &&
             rf_jinja_as_integer(name, &index))
        return sequence_item(run, object, index);
    if (member) return *member;
    return method ? rf_jinja_function(run, method, object) : rf_jinja_undefined(text);
}
