/* Walks the tree of nodes that jinja_parse.c made; jinja.c calls it once for each rendering. A
 * failure is kept in the run; after it, evaluation goes on with undefined values until it returns.
 */
#include <string.h>

#include "template/jinja_parts.h"

static value eval(struct rf_jinja_run *run, const struct node *node);
static void exec_list(struct rf_jinja_run *run, const struct node *node);

static int run_enter(struct rf_jinja_run *run)
{
    if (run->depth >= RF_JINJA_MAX_DEPTH)
        rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "it is nested too deeply");
    if (rf_jinja_steps(run, 1)) return 0;
    run->depth++;
    return 1;
}

/* ---- scopes ---- */

static struct scope *open_scope(struct rf_jinja_run *run, struct scope *parent)
{
    struct scope *scope = rf_jinja_take(run, 1, sizeof *scope);
    if (!scope) return &run->globals;
    scope->parent = parent;
    return scope;
}

static value name_value(struct rf_str name)
{
    return rf_jinja_string(name, 0);
}

static value look_up_name(struct rf_jinja_run *run, struct rf_str name)
{
    for (const struct scope *scope = run->scope; scope; scope = scope->parent) {
        if (rf_jinja_charge(run, RF_JINJA_KEY * scope->names.n)) break;
        for (size_t i = 0; i < scope->names.n; i++)
            if (rf_str_same(rf_jinja_bytes(scope->names.keys[i]), name))
                return scope->names.values[i];
    }
    const struct builtin *global = rf_jinja_global(name);
    return global ? rf_jinja_function(run, global, rf_jinja_none()) : rf_jinja_undefined(name);
}

static void assign(struct rf_jinja_run *run, const struct node *target, value v)
{
    if (target->kind == NODE_NAME) {
        rf_jinja_insert(run, &run->scope->names, name_value(target->text), v);
    } else if (target->kind == NODE_ATTRIBUTE) {
        value object = eval(run, target->a);
        if (object.type != RF_JINJA_NAMESPACE)
            rf_jinja_mistyped(run, "set an attribute of", object);
        else
            rf_jinja_insert(run, object.u.dict, name_value(target->text), v);
    } else {
        const struct rf_jinja_list *items = rf_jinja_iterate(run, v);
        size_t i = 0;
        const struct node *part = target->children;
        for (; items && part && i < items->n; part = part->next)
            assign(run, part, items->items[i++]);
        if (items && (part || i < items->n))
            rf_jinja_fail(run, RF_ERR_ARGUMENT,
                          "%zu values are unpacked to another number of names", items->n);
    }
}

/* ---- statements ---- */

/* A block's rendering is HTML where texts are escaped. */
static value block_text(const struct rf_jinja_run *run, value text)
{
    text.marked = run->escapes != 0;
    return text;
}

static value capture(struct rf_jinja_run *run, const struct node *body, struct scope *scope)
{
    struct output out = {0}, *around = run->output;
    struct scope *outside = run->scope;
    run->output = &out;
    run->scope = scope;
    exec_list(run, body);
    run->output = around;
    run->scope = outside;
    return block_text(run, rf_jinja_written(run, &out));
}

/* Renders the body of a block and hands it to the block's filters. */
static value filtered(struct rf_jinja_run *run, const struct node *block)
{
    value outer = run->captured;
    run->captured = capture(run, block->body, open_scope(run, run->scope));
    value result = eval(run, block->b);
    run->captured = outer;
    return result;
}

static void exec_if(struct rf_jinja_run *run, const struct node *node)
{
    for (const struct node *arm = node->children; arm && !run->code; arm = arm->next) {
        if (arm->a && !rf_jinja_truth(eval(run, arm->a))) continue;
        exec_list(run, arm->body);
        break;
    }
}

