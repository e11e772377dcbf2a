/* Schemas of arrays and objects. They know nothing of values in them: the reader's callback
 * makes those. schema.c calls it for a conjunction whose types include either. */
#include "grammar/schema.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

enum { KEY_DEPTH = 64 }; /* characters by which other keys are told from named ones */

/* ---- arrays ---- */

/* A member's schema of element i; NULL: none. */
static const struct rf_json *element_of(struct rf_schema_reader *r,
                                        const struct rf_schema_member *m, size_t i,
                                        const char **pointer)
{
    const struct rf_json *items = rf_json_get(m->schema, "items"),
                         *prefix = rf_json_get(m->schema, "prefixItems");
    const char *prefix_key = "prefixItems", *rest_key = "items";
    if (rf_json_is_array(items)) { /* the form of drafts before 2020-12 */
        prefix = items;
        prefix_key = "items";
        rest_key = "additionalItems";
    }
    if (i < rf_json_count(prefix)) {
        *pointer = rf_pointer_at(r, rf_pointer_to(r, m->pointer, prefix_key), i);
        return rf_json_at(prefix, i);
    }
    *pointer = rf_pointer_to(r, m->pointer, rest_key);
    return rf_json_get(m->schema, rest_key);
}

static const struct rf_expr *element(struct rf_schema_reader *r, const struct rf_conjunction *c,
                                     size_t i)
{
    struct rf_conjunction of = {.n = 0};
    for (int32_t k = 0; k < c->n; k++) {
        const char *pointer;
        const struct rf_json *schema = element_of(r, &c->members[k], i, &pointer);
        if (schema) rf_schema_add(r, &of, (struct rf_schema_member){schema, pointer, 0}, 0);
    }
    return r->value(r, &of);
}

static size_t prefix_of(struct rf_schema_reader *r, const struct rf_conjunction *c)
{
    size_t n = 0;
    for (int32_t k = 0; k < c->n; k++) {
        const struct rf_json *items = rf_json_get(c->members[k].schema, "items"),
                             *prefix = rf_json_get(c->members[k].schema, "prefixItems");
        if (rf_json_has(c->members[k].schema, "prefixItems") && !rf_json_is_array(prefix))
            rf_schema_bad(r, RF_ERR_FORMAT, rf_pointer_to(r, c->members[k].pointer, "prefixItems"),
                          "this is not an array");
        if (rf_json_is_array(items)) prefix = items;
        if (rf_json_count(prefix) > n) n = rf_json_count(prefix);
    }
    if (n > RF_SCHEMA_NESTING / 2)
        rf_schema_bad(r, RF_ERR_UNSUPPORTED, rf_conjunction_pointer(c),
                      "an array with too many different elements");
    return n;
}

const struct rf_expr *rf_schema_array(struct rf_schema_reader *r, const struct rf_conjunction *c)
{
    struct rf_ir *ir = r->ir;
    struct rf_schema_limits count = rf_schema_counts(r, c, "minItems", "maxItems");
    int64_t prefix = (int64_t)prefix_of(r, c), most = count.most;
    const struct rf_expr *elements[RF_SCHEMA_NESTING],
        *comma = rf_text_sequence(ir, rf_text(ir, ","), r->space);
    if (ir->code) return NULL;
    if (most >= 0 && count.least > most)
        return rf_schema_none(r, count.pointer, "minItems is over maxItems");
    for (int64_t i = 0; i <= prefix && !ir->code && (most < 0 || i < most); i++) {
        elements[i] = element(r, c, (size_t)i);
        if (!rf_text_is_none(elements[i])) continue;
        most = i;
        if (count.least > i) return rf_text_none(ir);
    }
    if (most == 0) return rf_text(ir, "[]");
    /* `rest`, built from the end: everything that may follow element i. */
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
static const struct rf_expr *other_key(struct rf_schema_reader *r, const struct rf_str *keys,
                                       size_t n, size_t at, int depth)
{
    static const struct rf_range hard[] = {{0, 0x1f}, {'"', '"'}, {'\\', '\\'}};
    struct rf_range excluded[256 + 3];
    const struct rf_expr *rest = rf_ir_repeat(r->ir, rf_ir_chars_without(r->ir, hard, 3), 0, -1);
    struct rf_schema_parts parts = {.n = 0};
    size_t n_excluded = 3;
    int ends = 0;
    if (n == 0) return rest;
    memcpy(excluded, hard, sizeof hard);
    for (size_t i = 0; i < n && !rf_ir_step(r->ir); i++) {
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
            rf_schema_bad(r, RF_ERR_UNSUPPORTED, "#",
                          "too many properties beside additionalProperties");
            return NULL;
        }
        excluded[n_excluded++] = (struct rf_range){c, c};
        if (depth == KEY_DEPTH) continue; /* nothing that begins like that */
        struct rf_str *same = rf_schema_take(r, n, sizeof *same);
        if (!same) return NULL;
        size_t n_same = 0;
        rf_ir_steps(r->ir, n);
        for (size_t k = i; k < n; k++)
            if (keys[k].bytes >= at + bytes &&
                memcmp(keys[k].data + at, keys[i].data + at, bytes) == 0)
                same[n_same++] = keys[k];
        const struct rf_range one = {c, c};
        rf_schema_add_part(r, &parts,
                           rf_text_sequence(r->ir, rf_ir_chars(r->ir, &one, 1),
                                            other_key(r, same, n_same, at + bytes, depth + 1)));
    }
    rf_schema_add_part(
        r, &parts, rf_text_sequence(r->ir, rf_ir_chars_without(r->ir, excluded, n_excluded), rest));
    if (!ends) rf_schema_add_part(r, &parts, rf_text(r->ir, ""));
    return rf_schema_choice(r, &parts);
}

