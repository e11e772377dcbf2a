/* JSON schemas (2020-12, and what earlier drafts have in common with it) as grammars.
 *
 * The unit is a conjunction: schemas that one value must meet at once. $ref and allOf add to it,
 * anyOf and oneOf branch it. Each conjunction is a rule, so schemas may be recursive. What no value
 * meets is an expression without a text, which leaves out a branch or an optional property and
 * otherwise spreads to the whole, which is an error. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "grammar/json_text.h"
#include "model/json.h"
#include "model/reader.h"

enum {
    MEMBERS = 24,  /* schemas of a conjunction */
    NESTING = 200, /* of schemas in each other */
    INDENT = 20,   /* spaces at the beginning of a line */
    KEY_DEPTH = 64 /* characters by which other keys are told from named ones */
};

enum type {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_OBJECT = 4,
    TYPE_ARRAY = 8,
    TYPE_STRING = 16,
    TYPE_INTEGER = 32,
    TYPE_FRACTION = 64, /* numbers that are no integers */
    TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
    TYPE_ANY = 127
};

static const struct {
    const char *name;
    int types;
} type_names[] = {{"null", TYPE_NULL},    {"boolean", TYPE_BOOLEAN}, {"object", TYPE_OBJECT},
                  {"array", TYPE_ARRAY},  {"string", TYPE_STRING},   {"integer", TYPE_INTEGER},
                  {"number", TYPE_NUMBER}};

/* Keywords, and the type that they are about: 0: any. */
static const struct {
    const char *name;
    int type;
} keywords[] = {{"type", 0},
                {"enum", 0},
                {"const", 0},
                {"anyOf", 0},
                {"oneOf", 0},
                {"allOf", 0},
                {"$ref", 0},
                {"properties", TYPE_OBJECT},
                {"required", TYPE_OBJECT},
                {"additionalProperties", TYPE_OBJECT},
                {"items", TYPE_ARRAY},
                {"prefixItems", TYPE_ARRAY},
                {"additionalItems", TYPE_ARRAY},
                {"minItems", TYPE_ARRAY},
                {"maxItems", TYPE_ARRAY},
                {"minLength", TYPE_STRING},
                {"maxLength", TYPE_STRING},
                {"pattern", TYPE_STRING},
                {"format", TYPE_STRING},
                {"minimum", TYPE_NUMBER},
                {"maximum", TYPE_NUMBER},
                {"exclusiveMinimum", TYPE_NUMBER},
                {"exclusiveMaximum", TYPE_NUMBER}};

/* What says nothing about values, or nothing about the values that are written here. */
static const char *const annotations[] = {"title",
                                          "description",
                                          "default",
                                          "examples",
                                          "example",
                                          "$schema",
                                          "$id",
                                          "id",
                                          "$comment",
                                          "$defs",
                                          "definitions",
                                          "deprecated",
                                          "readOnly",
                                          "writeOnly",
                                          "$anchor",
                                          "$vocabulary",
                                          "contentEncoding",
                                          "contentMediaType",
                                          "contentSchema",
                                          "unevaluatedProperties",
                                          "unevaluatedItems"};

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

struct member {
    const struct rf_json *schema;
    const char *pointer; /* in the arena of the ir */
    int branched;        /* 1: anyOf, 2: oneOf was taken already */
};

struct conjunction {
    struct member members[MEMBERS];
    int32_t n;
    int is_false; /* a schema of it is `false` */
};

/* A conjunction that has its rule. */
struct known {
    struct known *next;
    struct conjunction *of;
    int32_t rule;
    int is_none;
};

struct reader {
    struct rf_ir *ir;
    const struct rf_json *root;
    struct known *known;
    int depth;
    char why[400]; /* the last reason why something has no value */
    const struct rf_expr *space, *blank, *character; /* made once */
    int32_t string_rule, number_rule, integer_rule;  /* -1: not made yet */
};

static const struct rf_expr *value_of(struct reader *r, const struct conjunction *c);

/* ---- sentences and pointers ---- */

/* Memory that lives as long as the grammar is read. NULL after a failure. */
static void *take(struct reader *r, size_t count, size_t size)
{
    if (r->ir->code) return NULL;
    void *memory = rf_arena_alloc(&r->ir->arena, count, size, "a schema", r->ir->error);
    if (!memory) r->ir->code = RF_ERR_MEMORY;
    return memory;
}

static const char *copied(struct reader *r, const char *text)
{
    size_t n = strlen(text);
    char *copy = take(r, n + 1, 1);
    if (copy) memcpy(copy, text, n);
    return copy ? copy : "#";
}

/* `pointer` with one more part. */
static const char *pointer_to(struct reader *r, const char *pointer, const char *key)
{
    char text[1024];
    size_t n = (size_t)snprintf(text, sizeof text, "%s/", pointer);
    if (n >= sizeof text) n = sizeof text - 1;
    for (; *key && n + 3 < sizeof text; key++) {
        if (*key == '~' || *key == '/') {
            text[n++] = '~';
            text[n++] = *key == '~' ? '0' : '1';
        } else {
            text[n++] = *key;
        }
    }
    text[n] = 0;
    return copied(r, text);
}

static const char *pointer_at(struct reader *r, const char *pointer, size_t index)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", index);
    return pointer_to(r, pointer, number);
}

static void bad(struct reader *r, int code, const char *pointer, const char *problem)
{
    rf_ir_fail(r->ir, code, "%s: %s", pointer, problem);
}

/* Nothing meets the schema. */
static const struct rf_expr *none(struct reader *r, const char *pointer, const char *reason)
{
    snprintf(r->why, sizeof r->why, "%.240s: %s", pointer, reason);
    return rf_text_none(r->ir);
}

/* ---- conjunctions ---- */