/* The items for which the loop's condition holds. */
static struct rf_jinja_list *loop_items(struct rf_jinja_run *run, const struct node *node,
                                        value iterable)
{
    struct rf_jinja_list *items = rf_jinja_iterate(run, iterable);
    if (!items || !node->c) return items;
    struct scope *outside = run->scope;
    value kept = rf_jinja_list(run);
    for (size_t i = 0; i < items->n && !run->code; i++) {
        run->scope = open_scope(run, outside);
        assign(run, node->a, items->items[i]);
        if (rf_jinja_truth(eval(run, node->c))) rf_jinja_add(run, kept, items->items[i]);
    }
    run->scope = outside;
    return run->code ? NULL : kept.u.list;
}

static void run_loop(struct rf_jinja_run *run, const struct node *node, value iterable, int depth)
{
    struct scope *outside = run->scope;
    struct rf_jinja_loop *loop = rf_jinja_take(run, 1, sizeof *loop);
    struct rf_jinja_list *items = loop ? loop_items(run, node, iterable) : NULL;
    if (!items) return;
    *loop = (struct rf_jinja_loop){
        .node = node, .scope = outside, .items = items, .depth = depth, .changed = {0}};
    value state = {.type = RF_JINJA_LOOP, .u.loop = loop};
    for (size_t i = 0; i < items->n && !rf_jinja_steps(run, 1); i++) {
        loop->index = i;
        run->scope = open_scope(run, outside);
        assign(run, node->a, items->items[i]);
        rf_jinja_insert(run, &run->scope->names, rf_jinja_text("loop"), state);
        exec_list(run, node->body);
        int stop = run->flow == FLOW_BREAK;
        run->flow = FLOW_ON;
        if (stop) break;
    }
    run->scope = open_scope(run, outside);
    if (items->n == 0) exec_list(run, node->other);
    run->scope = outside;
}

static value macro_value(struct rf_jinja_run *run, const struct node *node)
{
    return rf_jinja_callable_value(run,
                                   (struct rf_jinja_callable){.macro = node, .scope = run->scope});
}

static void exec_with(struct rf_jinja_run *run, const struct node *node)
{
    struct scope *outside = run->scope, *inside = open_scope(run, outside);
    for (const struct node *set = node->children; set && !run->code; set = set->next)
        rf_jinja_insert(run, &inside->names, name_value(set->a->text), eval(run, set->b));
    run->scope = inside;
    exec_list(run, node->body);
    run->scope = outside;
}

static void exec_autoescape(struct rf_jinja_run *run, const struct node *node)
{
    int around = run->escapes;
    run->escapes = rf_jinja_truth(eval(run, node->a));
    struct scope *outside = run->scope;
    run->scope = open_scope(run, outside);
    exec_list(run, node->body);
    run->scope = outside;
    run->escapes = around;
}

static value eval_call(struct rf_jinja_run *run, const struct node *node, value caller);

static void print(struct rf_jinja_run *run, value v)
{
    rf_jinja_write_str(run, run->output, run->escapes ? rf_jinja_escape(run, v) : v);
}

void rf_jinja_exec(struct rf_jinja_run *run, const struct node *node)
{
    struct scope *outside = run->scope;
    run->line = node->line;
    switch (node->kind) {
    case NODE_DATA: rf_jinja_write(run, run->output, rf_jinja_string(node->text, 0)); break;
    case NODE_PRINT: print(run, eval(run, node->a)); break;
    case NODE_IF: exec_if(run, node); break;
    case NODE_FOR: run_loop(run, node, eval(run, node->b), 0); break;
    case NODE_SET: assign(run, node->a, eval(run, node->b)); break;
    case NODE_SET_BLOCK: assign(run, node->a, filtered(run, node)); break;
    case NODE_FILTER_BLOCK: print(run, filtered(run, node)); break;
    case NODE_MACRO:
        rf_jinja_insert(run, &run->scope->names, name_value(node->text), macro_value(run, node));
        break;
    case NODE_CALL_BLOCK: print(run, eval_call(run, node->a, macro_value(run, node->b))); break;
    case NODE_WITH: exec_with(run, node); break;
    case NODE_SCOPE:
        run->scope = open_scope(run, outside);
        if (!run->top) run->top = run->scope;
        exec_list(run, node->body);
        run->scope = outside;
        break;
    case NODE_AUTOESCAPE: exec_autoescape(run, node); break;
    case NODE_BLOCK:
        run->scope = open_scope(run, node->flag ? outside : run->top);
        exec_list(run, node->body);
        run->scope = outside;
        break;
    case NODE_BREAK: run->flow = FLOW_BREAK; break;
    case NODE_CONTINUE: run->flow = FLOW_CONTINUE; break;
    default: break;
    }
}

