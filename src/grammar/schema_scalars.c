/* Schemas of strings and numbers, and of values that are listed one by one. schema.c calls it
 * for a conjunction whose types include them. */
#include "grammar/schema.h"

#include <math.h>

static const struct {
    const char *name, *pattern;
} formats[] = {
#define DAY31 "(0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])"
#define DAY30 "(0[469]|11)-(0[1-9]|[12]\\d|30)"
#define DATE "\\d{4}-(" DAY31 "|" DAY30 "|02-(0[1-9]|1\\d|2[0-8]))"
#define CLOCK "([01]\\d|2[0-3]):[0-5]\\d"
#define TIME CLOCK ":[0-5]\\d(\\.\\d{1,9})?(Z|[+-]" CLOCK ")"
#define BYTE "(\\d|[1-9]\\d|1\\d\\d|2[0-4]\\d|25[0-5])"
#define HEX4 "[0-9a-fA-F]{4}"
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"uuid", "^" HEX4 HEX4 "-" HEX4 "-" HEX4 "-" HEX4 "-" HEX4 HEX4 HEX4 "$"},
    {"ipv4", "^" BYTE "(\\." BYTE "){3}$"},
    {"email", "^[a-z0-9]+([._+-][a-z0-9]+){0,8}@([a-z0-9]+(-[a-z0-9]+){0,4}\\.){1,4}[a-z]{2,16}$"},
};

/* ---- enum and const ---- */

static size_t count_code_points(struct rf_str text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.bytes; i++) n += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return n;
}

int rf_schema_lists(const struct rf_json *schema, const struct rf_json *value)
{
    const struct rf_json *list = rf_json_get(schema, "enum");
    int found = !list;
    for (size_t i = 0; i < rf_json_count(list) && !found; i++)
        found = rf_json_same(rf_json_at(list, i), value);
    if (!rf_json_has(schema, "const")) return found;
    const struct rf_json *only = rf_json_get(schema, "const");
    return found && (only ? rf_json_same(only, value) : rf_json_is_null(value));
}

static int is_within(const struct rf_json *schema, double number)
{
    double limit;
    if (rf_json_number(rf_json_get(schema, "minimum"), &limit) && number < limit) return 0;
    if (rf_json_number(rf_json_get(schema, "maximum"), &limit) && number > limit) return 0;
    if (rf_json_number(rf_json_get(schema, "exclusiveMinimum"), &limit) && number <= limit)
        return 0;
    return !(rf_json_number(rf_json_get(schema, "exclusiveMaximum"), &limit) && number >= limit);
}

/* Whether a listed value meets a member. `is_own`: it is the member that lists it. */
static int meets(struct rf_schema_reader *r, const struct rf_schema_member *m,
                 const struct rf_json *value, int is_own)
{
    int type = rf_json_type(value);
    struct rf_str text;
    double number;
    if (!(rf_schema_types(r, m) & type)) return 0;
    if ((!is_own || rf_json_has(m->schema, "const")) && !rf_schema_lists(m->schema, value))
        return 0;
    if (rf_json_number(value, &number)) return is_within(m->schema, number);
    static const char *const hard[] = {
        "pattern", "format",      "properties",      "required", "additionalProperties",
        "items",   "prefixItems", "additionalItems", "minItems", "maxItems"};
    for (size_t k = 0; k < sizeof hard / sizeof *hard; k++)
        if (rf_json_has(m->schema, hard[k]))
            rf_schema_bad(r, RF_ERR_UNSUPPORTED, rf_pointer_to(r, m->pointer, hard[k]),
                          "this is not supported together with enum or const");
    if (!rf_json_string(value, &text)) return 1;
    int64_t n = (int64_t)count_code_points(text), most = rf_schema_count(r, m, "maxLength");
    return n >= rf_schema_count(r, m, "minLength") && (most < 0 || n <= most);
}

static const struct rf_expr *literal(struct rf_schema_reader *r, const struct rf_json *value)
{
    struct rf_bytes bytes = {0};
    struct rf_writer out = {r->ir->arena.allocator, &bytes, r->ir->error, 0};
    rf_json_write(value, &out);
    if (out.code && !r->ir->code) r->ir->code = out.code;
    const struct rf_expr *expr = rf_ir_text(r->ir, (struct rf_str){bytes.data, bytes.count});
    rf_bytes_free(out.allocator, &bytes);
    return expr;
}

