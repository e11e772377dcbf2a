/* Values, with the truth, equality and order of Python, and a run's failures and bounds. Memory of
 * a run ends with it; after a failure every function returns an undefined value. All other files of
 * the interpreter call it. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "template/jinja_parts.h"

/* ---- failures and bounds ---- */

int rf_jinja_bad(struct rf_error *error, int code, uint32_t line, const char *format, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return rf_fail(error, code, "the chat template, line %u: %s", (unsigned)line, text);
}

value rf_jinja_fail(struct rf_jinja_run *run, int code, const char *format, ...)
{
    char text[400];
    va_list arguments;
    if (!run->code) {
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        run->code = rf_jinja_bad(run->error, code, run->line, "%s", text);
    }
    return (value){0};
}

value rf_jinja_mistyped(struct rf_jinja_run *run, const char *what, value v)
{
    if (v.type == RF_JINJA_UNDEFINED && v.bytes)
        return rf_jinja_fail(run, RF_ERR_ARGUMENT, "%.*s is not defined",
                             rf_shown(rf_jinja_bytes(v)), v.u.data);
    return rf_jinja_fail(run, RF_ERR_ARGUMENT, "it cannot %s %s", what, rf_jinja_type_name(v));
}

int rf_jinja_charge(struct rf_jinja_run *run, size_t bytes)
{
    run->work += bytes < RF_JINJA_MAX_WORK ? bytes : RF_JINJA_MAX_WORK;
    if (run->work > RF_JINJA_MAX_WORK)
        return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "it takes too many steps"), run->code;
    if (run->work - run->asked_at < RF_JINJA_ROUND) return run->code;
    run->asked_at = run->work;
    if (run->stop.asked && run->stop.asked(run->stop.user))
        rf_jinja_fail(run, RF_ERR_CANCELLED, "the rendering was cancelled");
    return run->code;
}

int rf_jinja_steps(struct rf_jinja_run *run, size_t n)
{
    return rf_jinja_charge(run, n < RF_JINJA_MAX_WORK ? n * RF_JINJA_STEP : n);
}

size_t rf_jinja_size(value v)
{
    switch (v.type) {
    case RF_JINJA_STRING:
    case RF_JINJA_BIG: return v.bytes;
    case RF_JINJA_LIST:
    case RF_JINJA_TUPLE: return v.u.list->n * RF_JINJA_ITEM;
    case RF_JINJA_DICT:
    case RF_JINJA_NAMESPACE: return v.u.dict->n * 2 * RF_JINJA_ITEM;
    default: return 0;
    }
}

void *rf_jinja_take(struct rf_jinja_run *run, size_t count, size_t size)
{
    if (run->code) return NULL;
    if (count > RF_JINJA_MAX_MEMORY / size || (run->memory += count * size) > RF_JINJA_MAX_MEMORY) {
        rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "it needs too much memory");
        return NULL;
    }
    if (rf_jinja_charge(run, count * size / 8)) return NULL; /* it is cleared */
    void *memory = rf_arena_alloc(&run->arena, count, size, "chat template", run->error);
    if (!memory) run->code = RF_ERR_MEMORY;
    return memory;
}

/* Room for one more element in an array of the run. 0 after a failure. */
static int run_grow(struct rf_jinja_run *run, void *array, size_t n, size_t *cap, size_t size)
{
    void *old, *grown;
    if (n < *cap) return 1;
    size_t wanted = *cap ? 2 * *cap : 4;
    if (!(grown = rf_jinja_take(run, wanted, size))) return 0;
    memcpy(&old, array, sizeof old);
    if (rf_jinja_charge(run, n * size / 8)) return 0;
    if (n) memcpy(grown, old, n * size);
    memcpy(array, &grown, sizeof grown);
    *cap = wanted;
    return 1;
}

/* ---- making ---- */

value rf_jinja_none(void)
{
    return (value){.type = RF_JINJA_NONE};
}

value rf_jinja_undefined(struct rf_str name)
{
    return (value){.type = RF_JINJA_UNDEFINED, .u.data = name.data, .bytes = name.bytes};
}