static void exec_list(struct rf_jinja_run *run, const struct node *node)
{
    if (!run_enter(run)) return;
    for (; node && !run->flow && !rf_jinja_steps(run, 1); node = node->next)
        rf_jinja_exec(run, node);
    run->depth--;
}

/* ---- calls ---- */

static void add_named_argument(struct rf_jinja_run *run, struct arguments *arguments, size_t cap,
                               struct rf_str name, value v)
{
    if (!arguments->names) {
        arguments->names = rf_jinja_take(run, cap, sizeof *arguments->names);
        arguments->named = rf_jinja_take(run, cap, sizeof *arguments->named);
    }
    if (run->code) return;
    arguments->names[arguments->n_named] = name;
    arguments->named[arguments->n_named++] = v;
}

/* Arguments that a list makes, with the starred ones spread out. */
static size_t count_arguments(const struct node *list, const value *values)
{
    size_t n = 0;
    for (size_t i = 0; list; list = list->next, i++)
        n += list->op == 0                     ? 1
             : values[i].type == RF_JINJA_DICT ? values[i].u.dict->n
                                               : values[i].u.list->n;
    return n;
}

static void eval_arguments(struct rf_jinja_run *run, const struct node *list,
                           struct arguments *arguments)
{
    size_t n = 0, i = 0;
    for (const struct node *one = list; one; one = one->next) n++;
    value *values = n ? rf_jinja_take(run, n, sizeof *values) : NULL;
    if (!values) return;
    for (const struct node *one = list; one; one = one->next, i++) {
        values[i] = eval(run, one->a);
        if (one->op == 1 && !rf_jinja_is_sequence(values[i]))
            rf_jinja_mistyped(run, "spread", values[i]);
        if (one->op == 2 && values[i].type != RF_JINJA_DICT)
            rf_jinja_mistyped(run, "spread", values[i]);
    }
    if (run->code) return;
    size_t cap = count_arguments(list, values);
    arguments->positional = rf_jinja_take(run, cap + 1, sizeof *values);
    i = 0;
    for (const struct node *one = list; one && !run->code; one = one->next, i++) {
        value v = values[i];
        if (one->op == 2)
            for (size_t k = 0; k < v.u.dict->n; k++)
                add_named_argument(run, arguments, cap, rf_jinja_bytes(v.u.dict->keys[k]),
                                   v.u.dict->values[k]);
        else if (one->op == 1)
            for (size_t k = 0; k < v.u.list->n; k++)
                arguments->positional[arguments->n++] = v.u.list->items[k];
        else if (one->text.data)
            add_named_argument(run, arguments, cap, one->text, v);
        else
            arguments->positional[arguments->n++] = v;
    }
}

/* The arguments that no parameter takes, as `varargs` and `kwargs`. */
static void bind_rest(struct rf_jinja_run *run, struct scope *scope, const struct node *parameters,
                      const struct arguments *arguments)
{
    size_t n = 0;
    value rest = rf_jinja_tuple(run), others = rf_jinja_dict(run);
    for (const struct node *one = parameters; one; one = one->next) n++;
    for (; n < arguments->n && !run->code; n++) rf_jinja_add(run, rest, arguments->positional[n]);
    for (size_t i = 0; i < arguments->n_named && !run->code; i++) {
        const struct node *one = parameters;
        while (one && !rf_str_same(one->text, arguments->names[i])) one = one->next;
        if (!one && !rf_str_is(arguments->names[i], "caller"))
            rf_jinja_insert(run, others.u.dict, name_value(arguments->names[i]),
                            arguments->named[i]);
    }
    rf_jinja_insert(run, &scope->names, rf_jinja_text("varargs"), rest);
    rf_jinja_insert(run, &scope->names, rf_jinja_text("kwargs"), others);
}

