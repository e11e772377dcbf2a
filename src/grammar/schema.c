/* JSON schemas (2020-12, and what earlier drafts have in common with it) as grammars.
 *
 * The unit is a conjunction: schemas that one value must meet at once. $ref and allOf add to it,
 * anyOf and oneOf branch it. Each conjunction is a rule, so schemas may be recursive. What no value
 * meets is an expression without a text, which leaves out a branch or an optional property and
 * otherwise spreads to the whole, which is an error. */
#include "grammar/schema.h"

enum { INDENT = 20 }; /* spaces at the beginning of a line */

static const struct rf_expr *schema_value(struct rf_schema_reader *r,
                                          const struct rf_conjunction *c);

/* ---- anyOf and oneOf ---- */

/* Whether two schemas cannot be met by one value, as far as this is easy to see: by type, by listed
 * values, or by a required property for which this holds. */
static int are_apart(struct rf_schema_reader *r, const struct rf_conjunction *a,
                     const struct rf_conjunction *b, int depth)
{
    if (r->ir->code || depth > 2) return 0;
    if (a->is_false || b->is_false || !(rf_conjunction_types(r, a) & rf_conjunction_types(r, b)))
        return 1;
    for (int32_t i = 0; i < a->n; i++)
        for (int32_t k = 0; k < b->n; k++) {
            const struct rf_json *x = a->members[i].schema, *y = b->members[k].schema;
            int has_x = rf_json_has(x, "const") || rf_json_has(x, "enum"), common = 0;
            int has_y = rf_json_has(y, "const") || rf_json_has(y, "enum");
            if (has_x && has_y) {
                const struct rf_json *values = rf_json_get(x, "enum");
                for (size_t v = 0; v < rf_json_count(values); v++)
                    common |= rf_schema_lists(r, x, rf_json_at(values, v)) &&
                              rf_schema_lists(r, y, rf_json_at(values, v));
                const struct rf_json *only = rf_json_get(x, "const");
                if (only) common |= rf_schema_lists(r, y, only);
                if ((values || only) && !common) return 1;
            }
            const struct rf_json *names = rf_json_get(x, "required"),
                                 *others = rf_json_get(y, "required");
            for (size_t n = 0; n < rf_json_count(names) && !rf_ir_step(r->ir); n++) {
                struct rf_str name, other;
                if (!rf_json_string(rf_json_at(names, n), &name)) continue;
                for (size_t o = 0; o < rf_json_count(others) && !rf_ir_step(r->ir); o++) {
                    if (!rf_json_string(rf_json_at(others, o), &other) || !rf_str_same(name, other))
                        continue;
                    const struct rf_json *p = rf_json_get(rf_json_get(x, "properties"), name.data),
                                         *q = rf_json_get(rf_json_get(y, "properties"), name.data);
                    if (!p || !q) continue;
                    struct rf_conjunction left = rf_conjunction_new(r, p, a->members[i].pointer),
                                          right = rf_conjunction_new(r, q, b->members[k].pointer);
                    if (are_apart(r, &left, &right, depth + 1)) return 1;
                }
            }
        }
    return 0;
}

enum { PAIR = 16 /* steps of comparing two branches */ };

static void check_one_of(struct rf_schema_reader *r, const struct rf_json *branches,
                         const char *pointer)
{
    size_t n = rf_json_count(branches);
    const char **at = rf_schema_take(r, n, sizeof *at);
    for (size_t i = 0; at && i < n; i++) at[i] = rf_pointer_at(r, pointer, i);
    for (size_t i = 0; i < n && !r->ir->code; i++)
        for (size_t k = i + 1; k < n && !rf_ir_steps(r->ir, PAIR); k++) {
            struct rf_conjunction a = rf_conjunction_new(r, rf_json_at(branches, i), at[i]),
                                  b = rf_conjunction_new(r, rf_json_at(branches, k), at[k]);
            if (!r->ir->code && !are_apart(r, &a, &b, 0))
                rf_ir_fail(r->ir, RF_ERR_UNSUPPORTED,
                           "%s: a value might meet both branch %zu and branch %zu, which oneOf "
                           "forbids; with anyOf it may",
                           pointer, i, k);
        }
}

