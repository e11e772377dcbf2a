/* Makes the expressions that readers of GBNF and of schemas write and automaton.c reads.
 * Expressions live in the ir's arena and are simplified as they are made; the first failure
 * stays, and all later calls do nothing. */
#include "grammar/ir.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char what[] = "the grammar";

enum { SHORT = 64 /* parts of a sequence that is simplified */ };

enum {
    WATCHED_STEPS = 1024, /* steps between two questions: well under a millisecond */
    MOST_STEPS = 48 << 20 /* bound for a whole grammar: a few seconds */
};

int rf_watch_steps(struct rf_watch *watch, uint64_t n, struct rf_error *error)
{
    if (!watch) return 0;
    uint64_t before = watch->steps / WATCHED_STEPS;
    watch->steps += n;
    if (watch->steps / WATCHED_STEPS == before) return 0;
    if (watch->steps > MOST_STEPS)
        return rf_fail(error, RF_ERR_UNSUPPORTED, "the grammar takes too long to compile");
    if (!watch->stops || !watch->stops(watch->user)) return 0;
    return rf_fail(error, RF_ERR_CANCELLED, "compiling the grammar was cancelled");
}

int rf_ir_steps(struct rf_ir *ir, uint64_t n)
{
    if (!ir->code) ir->code = rf_watch_steps(ir->watch, n, ir->error);
    return ir->code;
}

int rf_ir_step(struct rf_ir *ir)
{
    return rf_ir_steps(ir, 1);
}

void rf_ir_free(struct rf_ir *ir)
{
    rf_free(ir->arena.allocator, ir->rules);
    rf_arena_free(&ir->arena);
}