static int check_keywords(struct reader *r, const struct member *m)
{
    struct rf_str key;
    const struct rf_json *value;
    for (void *i = NULL; rf_json_next(m->schema, &i, &key, &value);) {
        int is_known = strncmp(key.data, "x-", 2) == 0;
        for (size_t k = 0; k < sizeof keywords / sizeof *keywords; k++)
            is_known |= rf_str_is(key, keywords[k].name);
        for (size_t k = 0; k < sizeof annotations / sizeof *annotations; k++)
            is_known |= rf_str_is(key, annotations[k]);
        if (rf_str_is(key, "uniqueItems")) is_known = !rf_json_is_true(value);
        if (is_known) continue;
        const char *pointer = pointer_to(r, m->pointer, key.data);
        bad(r, RF_ERR_UNSUPPORTED, pointer,
            "this keyword is not supported, so that nothing could "
            "be promised");
    }
    return r->ir->code;
}

/* The schema that a local reference names; its pointer is the reference. */
static const struct rf_json *resolve(struct reader *r, struct rf_str ref, const char *pointer)
{
    const struct rf_json *at = r->root;
    if (ref.bytes == 0 || ref.data[0] != '#' || (ref.bytes > 1 && ref.data[1] != '/')) {
        bad(r, RF_ERR_UNSUPPORTED, pointer,
            "only references such as \"#/$defs/name\" are supported");
        return NULL;
    }
    for (size_t i = 1; i < ref.bytes && at;) {
        char key[512];
        size_t n = 0;
        for (i++; i < ref.bytes && ref.data[i] != '/'; i++) {
            char c = ref.data[i];
            if (c == '~' && i + 1 < ref.bytes) c = ref.data[++i] == '1' ? '/' : '~';
            if (n + 1 < sizeof key) key[n++] = c;
        }
        key[n] = 0;
        char *end = key;
        size_t index = 0;
        for (; *end >= '0' && *end <= '9' && end - key < 9; end++)
            index = index * 10 + (size_t)(*end - '0');
        at = rf_json_is_array(at) ? (n && !*end ? rf_json_at(at, index) : NULL)
                                  : rf_json_get(at, key);
    }
    if (!at) bad(r, RF_ERR_FORMAT, pointer, "there is nothing that this refers to");
    return at;
}

static void add_schema(struct reader *r, struct conjunction *c, struct member m, int depth);

static void add_all(struct reader *r, struct conjunction *c, const struct member *m, int depth)
{
    const struct rf_json *all = rf_json_get(m->schema, "allOf");
    const char *pointer = pointer_to(r, m->pointer, "allOf");
    if (all && !rf_json_is_array(all)) bad(r, RF_ERR_FORMAT, pointer, "this is not an array");
    for (size_t i = 0; i < rf_json_count(all) && !r->ir->code; i++)
        add_schema(r, c, (struct member){rf_json_at(all, i), pointer_at(r, pointer, i), 0},
                   depth + 1);
}

/* Adds a schema with what it refers to. */
static void add_schema(struct reader *r, struct conjunction *c, struct member m, int depth)
{
    int flag;
    struct rf_str ref;
    if (r->ir->code) return;
    if (rf_json_bool(m.schema, &flag)) {
        if (!flag) {
            c->is_false = 1;
            none(r, m.pointer, "the schema false allows no value");
        }
        return;
    }
    if (!rf_json_is_object(m.schema)) {
        bad(r, RF_ERR_FORMAT, m.pointer, "a schema is an object, true or false");
        return;
    }
    if (depth > NESTING) {
        bad(r, RF_ERR_FORMAT, m.pointer, "references and allOf lead back to themselves");
        return;
    }
    for (int32_t i = 0; i < c->n; i++)
        if (c->members[i].schema == m.schema && c->members[i].branched >= m.branched) return;
    if (check_keywords(r, &m)) return;
    const struct rf_json *reference = rf_json_get(m.schema, "$ref");
    if (reference && !rf_json_string(reference, &ref)) {
        bad(r, RF_ERR_FORMAT, pointer_to(r, m.pointer, "$ref"), "this is not a string");
        return;
    }
    if (reference) {
        const char *pointer = pointer_to(r, m.pointer, "$ref");
        const struct rf_json *target = resolve(r, ref, pointer);
        if (target == m.schema) {
            bad(r, RF_ERR_FORMAT, pointer, "the schema refers to itself");
            return;
        }
        char shown[256];
        snprintf(shown, sizeof shown, "%.*s", rf_shown_up_to(ref, 250), ref.data);
        if (target) add_schema(r, c, (struct member){target, copied(r, shown), 0}, depth + 1);
    }
    add_all(r, c, &m, depth);
    if (c->n == MEMBERS) {
        bad(r, RF_ERR_UNSUPPORTED, m.pointer, "too many schemas for one value");
        return;
    }
    if (!r->ir->code) c->members[c->n++] = m;
}

static struct conjunction conjunction_of(struct reader *r, const struct rf_json *schema,
                                         const char *pointer)
{
    struct conjunction c = {.n = 0};
    add_schema(r, &c, (struct member){schema, pointer, 0}, 0);
    return c;
}

static const char *pointer_of(const struct conjunction *c)
{
    return c->n ? c->members[c->n - 1].pointer : "#";
}

/* ---- values of keywords ---- */

/* The keyword's value as a count; -1: it has none. */
static int64_t count_of(struct reader *r, const struct member *m, const char *key)
{
    const struct rf_json *value = rf_json_get(m->schema, key);
    int64_t count;
    double number;
    if (!value) return -1;
    if (rf_json_integer(value, &count) && count >= 0) return count;
    if (rf_json_number(value, &number) && number >= 0 && number <= 1e9 && floor(number) == number)
        return (int64_t)number;
    bad(r, RF_ERR_FORMAT, pointer_to(r, m->pointer, key), "this is not a whole number from 0 on");
    return -1;
}

/* The strictest of all members: the greatest of `least_key`, the least of `most_key`. */
struct counts {
    int64_t least, most; /* -1: without a limit */
    const char *pointer; /* of the last limit */
};