static value call_macro(struct rf_jinja_run *run, const struct rf_jinja_callable *callable,
                        const struct arguments *arguments)
{
    struct scope *scope = open_scope(run, callable->scope), *outside = run->scope;
    size_t place = 0;
    run->scope = scope;
    for (const struct node *one = callable->macro->children; one && !run->code; one = one->next) {
        const value *found = rf_jinja_given(arguments, place++, one->text);
        value v = found ? *found : one->a ? eval(run, one->a) : rf_jinja_undefined(one->text);
        rf_jinja_insert(run, &scope->names, name_value(one->text), v);
    }
    run->scope = outside;
    value caller = rf_jinja_argument(arguments, SIZE_MAX, "caller", rf_jinja_none());
    if (caller.type == RF_JINJA_CALLABLE)
        rf_jinja_insert(run, &scope->names, rf_jinja_text("caller"), caller);
    if (callable->macro->flag && !run->code)
        bind_rest(run, scope, callable->macro->children, arguments);
    return capture(run, callable->macro->body, scope);
}

static value call_loop(struct rf_jinja_run *run, const struct rf_jinja_loop *loop,
                       const struct arguments *arguments)
{
    if (!loop->node->flag || arguments->n != 1)
        return rf_jinja_fail(run, RF_ERR_ARGUMENT, "it calls a loop that is not recursive");
    struct output out = {0}, *around = run->output;
    struct scope *outside = run->scope;
    run->output = &out;
    run->scope = loop->scope;
    run_loop(run, loop->node, arguments->positional[0], loop->depth + 1);
    run->output = around;
    run->scope = outside;
    return block_text(run, rf_jinja_written(run, &out));
}

static value call_value(struct rf_jinja_run *run, value callee, const struct arguments *arguments)
{
    uint32_t line = run->line;
    value result = {0};
    if (!run_enter(run)) return result;
    if (callee.type == RF_JINJA_LOOP)
        result = call_loop(run, callee.u.loop, arguments);
    else if (callee.type != RF_JINJA_CALLABLE)
        rf_jinja_mistyped(run, "call", callee);
    else if (callee.u.callable->builtin)
        result = rf_jinja_call(run, callee.u.callable->builtin, callee.u.callable->self, arguments);
    else
        result = call_macro(run, callee.u.callable, arguments);
    run->depth--;
    run->line = line;
    return result;
}

/* `caller`: of a call block, or no callable. */
static value eval_call(struct rf_jinja_run *run, const struct node *node, value caller)
{
    struct arguments arguments = {0};
    value callee = eval(run, node->a);
    eval_arguments(run, node->arguments, &arguments);
    if (caller.type == RF_JINJA_CALLABLE) {
        struct rf_str *names = rf_jinja_take(run, arguments.n_named + 1, sizeof *names);
        value *named = rf_jinja_take(run, arguments.n_named + 1, sizeof *named);
        if (run->code) return (value){0};
        for (size_t i = 0; i < arguments.n_named; i++) {
            names[i] = arguments.names[i];
            named[i] = arguments.named[i];
        }
        names[arguments.n_named] = rf_str_of("caller");
        named[arguments.n_named++] = caller;
        arguments.names = names;
        arguments.named = named;
    }
    return run->code ? (value){0} : call_value(run, callee, &arguments);
}

/* ---- slices ---- */

/* A bound of a slice; `otherwise` for None. Negative ones count from the end. */
static int64_t slice_bound(struct rf_jinja_run *run, const struct node *node, int64_t n,
                           int64_t lowest, int64_t highest, int64_t otherwise)
{
    int64_t index;
    value v = node ? eval(run, node) : rf_jinja_none();
    if (v.type == RF_JINJA_NONE) return otherwise;
    if (!rf_jinja_as_integer(v, &index)) {
        rf_jinja_mistyped(run, "slice with", v);
        return otherwise;
    }
    if (index < 0) index = index < -n ? lowest : index + n;
    return index < lowest ? lowest : index > highest ? highest : index;
}