value rf_jinja_bool(int flag)
{
    return (value){.type = RF_JINJA_BOOL, .u.integer = flag != 0};
}

value rf_jinja_integer(int64_t integer)
{
    return (value){.type = RF_JINJA_INT, .u.integer = integer};
}

value rf_jinja_real(double real)
{
    return (value){.type = RF_JINJA_FLOAT, .u.real = real};
}

value rf_jinja_string(struct rf_str text, uint8_t origin)
{
    return (value){
        .type = RF_JINJA_STRING, .origin = origin, .u.data = text.data, .bytes = text.bytes};
}

value rf_jinja_text(const char *text)
{
    return rf_jinja_string(rf_str_of(text), 0);
}

struct rf_str rf_jinja_bytes(value string)
{
    int has = string.type == RF_JINJA_STRING || string.type == RF_JINJA_UNDEFINED ||
              string.type == RF_JINJA_BIG;
    return has && string.bytes ? (struct rf_str){string.u.data, string.bytes}
                               : (struct rf_str){"", 0};
}

value rf_jinja_list(struct rf_jinja_run *run)
{
    struct rf_jinja_list *list = rf_jinja_take(run, 1, sizeof *list);
    return list ? (value){.type = RF_JINJA_LIST, .u.list = list} : (value){0};
}

value rf_jinja_tuple(struct rf_jinja_run *run)
{
    value tuple = rf_jinja_list(run);
    if (tuple.type) tuple.type = RF_JINJA_TUPLE;
    return tuple;
}

value rf_jinja_dict(struct rf_jinja_run *run)
{
    struct rf_jinja_dict *dict = rf_jinja_take(run, 1, sizeof *dict);
    return dict ? (value){.type = RF_JINJA_DICT, .u.dict = dict} : (value){0};
}

void rf_jinja_add(struct rf_jinja_run *run, value list, value item)
{
    struct rf_jinja_list *items = list.u.list;
    if (!rf_jinja_is_sequence(list) || rf_jinja_charge(run, RF_JINJA_ITEM)) return;
    if (run_grow(run, &items->items, items->n, &items->cap, sizeof item))
        items->items[items->n++] = item;
}

value rf_jinja_pair(struct rf_jinja_run *run, value a, value b)
{
    value pair = rf_jinja_tuple(run);
    rf_jinja_add(run, pair, a);
    rf_jinja_add(run, pair, b);
    return pair;
}

value rf_jinja_pair_key(value pair)
{
    return pair.u.list->items[0];
}

value rf_jinja_pair_value(value pair)
{
    return pair.u.list->items[1];
}

value rf_jinja_items(struct rf_jinja_run *run, const struct rf_jinja_dict *dict)
{
    value list = rf_jinja_list(run);
    for (size_t i = 0; i < dict->n && !run->code; i++)
        rf_jinja_add(run, list, rf_jinja_pair(run, dict->keys[i], dict->values[i]));
    return list;
}

value *rf_jinja_find(struct rf_jinja_run *run, const struct rf_jinja_dict *dict, value key)
{
    for (size_t i = 0; i < dict->n && !rf_jinja_charge(run, RF_JINJA_KEY); i++) {
        int apart = dict->keys[i].type == RF_JINJA_STRING && key.type == RF_JINJA_STRING &&
                    dict->keys[i].bytes != key.bytes;
        if (!apart && rf_jinja_equal(run, dict->keys[i], key)) return &dict->values[i];
    }
    return NULL;
}

void rf_jinja_insert(struct rf_jinja_run *run, struct rf_jinja_dict *dict, value key, value v)
{
    value *found = rf_jinja_find(run, dict, key);
    size_t cap = dict->cap;
    if (found) {
        *found = v;
        return;
    }
    if (!run_grow(run, &dict->keys, dict->n, &cap, sizeof key) ||
        !run_grow(run, &dict->values, dict->n, &dict->cap, sizeof v))
        return;
    dict->keys[dict->n] = key;
    dict->values[dict->n++] = v;
}