/* The conjunction without member i's branches, and with each of them in turn. */
static const struct rf_expr *branches_of(struct rf_schema_reader *r, const struct rf_conjunction *c,
                                         int32_t i, int bit)
{
    const char *key = bit == 1 ? "anyOf" : "oneOf";
    const struct rf_json *branches = rf_json_get(c->members[i].schema, key);
    const char *pointer = rf_pointer_to(r, c->members[i].pointer, key);
    struct rf_schema_parts parts = {.n = 0};
    if (!rf_json_is_array(branches) || rf_json_count(branches) == 0) {
        rf_schema_bad(r, RF_ERR_FORMAT, pointer, "this is not an array with schemas");
        return NULL;
    }
    if (bit == 2) check_one_of(r, branches, pointer);
    for (size_t b = 0; b < rf_json_count(branches) && !r->ir->code; b++) {
        const char *place = rf_pointer_at(r, pointer, b);
        struct rf_conjunction branch = rf_conjunction_new(r, rf_json_at(branches, b), place),
                              all = *c;
        for (int32_t k = 0; k < branch.n; k++)
            if (branch.members[k].schema == c->members[i].schema)
                rf_schema_bad(r, RF_ERR_FORMAT, place,
                              "the branch refers to the schema that it is a part of");
        all.members[i].branched |= bit;
        rf_schema_add(r, &all, (struct rf_schema_member){rf_json_at(branches, b), place, 0}, 0);
        rf_schema_add_part(r, &parts, schema_value(r, &all));
    }
    if (r->ir->code || parts.n) return rf_schema_choice(r, &parts);
    return rf_schema_none(r, pointer, "no branch can be met");
}

/* ---- values ---- */

static const struct rf_expr *by_type(struct rf_schema_reader *r, const struct rf_conjunction *c)
{
    struct rf_schema_parts parts = {.n = 0};
    int types = rf_conjunction_types(r, c);
    if (r->ir->code) return NULL;
    if (!types)
        return rf_schema_none(r, rf_conjunction_pointer(c),
                              "no type is left that the schema allows");
    if (types & RF_JSON_OBJECT) rf_schema_add_part(r, &parts, rf_schema_object(r, c));
    if (types & RF_JSON_ARRAY) rf_schema_add_part(r, &parts, rf_schema_array(r, c));
    if (types & RF_JSON_STRING) rf_schema_add_part(r, &parts, rf_schema_string(r, c));
    if (types & RF_JSON_NUMBER) rf_schema_add_part(r, &parts, rf_schema_number(r, c, types));
    if (types & RF_JSON_BOOLEAN) {
        rf_schema_add_part(r, &parts, rf_text(r->ir, "true"));
        rf_schema_add_part(r, &parts, rf_text(r->ir, "false"));
    }
    if (types & RF_JSON_NULL) rf_schema_add_part(r, &parts, rf_text(r->ir, "null"));
    return rf_schema_choice(r, &parts);
}

static const struct rf_expr *make_value(struct rf_schema_reader *r, const struct rf_conjunction *c)
{
    static const char *const keys[] = {"anyOf", "oneOf"};
    for (int32_t i = 0; i < c->n; i++)
        for (int k = 0; k < 2; k++)
            if (rf_json_has(c->members[i].schema, keys[k]) && !(c->members[i].branched & (k + 1)))
                return branches_of(r, c, i, k + 1);
    for (int32_t i = 0; i < c->n; i++)
        if (rf_json_has(c->members[i].schema, "enum") || rf_json_has(c->members[i].schema, "const"))
            return rf_schema_listed(r, c, &c->members[i]);
    return by_type(r, c);
}