static value slice_string(struct rf_jinja_run *run, value object, int64_t from, int64_t to)
{
    struct rf_str text = rf_jinja_bytes(object);
    size_t begin = 0, end;
    rf_jinja_charge(run, text.bytes * RF_JINJA_KEY);
    for (int64_t i = 0; i < from && begin < text.bytes; i++) begin += rf_jinja_char(text, begin);
    end = begin;
    for (int64_t i = from; i < to && end < text.bytes; i++) end += rf_jinja_char(text, end);
    return rf_jinja_cut(object, begin, end);
}

static value eval_slice(struct rf_jinja_run *run, const struct node *node)
{
    value object = eval(run, node->a), step = node->d ? eval(run, node->d) : rf_jinja_none();
    int64_t by = 1;
    if (object.type == RF_JINJA_UNDEFINED) return rf_jinja_mistyped(run, "slice", object);
    if (!rf_jinja_is_sequence(object) && object.type != RF_JINJA_STRING)
        return rf_jinja_undefined(rf_str_of("a slice"));
    if (step.type != RF_JINJA_NONE && (!rf_jinja_as_integer(step, &by) || by == 0))
        return rf_jinja_mistyped(run, "slice by", step);
    int64_t n = rf_jinja_length(run, object), lowest = by < 0 ? -1 : 0,
            highest = by < 0 ? n - 1 : n;
    int64_t from = slice_bound(run, node->b, n, lowest, highest, by < 0 ? n - 1 : 0);
    int64_t to = slice_bound(run, node->c, n, lowest, highest, by < 0 ? -1 : n);
    if (object.type == RF_JINJA_STRING && by == 1) return slice_string(run, object, from, to);
    struct rf_jinja_list *items = rf_jinja_iterate(run, object);
    value list = object.type == RF_JINJA_TUPLE ? rf_jinja_tuple(run) : rf_jinja_list(run);
    for (int64_t i = from; items && (by > 0 ? i < to : i > to) && !run->code;) {
        rf_jinja_add(run, list, items->items[i]);
        if (by > n || by < -n) break;
        i += by;
    }
    if (object.type != RF_JINJA_STRING) return list;
    value joined = rf_jinja_join(run, rf_jinja_text(""), list);
    joined.marked = object.marked;
    return joined;
}

/* ---- expressions ---- */

static value eval_compare(struct rf_jinja_run *run, const struct node *node)
{
    value left = eval(run, node->a);
    for (const struct node *next = node->children; next && !run->code; next = next->next) {
        value right = eval(run, next->a);
        if (!rf_jinja_compare(run, (enum binary_op)next->op, left, right)) return rf_jinja_bool(0);
        left = right;
    }
    return rf_jinja_bool(1);
}

/* `and` and `or` give the operand that decides. */
static value eval_logic(struct rf_jinja_run *run, const struct node *node)
{
    value v = {0};
    for (const struct node *one = node->children; one && !run->code; one = one->next) {
        v = eval(run, one);
        if (rf_jinja_truth(v) == (node->kind == NODE_OR)) break;
    }
    return v;
}

static value negative_big(struct rf_jinja_run *run, value v)
{
    int negative = *v.u.data == '-';
    char *text = rf_jinja_take(run, v.bytes + 2, 1);
    if (!text) return (value){0};
    *text = '-';
    memcpy(text + !negative, v.u.data + negative, v.bytes - (size_t)negative);
    v.bytes = strlen(text);
    v.u.data = text;
    return v;
}

static value eval_sign(struct rf_jinja_run *run, const struct node *node)
{
    value v = eval(run, node->a);
    double real;
    if (!rf_jinja_as_number(v, &real)) return rf_jinja_mistyped(run, "negate", v);
    if (v.type == RF_JINJA_BIG) return node->kind == NODE_NEGATIVE ? negative_big(run, v) : v;
    if (v.type != RF_JINJA_FLOAT)
        return rf_jinja_compute(run, node->kind == NODE_NEGATIVE ? OP_SUBTRACT : OP_ADD,
                                rf_jinja_integer(0), v);
    return rf_jinja_real(node->kind == NODE_NEGATIVE ? -real : real);
}