static struct counts counts_of(struct reader *r, const struct conjunction *c, const char *least_key,
                               const char *most_key)
{
    struct counts counts = {0, -1, pointer_of(c)};
    for (int32_t i = 0; i < c->n; i++) {
        int64_t least = count_of(r, &c->members[i], least_key),
                most = count_of(r, &c->members[i], most_key);
        if (least > counts.least) counts.least = least;
        if (most >= 0 && (counts.most < 0 || most < counts.most)) counts.most = most;
        if (least >= 0 || most >= 0) counts.pointer = c->members[i].pointer;
    }
    if (counts.least > RF_IR_REPEATS || counts.most > RF_IR_REPEATS)
        bad(r, RF_ERR_UNSUPPORTED, counts.pointer, "a length limit is too large");
    return counts;
}

static int types_named(struct reader *r, const struct rf_json *value, const char *pointer)
{
    struct rf_str name;
    for (size_t t = 0; rf_json_string(value, &name) && t < sizeof type_names / sizeof *type_names;
         t++)
        if (rf_str_is(name, type_names[t].name)) return type_names[t].types;
    bad(r, RF_ERR_FORMAT, pointer,
        "a type is null, boolean, object, array, string, integer or number");
    return 0;
}

static int types_of_member(struct reader *r, const struct member *m)
{
    const struct rf_json *type = rf_json_get(m->schema, "type");
    const char *pointer = pointer_to(r, m->pointer, "type");
    if (!type) return TYPE_ANY;
    if (!rf_json_is_array(type)) return types_named(r, type, pointer);
    int types = 0;
    for (size_t i = 0; i < rf_json_count(type); i++)
        types |= types_named(r, rf_json_at(type, i), pointer);
    return types;
}

/* The types that all members allow. Where none names a type, those that keywords are about. */
static int types_of(struct reader *r, const struct conjunction *c)
{
    int types = TYPE_ANY, about = 0, is_named = 0;
    for (int32_t i = 0; i < c->n; i++) {
        const struct member *m = &c->members[i];
        types &= types_of_member(r, m);
        is_named |= rf_json_has(m->schema, "type");
        for (size_t k = 0; k < sizeof keywords / sizeof *keywords; k++)
            if (rf_json_has(m->schema, keywords[k].name)) about |= keywords[k].type;
    }
    return is_named || !about ? types : types & about;
}

static int type_of_value(const struct rf_json *value)
{
    struct rf_str text;
    int64_t integer;
    double number;
    int flag;
    if (rf_json_is_null(value)) return TYPE_NULL;
    if (rf_json_bool(value, &flag)) return TYPE_BOOLEAN;
    if (rf_json_is_object(value)) return TYPE_OBJECT;
    if (rf_json_is_array(value)) return TYPE_ARRAY;
    if (rf_json_string(value, &text)) return TYPE_STRING;
    if (rf_json_integer(value, &integer)) return TYPE_INTEGER;
    return rf_json_number(value, &number) && floor(number) == number ? TYPE_INTEGER : TYPE_FRACTION;
}

/* ---- enum and const ---- */

static size_t characters(struct rf_str text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.bytes; i++) n += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return n;
}

static int is_listed(const struct rf_json *schema, const struct rf_json *value)
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
static int meets(struct reader *r, const struct member *m, const struct rf_json *value, int is_own)
{
    int type = type_of_value(value);
    struct rf_str text;
    double number;
    if (!(types_of_member(r, m) & type)) return 0;
    if ((!is_own || rf_json_has(m->schema, "const")) && !is_listed(m->schema, value)) return 0;
    if (rf_json_number(value, &number)) return is_within(m->schema, number);
    static const char *const hard[] = {
        "pattern", "format",      "properties",      "required", "additionalProperties",
        "items",   "prefixItems", "additionalItems", "minItems", "maxItems"};
    for (size_t k = 0; k < sizeof hard / sizeof *hard; k++)
        if (rf_json_has(m->schema, hard[k]))
            bad(r, RF_ERR_UNSUPPORTED, pointer_to(r, m->pointer, hard[k]),
                "this is not supported together with enum or const");
    if (!rf_json_string(value, &text)) return 1;
    int64_t n = (int64_t)characters(text), most = count_of(r, m, "maxLength");
    return n >= count_of(r, m, "minLength") && (most < 0 || n <= most);
}

static const struct rf_expr *literal(struct reader *r, const struct rf_json *value)
{
    struct rf_bytes bytes = {0};
    struct rf_writer out = {r->ir->arena.allocator, &bytes, r->ir->error, 0};
    rf_json_write(value, &out);
    if (out.code && !r->ir->code) r->ir->code = out.code;
    const struct rf_expr *expr = rf_ir_text(r->ir, (struct rf_str){bytes.data, bytes.count});
    rf_bytes_free(out.allocator, &bytes);
    return expr;
}

/* Collects the parts of a choice, any number of them. */
struct parts {
    const struct rf_expr *items[64];
    size_t n;
};

static void add_part(struct reader *r, struct parts *parts, const struct rf_expr *part)
{
    size_t most = sizeof parts->items / sizeof *parts->items;
    if (rf_text_is_none(part)) return;
    if (parts->n == most) {
        parts->items[0] = rf_ir_choice(r->ir, parts->items, most);
        parts->n = 1;
    }
    parts->items[parts->n++] = part;
}

static const struct rf_expr *choice_of(struct reader *r, const struct parts *parts)
{
    return rf_ir_choice(r->ir, parts->items, parts->n);
}

static int meets_all(struct reader *r, const struct conjunction *c, const struct rf_json *value,
                     const struct member *lists)
{
    for (int32_t i = 0; i < c->n; i++)
        if (!meets(r, &c->members[i], value, &c->members[i] == lists)) return 0;
    return 1;
}