static int meets_all(struct rf_schema_reader *r, const struct rf_conjunction *c,
                     const struct rf_json *value, const struct rf_schema_member *lists)
{
    for (int32_t i = 0; i < c->n; i++)
        if (!meets(r, &c->members[i], value, &c->members[i] == lists)) return 0;
    return 1;
}

const struct rf_expr *rf_schema_listed(struct rf_schema_reader *r, const struct rf_conjunction *c,
                                       const struct rf_schema_member *m)
{
    const struct rf_json *list = rf_json_get(m->schema, "enum");
    const struct rf_expr **values = rf_schema_take(r, rf_json_count(list) + 1, sizeof *values);
    size_t n = 0;
    if (!values) return NULL;
    if (rf_json_has(m->schema, "enum") && !rf_json_is_array(list)) {
        rf_schema_bad(r, RF_ERR_FORMAT, rf_pointer_to(r, m->pointer, "enum"),
                      "this is not an array");
        return NULL;
    }
    for (size_t i = 0; i < rf_json_count(list) && !r->ir->code; i++)
        if (meets_all(r, c, rf_json_at(list, i), m)) values[n++] = literal(r, rf_json_at(list, i));
    if (!list) {
        const struct rf_json *only = rf_json_get(m->schema, "const");
        for (void *i = NULL; !only;) { /* null is a member that rf_json_get does not give */
            struct rf_str key;
            const struct rf_json *value;
            if (!rf_json_next(m->schema, &i, &key, &value)) break;
            if (rf_str_is(key, "const")) only = value;
        }
        if (only && meets_all(r, c, only, m)) values[n++] = literal(r, only);
    }
    return n ? rf_ir_choice(r->ir, values, n)
             : rf_schema_none(r, rf_pointer_to(r, m->pointer, list ? "enum" : "const"),
                              "none of these values meets the rest of the schema");
}

/* ---- strings ---- */

const struct rf_expr *rf_schema_quoted(struct rf_schema_reader *r, const struct rf_expr *inside)
{
    return rf_text_sequence(r->ir, rf_text(r->ir, "\""), inside, rf_text(r->ir, "\""));
}

static const struct rf_expr *format_of(struct rf_schema_reader *r, struct rf_str name,
                                       const char *pointer)
{
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        if (rf_str_is(name, formats[f].name))
            return rf_text_pattern(r->ir, rf_str_of(formats[f].pattern), pointer);
    rf_schema_bad(r, RF_ERR_UNSUPPORTED, pointer,
                  "known formats are date, time, date-time, uuid, ipv4 and email");
    return NULL;
}

/* A rule for an expression that many places share. */
static const struct rf_expr *shared_rule(struct rf_schema_reader *r, int32_t *rule,
                                         const char *name,
                                         const struct rf_expr *(*make)(struct rf_schema_reader *r))
{
    if (*rule < 0) {
        *rule = rf_ir_add_rule(r->ir, rf_str_of(name), name);
        const struct rf_expr *expr = make(r);
        if (*rule >= 0 && !r->ir->code) r->ir->rules[*rule].expr = expr;
    }
    return r->ir->code ? NULL : rf_ir_rule(r->ir, *rule);
}

static const struct rf_expr *make_string(struct rf_schema_reader *r)
{
    return rf_schema_quoted(r, rf_ir_repeat(r->ir, r->character, 0, -1));
}

const struct rf_expr *rf_schema_any_string(struct rf_schema_reader *r)
{
    return shared_rule(r, &r->string_rule, "string", make_string);
}