static value eval_list(struct rf_jinja_run *run, const struct node *node)
{
    value list = node->kind == NODE_TUPLE ? rf_jinja_tuple(run) : rf_jinja_list(run);
    for (const struct node *one = node->children; one && !run->code; one = one->next)
        rf_jinja_add(run, list, eval(run, one));
    return list;
}

static value eval_dict(struct rf_jinja_run *run, const struct node *node)
{
    value dict = rf_jinja_dict(run);
    for (const struct node *key = node->children; key && !run->code; key = key->next->next) {
        value name = eval(run, key);
        rf_jinja_insert(run, dict.u.dict, name, eval(run, key->next));
    }
    return dict;
}

static value eval_concat(struct rf_jinja_run *run, const struct node *node)
{
    struct output out = {0};
    int html = 0;
    value list = rf_jinja_list(run);
    for (const struct node *one = node->children; one && !run->code; one = one->next) {
        value v = eval(run, one);
        html |= run->escapes && v.type == RF_JINJA_STRING && v.marked;
        rf_jinja_add(run, list, v);
    }
    for (size_t i = 0; !run->code && i < list.u.list->n; i++) {
        value v = list.u.list->items[i];
        rf_jinja_write_str(run, &out, html ? rf_jinja_escape(run, v) : v);
    }
    value text = rf_jinja_written(run, &out);
    text.marked = html != 0;
    return text;
}

static value eval_builtin(struct rf_jinja_run *run, const struct node *node)
{
    struct arguments arguments = {0};
    value subject = eval(run, node->a);
    eval_arguments(run, node->arguments, &arguments);
    run->line = node->line;
    if (!node->builtin)
        return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "the %s %.*s is not known",
                             node->kind == NODE_TEST ? "test" : "filter", rf_shown(node->text),
                             node->text.data);
    return run->code ? (value){0} : rf_jinja_call(run, node->builtin, subject, &arguments);
}

static value eval_node(struct rf_jinja_run *run, const struct node *node)
{
    value v;
    switch (node->kind) {
    case NODE_CONSTANT: return node->constant;
    case NODE_NAME: return look_up_name(run, node->text);
    case NODE_CAPTURED: return run->captured;
    case NODE_LIST:
    case NODE_TUPLE: return eval_list(run, node);
    case NODE_DICT: return eval_dict(run, node);
    case NODE_ATTRIBUTE:
        return rf_jinja_attribute(run, eval(run, node->a), name_value(node->text), 1);
    case NODE_ITEM:
        v = eval(run, node->a);
        return rf_jinja_attribute(run, v, eval(run, node->b), 0);
    case NODE_SLICE: return eval_slice(run, node);
    case NODE_CALL: return eval_call(run, node, rf_jinja_none());
    case NODE_FILTER: return eval_builtin(run, node);
    case NODE_TEST:
        v = eval_builtin(run, node);
        return rf_jinja_bool(rf_jinja_truth(v) != node->flag);
    case NODE_AND:
    case NODE_OR: return eval_logic(run, node);
    case NODE_NOT: return rf_jinja_bool(!rf_jinja_truth(eval(run, node->a)));
    case NODE_CHOICE:
        if (rf_jinja_truth(eval(run, node->b))) return eval(run, node->a);
        return node->c ? eval(run, node->c) : rf_jinja_undefined((struct rf_str){"", 0});
    case NODE_CONCAT: return eval_concat(run, node);
    case NODE_COMPARE: return eval_compare(run, node);
    case NODE_BINARY:
        v = eval(run, node->a);
        return rf_jinja_compute(run, (enum binary_op)node->op, v, eval(run, node->b));
    default: return eval_sign(run, node);
    }
}

static value eval(struct rf_jinja_run *run, const struct node *node)
{
    if (!run_enter(run)) return (value){0};
    run->line = node->line;
    value v = eval_node(run, node);
    run->depth--;
    return run->code ? (value){0} : v;
}