/* The values that `m` lists, as far as they meet all members. */
static const struct rf_expr *listed(struct reader *r, const struct conjunction *c,
                                    const struct member *m)
{
    const struct rf_json *list = rf_json_get(m->schema, "enum");
    const struct rf_expr **values = take(r, rf_json_count(list) + 1, sizeof *values);
    size_t n = 0;
    if (!values) return NULL;
    if (rf_json_has(m->schema, "enum") && !rf_json_is_array(list)) {
        bad(r, RF_ERR_FORMAT, pointer_to(r, m->pointer, "enum"), "this is not an array");
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
             : none(r, pointer_to(r, m->pointer, list ? "enum" : "const"),
                    "none of these values meets the rest of the schema");
}

/* ---- strings ---- */

static const struct rf_expr *quoted(struct reader *r, const struct rf_expr *inside)
{
    return rf_text_sequence(r->ir, rf_text(r->ir, "\""), inside, rf_text(r->ir, "\""));
}

static const struct rf_expr *format_of(struct reader *r, struct rf_str name, const char *pointer)
{
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        if (rf_str_is(name, formats[f].name))
            return rf_text_pattern(r->ir, rf_str_of(formats[f].pattern), pointer);
    bad(r, RF_ERR_UNSUPPORTED, pointer,
        "known formats are date, time, date-time, uuid, ipv4 and email");
    return NULL;
}

/* A rule for an expression that many places share. */
static const struct rf_expr *shared(struct reader *r, int32_t *rule, const char *name,
                                    const struct rf_expr *(*make)(struct reader *r))
{
    if (*rule < 0) {
        *rule = rf_ir_add_rule(r->ir, rf_str_of(name), name);
        const struct rf_expr *expr = make(r);
        if (*rule >= 0 && !r->ir->code) r->ir->rules[*rule].expr = expr;
    }
    return r->ir->code ? NULL : rf_ir_rule(r->ir, *rule);
}

static const struct rf_expr *make_string(struct reader *r)
{
    return quoted(r, rf_ir_repeat(r->ir, r->character, 0, -1));
}

static const struct rf_expr *any_string(struct reader *r)
{
    return shared(r, &r->string_rule, "string", make_string);
}

static const struct rf_expr *string_of(struct reader *r, const struct conjunction *c)
{
    struct counts length = counts_of(r, c, "minLength", "maxLength");
    const struct rf_expr *inside = NULL;
    const char *pointer = NULL;
    for (int32_t i = 0; i < c->n; i++) {
        static const char *const keys[] = {"pattern", "format"};
        for (int k = 0; k < 2; k++) {
            const struct rf_json *value = rf_json_get(c->members[i].schema, keys[k]);
            struct rf_str text;
            if (!value) continue;
            const char *place = pointer_to(r, c->members[i].pointer, keys[k]);
            if (!rf_json_string(value, &text)) {
                bad(r, RF_ERR_FORMAT, place, "this is not a string");
                return NULL;
            }
            if (inside || pointer || length.least > 0 || length.most >= 0) {
                bad(r, RF_ERR_UNSUPPORTED, place,
                    "this is not supported together with another limit of the string");
                return NULL;
            }
            pointer = place;
            inside = k ? format_of(r, text, place) : rf_text_pattern(r->ir, text, place);
        }
    }
    if (pointer) return quoted(r, inside);
    if (length.most >= 0 && length.least > length.most)
        return none(r, length.pointer, "minLength is over maxLength");
    if (length.least == 0 && length.most < 0) return any_string(r);
    return quoted(r,
                  rf_ir_repeat(r->ir, r->character, (int32_t)length.least, (int32_t)length.most));
}

/* ---- numbers ---- */

/* Takes one bound into the limits. */
static void limit_number(struct reader *r, const struct member *m, const char *key, int is_low,
                         int is_excluded, int is_integer, struct rf_number_limits *limits)
{
    const struct rf_json *value = rf_json_get(m->schema, key);
    double number;
    if (!value) return;
    const char *pointer = pointer_to(r, m->pointer, key);
    if (!rf_json_number(value, &number)) {
        bad(r, RF_ERR_FORMAT, pointer, "this is not a number");
        return;
    }
    double whole = is_low ? ceil(number) : floor(number);
    if (fabs(whole) > 1e15) {
        bad(r, RF_ERR_UNSUPPORTED, pointer, "limits of numbers are supported up to 1e15");
        return;
    }
    int64_t bound = (int64_t)whole;
    if (whole != number) {
        if (!is_integer) {
            bad(r, RF_ERR_UNSUPPORTED, pointer,
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

static struct rf_number_limits limits_of(struct reader *r, const struct conjunction *c,
                                         int is_integer)
{
    struct rf_number_limits limits = {.low = INT64_MIN, .high = INT64_MAX};
    for (int32_t i = 0; i < c->n; i++) {
        const struct member *m = &c->members[i];
        limit_number(r, m, "minimum", 1, 0, is_integer, &limits);
        limit_number(r, m, "maximum", 0, 0, is_integer, &limits);
        limit_number(r, m, "exclusiveMinimum", 1, 1, is_integer, &limits);
        limit_number(r, m, "exclusiveMaximum", 0, 1, is_integer, &limits);
    }
    return limits;
}

static const struct rf_number_limits no_limits = {.low = INT64_MIN, .high = INT64_MAX};

static const struct rf_expr *make_number(struct reader *r)
{
    return rf_text_number(r->ir, &no_limits);
}

static const struct rf_expr *make_integer(struct reader *r)
{
    return rf_text_integer(r->ir, &no_limits);
}

static const struct rf_expr *number_of(struct reader *r, const struct conjunction *c, int types)
{
    int is_integer = (types & TYPE_NUMBER) == TYPE_INTEGER;
    struct rf_number_limits limits = limits_of(r, c, is_integer);
    if (limits.low == INT64_MIN && limits.high == INT64_MAX)
        return is_integer ? shared(r, &r->integer_rule, "integer", make_integer)
                          : shared(r, &r->number_rule, "number", make_number);
    const struct rf_expr *expr =
        is_integer ? rf_text_integer(r->ir, &limits) : rf_text_number(r->ir, &limits);
    return rf_text_is_none(expr)
               ? none(r, pointer_of(c), "no number is between the minimum and the maximum")
               : expr;
}

/* ---- arrays ---- */

static const struct rf_expr *value_at(struct reader *r, const struct rf_json *schema,
                                      const char *pointer)
{
    struct conjunction c = conjunction_of(r, schema, pointer);
    return value_of(r, &c);
}

/* What a member says about element i; NULL: nothing. */
static const struct rf_json *element_of(struct reader *r, const struct member *m, size_t i,
                                        const char **pointer)
{
    const struct rf_json *items = rf_json_get(m->schema, "items"),
                         *prefix = rf_json_get(m->schema, "prefixItems");
    const char *prefix_key = "prefixItems", *rest_key = "items";
    if (rf_json_is_array(items)) { /* before 2020-12 */
        prefix = items;
        prefix_key = "items";
        rest_key = "additionalItems";
    }
    if (i < rf_json_count(prefix)) {
        *pointer = pointer_at(r, pointer_to(r, m->pointer, prefix_key), i);
        return rf_json_at(prefix, i);
    }
    *pointer = pointer_to(r, m->pointer, rest_key);
    return rf_json_get(m->schema, rest_key);
}

static const struct rf_expr *element(struct reader *r, const struct conjunction *c, size_t i)
{
    struct conjunction of = {.n = 0};
    for (int32_t k = 0; k < c->n; k++) {
        const char *pointer;
        const struct rf_json *schema = element_of(r, &c->members[k], i, &pointer);
        if (schema) add_schema(r, &of, (struct member){schema, pointer, 0}, 0);
    }
    return value_of(r, &of);
}

static size_t prefix_of(struct reader *r, const struct conjunction *c)
{
    size_t n = 0;
    for (int32_t k = 0; k < c->n; k++) {
        const struct rf_json *items = rf_json_get(c->members[k].schema, "items"),
                             *prefix = rf_json_get(c->members[k].schema, "prefixItems");
        if (rf_json_has(c->members[k].schema, "prefixItems") && !rf_json_is_array(prefix))
            bad(r, RF_ERR_FORMAT, pointer_to(r, c->members[k].pointer, "prefixItems"),
                "this is not an array");
        if (rf_json_is_array(items)) prefix = items;
        if (rf_json_count(prefix) > n) n = rf_json_count(prefix);
    }
    if (n > NESTING / 2)
        bad(r, RF_ERR_UNSUPPORTED, pointer_of(c), "an array with too many different elements");
    return n;
}

static const struct rf_expr *array_of(struct reader *r, const struct conjunction *c)
{
    struct rf_ir *ir = r->ir;
    struct counts count = counts_of(r, c, "minItems", "maxItems");
    int64_t prefix = (int64_t)prefix_of(r, c), most = count.most;
    const struct rf_expr *elements[NESTING],
        *comma = rf_text_sequence(ir, rf_text(ir, ","), r->space);
    if (ir->code) return NULL;
    if (most >= 0 && count.least > most) return none(r, count.pointer, "minItems is over maxItems");
    for (int64_t i = 0; i <= prefix && !ir->code && (most < 0 || i < most); i++) {
        elements[i] = element(r, c, (size_t)i);
        if (!rf_text_is_none(elements[i])) continue;
        most = i;
        if (count.least > i) return rf_text_none(ir);
    }
    if (most == 0) return rf_text(ir, "[]");
    /* From the end: what may follow element i. */
    const struct rf_expr *rest = rf_text(ir, "");
    if (most < 0 || most > prefix) {
        int64_t written = prefix ? prefix : 1;
        int64_t least = count.least > written ? count.least - written : 0;
        rest = rf_ir_repeat(ir, rf_text_sequence(ir, comma, elements[prefix]), (int32_t)least,
                            most < 0 ? -1 : (int32_t)(most - written));
    }
    int64_t last = most >= 0 && most < prefix ? most : prefix;
    for (int64_t i = last - 1; i > 0 && !ir->code; i--) {
        rest = rf_text_sequence(ir, comma, elements[i], rest);
        if (i >= count.least) rest = rf_text_optional(ir, rest);
    }
    if (ir->code) return NULL;
    const struct rf_expr *filled = rf_text_sequence(ir, rf_text(ir, "["), r->space, elements[0],
                                                    rest, r->space, rf_text(ir, "]"));
    return count.least > 0 ? filled : rf_text_choice(ir, rf_text(ir, "[]"), filled);
}

/* ---- objects ---- */

/* A key that is none of the named ones, written without escapes, from character `depth` on. `keys`:
 * those that begin as what came before. */
static const struct rf_expr *other_key(struct reader *r, const struct rf_str *keys, size_t n,
                                       size_t at, int depth)
{
    static const struct rf_range hard[] = {{0, 0x1f}, {'"', '"'}, {'\\', '\\'}};
    struct rf_range excluded[256 + 3];
    const struct rf_expr *rest = rf_ir_repeat(r->ir, rf_ir_chars_without(r->ir, hard, 3), 0, -1);
    struct parts parts = {.n = 0};
    size_t n_excluded = 3;
    int ends = 0;
    if (n == 0) return rest;
    memcpy(excluded, hard, sizeof hard);
    for (size_t i = 0; i < n && !r->ir->code; i++) {
        if (keys[i].bytes == at) {
            ends = 1;
            continue;
        }
        size_t bytes = rf_utf8_length(keys[i].data + at, keys[i].bytes - at);
        uint32_t c = rf_utf8_decode(keys[i].data + at, bytes);
        int is_new = 1;
        for (size_t e = 0; e < n_excluded; e++)
            is_new &= c < excluded[e].low || c > excluded[e].high;
        if (!is_new) continue;
        if (n_excluded == 256) {
            bad(r, RF_ERR_UNSUPPORTED, "#", "too many properties beside additionalProperties");
            return NULL;
        }
        excluded[n_excluded++] = (struct rf_range){c, c};
        if (depth == KEY_DEPTH) continue; /* nothing that begins like that */
        struct rf_str *same = take(r, n, sizeof *same);
        if (!same) return NULL;
        size_t n_same = 0;
        for (size_t k = i; k < n; k++)
            if (keys[k].bytes >= at + bytes &&
                memcmp(keys[k].data + at, keys[i].data + at, bytes) == 0)
                same[n_same++] = keys[k];
        const struct rf_range one = {c, c};
        add_part(r, &parts,
                 rf_text_sequence(r->ir, rf_ir_chars(r->ir, &one, 1),
                                  other_key(r, same, n_same, at + bytes, depth + 1)));
    }
    add_part(r, &parts,
             rf_text_sequence(r->ir, rf_ir_chars_without(r->ir, excluded, n_excluded), rest));
    if (!ends) add_part(r, &parts, rf_text(r->ir, ""));
    return choice_of(r, &parts);
}

struct property {
    struct rf_str name;
    int is_required;
    const struct rf_expr *member; /* key, colon and value */
};

struct properties {
    struct property *items;
    size_t n, cap;
};

static struct property *find_property(const struct properties *list, struct rf_str name)
{
    for (size_t i = 0; i < list->n; i++)
        if (rf_str_same(list->items[i].name, name)) return &list->items[i];
    return NULL;
}

static struct property *add_property(struct reader *r, struct properties *list, struct rf_str name)
{
    struct property *found = find_property(list, name);
    if (found || r->ir->code) return found;
    struct property *grown = rf_grow(r->ir->arena.allocator, list->items, list->n, 1, &list->cap,
                                     sizeof *grown, "a schema", r->ir->error);
    if (!grown) {
        r->ir->code = RF_ERR_MEMORY;
        return NULL;
    }
    list->items = grown;
    list->items[list->n] = (struct property){name, 0, NULL};
    return &list->items[list->n++];
}

/* Lists the names in `properties` and `required`, in their order. */
static void list_properties(struct reader *r, const struct conjunction *c, struct properties *list)
{
    struct rf_str name;
    const struct rf_json *value;
    for (int32_t i = 0; i < c->n; i++) {
        const struct rf_json *all = rf_json_get(c->members[i].schema, "properties");
        if (all && !rf_json_is_object(all))
            bad(r, RF_ERR_FORMAT, pointer_to(r, c->members[i].pointer, "properties"),
                "this is not an object");
        for (void *k = NULL; rf_json_next(all, &k, &name, &value);) add_property(r, list, name);
    }
    for (int32_t i = 0; i < c->n; i++) {
        const struct rf_json *names = rf_json_get(c->members[i].schema, "required");
        if (names && !rf_json_is_array(names))
            bad(r, RF_ERR_FORMAT, pointer_to(r, c->members[i].pointer, "required"),
                "this is not an array of strings");
        for (size_t k = 0; k < rf_json_count(names) && !r->ir->code; k++) {
            if (!rf_json_string(rf_json_at(names, k), &name)) {
                bad(r, RF_ERR_FORMAT, pointer_to(r, c->members[i].pointer, "required"),
                    "this is not an array of strings");
                return;
            }
            struct property *property = add_property(r, list, name);
            if (property) property->is_required = 1;
        }
    }
}

/* What all members say of a property's value; name NULL: of others. */
static const struct rf_expr *property_value(struct reader *r, const struct conjunction *c,
                                            const char *name)
{
    struct conjunction of = {.n = 0};
    for (int32_t i = 0; i < c->n; i++) {
        const struct member *m = &c->members[i];
        const struct rf_json *all = rf_json_get(m->schema, "properties"),
                             *others = rf_json_get(m->schema, "additionalProperties");
        if (name && rf_json_has(all, name)) {
            const char *pointer = pointer_to(r, pointer_to(r, m->pointer, "properties"), name);
            add_schema(r, &of, (struct member){rf_json_get(all, name), pointer, 0}, 0);
        } else if (others) {
            const char *pointer = pointer_to(r, m->pointer, "additionalProperties");
            add_schema(r, &of, (struct member){others, pointer, 0}, 0);
        }
    }
    return value_of(r, &of);
}

static const struct rf_expr *member_of(struct reader *r, const struct rf_expr *key,
                                       const struct rf_expr *value)
{
    return rf_text_is_none(value)
               ? value
               : rf_text_sequence(r->ir, key, rf_text(r->ir, ":"), r->blank, value);
}

static const struct rf_expr *key_text(struct reader *r, struct rf_str name)
{
    struct rf_bytes bytes = {0};
    struct rf_writer out = {r->ir->arena.allocator, &bytes, r->ir->error, 0};
    rf_json_write_string(name, &out);
    if (out.code && !r->ir->code) r->ir->code = out.code;
    const struct rf_expr *expr = rf_ir_text(r->ir, (struct rf_str){bytes.data, bytes.count});
    rf_bytes_free(out.allocator, &bytes);
    return expr;
}

/* Members beside the named ones: only where a schema asks for them. */
static const struct rf_expr *other_member(struct reader *r, const struct conjunction *c,
                                          const struct properties *list)
{
    int is_asked = 0, flag, is_open = list->n == 0;
    for (int32_t i = 0; i < c->n; i++) {
        const struct rf_json *others = rf_json_get(c->members[i].schema, "additionalProperties");
        if (others && (!rf_json_bool(others, &flag) || flag)) is_asked = 1;
    }
    if (!is_asked && !is_open) return rf_text_none(r->ir);
    const struct rf_expr *value = property_value(r, c, NULL);
    if (r->ir->code || rf_text_is_none(value)) return value;
    struct rf_str *names = take(r, list->n, sizeof *names);
    if (!names) return NULL;
    for (size_t i = 0; i < list->n; i++) names[i] = list->items[i].name;
    return member_of(r, list->n ? quoted(r, other_key(r, names, list->n, 0, 0)) : any_string(r),
                     value);
}

/* A rule of its own, because several expressions go on with it. */
static const struct rf_expr *as_rule(struct reader *r, const struct rf_expr *expr,
                                     const char *pointer)
{
    int32_t rule = rf_ir_add_rule(r->ir, rf_str_of(""), pointer);
    if (rule < 0 || r->ir->code) return NULL;
    r->ir->rules[rule].expr = expr;
    return rf_ir_rule(r->ir, rule);
}

/* The members in their order. rest: what may follow one; first: what may come where none has. */
static const struct rf_expr *members_of(struct reader *r, const struct properties *list,
                                        const struct rf_expr *other, const char *pointer)
{
    struct rf_ir *ir = r->ir;
    const struct rf_expr *comma = rf_text_sequence(ir, rf_text(ir, ","), r->space);
    const struct rf_expr *empty = rf_text(ir, ""), *rest = empty, *first = empty;
    if (!rf_text_is_none(other)) {
        rest = rf_ir_repeat(ir, rf_text_sequence(ir, comma, other), 0, -1);
        first = rf_text_optional(ir, rf_text_sequence(ir, other, rest));
    }
    for (size_t i = list->n; i-- > 0 && !ir->code;) {
        const struct property *p = &list->items[i];
        if (rf_text_is_none(p->member)) continue;
        const struct rf_expr *with = rf_text_sequence(ir, comma, p->member, rest);
        if (p->is_required) {
            first = rf_text_sequence(ir, p->member, rest);
            rest = as_rule(r, with, pointer);
        } else {
            first = rf_text_choice(ir, rf_text_sequence(ir, p->member, rest), first);
            first = as_rule(r, first, pointer);
            rest = as_rule(r, rf_text_choice(ir, with, rest), pointer);
        }
    }
    return first;
}

static const struct rf_expr *object_of(struct reader *r, const struct conjunction *c)
{
    struct rf_ir *ir = r->ir;
    struct properties list = {.n = 0};
    const struct rf_expr *made = NULL;
    const char *missing = NULL;
    list_properties(r, c, &list);
    int is_empty = 1; /* the object may be */
    for (size_t i = 0; i < list.n && !ir->code && !missing; i++) {
        struct property *p = &list.items[i];
        char name[512];
        snprintf(name, sizeof name, "%.*s", rf_shown_up_to(p->name, sizeof name - 1), p->name.data);
        p->member = member_of(r, key_text(r, p->name), property_value(r, c, name));
        is_empty &= !p->is_required;
        if (p->is_required && rf_text_is_none(p->member)) missing = name;
    }
    const struct rf_expr *other = missing || ir->code ? NULL : other_member(r, c, &list);
    if (missing) {
        made = rf_text_none(ir); /* the reason is the value's */
    } else if (!ir->code) {
        const struct rf_expr *members = members_of(r, &list, other, pointer_of(c));
        const struct rf_expr *filled =
            rf_text_sequence(ir, rf_text(ir, "{"), r->space, members, r->space, rf_text(ir, "}"));
        made = is_empty ? rf_text_choice(ir, rf_text(ir, "{}"), filled) : filled;
    }
    rf_free(ir->arena.allocator, list.items);
    return made;
}

/* ---- anyOf and oneOf ---- */

/* Whether two schemas cannot be met by one value, as far as this is easy to see: by type, by listed
 * values, or by a required property for which this holds. */
static int are_apart(struct reader *r, const struct conjunction *a, const struct conjunction *b,
                     int depth)
{
    if (r->ir->code || depth > 2) return 0;
    if (a->is_false || b->is_false || !(types_of(r, a) & types_of(r, b))) return 1;
    for (int32_t i = 0; i < a->n; i++)
        for (int32_t k = 0; k < b->n; k++) {
            const struct rf_json *x = a->members[i].schema, *y = b->members[k].schema;
            int has_x = rf_json_has(x, "const") || rf_json_has(x, "enum"), common = 0;
            int has_y = rf_json_has(y, "const") || rf_json_has(y, "enum");
            if (has_x && has_y) {
                const struct rf_json *values = rf_json_get(x, "enum");
                for (size_t v = 0; v < rf_json_count(values); v++)
                    common |=
                        is_listed(x, rf_json_at(values, v)) && is_listed(y, rf_json_at(values, v));
                const struct rf_json *only = rf_json_get(x, "const");
                if (only) common |= is_listed(y, only);
                if ((values || only) && !common) return 1;
            }
            const struct rf_json *names = rf_json_get(x, "required"),
                                 *others = rf_json_get(y, "required");
            for (size_t n = 0; n < rf_json_count(names); n++) {
                struct rf_str name, other;
                if (!rf_json_string(rf_json_at(names, n), &name)) continue;
                for (size_t o = 0; o < rf_json_count(others); o++) {
                    if (!rf_json_string(rf_json_at(others, o), &other) || !rf_str_same(name, other))
                        continue;
                    const struct rf_json *p = rf_json_get(rf_json_get(x, "properties"), name.data),
                                         *q = rf_json_get(rf_json_get(y, "properties"), name.data);
                    if (!p || !q) continue;
                    struct conjunction left = conjunction_of(r, p, a->members[i].pointer),
                                       right = conjunction_of(r, q, b->members[k].pointer);
                    if (are_apart(r, &left, &right, depth + 1)) return 1;
                }
            }
        }
    return 0;
}

static void check_one_of(struct reader *r, const struct rf_json *branches, const char *pointer)
{
    size_t n = rf_json_count(branches);
    for (size_t i = 0; i < n && !r->ir->code; i++)
        for (size_t k = i + 1; k < n && !r->ir->code; k++) {
            struct conjunction a = conjunction_of(r, rf_json_at(branches, i),
                                                  pointer_at(r, pointer, i)),
                               b = conjunction_of(r, rf_json_at(branches, k),
                                                  pointer_at(r, pointer, k));
            if (!r->ir->code && !are_apart(r, &a, &b, 0))
                rf_ir_fail(r->ir, RF_ERR_UNSUPPORTED,
                           "%s: a value might meet both branch %zu and branch %zu, which oneOf "
                           "forbids; with anyOf it may",
                           pointer, i, k);
        }
}

/* The conjunction without member i's branches, and with each of them in turn. */
static const struct rf_expr *branches_of(struct reader *r, const struct conjunction *c, int32_t i,
                                         int bit)
{
    const char *key = bit == 1 ? "anyOf" : "oneOf";
    const struct rf_json *branches = rf_json_get(c->members[i].schema, key);
    const char *pointer = pointer_to(r, c->members[i].pointer, key);
    struct parts parts = {.n = 0};
    if (!rf_json_is_array(branches) || rf_json_count(branches) == 0) {
        bad(r, RF_ERR_FORMAT, pointer, "this is not an array with schemas");
        return NULL;
    }
    if (bit == 2) check_one_of(r, branches, pointer);
    for (size_t b = 0; b < rf_json_count(branches) && !r->ir->code; b++) {
        const char *place = pointer_at(r, pointer, b);
        struct conjunction branch = conjunction_of(r, rf_json_at(branches, b), place), all = *c;
        for (int32_t k = 0; k < branch.n; k++)
            if (branch.members[k].schema == c->members[i].schema)
                bad(r, RF_ERR_FORMAT, place,
                    "the branch refers to the schema that it is a part of");
        all.members[i].branched |= bit;
        add_schema(r, &all, (struct member){rf_json_at(branches, b), place, 0}, 0);
        add_part(r, &parts, value_of(r, &all));
    }
    if (r->ir->code || parts.n) return choice_of(r, &parts);
    return none(r, pointer, "no branch can be met");
}

/* ---- values ---- */

static const struct rf_expr *by_type(struct reader *r, const struct conjunction *c)
{
    struct parts parts = {.n = 0};
    int types = types_of(r, c);
    if (r->ir->code) return NULL;
    if (!types) return none(r, pointer_of(c), "no type is left that the schema allows");
    if (types & TYPE_OBJECT) add_part(r, &parts, object_of(r, c));
    if (types & TYPE_ARRAY) add_part(r, &parts, array_of(r, c));
    if (types & TYPE_STRING) add_part(r, &parts, string_of(r, c));
    if (types & TYPE_NUMBER) add_part(r, &parts, number_of(r, c, types));
    if (types & TYPE_BOOLEAN) {
        add_part(r, &parts, rf_text(r->ir, "true"));
        add_part(r, &parts, rf_text(r->ir, "false"));
    }
    if (types & TYPE_NULL) add_part(r, &parts, rf_text(r->ir, "null"));
    return choice_of(r, &parts);
}

static const struct rf_expr *make_value(struct reader *r, const struct conjunction *c)
{
    static const char *const keys[] = {"anyOf", "oneOf"};
    for (int32_t i = 0; i < c->n; i++)
        for (int k = 0; k < 2; k++)
            if (rf_json_has(c->members[i].schema, keys[k]) && !(c->members[i].branched & (k + 1)))
                return branches_of(r, c, i, k + 1);
    for (int32_t i = 0; i < c->n; i++)
        if (rf_json_has(c->members[i].schema, "enum") || rf_json_has(c->members[i].schema, "const"))
            return listed(r, c, &c->members[i]);
    return by_type(r, c);
}

static struct known *find_known(const struct reader *r, const struct conjunction *c)
{
    for (struct known *k = r->known; k; k = k->next) {
        int same = k->of->n == c->n;
        for (int32_t i = 0; same && i < c->n; i++)
            same = k->of->members[i].schema == c->members[i].schema &&
                   k->of->members[i].branched == c->members[i].branched;
        if (same) return k;
    }
    return NULL;
}

static struct known *add_known(struct reader *r, const struct conjunction *c)
{
    struct known *known = take(r, 1, sizeof *known);
    struct conjunction *of = take(r, 1, sizeof *of);
    if (!of) return NULL;
    known->of = of;
    *known->of = *c;
    known->rule = rf_ir_add_rule(r->ir, rf_str_of(""), pointer_of(c));
    known->next = r->known;
    r->known = known;
    return known;
}

static const struct rf_expr *value_of(struct reader *r, const struct conjunction *c)
{
    if (r->ir->code) return NULL;
    if (c->is_false) return rf_text_none(r->ir);
    struct known *known = find_known(r, c);
    if (!known) {
        if (r->depth == NESTING) {
            bad(r, RF_ERR_UNSUPPORTED, pointer_of(c), "schemas are nested too deeply");
            return NULL;
        }
        known = add_known(r, c);
        if (!known) return NULL;
        r->depth++;
        const struct rf_expr *expr = make_value(r, c);
        r->depth--;
        if (r->ir->code) return NULL;
        known->is_none = rf_text_is_none(expr);
        r->ir->rules[known->rule].expr = expr;
    }
    return known->is_none ? rf_text_none(r->ir) : rf_ir_rule(r->ir, known->rule);
}

static void make_parts(struct reader *r)
{
    struct rf_ir *ir = r->ir;
    static const struct rf_range space = {' ', ' '};
    const struct rf_expr *one = rf_ir_chars(ir, &space, 1);
    const struct rf_expr *line =
        rf_text_sequence(ir, rf_text(ir, "\n"), rf_ir_repeat(ir, one, 0, INDENT));
    r->blank = rf_text_optional(ir, one);
    r->space = rf_text_choice(ir, rf_text(ir, ""), one, line);
    r->character = rf_text_string_any(ir);
}

int rf_schema_read(struct rf_ir *ir, struct rf_str text)
{
    struct reader r = {.ir = ir, .string_rule = -1, .number_rule = -1, .integer_rule = -1};
    struct rf_reading reading = {.path = "the schema", .error = ir->error};
    struct rf_json *document = rf_json_parse(&reading, NULL, text);
    if (!document) return ir->code = reading.code;
    r.root = document;
    ir->prunes = 1;
    make_parts(&r);
    const struct rf_expr *value = value_at(&r, document, "#");
    if (!ir->code && rf_text_is_none(value))
        rf_ir_fail(ir, RF_ERR_FORMAT, "no JSON meets the schema: %s", r.why);
    ir->root = rf_ir_add_rule(ir, rf_str_of("root"), "#");
    if (!ir->code) ir->rules[ir->root].expr = value;
    rf_json_free(document);
    return ir->code;
}
