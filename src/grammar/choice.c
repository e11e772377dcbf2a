/* Choices of texts, control tokens, patterns and schemas (RIFFLE_GRAMMAR_CHOICE): what calls of
 * tools and lists of allowed answers are limited by. It stands on the reader of schemas. */
#include "grammar/schema.h"

static const struct rf_expr *token_of(struct rf_schema_reader *r, struct rf_str name)
{
    char *spelled = rf_schema_take(r, name.bytes + 1, 1);
    if (!spelled) return NULL;
    spelled[0] = '\xff';
    if (name.bytes) memcpy(spelled + 1, name.data, name.bytes);
    struct rf_str token = {spelled, name.bytes + 1};
    return rf_ir_text(r->ir, r->is_token(r->vocab, token) ? token : name);
}

static const struct rf_expr *parts_of(struct rf_schema_reader *r, const struct rf_json *list);

/* The value of a property of the schema that was given last. */
static const struct rf_expr *property_of(struct rf_schema_reader *r, const struct rf_json *part,
                                         struct rf_str name)
{
    int is_plain = rf_json_string(rf_json_get(part, "until"), &r->until);
    return rf_schema_property(r, r->given, name, is_plain);
}

static const struct rf_expr *part_of(struct rf_schema_reader *r, const struct rf_json *part)
{
    struct rf_str text;
    if (rf_json_has(part, "schema")) return rf_schema_root(r, rf_json_get(part, "schema"));
    if (rf_json_has(part, "given")) {
        r->given = rf_json_get(part, "given");
        return rf_text(r->ir, "");
    }
    if (rf_json_string(rf_json_get(part, "property"), &text)) return property_of(r, part, text);
    if (rf_json_string(rf_json_get(part, "text"), &text)) return rf_ir_text(r->ir, text);
    if (rf_json_string(rf_json_get(part, "token"), &text)) return token_of(r, text);
    if (rf_json_string(rf_json_get(part, "without"), &text)) return rf_text_without(r->ir, text);
    if (rf_json_string(rf_json_get(part, "pattern"), &text))
        return rf_text_pattern(r->ir, text, RF_PATTERN_WHOLE, "the regular expression");
    if (rf_json_is_array(rf_json_get(part, "optional")))
        return rf_text_optional(r->ir, parts_of(r, rf_json_get(part, "optional")));
    rf_ir_fail(r->ir, RF_ERR_FORMAT, "a part of a choice has no member that is known");
    return NULL;
}

static const struct rf_expr *parts_of(struct rf_schema_reader *r, const struct rf_json *list)
{
    size_t n = rf_json_count(list);
    const struct rf_expr **parts = rf_schema_take(r, n + 1, sizeof *parts);
    if (++r->depth > RF_IR_NESTING / 4)
        rf_ir_fail(r->ir, RF_ERR_UNSUPPORTED, "parts are nested too deeply");
    for (size_t i = 0; parts && i < n && !r->ir->code; i++)
        parts[i] = part_of(r, rf_json_at(list, i));
    r->depth--;
    return r->ir->code ? NULL : rf_ir_sequence(r->ir, parts, n);
}

static const struct rf_expr *choice_of(struct rf_schema_reader *r, const struct rf_json *document)
{
    struct rf_schema_parts parts = {.n = 0};
    size_t n = rf_json_is_array(document) ? rf_json_count(document) : 0;
    if (!n) rf_ir_fail(r->ir, RF_ERR_FORMAT, "a choice is an array of alternatives");
    for (size_t i = 0; i < n && !r->ir->code; i++)
        rf_schema_add_part(r, &parts, parts_of(r, rf_json_at(document, i)));
    return r->ir->code ? NULL : rf_schema_choice(r, &parts);
}

int rf_choice_read(struct rf_ir *ir, struct rf_str text,
                   int (*is_token)(const void *vocab, struct rf_str text), const void *vocab)
{
    struct rf_schema_reader r = {.ir = ir, .is_token = is_token, .vocab = vocab};
    return rf_schema_read_document(&r, text, choice_of);
}