void rf_jinja_put(struct rf_jinja_run *run, value dict, const char *key, value v)
{
    if (dict.type == RF_JINJA_DICT) rf_jinja_insert(run, dict.u.dict, rf_jinja_text(key), v);
}

value rf_jinja_callable_value(struct rf_jinja_run *run, struct rf_jinja_callable callable)
{
    struct rf_jinja_callable *kept = rf_jinja_take(run, 1, sizeof *kept);
    if (!kept) return (value){0};
    *kept = callable;
    return (value){.type = RF_JINJA_CALLABLE, .u.callable = kept};
}

value rf_jinja_function(struct rf_jinja_run *run, const struct builtin *builtin, value self)
{
    return rf_jinja_callable_value(run,
                                   (struct rf_jinja_callable){.builtin = builtin, .self = self});
}

/* ---- properties ---- */

const char *rf_jinja_type_name(value v)
{
    static const char *const names[] = {"an undefined value",
                                        "None",
                                        "a bool",
                                        "an integer",
                                        "a float",
                                        "a string",
                                        "a list",
                                        "a tuple",
                                        "a dict",
                                        "a namespace",
                                        "a loop",
                                        "a function",
                                        "an integer"};
    return names[v.type];
}

int rf_jinja_is_sequence(value v)
{
    return v.type == RF_JINJA_LIST || v.type == RF_JINJA_TUPLE;
}

int rf_jinja_truth(value v)
{
    switch (v.type) {
    case RF_JINJA_UNDEFINED:
    case RF_JINJA_NONE: return 0;
    case RF_JINJA_BOOL:
    case RF_JINJA_INT: return v.u.integer != 0;
    case RF_JINJA_FLOAT: return v.u.real != 0;
    case RF_JINJA_STRING: return v.bytes != 0;
    case RF_JINJA_LIST:
    case RF_JINJA_TUPLE: return v.u.list->n != 0;
    case RF_JINJA_DICT: return v.u.dict->n != 0;
    default: return 1;
    }
}

int rf_jinja_as_integer(value v, int64_t *integer)
{
    if (v.type != RF_JINJA_INT && v.type != RF_JINJA_BOOL) return 0;
    *integer = v.u.integer;
    return 1;
}

int rf_jinja_as_number(value v, double *number)
{
    int64_t integer;
    if (v.type == RF_JINJA_FLOAT)
        *number = v.u.real;
    else if (rf_jinja_as_integer(v, &integer))
        *number = (double)integer;
    else if (v.type == RF_JINJA_BIG)
        *number = strtod(v.u.data, NULL);
    else
        return 0;
    return 1;
}

static int same_lists(struct rf_jinja_run *run, const struct rf_jinja_list *a,
                      const struct rf_jinja_list *b)
{
    int same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++) same = rf_jinja_equal(run, a->items[i], b->items[i]);
    return same;
}

static int same_dicts(struct rf_jinja_run *run, const struct rf_jinja_dict *a,
                      const struct rf_jinja_dict *b)
{
    int same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++) {
        const value *other = rf_jinja_find(run, b, a->keys[i]);
        same = other && rf_jinja_equal(run, a->values[i], *other);
    }
    return same;
}

static int same_values(struct rf_jinja_run *run, value a, value b)
{
    double x, y;
    int64_t i, j;
    if (rf_jinja_as_integer(a, &i) && rf_jinja_as_integer(b, &j)) return i == j;
    int big = (a.type == RF_JINJA_BIG || b.type == RF_JINJA_BIG) && a.type != RF_JINJA_FLOAT &&
              b.type != RF_JINJA_FLOAT;
    if (!big && rf_jinja_as_number(a, &x) && rf_jinja_as_number(b, &y)) return x == y;
    if (a.type != b.type) return 0;
    switch (a.type) {
    case RF_JINJA_STRING:
    case RF_JINJA_BIG: return rf_str_same(rf_jinja_bytes(a), rf_jinja_bytes(b));
    case RF_JINJA_LIST:
    case RF_JINJA_TUPLE: return same_lists(run, a.u.list, b.u.list);
    case RF_JINJA_DICT: return same_dicts(run, a.u.dict, b.u.dict);
    case RF_JINJA_NAMESPACE: return a.u.dict == b.u.dict;
    case RF_JINJA_LOOP: return a.u.loop == b.u.loop;
    case RF_JINJA_CALLABLE: return a.u.callable == b.u.callable;
    default: return 1;
    }
}

