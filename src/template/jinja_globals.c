/* The functions that every template may call: those of jinja2 (range, dict, namespace, joiner,
 * cycler) and of transformers (raise_exception, strftime_now). jinja_eval.c looks them up where no
 * variable has the name. */
#include <string.h>

#include "platform/clock.h"
#include "template/jinja_functions.h"

enum { MAX_RANGE = 100000 }; /* the bound of jinja2's sandbox */

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
    for (int64_t i = bounds[0]; (up ? i < bounds[1] : i > bounds[1]) && !run->code;) {
        if (list.u.list->n == MAX_RANGE)
            return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "a range is too long");
        rf_jinja_add(run, list, rf_jinja_integer(i));
        if (__builtin_add_overflow(i, bounds[2], &i)) break;
    }
    return list;
}

static void add_pair(struct rf_jinja_run *run, value dict, value pair)
{
    if (rf_jinja_is_sequence(pair) && pair.u.list->n == 2)
        rf_jinja_insert(run, dict.u.dict, rf_jinja_pair_key(pair), rf_jinja_pair_value(pair));
    else
        rf_jinja_mistyped(run, "make an item of a dict of", pair);
}

FUNCTION(global_dict)
{
    value dict = rf_jinja_dict(run), first = ARGUMENT(0, "", rf_jinja_none());
    (void)self;
    if (dict.type != RF_JINJA_DICT) return dict;
    if (first.type == RF_JINJA_DICT)
        for (size_t i = 0; i < first.u.dict->n && !run->code; i++)
            rf_jinja_insert(run, dict.u.dict, first.u.dict->keys[i], first.u.dict->values[i]);
    else if (rf_jinja_is_sequence(first))
        for (size_t i = 0; i < first.u.list->n && !run->code; i++)
            add_pair(run, dict, first.u.list->items[i]);
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
    static const struct builtin joiner = {"joiner", call_joiner, BUILTIN_CONSTANT};
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
    static const struct builtin next = {"next", call_cycler_next, BUILTIN_CONSTANT},
                                reset = {"reset", call_cycler_reset, BUILTIN_CONSTANT};
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
    struct rf_str wanted = rf_jinja_bytes(rf_jinja_text_argument(run, arguments, 0, "format"));
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
    static const struct builtin globals[] = {{"range", global_range, 0},
                                             {"dict", global_dict, 0},
                                             {"namespace", global_namespace, 0},
                                             {"joiner", global_joiner, 0},
                                             {"cycler", global_cycler, 0},
                                             {"raise_exception", global_raise_exception, 0},
                                             {"strftime_now", global_strftime_now, 0}};
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
        if (rf_str_is(name, globals[i].name)) return &globals[i];
    return NULL;
}
