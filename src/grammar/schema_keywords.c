/* Collects the keywords, references and limits of schemas into conjunctions, and holds the
 * helpers for all files of the reader: sentences, JSON pointers, choices. An unknown keyword is
 * an error, never ignored. */
#include "grammar/schema.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"

static const struct {
    const char *name;
    int types;
} type_names[] = {{"null", RF_JSON_NULL},     {"boolean", RF_JSON_BOOLEAN},
                  {"object", RF_JSON_OBJECT}, {"array", RF_JSON_ARRAY},
                  {"string", RF_JSON_STRING}, {"integer", RF_JSON_INTEGER},
                  {"number", RF_JSON_NUMBER}};

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
                {"properties", RF_JSON_OBJECT},
                {"required", RF_JSON_OBJECT},
                {"additionalProperties", RF_JSON_OBJECT},
                {"items", RF_JSON_ARRAY},
                {"prefixItems", RF_JSON_ARRAY},
                {"additionalItems", RF_JSON_ARRAY},
                {"minItems", RF_JSON_ARRAY},
                {"maxItems", RF_JSON_ARRAY},
                {"minLength", RF_JSON_STRING},
                {"maxLength", RF_JSON_STRING},
                {"pattern", RF_JSON_STRING},
                {"format", RF_JSON_STRING},
                {"minimum", RF_JSON_NUMBER},
                {"maximum", RF_JSON_NUMBER},
                {"multipleOf", RF_JSON_NUMBER},
                {"exclusiveMinimum", RF_JSON_NUMBER},
                {"exclusiveMaximum", RF_JSON_NUMBER}};

/* Keywords that limit no value, or no value that is written here. */
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

/* ---- sentences and pointers ---- */

void *rf_schema_take(struct rf_schema_reader *r, size_t count, size_t size)
{
    if (rf_ir_step(r->ir)) return NULL;
    void *memory = rf_arena_alloc(&r->ir->arena, count, size, "a schema", r->ir->error);
    if (!memory) r->ir->code = RF_ERR_MEMORY;
    return memory;
}

static const char *copied(struct rf_schema_reader *r, const char *text)
{
    size_t n = strlen(text);
    char *copy = rf_schema_take(r, n + 1, 1);
    if (copy) memcpy(copy, text, n);
    return copy ? copy : "#";
}

const char *rf_pointer_to(struct rf_schema_reader *r, const char *pointer, const char *key)
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

const char *rf_pointer_at(struct rf_schema_reader *r, const char *pointer, size_t index)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", index);
    return rf_pointer_to(r, pointer, number);
}

void rf_schema_bad(struct rf_schema_reader *r, int code, const char *pointer, const char *problem)
{
    rf_ir_fail(r->ir, code, "%s: %s", pointer, problem);
}

const struct rf_expr *rf_schema_none(struct rf_schema_reader *r, const char *pointer,
                                     const char *reason)
{
    snprintf(r->why, sizeof r->why, "%.240s: %s", pointer, reason);
    return rf_text_none(r->ir);
}

/* ---- choices ---- */

void rf_schema_add_part(struct rf_schema_reader *r, struct rf_schema_parts *parts,
                        const struct rf_expr *part)
{
    size_t most = sizeof parts->items / sizeof *parts->items;
    if (rf_text_is_none(part)) return;
    if (parts->n == most) {
        parts->items[0] = rf_ir_choice(r->ir, parts->items, most);
        parts->n = 1;
    }
    parts->items[parts->n++] = part;
}

const struct rf_expr *rf_schema_choice(struct rf_schema_reader *r,
                                       const struct rf_schema_parts *parts)
{
    return rf_ir_choice(r->ir, parts->items, parts->n);
}

/* ---- conjunctions ---- */

enum { KEYWORD = 8 /* steps of looking one up */ };