int rf_jinja_equal(struct rf_jinja_run *run, value a, value b)
{
    /* Values cannot contain themselves, but a list that is nested in itself by hand is as deep as
     * the template is long. */
    int same = 0;
    int texts = a.type == RF_JINJA_STRING && b.type == RF_JINJA_STRING;
    if (run->depth >= RF_JINJA_MAX_DEPTH)
        rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "its values are nested too deeply");
    if (rf_jinja_charge(run, RF_JINJA_ITEM + (texts && a.bytes == b.bytes ? a.bytes / 8 : 0)))
        return 0;
    run->depth++;
    same = same_values(run, a, b);
    run->depth--;
    return same;
}

/* Digits without leading zeros: the longer number is farther from zero. */
static int order_big(value a, value b)
{
    int negative = *a.u.data == '-';
    if (negative != (*b.u.data == '-')) return negative ? -1 : 1;
    int order = a.bytes != b.bytes ? (a.bytes > b.bytes) - (a.bytes < b.bytes)
                                   : memcmp(a.u.data, b.u.data, a.bytes);
    return negative ? -order : order;
}

int rf_jinja_order(struct rf_jinja_run *run, value a, value b)
{
    double x, y;
    int64_t i, j;
    if (rf_jinja_as_integer(a, &i) && rf_jinja_as_integer(b, &j)) return (i > j) - (i < j);
    if (a.type == RF_JINJA_BIG && b.type == RF_JINJA_BIG) return order_big(a, b);
    if (rf_jinja_as_number(a, &x) && rf_jinja_as_number(b, &y)) return (x > y) - (x < y);
    if (a.type == RF_JINJA_STRING && b.type == RF_JINJA_STRING) {
        rf_jinja_charge(run, RF_JINJA_ITEM + (a.bytes < b.bytes ? a.bytes : b.bytes) / 8);
        return rf_str_order(rf_jinja_bytes(a), rf_jinja_bytes(b));
    }
    if (rf_jinja_is_sequence(a) && a.type == b.type) {
        const struct rf_jinja_list *p = a.u.list, *q = b.u.list;
        if (rf_jinja_steps(run, 1) || run->depth >= RF_JINJA_MAX_DEPTH) return 0;
        run->depth++;
        int order = 0;
        for (size_t k = 0; !order && k < p->n && k < q->n; k++)
            if (!rf_jinja_equal(run, p->items[k], q->items[k]))
                order = rf_jinja_order(run, p->items[k], q->items[k]);
        run->depth--;
        return order ? order : (p->n > q->n) - (p->n < q->n);
    }
    rf_jinja_fail(run, RF_ERR_ARGUMENT, "it cannot compare %s with %s", rf_jinja_type_name(a),
                  rf_jinja_type_name(b));
    return 0;
}

size_t rf_jinja_search(struct rf_jinja_run *run, struct rf_str text, struct rf_str wanted,
                       size_t from)
{
    if (wanted.bytes == 0) return from <= text.bytes ? from : SIZE_MAX;
    while (from < text.bytes && text.bytes - from >= wanted.bytes) {
        size_t window = text.bytes - from - wanted.bytes + 1;
        const char *at = memchr(text.data + from, wanted.data[0], window);
        size_t passed = at ? (size_t)(at - text.data) - from : window;
        if (rf_jinja_charge(run, RF_JINJA_KEY + passed / 16) || !at) break;
        from += passed;
        if (memcmp(at, wanted.data, wanted.bytes) == 0) {
            rf_jinja_charge(run, wanted.bytes);
            return from;
        }
        size_t same = 1;
        while (at[same] == wanted.data[same]) same++;
        rf_jinja_charge(run, same);
        from++;
    }
    return SIZE_MAX;
}

