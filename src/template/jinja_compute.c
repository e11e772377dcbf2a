/* The operators of two values: arithmetic and comparison as Python defines them, on 64-bit integers
 * that fail where Python's would grow. jinja_eval.c calls it with evaluated operands. */
#include <math.h>

#include "template/jinja_parts.h"

static value add_lists(struct rf_jinja_run *run, value a, value b)
{
    value sum = a.type == RF_JINJA_TUPLE ? rf_jinja_tuple(run) : rf_jinja_list(run);
    for (size_t i = 0; i < a.u.list->n && !run->code; i++)
        rf_jinja_add(run, sum, a.u.list->items[i]);
    for (size_t i = 0; i < b.u.list->n && !run->code; i++)
        rf_jinja_add(run, sum, b.u.list->items[i]);
    return sum;
}

static value repeat_value(struct rf_jinja_run *run, value v, int64_t times)
{
    struct output out = {0};
    value list = v.type == RF_JINJA_TUPLE ? rf_jinja_tuple(run) : rf_jinja_list(run);
    for (int64_t i = 0; i < times && !rf_jinja_charge(run, RF_JINJA_KEY); i++) {
        if (v.type == RF_JINJA_STRING)
            rf_jinja_write(run, &out, v);
        else
            for (size_t k = 0; k < v.u.list->n && !run->code; k++)
                rf_jinja_add(run, list, v.u.list->items[k]);
    }
    if (v.type != RF_JINJA_STRING) return list;
    value text = rf_jinja_written(run, &out);
    text.marked = v.marked;
    return text;
}

/* Escapes a text that is joined with HTML. */
static value add_texts(struct rf_jinja_run *run, value a, value b)
{
    struct output out = {0};
    rf_jinja_write(run, &out, rf_jinja_beside(run, a, b));
    rf_jinja_write(run, &out, rf_jinja_beside(run, b, a));
    value sum = rf_jinja_written(run, &out);
    sum.marked = a.marked || b.marked;
    return sum;
}

static value power(struct rf_jinja_run *run, int64_t base, int64_t exponent)
{
    int64_t result = 1;
    if (exponent < 0) return rf_jinja_real(pow((double)base, (double)exponent));
    if (base >= -1 && base <= 1) exponent = exponent % 2 + (exponent > 0 ? 2 : 0);
    for (; exponent > 0; exponent--)
        if (__builtin_mul_overflow(result, base, &result))
            return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "a number is out of range");
    return rf_jinja_integer(result);
}

/* Floors, as Python does. */
static value divide_integers(struct rf_jinja_run *run, enum binary_op op, int64_t a, int64_t b)
{
    if (b == 0) return rf_jinja_fail(run, RF_ERR_ARGUMENT, "it divides by zero");
    if (op == OP_DIVIDE) return rf_jinja_real((double)a / (double)b);
    if (b == -1 && a == INT64_MIN)
        return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "a number is out of range");
    int64_t quotient = a / b, rest = a % b;
    if (rest && (rest < 0) != (b < 0)) quotient--, rest += b;
    return rf_jinja_integer(op == OP_FLOOR ? quotient : rest);
}

static value compute_integers(struct rf_jinja_run *run, enum binary_op op, int64_t a, int64_t b)
{
    int64_t result = 0;
    int wrapped = 0;
    switch (op) {
    case OP_ADD: wrapped = __builtin_add_overflow(a, b, &result); break;
    case OP_SUBTRACT: wrapped = __builtin_sub_overflow(a, b, &result); break;
    case OP_MULTIPLY: wrapped = __builtin_mul_overflow(a, b, &result); break;
    case OP_POWER: return power(run, a, b);
    default: return divide_integers(run, op, a, b);
    }
    if (wrapped) return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "a number is out of range");
    return rf_jinja_integer(result);
}

static value compute_reals(struct rf_jinja_run *run, enum binary_op op, double a, double b)
{
    if (b == 0 && (op == OP_DIVIDE || op == OP_FLOOR || op == OP_MODULO))
        return rf_jinja_fail(run, RF_ERR_ARGUMENT, "it divides by zero");
    switch (op) {
    case OP_ADD: return rf_jinja_real(a + b);
    case OP_SUBTRACT: return rf_jinja_real(a - b);
    case OP_MULTIPLY: return rf_jinja_real(a * b);
    case OP_DIVIDE: return rf_jinja_real(a / b);
    case OP_FLOOR: return rf_jinja_real(floor(a / b));
    case OP_MODULO: return rf_jinja_real(a - b * floor(a / b));
    default: return rf_jinja_real(pow(a, b));
    }
}

value rf_jinja_compute(struct rf_jinja_run *run, enum binary_op op, value a, value b)
{
    static const char *const whats[] = {"add",    "subtract", "multiply", "divide",
                                        "divide", "divide",   "raise"};
    int64_t i, j;
    double x, y;
    int integer_a = rf_jinja_as_integer(a, &i), integer_b = rf_jinja_as_integer(b, &j);
    if (integer_a && integer_b) return compute_integers(run, op, i, j);
    int big = a.type == RF_JINJA_BIG || b.type == RF_JINJA_BIG;
    int numbers = rf_jinja_as_number(a, &x) && rf_jinja_as_number(b, &y);
    if (numbers && big && a.type != RF_JINJA_FLOAT && b.type != RF_JINJA_FLOAT)
        return rf_jinja_fail(run, RF_ERR_UNSUPPORTED, "a number is out of range");
    if (numbers) return compute_reals(run, op, x, y);
    if (op == OP_ADD && a.type == RF_JINJA_STRING && b.type == RF_JINJA_STRING)
        return add_texts(run, a, b);
    if (op == OP_ADD && rf_jinja_is_sequence(a) && a.type == b.type) return add_lists(run, a, b);
    if (op == OP_MULTIPLY && integer_b && (a.type == RF_JINJA_STRING || rf_jinja_is_sequence(a)))
        return repeat_value(run, a, j);
    if (op == OP_MULTIPLY && integer_a && (b.type == RF_JINJA_STRING || rf_jinja_is_sequence(b)))
        return repeat_value(run, b, i);
    if (op == OP_MODULO && a.type == RF_JINJA_STRING) {
        struct arguments one = {.positional = &b, .n = 1};
        if (b.type == RF_JINJA_TUPLE)
            one = (struct arguments){.positional = b.u.list->items, .n = b.u.list->n};
        return rf_jinja_percent(run, a, &one);
    }
    if (a.type == RF_JINJA_UNDEFINED || b.type == RF_JINJA_UNDEFINED)
        return rf_jinja_mistyped(run, whats[op], a.type == RF_JINJA_UNDEFINED ? a : b);
    return rf_jinja_fail(run, RF_ERR_ARGUMENT, "it cannot %s %s and %s", whats[op],
                         rf_jinja_type_name(a), rf_jinja_type_name(b));
}

int rf_jinja_compare(struct rf_jinja_run *run, enum binary_op op, value a, value b)
{
    switch (op) {
    case OP_EQUAL: return rf_jinja_equal(run, a, b);
    case OP_UNEQUAL: return !rf_jinja_equal(run, a, b);
    case OP_IN: return rf_jinja_contains(run, b, a);
    case OP_NOT_IN: return !rf_jinja_contains(run, b, a);
    case OP_LESS: return rf_jinja_order(run, a, b) < 0;
    case OP_GREATER: return rf_jinja_order(run, a, b) > 0;
    case OP_AT_MOST: return rf_jinja_order(run, a, b) <= 0;
    default: return rf_jinja_order(run, a, b) >= 0;
    }
}