static int check_keywords(struct rf_schema_reader *r, const struct rf_schema_member *m)
{
    struct rf_str key;
    const struct rf_json *value;
    for (void *i = NULL;
         !rf_ir_steps(r->ir, KEYWORD) && rf_json_next(m->schema, &i, &key, &value);) {
        int is_known = strncmp(key.data, "x-", 2) == 0;
        for (size_t k = 0; k < sizeof keywords / sizeof *keywords; k++)
            is_known |= rf_str_is(key, keywords[k].name);
        for (size_t k = 0; k < sizeof annotations / sizeof *annotations; k++)
            is_known |= rf_str_is(key, annotations[k]);
        if (rf_str_is(key, "uniqueItems")) is_known = !rf_json_is_true(value);
        if (is_known) continue;
        const char *pointer = rf_pointer_to(r, m->pointer, key.data);
        rf_schema_bad(r, RF_ERR_UNSUPPORTED, pointer,
                      "this keyword is not supported, so that nothing could "
                      "be promised");
    }
    return r->ir->code;
}

/* The schema that a local reference names; its pointer is the reference. */
static const struct rf_json *resolve(struct rf_schema_reader *r, struct rf_str ref,
                                     const char *pointer)
{
    const struct rf_json *at = r->root;
    if (ref.bytes == 0 || ref.data[0] != '#' || (ref.bytes > 1 && ref.data[1] != '/')) {
        rf_schema_bad(r, RF_ERR_UNSUPPORTED, pointer,
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
    if (!at) rf_schema_bad(r, RF_ERR_FORMAT, pointer, "there is nothing that this refers to");
    return at;
}

static void add_all(struct rf_schema_reader *r, struct rf_conjunction *c,
                    const struct rf_schema_member *m, int depth)
{
    const struct rf_json *all = rf_json_get(m->schema, "allOf");
    const char *pointer = rf_pointer_to(r, m->pointer, "allOf");
    if (all && !rf_json_is_array(all))
        rf_schema_bad(r, RF_ERR_FORMAT, pointer, "this is not an array");
    for (size_t i = 0; i < rf_json_count(all) && !r->ir->code; i++)
        rf_schema_add(
            r, c, (struct rf_schema_member){rf_json_at(all, i), rf_pointer_at(r, pointer, i), 0},
            depth + 1);
}

void rf_schema_add(struct rf_schema_reader *r, struct rf_conjunction *c, struct rf_schema_member m,
                   int depth)
{
    int flag;
    struct rf_str ref;
    if (r->ir->code) return;
    if (rf_json_bool(m.schema, &flag)) {
        if (!flag) {
            c->is_false = 1;
            rf_schema_none(r, m.pointer, "the schema false allows no value");
        }
        return;
    }
    if (!rf_json_is_object(m.schema)) {
        rf_schema_bad(r, RF_ERR_FORMAT, m.pointer, "a schema is an object, true or false");
        return;
    }
    if (depth > RF_SCHEMA_NESTING) {
        rf_schema_bad(r, RF_ERR_FORMAT, m.pointer, "references and allOf lead back to themselves");
        return;
    }
    for (int32_t i = 0; i < c->n; i++)
        if (c->members[i].schema == m.schema && c->members[i].branched >= m.branched) return;
    if (check_keywords(r, &m)) return;
    const struct rf_json *reference = rf_json_get(m.schema, "$ref");
    if (reference && !rf_json_string(reference, &ref)) {
        rf_schema_bad(r, RF_ERR_FORMAT, rf_pointer_to(r, m.pointer, "$ref"),
                      "this is not a string");
        return;
    }
    if (reference) {
        const char *pointer = rf_pointer_to(r, m.pointer, "$ref");
        const struct rf_json *target = resolve(r, ref, pointer);
        if (target == m.schema) {
            rf_schema_bad(r, RF_ERR_FORMAT, pointer, "the schema refers to itself");
            return;
        }
        char shown[256];
        snprintf(shown, sizeof shown, "%.*s", rf_shown_up_to(ref, 250), ref.data);
        if (target)
            rf_schema_add(r, c, (struct rf_schema_member){target, copied(r, shown), 0}, depth + 1);
    }
    add_all(r, c, &m, depth);
    if (c->n == RF_SCHEMA_MEMBERS) {
        rf_schema_bad(r, RF_ERR_UNSUPPORTED, m.pointer, "too many schemas for one value");
        return;
    }
    if (!r->ir->code) c->members[c->n++] = m;
}

struct rf_conjunction rf_conjunction_new(struct rf_schema_reader *r, const struct rf_json *schema,
                                         const char *pointer)
{
    struct rf_conjunction c = {.n = 0};
    rf_schema_add(r, &c, (struct rf_schema_member){schema, pointer, 0}, 0);
    return c;
}

const char *rf_conjunction_pointer(const struct rf_conjunction *c)
{
    return c->n ? c->members[c->n - 1].pointer : "#";
}

/* ---- values of keywords ---- */

int64_t rf_schema_count(struct rf_schema_reader *r, const struct rf_schema_member *m,
                        const char *key)
{
    const struct rf_json *value = rf_json_get(m->schema, key);
    int64_t count;
    double number;
    if (!value) return -1;
    if (rf_json_integer(value, &count) && count >= 0) return count;
    if (rf_json_number(value, &number) && number >= 0 && number <= 1e9 && floor(number) == number)
        return (int64_t)number;
    rf_schema_bad(r, RF_ERR_FORMAT, rf_pointer_to(r, m->pointer, key),
                  "this is not a whole number from 0 on");
    return -1;
}

struct rf_schema_limits rf_schema_counts(struct rf_schema_reader *r, const struct rf_conjunction *c,
                                         const char *least_key, const char *most_key)
{
    struct rf_schema_limits counts = {0, -1, rf_conjunction_pointer(c)};
    for (int32_t i = 0; i < c->n; i++) {
        int64_t least = rf_schema_count(r, &c->members[i], least_key),
                most = rf_schema_count(r, &c->members[i], most_key);
        if (least > counts.least) counts.least = least;
        if (most >= 0 && (counts.most < 0 || most < counts.most)) counts.most = most;
        if (least >= 0 || most >= 0) counts.pointer = c->members[i].pointer;
    }
    if (counts.least > RF_IR_REPEATS || counts.most > RF_IR_REPEATS)
        rf_schema_bad(r, RF_ERR_UNSUPPORTED, counts.pointer, "a length limit is too large");
    return counts;
}

static int types_named(struct rf_schema_reader *r, const struct rf_json *value, const char *pointer)
{
    struct rf_str name;
    for (size_t t = 0; rf_json_string(value, &name) && t < sizeof type_names / sizeof *type_names;
         t++)
        if (rf_str_is(name, type_names[t].name)) return type_names[t].types;
    rf_schema_bad(r, RF_ERR_FORMAT, pointer,
                  "a type is null, boolean, object, array, string, integer or number");
    return 0;
}

int rf_schema_types(struct rf_schema_reader *r, const struct rf_schema_member *m)
{
    const struct rf_json *type = rf_json_get(m->schema, "type");
    const char *pointer = rf_pointer_to(r, m->pointer, "type");
    if (!type) return RF_JSON_ANY;
    if (!rf_json_is_array(type)) return types_named(r, type, pointer);
    int types = 0;
    for (size_t i = 0; i < rf_json_count(type); i++)
        types |= types_named(r, rf_json_at(type, i), pointer);
    return types;
}

int rf_conjunction_types(struct rf_schema_reader *r, const struct rf_conjunction *c)
{
    int types = RF_JSON_ANY, about = 0, is_named = 0;
    for (int32_t i = 0; i < c->n; i++) {
        const struct rf_schema_member *m = &c->members[i];
        types &= rf_schema_types(r, m);
        is_named |= rf_json_has(m->schema, "type");
        for (size_t k = 0; k < sizeof keywords / sizeof *keywords; k++)
            if (rf_json_has(m->schema, keywords[k].name)) about |= keywords[k].type;
    }
    return is_named || !about ? types : types & about;
}

int rf_json_type(const struct rf_json *value)
{
    char buffer[RF_JSON_NUMBER_BUFFER];
    struct rf_str text;
    int flag;
    if (rf_json_is_null(value)) return RF_JSON_NULL;
    if (rf_json_bool(value, &flag)) return RF_JSON_BOOLEAN;
    if (rf_json_is_object(value)) return RF_JSON_OBJECT;
    if (rf_json_is_array(value)) return RF_JSON_ARRAY;
    if (!rf_json_number_string(value, buffer, &text)) return RF_JSON_STRING;
    struct rf_decimal d = rf_decimal_of(text.data, text.bytes);
    return rf_decimal_is_integer(&d) ? RF_JSON_INTEGER : RF_JSON_FRACTION;
}