int rf_jinja_contains(struct rf_jinja_run *run, value container, value item)
{
    if (container.type == RF_JINJA_STRING) {
        if (item.type != RF_JINJA_STRING) {
            rf_jinja_mistyped(run, "look in a string for", item);
            return 0;
        }
        return rf_jinja_search(run, rf_jinja_bytes(container), rf_jinja_bytes(item), 0) != SIZE_MAX;
    }
    if (container.type == RF_JINJA_DICT) return rf_jinja_find(run, container.u.dict, item) != NULL;
    const struct rf_jinja_list *list = rf_jinja_iterate(run, container);
    for (size_t i = 0; list && i < list->n && !run->code; i++)
        if (rf_jinja_equal(run, list->items[i], item)) return 1;
    return 0;
}

int64_t rf_jinja_length(struct rf_jinja_run *run, value v)
{
    int64_t n = 0;
    switch (v.type) {
    case RF_JINJA_UNDEFINED: return 0;
    case RF_JINJA_LIST:
    case RF_JINJA_TUPLE: return (int64_t)v.u.list->n;
    case RF_JINJA_DICT: return (int64_t)v.u.dict->n;
    case RF_JINJA_STRING:
        rf_jinja_charge(run, v.bytes * RF_JINJA_KEY / 2);
        for (size_t at = 0; at < v.bytes; at += rf_jinja_char(rf_jinja_bytes(v), at)) n++;
        return n;
    default: rf_jinja_mistyped(run, "count", v); return -1;
    }
}

struct rf_jinja_list *rf_jinja_iterate(struct rf_jinja_run *run, value v)
{
    value list;
    switch (v.type) {
    case RF_JINJA_LIST:
    case RF_JINJA_TUPLE: return v.u.list;
    case RF_JINJA_UNDEFINED: return rf_jinja_list(run).u.list;
    case RF_JINJA_DICT:
        list = rf_jinja_list(run);
        for (size_t i = 0; i < v.u.dict->n && !run->code; i++)
            rf_jinja_add(run, list, v.u.dict->keys[i]);
        break;
    case RF_JINJA_STRING:
        list = rf_jinja_list(run);
        for (size_t at = 0, length; at < v.bytes && !run->code; at += length) {
            length = rf_jinja_char(rf_jinja_bytes(v), at);
            value one = rf_jinja_cut(v, at, at + length);
            one.marked = 0; /* markupsafe gives plain characters */
            rf_jinja_add(run, list, one);
        }
        break;
    default: rf_jinja_mistyped(run, "iterate over", v); return NULL;
    }
    return run->code ? NULL : list.u.list;
}

value rf_jinja_cut(value string, size_t from, size_t to)
{
    if (from >= to || string.bytes == 0) return rf_jinja_string((struct rf_str){"", 0}, 0);
    value part = string;
    part.u.data += from;
    part.bytes = to - from;
    if (part.origins) part.origins += from;
    return part;
}

size_t rf_jinja_char(struct rf_str text, size_t at)
{
    size_t length = rf_utf8_length(text.data + at, text.bytes - at);
    return length ? length : 1;
}

/* ---- arguments of functions ---- */

const value *rf_jinja_given(const struct arguments *arguments, size_t place, struct rf_str name)
{
    if (place < arguments->n) return &arguments->positional[place];
    for (size_t i = 0; i < arguments->n_named; i++)
        if (rf_str_same(arguments->names[i], name)) return &arguments->named[i];
    return NULL;
}

value rf_jinja_argument(const struct arguments *arguments, size_t place, const char *name,
                        value otherwise)
{
    const value *found = rf_jinja_given(arguments, place, rf_str_of(name));
    return found ? *found : otherwise;
}

value rf_jinja_text_argument(struct rf_jinja_run *run, const struct arguments *arguments,
                             size_t place, const char *name)
{
    value v = rf_jinja_argument(arguments, place, name, rf_jinja_none());
    if (v.type == RF_JINJA_STRING) return v;
    rf_jinja_mistyped(run, "take as a text", v);
    return rf_jinja_text("");
}