struct property {
    struct rf_str name;
    int is_required;
    const struct rf_expr *member; /* key, colon and value */
};

struct properties {
    struct property *items;
    size_t n, cap;
    size_t *places, n_places; /* hash table: 0, or an item's index + 1; a power of two */
};

static size_t *place_of_name(const struct properties *list, struct rf_str name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < name.bytes; i++) hash = (hash ^ (unsigned char)name.data[i]) * 16777619u;
    for (size_t at = hash & (list->n_places - 1);; at = (at + 1) & (list->n_places - 1)) {
        size_t *place = &list->places[at];
        if (!*place || rf_str_same(list->items[*place - 1].name, name)) return place;
    }
}

/* Room in the table for one more name. */
static void widen_places(struct rf_schema_reader *r, struct properties *list)
{
    if (2 * (list->n + 1) <= list->n_places) return;
    size_t n = list->n_places ? 2 * list->n_places : 32;
    size_t *places = rf_schema_take(r, n, sizeof *places);
    if (!places) return;
    list->places = places;
    list->n_places = n;
    for (size_t i = 0; i < list->n; i++) *place_of_name(list, list->items[i].name) = i + 1;
}

static struct property *add_property(struct rf_schema_reader *r, struct properties *list,
                                     struct rf_str name)
{
    widen_places(r, list);
    if (rf_ir_step(r->ir)) return NULL;
    size_t *place = place_of_name(list, name);
    if (*place) return &list->items[*place - 1];
    struct property *grown = rf_grow(r->ir->arena.allocator, list->items, list->n, 1, &list->cap,
                                     sizeof *grown, "a schema", r->ir->error);
    if (!grown) {
        r->ir->code = RF_ERR_MEMORY;
        return NULL;
    }
    list->items = grown;
    list->items[list->n] = (struct property){name, 0, NULL};
    *place = list->n + 1;
    return &list->items[list->n++];
}

/* Lists the names in `properties` and `required`, in their order. */
static void list_properties(struct rf_schema_reader *r, const struct rf_conjunction *c,
                            struct properties *list)
{
    struct rf_str name;
    const struct rf_json *value;
    for (int32_t i = 0; i < c->n; i++) {
        const struct rf_json *all = rf_json_get(c->members[i].schema, "properties");
        if (all && !rf_json_is_object(all))
            rf_schema_bad(r, RF_ERR_FORMAT, rf_pointer_to(r, c->members[i].pointer, "properties"),
                          "this is not an object");
        for (void *k = NULL; !r->ir->code && rf_json_next(all, &k, &name, &value);) {
            if (rf_utf8_valid_prefix(name.data, name.bytes) < name.bytes)
                rf_schema_bad(r, RF_ERR_UNSUPPORTED,
                              rf_pointer_to(r, c->members[i].pointer, "properties"),
                              "a name with a zero byte is not supported");
            add_property(r, list, name);
        }
    }
    for (int32_t i = 0; i < c->n; i++) {
        const struct rf_json *names = rf_json_get(c->members[i].schema, "required");
        if (names && !rf_json_is_array(names))
            rf_schema_bad(r, RF_ERR_FORMAT, rf_pointer_to(r, c->members[i].pointer, "required"),
                          "this is not an array of strings");
        for (size_t k = 0; k < rf_json_count(names) && !r->ir->code; k++) {
            if (!rf_json_string(rf_json_at(names, k), &name)) {
                rf_schema_bad(r, RF_ERR_FORMAT, rf_pointer_to(r, c->members[i].pointer, "required"),
                              "this is not an array of strings");
                return;
            }
            if (name.bytes && memchr(name.data, 0, name.bytes))
                rf_schema_bad(r, RF_ERR_UNSUPPORTED,
                              rf_pointer_to(r, c->members[i].pointer, "required"),
                              "a name with a zero byte is not supported");
            struct property *property = add_property(r, list, name);
            if (property) property->is_required = 1;
        }
    }
}