static struct rf_schema_known *find_known(const struct rf_schema_reader *r,
                                          const struct rf_conjunction *c)
{
    for (struct rf_schema_known *k = r->known; k && !rf_ir_step(r->ir); k = k->next) {
        int same = k->of->n == c->n && k->of->is_plain == c->is_plain;
        for (int32_t i = 0; same && i < c->n; i++)
            same = k->of->members[i].schema == c->members[i].schema &&
                   k->of->members[i].branched == c->members[i].branched;
        if (same) return k;
    }
    return NULL;
}

static struct rf_schema_known *add_known(struct rf_schema_reader *r, const struct rf_conjunction *c)
{
    struct rf_schema_known *known = rf_schema_take(r, 1, sizeof *known);
    struct rf_conjunction *of = rf_schema_take(r, 1, sizeof *of);
    if (!of) return NULL;
    known->of = of;
    *known->of = *c;
    known->rule = rf_ir_add_rule(r->ir, rf_str_of(""), rf_conjunction_pointer(c));
    known->next = r->known;
    r->known = known;
    return known;
}

static const struct rf_expr *schema_value(struct rf_schema_reader *r,
                                          const struct rf_conjunction *c)
{
    if (r->ir->code) return NULL;
    if (c->is_false) return rf_text_none(r->ir);
    struct rf_schema_known *known = find_known(r, c);
    if (!known) {
        if (r->depth == RF_SCHEMA_NESTING) {
            rf_schema_bad(r, RF_ERR_UNSUPPORTED, rf_conjunction_pointer(c),
                          "schemas are nested too deeply");
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

static const struct rf_expr *schema_value_at(struct rf_schema_reader *r,
                                             const struct rf_json *schema, const char *pointer)
{
    struct rf_conjunction c = rf_conjunction_new(r, schema, pointer);
    return schema_value(r, &c);
}

static void make_space(struct rf_schema_reader *r)
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

int rf_schema_read_document(struct rf_schema_reader *r, struct rf_str text, rf_schema_make_fn *make)
{
    struct rf_ir *ir = r->ir;
    struct rf_reading reading = {.path = "the schema", .error = ir->error};
    struct rf_json *document = rf_json_parse(&reading, NULL, text);
    if (!document) return ir->code = reading.code;
    r->value = schema_value;
    r->string_rule = r->number_rule = r->integer_rule = -1;
    ir->prunes = 1;
    make_space(r);
    const struct rf_expr *value = make(r, document);
    ir->root = rf_ir_add_rule(ir, rf_str_of("root"), "#");
    if (!ir->code) ir->rules[ir->root].expr = value;
    rf_json_free(document);
    return ir->code;
}

static const struct rf_expr *check_some(struct rf_schema_reader *r, const struct rf_expr *value)
{
    if (!r->ir->code && rf_text_is_none(value))
        rf_ir_fail(r->ir, RF_ERR_FORMAT, "no JSON meets the schema: %s", r->why);
    return value;
}

const struct rf_expr *rf_schema_root(struct rf_schema_reader *r, const struct rf_json *schema)
{
    r->root = schema;
    return check_some(r, schema_value_at(r, schema, "#"));
}

const struct rf_expr *rf_schema_property(struct rf_schema_reader *r, const struct rf_json *schema,
                                         struct rf_str name, int is_plain)
{
    char *key = rf_schema_take(r, name.bytes + 1, 1);
    if (!key) return NULL;
    if (name.bytes) memcpy(key, name.data, name.bytes);
    const struct rf_json *property = rf_json_get(rf_json_get(schema, "properties"), key);
    r->root = schema;
    if (!property) {
        rf_ir_fail(r->ir, RF_ERR_FORMAT, "the schema has no property %s", key);
        return NULL;
    }
    struct rf_conjunction c =
        rf_conjunction_new(r, property, rf_pointer_to(r, rf_pointer_to(r, "#", "properties"), key));
    c.is_plain = is_plain;
    return check_some(r, schema_value(r, &c));
}

int rf_schema_read(struct rf_ir *ir, struct rf_str text)
{
    struct rf_schema_reader r = {.ir = ir};
    return rf_schema_read_document(&r, text, rf_schema_root);
}