const struct rf_expr *rf_schema_string(struct rf_schema_reader *r, const struct rf_conjunction *c)
{
    struct rf_schema_limits length = rf_schema_counts(r, c, "minLength", "maxLength");
    const struct rf_expr *inside = NULL;
    const char *pointer = NULL;
    for (int32_t i = 0; i < c->n; i++) {
        static const char *const keys[] = {"pattern", "format"};
        for (int k = 0; k < 2; k++) {
            const struct rf_json *value = rf_json_get(c->members[i].schema, keys[k]);
            struct rf_str text;
            if (!value) continue;
            const char *place = rf_pointer_to(r, c->members[i].pointer, keys[k]);
            if (!rf_json_string(value, &text)) {
                rf_schema_bad(r, RF_ERR_FORMAT, place, "this is not a string");
                return NULL;
            }
            if (inside || pointer || length.least > 0 || length.most >= 0) {
                rf_schema_bad(r, RF_ERR_UNSUPPORTED, place,
                              "this is not supported together with another limit of the string");
                return NULL;
            }
            pointer = place;
            inside = k ? format_of(r, text, place) : rf_text_pattern(r->ir, text, place);
        }
    }
    if (pointer) return rf_schema_quoted(r, inside);
    if (length.most >= 0 && length.least > length.most)
        return rf_schema_none(r, length.pointer, "minLength is over maxLength");
    if (length.least == 0 && length.most < 0) return rf_schema_any_string(r);
    return rf_schema_quoted(
        r, rf_ir_repeat(r->ir, r->character, (int32_t)length.least, (int32_t)length.most));
}

/* ---- numbers ---- */

/* Takes one bound into the limits. */
static void limit_number(struct rf_schema_reader *r, const struct rf_schema_member *m,
                         const char *key, int is_low, int is_excluded, int is_integer,
                         struct rf_number_limits *limits)
{
    const struct rf_json *value = rf_json_get(m->schema, key);
    double number;
    if (!value) return;
    const char *pointer = rf_pointer_to(r, m->pointer, key);
    if (!rf_json_number(value, &number)) {
        rf_schema_bad(r, RF_ERR_FORMAT, pointer, "this is not a number");
        return;
    }
    double whole = is_low ? ceil(number) : floor(number);
    if (fabs(whole) > 1e15) {
        rf_schema_bad(r, RF_ERR_UNSUPPORTED, pointer, "limits of numbers are supported up to 1e15");
        return;
    }
    int64_t bound = (int64_t)whole;
    if (whole != number) {
        if (!is_integer) {
            rf_schema_bad(r, RF_ERR_UNSUPPORTED, pointer,
                          "limits of numbers that are no integers must be integers themselves");
            return;
        }
        is_excluded = 0;
    }
    if (is_integer && is_excluded) {
        bound += is_low ? 1 : -1;
        is_excluded = 0;
    }
    if (is_low && (bound > limits->low || (bound == limits->low && is_excluded))) {
        limits->low = bound;
        limits->low_excluded = is_excluded;
    }
    if (!is_low && (bound < limits->high || (bound == limits->high && is_excluded))) {
        limits->high = bound;
        limits->high_excluded = is_excluded;
    }
}

static struct rf_number_limits limits_of(struct rf_schema_reader *r, const struct rf_conjunction *c,
                                         int is_integer)
{
    struct rf_number_limits limits = {.low = INT64_MIN, .high = INT64_MAX};
    for (int32_t i = 0; i < c->n; i++) {
        const struct rf_schema_member *m = &c->members[i];
        limit_number(r, m, "minimum", 1, 0, is_integer, &limits);
        limit_number(r, m, "maximum", 0, 0, is_integer, &limits);
        limit_number(r, m, "exclusiveMinimum", 1, 1, is_integer, &limits);
        limit_number(r, m, "exclusiveMaximum", 0, 1, is_integer, &limits);
    }
    return limits;
}

static const struct rf_number_limits no_limits = {.low = INT64_MIN, .high = INT64_MAX};

static const struct rf_expr *make_number(struct rf_schema_reader *r)
{
    return rf_text_number(r->ir, &no_limits);
}

static const struct rf_expr *make_integer(struct rf_schema_reader *r)
{
    return rf_text_integer(r->ir, &no_limits);
}

const struct rf_expr *rf_schema_number(struct rf_schema_reader *r, const struct rf_conjunction *c,
                                       int types)
{
    int is_integer = (types & RF_JSON_NUMBER) == RF_JSON_INTEGER;
    struct rf_number_limits limits = limits_of(r, c, is_integer);
    if (limits.low == INT64_MIN && limits.high == INT64_MAX)
        return is_integer ? shared_rule(r, &r->integer_rule, "integer", make_integer)
                          : shared_rule(r, &r->number_rule, "number", make_number);
    const struct rf_expr *expr =
        is_integer ? rf_text_integer(r->ir, &limits) : rf_text_number(r->ir, &limits);
    return rf_text_is_none(expr)
               ? rf_schema_none(r, rf_conjunction_pointer(c),
                                "no number is between the minimum and the maximum")
               : expr;
}