int rf_ir_fail(struct rf_ir *ir, int code, const char *format, ...)
{
    if (ir->code) return ir->code;
    char text[sizeof ir->error->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return ir->code = rf_fail(ir->error, code, "%s", text);
}

static void *ir_take(struct rf_ir *ir, size_t count, size_t size)
{
    if (rf_ir_step(ir)) return NULL;
    void *memory = rf_arena_alloc(&ir->arena, count, size, what, ir->error);
    if (!memory) ir->code = RF_ERR_MEMORY;
    return memory;
}

static char *ir_copy(struct rf_ir *ir, const char *text, size_t n)
{
    char *made = ir_take(ir, n + 1, 1);
    if (made && n) memcpy(made, text, n);
    return made;
}

/* The place of a name in the table: its rule's, or a free one. NULL: there is no memory. */
static int32_t *place_of(struct rf_ir *ir, struct rf_str name)
{
    enum { PLACES = 2 * RF_IR_RULES };
    uint32_t hash = 2166136261u; /* FNV-1a */
    if (!ir->places) ir->places = ir_take(ir, PLACES, sizeof *ir->places);
    if (!ir->places) return NULL;
    for (size_t i = 0; i < name.bytes; i++) hash = (hash ^ (unsigned char)name.data[i]) * 16777619u;
    for (uint32_t at = hash % PLACES;; at = (at + 1) % PLACES) {
        int32_t *place = &ir->places[at];
        if (!*place || rf_str_same(ir->rules[*place - 1].name, name)) return place;
    }
}

int32_t rf_ir_add_rule(struct rf_ir *ir, struct rf_str name, const char *shown)
{
    if (ir->n_rules == RF_IR_RULES)
        rf_ir_fail(ir, RF_ERR_UNSUPPORTED, "%s: a grammar has at most %d rules", shown,
                   (int)RF_IR_RULES);
    struct rf_rule rule = {
        {ir_copy(ir, name.data, name.bytes), name.bytes}, ir_copy(ir, shown, strlen(shown)), NULL};
    if (ir->code) return -1;
    struct rf_rule *grown = rf_grow(ir->arena.allocator, ir->rules, ir->n_rules, 1, &ir->cap_rules,
                                    sizeof *grown, what, ir->error);
    if (!grown) {
        ir->code = RF_ERR_MEMORY;
        return -1;
    }
    ir->rules = grown;
    ir->rules[ir->n_rules] = rule;
    int32_t *place = name.bytes ? place_of(ir, name) : NULL;
    if (place && !*place) *place = (int32_t)ir->n_rules + 1;
    return (int32_t)ir->n_rules++;
}

int32_t rf_ir_find_rule(struct rf_ir *ir, struct rf_str name)
{
    const int32_t *place = place_of(ir, name);
    return place ? *place - 1 : -1;
}

static struct rf_expr *new_expr(struct rf_ir *ir, enum rf_expr_kind kind, size_t n)
{
    if (ir->n_exprs == RF_IR_EXPRS || n > RF_IR_EXPRS)
        rf_ir_fail(ir, RF_ERR_UNSUPPORTED, "the grammar is too large: over %d expressions",
                   (int)RF_IR_EXPRS);
    struct rf_expr *expr = ir_take(ir, 1, sizeof *expr);
    if (!expr) return NULL;
    ir->n_exprs++;
    expr->kind = kind;
    expr->n = (int32_t)n;
    return expr;
}

const struct rf_expr *rf_ir_text(struct rf_ir *ir, struct rf_str text)
{
    struct rf_expr *expr = new_expr(ir, RF_EXPR_TEXT, text.bytes);
    if (expr) expr->text = ir_copy(ir, text.data, text.bytes);
    return ir->code ? NULL : expr;
}

static int range_order(const void *a, const void *b)
{
    const struct rf_range *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

size_t rf_ranges_join(struct rf_range *ranges, size_t n)
{
    size_t left = 0;
    if (n) qsort(ranges, n, sizeof *ranges, range_order);
    for (size_t i = 0; i < n; i++) {
        if (left && ranges[i].low <= ranges[left - 1].high + 1) {
            if (ranges[left - 1].high < ranges[i].high) ranges[left - 1].high = ranges[i].high;
        } else {
            ranges[left++] = ranges[i];
        }
    }
    return left;
}

/* A set of characters from joined ranges, of which surrogates are left out: no text has them. */
static const struct rf_expr *chars(struct rf_ir *ir, const struct rf_range *joined, size_t n)
{
    struct rf_expr *expr = new_expr(ir, RF_EXPR_CHARS, n);
    struct rf_range *ranges = ir_take(ir, n + 1, sizeof *ranges);
    if (!ranges) return NULL;
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t low = joined[i].low, high = joined[i].high;
        if (high > 0x10ffff) high = 0x10ffff;
        if (low < 0xd800) ranges[left++] = (struct rf_range){low, high < 0xd800 ? high : 0xd7ff};
        if (high > 0xdfff && low <= high)
            ranges[left++] = (struct rf_range){low > 0xdfff ? low : 0xe000, high};
    }
    expr->n = (int32_t)left;
    expr->ranges = ranges;
    return expr;
}

static struct rf_range *joined_copy(struct rf_ir *ir, const struct rf_range *ranges, size_t *n)
{
    struct rf_range *made = ir_take(ir, *n + 1, sizeof *made);
    if (!made) return NULL;
    if (*n) memcpy(made, ranges, *n * sizeof *made);
    *n = rf_ranges_join(made, *n);
    return made;
}

const struct rf_expr *rf_ir_chars(struct rf_ir *ir, const struct rf_range *ranges, size_t n)
{
    struct rf_range *joined = joined_copy(ir, ranges, &n);
    return joined ? chars(ir, joined, n) : NULL;
}

const struct rf_expr *rf_ir_chars_without(struct rf_ir *ir, const struct rf_range *ranges, size_t n)
{
    struct rf_range *joined = joined_copy(ir, ranges, &n);
    if (!joined) return NULL;
    uint32_t next = 0;
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        struct rf_range range = joined[i];
        if (range.low > next) joined[left++] = (struct rf_range){next, range.low - 1};
        next = range.high + 1;
    }
    if (next <= 0x10ffff) joined[left++] = (struct rf_range){next, 0x10ffff};
    return chars(ir, joined, left);
}

static const struct rf_expr *ir_group(struct rf_ir *ir, enum rf_expr_kind kind,
                                      const struct rf_expr *const *parts, size_t n)
{
    if (n == 1) return parts[0];
    struct rf_expr *expr = new_expr(ir, kind, n);
    const struct rf_expr **copied = ir_take(ir, n, sizeof *copied);
    if (!copied) return NULL;
    if (n) memcpy(copied, parts, n * sizeof *copied);
    expr->parts = copied;
    return expr;
}

/* Bytes that a part always is, with their number; NULL: it is not always the same, or no ASCII. */
static const char *fixed_bytes(const struct rf_expr *part, char *byte, size_t *n)
{
    *n = 1;
    if (part->kind == RF_EXPR_TEXT) {
        *n = (size_t)part->n;
        return part->text;
    }
    if (part->kind != RF_EXPR_CHARS || part->n != 1 || part->ranges[0].high > 0x7f ||
        part->ranges[0].low != part->ranges[0].high)
        return NULL;
    *byte = (char)part->ranges[0].low;
    return byte;
}

