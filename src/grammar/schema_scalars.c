/* Schemas of strings and numbers, and of values that are listed one by one. schema.c calls it
 * for a conjunction whose types include them. */
#include "base/decimal.h"
#include "grammar/multiple_text.h"
#include "grammar/schema.h"

/* Formats by RFC 3339 (dates and times, with capital T and Z; its appendix A: durations), 4122,
 * 2673, 4291, 1123, 5321 (without quoted local parts and address literals) and 3986. */
static const struct {
    const char *name, *pattern;
} formats[] = {
#define DAY31 "(0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])"
#define DAY30 "(0[469]|11)-(0[1-9]|[12]\\d|30)"
#define LEAP_YEAR "(\\d\\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
#define DATE "(\\d{4}-(" DAY31 "|" DAY30 "|02-(0[1-9]|1\\d|2[0-8]))|" LEAP_YEAR "-02-29)"
#define HOUR_MINUTE "([01]\\d|2[0-3]):[0-5]\\d"
#define TIME HOUR_MINUTE ":[0-5]\\d(\\.\\d+)?(Z|[+-]" HOUR_MINUTE ")"
#define LEAP_SECOND "23:59:60(\\.\\d+)?(Z|[+-]00:00)"
#define CLOCK_TIME "T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S)"
#define CALENDAR_TIME "(\\d+D|\\d+M(\\d+D)?|\\d+Y(\\d+M(\\d+D)?)?)"
#define BYTE "(\\d|[1-9]\\d|1\\d\\d|2[0-4]\\d|25[0-5])"
#define IPV4 BYTE "(\\." BYTE "){3}"
#define HEX4 "[0-9a-fA-F]{4}"
#define H16 "[0-9a-fA-F]{1,4}"
#define LAST32 "(" H16 ":" H16 "|" IPV4 ")"
#define BEFORE(n) "((" H16 ":){0," n "}" H16 ")?::"
#define IPV6                                                                                      \
    "((" H16 ":){6}" LAST32 "|::(" H16 ":){5}" LAST32 "|(" H16 ")?::(" H16 ":){4}" LAST32         \
    "|" BEFORE("1") "(" H16 ":){3}" LAST32 "|" BEFORE("2") "(" H16 ":){2}" LAST32 "|" BEFORE("3") \
        H16 ":" LAST32 "|" BEFORE("4") LAST32 "|" BEFORE("5") H16 "|" BEFORE("6") ")"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define HOST LABEL "(\\." LABEL ")*"
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define NAME_CHAR "([A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})"
#define PATH_CHAR "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define QUERY_CHAR "([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})"
#define SEGMENTS "(/" PATH_CHAR "*)*"
#define AUTHORITY "//((" NAME_CHAR "|:)*@)?(" NAME_CHAR "*|\\[" IPV6 "\\])(:\\d*)?"
#define PATH "(" AUTHORITY SEGMENTS "|/(" PATH_CHAR "+" SEGMENTS ")?|" PATH_CHAR "+" SEGMENTS ")?"
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$|^" LEAP_SECOND "$"},
    {"date-time", "^" DATE "T" TIME "$|^\\d{4}-(06-30|12-31)T" LEAP_SECOND "$"},
    {"duration", "^P(" CALENDAR_TIME "(" CLOCK_TIME ")?|" CLOCK_TIME "|\\d+W)$"},
    {"uuid", "^" HEX4 HEX4 "-" HEX4 "-" HEX4 "-" HEX4 "-" HEX4 HEX4 HEX4 "$"},
    {"ipv4", "^" IPV4 "$"},
    {"ipv6", "^" IPV6 "$"},
    {"hostname", "^" HOST "$"},
    {"email", "^" ATOM "(\\." ATOM ")*@" HOST "$"},
    {"uri", "^[A-Za-z][A-Za-z0-9+.-]*:" PATH "(\\?" QUERY_CHAR "*)?(#" QUERY_CHAR "*)?$"},
};

/* ---- enum and const ---- */

static size_t count_code_points(struct rf_str text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.bytes; i++) n += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return n;
}

int rf_schema_lists(struct rf_schema_reader *r, const struct rf_json *schema,
                    const struct rf_json *value)
{
    const struct rf_json *list = rf_json_get(schema, "enum");
    int found = !list;
    for (size_t i = 0; i < rf_json_count(list) && !found && !rf_ir_steps(r->ir, 2); i++)
        found = rf_json_same(rf_json_at(list, i), value);
    if (!rf_json_has(schema, "const")) return found;
    const struct rf_json *only = rf_json_get(schema, "const");
    return found && (only ? rf_json_same(only, value) : rf_json_is_null(value));
}