/* The value of a property by all members; name NULL: of properties that have no name there. */
static const struct rf_expr *property_value(struct rf_schema_reader *r,
                                            const struct rf_conjunction *c, const char *name)
{
    struct rf_conjunction of = {.n = 0};
    for (int32_t i = 0; i < c->n; i++) {
        const struct rf_schema_member *m = &c->members[i];
        const struct rf_json *all = rf_json_get(m->schema, "properties"),
                             *others = rf_json_get(m->schema, "additionalProperties");
        if (name && rf_json_has(all, name)) {
            const char *pointer =
                rf_pointer_to(r, rf_pointer_to(r, m->pointer, "properties"), name);
            rf_schema_add(r, &of, (struct rf_schema_member){rf_json_get(all, name), pointer, 0}, 0);
        } else if (others) {
            const char *pointer = rf_pointer_to(r, m->pointer, "additionalProperties");
            rf_schema_add(r, &of, (struct rf_schema_member){others, pointer, 0}, 0);
        }
    }
    return r->value(r, &of);
}

static const char *terminated_name(struct rf_schema_reader *r, struct rf_str name)
{
    char *copy = rf_schema_take(r, name.bytes + 1, 1);
    if (copy && name.bytes) memcpy(copy, name.data, name.bytes);
    return copy;
}

static const struct rf_expr *member_of(struct rf_schema_reader *r, const struct rf_expr *key,
                                       const struct rf_expr *value)
{
    return rf_text_is_none(value)
               ? value
               : rf_text_sequence(r->ir, key, rf_text(r->ir, ":"), r->blank, value);
}

static const struct rf_expr *key_text(struct rf_schema_reader *r, struct rf_str name)
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
static const struct rf_expr *other_member(struct rf_schema_reader *r,
                                          const struct rf_conjunction *c,
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
    struct rf_str *names = rf_schema_take(r, list->n, sizeof *names);
    if (!names) return NULL;
    for (size_t i = 0; i < list->n; i++) names[i] = list->items[i].name;
    return member_of(r,
                     list->n ? rf_schema_quoted(r, other_key(r, names, list->n, 0, 0))
                             : rf_schema_any_string(r),
                     value);
}

/* A rule of its own, because several expressions go on with it. */
static const struct rf_expr *as_rule(struct rf_schema_reader *r, const struct rf_expr *expr,
                                     const char *pointer)
{
    int32_t rule = rf_ir_add_rule(r->ir, rf_str_of(""), pointer);
    if (rule < 0 || r->ir->code) return NULL;
    r->ir->rules[rule].expr = expr;
    return rf_ir_rule(r->ir, rule);
}

/* The members in their order. rest: what may follow one; first: what may come where none has. */
static const struct rf_expr *members_of(struct rf_schema_reader *r, const struct properties *list,
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

const struct rf_expr *rf_schema_object(struct rf_schema_reader *r, const struct rf_conjunction *c)
{
    struct rf_ir *ir = r->ir;
    struct properties list = {.n = 0};
    const struct rf_expr *made = NULL;
    const char *missing = NULL;
    list_properties(r, c, &list);
    int is_empty = 1; /* the object may be */
    for (size_t i = 0; i < list.n && !ir->code && !missing; i++) {
        struct property *p = &list.items[i];
        const char *name = terminated_name(r, p->name);
        if (!name) break;
        p->member = member_of(r, key_text(r, p->name), property_value(r, c, name));
        is_empty &= !p->is_required;
        if (p->is_required && rf_text_is_none(p->member)) missing = name;
    }
    const struct rf_expr *other = missing || ir->code ? NULL : other_member(r, c, &list);
    if (missing) {
        made = rf_text_none(ir); /* the reason is the value's */
    } else if (!ir->code) {
        const struct rf_expr *members = members_of(r, &list, other, rf_conjunction_pointer(c));
        const struct rf_expr *filled =
            rf_text_sequence(ir, rf_text(ir, "{"), r->space, members, r->space, rf_text(ir, "}"));
        made = is_empty ? rf_text_choice(ir, rf_text(ir, "{}"), filled) : filled;
    }
    rf_free(ir->arena.allocator, list.items);
    return made;
}