/* Fixed parts beside each other as one text: automata share the beginnings of texts. */
static size_t join_texts(struct rf_ir *ir, const struct rf_expr *const *parts, size_t n,
                         const struct rf_expr **joined)
{
    size_t left = 0;
    for (size_t i = 0, end; i < n && !ir->code; i = end) {
        size_t bytes = 0, one;
        char byte;
        for (end = i; end < n && fixed_bytes(parts[end], &byte, &one); end++) bytes += one;
        if (end <= i + 1) {
            end = i + 1;
            joined[left++] = parts[i];
            continue;
        }
        char *text = ir_take(ir, bytes + 1, 1), *at = text;
        for (size_t k = i; text && k < end; k++) {
            const char *fixed = fixed_bytes(parts[k], &byte, &one);
            memcpy(at, fixed, one);
            at += one;
        }
        if (text) joined[left++] = rf_ir_text(ir, (struct rf_str){text, bytes});
    }
    return left;
}

const struct rf_expr *rf_ir_sequence(struct rf_ir *ir, const struct rf_expr *const *parts, size_t n)
{
    const struct rf_expr *joined[SHORT];
    if (n > 1 && n <= SHORT && !ir->code && !ir->keeps_form) {
        n = join_texts(ir, parts, n, joined);
        parts = joined;
    }
    return ir_group(ir, RF_EXPR_SEQUENCE, parts, n);
}

const struct rf_expr *rf_ir_choice(struct rf_ir *ir, const struct rf_expr *const *parts, size_t n)
{
    return ir_group(ir, RF_EXPR_CHOICE, parts, n);
}

static int is_empty_text(const struct rf_expr *e)
{
    return (e->kind == RF_EXPR_TEXT || e->kind == RF_EXPR_SEQUENCE) && e->n == 0;
}

/* Makes (A | "")  A?. */
static const struct rf_expr *optional_of(struct rf_ir *ir, const struct rf_expr *choice)
{
    const struct rf_expr **left = ir_take(ir, (size_t)choice->n, sizeof *left);
    size_t n = 0;
    for (int32_t i = 0; left && i < choice->n; i++)
        if (!is_empty_text(choice->parts[i])) left[n++] = choice->parts[i];
    if (!left || n == (size_t)choice->n) return choice;
    return rf_ir_repeat(ir, rf_ir_choice(ir, left, n), 0, 1);
}

/* Counts of one repetition for two in each other, where their texts are the same: (A?){m,n} is
 * A{0,n}, (A*){m,n} is A*, (A+){m,n} is A{m,}. 1 if they are. */
static int join_repeats(const struct rf_expr *inner, int32_t *least, int32_t *most)
{
    if (inner->kind != RF_EXPR_REPEAT || inner->least > 1 || *most == 0) return 0;
    if (inner->least == 1 && inner->most != -1) return 0;
    if (inner->most != -1 && *most > 0 && inner->most > RF_IR_REPEATS / *most) return 0;
    if (inner->least == 0) *least = 0;
    *most = inner->most == -1 || *most == -1 ? -1 : inner->most * *most;
    return 1;
}

const struct rf_expr *rf_ir_repeat(struct rf_ir *ir, const struct rf_expr *repeated, int32_t least,
                                   int32_t most)
{
    if (ir->code || !repeated) return NULL;
    if (!ir->keeps_form) {
        if (is_empty_text(repeated)) return repeated;
        if (repeated->kind == RF_EXPR_CHOICE && repeated->n > 1)
            repeated = optional_of(ir, repeated);
        if (!repeated) return NULL;
        if (join_repeats(repeated, &least, &most)) repeated = repeated->repeated;
    }
    struct rf_expr *expr = new_expr(ir, RF_EXPR_REPEAT, 0);
    if (!expr || !repeated) return NULL;
    expr->repeated = repeated;
    expr->least = least;
    expr->most = most;
    return expr;
}

const struct rf_expr *rf_ir_rule(struct rf_ir *ir, int32_t rule)
{
    struct rf_expr *expr = new_expr(ir, RF_EXPR_RULE, 0);
    if (expr) expr->rule = rule;
    return expr;
}