/* The order of the number and a keyword's, times `sign`; 1 if there is no such keyword. */
static int order_to(const struct rf_json *schema, const char *key, int sign, struct rf_str number)
{
    char buffer[RF_JSON_NUMBER_BUFFER];
    struct rf_str limit;
    if (!rf_json_number_string(rf_json_get(schema, key), buffer, &limit)) return 1;
    struct rf_decimal a = rf_decimal_of(number.data, number.bytes),
                      b = rf_decimal_of(limit.data, limit.bytes);
    return sign * rf_decimal_order(&a, &b);
}

/* 1 and the member's multipleOf, a size of 0 where it has none; 0 after a failure. */
static int multiple_in(struct rf_schema_reader *r, const struct rf_schema_member *m,
                       struct rf_multiple *multiple)
{
    const struct rf_json *value = rf_json_get(m->schema, "multipleOf");
    char buffer[RF_JSON_NUMBER_BUFFER];
    struct rf_str number;
    *multiple = (struct rf_multiple){0};
    if (!value) return 1;
    const char *pointer = rf_pointer_to(r, m->pointer, "multipleOf");
    if (!rf_json_number_string(value, buffer, &number) ||
        order_to(m->schema, "multipleOf", 1, rf_str_of("0")) >= 0)
        rf_schema_bad(r, RF_ERR_FORMAT, pointer, "this is not a number above 0");
    else if (!rf_multiple_of(number, multiple))
        rf_schema_bad(r, RF_ERR_UNSUPPORTED, pointer,
                      "supported are up to 15 digits, six of them behind the point");
    return !r->ir->code;
}

static int is_within(const struct rf_json *schema, struct rf_str number)
{
    return order_to(schema, "minimum", 1, number) >= 0 &&
           order_to(schema, "maximum", -1, number) >= 0 &&
           order_to(schema, "exclusiveMinimum", 1, number) > 0 &&
           order_to(schema, "exclusiveMaximum", -1, number) > 0;
}

/* Whether a listed value meets a member. `is_own`: it is the member that lists it. */
static int meets(struct rf_schema_reader *r, const struct rf_schema_member *m,
                 const struct rf_json *value, int is_own)
{
    int type = rf_json_type(value);
    char buffer[RF_JSON_NUMBER_BUFFER];
    struct rf_str text;
    if (!(rf_schema_types(r, m) & type)) return 0;
    if ((!is_own || rf_json_has(m->schema, "const")) && !rf_schema_lists(r, m->schema, value))
        return 0;
    if (rf_json_number_string(value, buffer, &text)) {
        struct rf_multiple multiple;
        return multiple_in(r, m, &multiple) && is_within(m->schema, text) &&
               (!multiple.size || rf_multiple_divides(multiple, text));
    }
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

static const struct rf_expr *literal(struct rf_schema_reader *r, const struct rf_conjunction *c,
                                     const struct rf_json *value)
{
    struct rf_str plain;
    if (c->is_plain && rf_json_string(value, &plain)) return rf_ir_text(r->ir, plain);
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
        if (meets_all(r, c, rf_json_at(list, i), m))
            values[n++] = literal(r, c, rf_json_at(list, i));
    if (!list) {
        const struct rf_json *only = rf_json_get(m->schema, "const");
        for (void *i = NULL; !only;) { /* null is a member that rf_json_get does not give */
            struct rf_str key;
            const struct rf_json *value;
            if (!rf_json_next(m->schema, &i, &key, &value)) break;
            if (rf_str_is(key, "const")) only = value;
        }
        if (only && meets_all(r, c, only, m)) values[n++] = literal(r, c, only);
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
                                       enum rf_pattern_form form, const char *pointer)
{
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        if (rf_str_is(name, formats[f].name))
            return rf_text_pattern(r->ir, rf_str_of(formats[f].pattern), form, pointer);
    rf_schema_bad(r, RF_ERR_UNSUPPORTED, pointer,
                  "known formats are date, time, date-time, duration, uuid, ipv4, ipv6, hostname, "
                  "email and uri");
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

/* A string as it is, up to r->until. */
static const struct rf_expr *plain_string(struct rf_schema_reader *r, int64_t least, int64_t most)
{
    return least <= 0 && most < 0 ? rf_text_without(r->ir, r->until)
                                  : rf_ir_repeat(r->ir, rf_text_character_without(r->ir, r->until),
                                                 least < 0 ? 0 : (int32_t)least, (int32_t)most);
}

const struct rf_expr *rf_schema_string(struct rf_schema_reader *r, const struct rf_conjunction *c)
{
    struct rf_schema_limits length = rf_schema_counts(r, c, "minLength", "maxLength");
    enum rf_pattern_form form = c->is_plain ? RF_PATTERN_PLAIN : RF_PATTERN_QUOTED;
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
            inside =
                k ? format_of(r, text, form, place) : rf_text_pattern(r->ir, text, form, place);
        }
    }
    if (pointer) return c->is_plain ? inside : rf_schema_quoted(r, inside);
    if (length.most >= 0 && length.least > length.most)
        return rf_schema_none(r, length.pointer, "minLength is over maxLength");
    if (c->is_plain) return plain_string(r, length.least, length.most);
    if (length.least == 0 && length.most < 0) return rf_schema_any_string(r);
    return rf_schema_quoted(
        r, rf_ir_repeat(r->ir, r->character, (int32_t)length.least, (int32_t)length.most));
}

/* ---- numbers ---- */

/* Takes one bound into the limits. */
static void limit_number(struct rf_schema_reader *r, const struct rf_schema_member *m,
                         const char *key, int is_low, int is_excluded,
                         struct rf_number_limits *limits)
{
    const struct rf_json *value = rf_json_get(m->schema, key);
    struct rf_number_limit *held = is_low ? &limits->low : &limits->high;
    char buffer[RF_JSON_NUMBER_BUFFER];
    struct rf_str number;
    int is_too_long;
    if (!value || r->ir->code) return;
    if (!rf_json_number_string(value, buffer, &number)) {
        rf_schema_bad(r, RF_ERR_FORMAT, rf_pointer_to(r, m->pointer, key), "this is not a number");
        return;
    }
    struct rf_number_limit limit = rf_number_limit_of(r->ir, number, is_excluded, &is_too_long);
    if (is_too_long)
        rf_schema_bad(r, RF_ERR_UNSUPPORTED, rf_pointer_to(r, m->pointer, key),
                      "limits of numbers have at most 1000 digits before the point and behind it");
    if (r->ir->code) return;
    int order = held->whole ? rf_number_limit_order(&limit, held) : 0;
    if (!held->whole || (is_low ? order > 0 : order < 0) || (order == 0 && is_excluded))
        *held = limit;
}

static struct rf_number_limits limits_of(struct rf_schema_reader *r, const struct rf_conjunction *c)
{
    struct rf_number_limits limits = {.low.whole = NULL};
    for (int32_t i = 0; i < c->n; i++) {
        const struct rf_schema_member *m = &c->members[i];
        limit_number(r, m, "minimum", 1, 0, &limits);
        limit_number(r, m, "maximum", 0, 0, &limits);
        limit_number(r, m, "exclusiveMinimum", 1, 1, &limits);
        limit_number(r, m, "exclusiveMaximum", 0, 1, &limits);
    }
    return limits;
}

/* 1 and the least common multiple of all members' multipleOf. */
static int multiple_of_all(struct rf_schema_reader *r, const struct rf_conjunction *c,
                           struct rf_multiple *all)
{
    *all = (struct rf_multiple){0};
    for (int32_t i = 0; i < c->n; i++) {
        struct rf_multiple one;
        if (!multiple_in(r, &c->members[i], &one)) return 0;
        if (!one.size) continue;
        if (!all->size)
            *all = one;
        else if (!rf_multiple_join(all, one) || all->places > RF_MULTIPLE_PLACES)
            rf_schema_bad(r, RF_ERR_UNSUPPORTED,
                          rf_pointer_to(r, c->members[i].pointer, "multipleOf"),
                          "the least common multiple of this and others is too large");
    }
    return !r->ir->code;
}

static const struct rf_number_limits no_limits = {.low.whole = NULL};

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
    struct rf_number_limits limits = limits_of(r, c);
    struct rf_multiple multiple;
    if (r->ir->code || !multiple_of_all(r, c, &multiple)) return NULL;
    if (!multiple.size && !limits.low.whole && !limits.high.whole)
        return is_integer ? shared_rule(r, &r->integer_rule, "integer", make_integer)
                          : shared_rule(r, &r->number_rule, "number", make_number);
    const struct rf_expr *expr = multiple.size
                                     ? rf_text_multiples(r->ir, &limits, multiple, is_integer)
                                 : is_integer ? rf_text_integer(r->ir, &limits)
                                              : rf_text_number(r->ir, &limits);
    return rf_text_is_none(expr)
               ? rf_schema_none(r, rf_conjunction_pointer(c),
                                multiple.size ? "no multiple is between the minimum and the maximum"
                                              : "no number is between the minimum and the maximum")
               : expr;
}
