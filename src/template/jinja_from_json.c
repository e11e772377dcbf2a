/* Values of JSON: of a conversation's document, and of the filter from_json. Integers beyond 64
 * bits keep their digits. */
#include <math.h>
#include <string.h>

#include "model/reader.h"
#include "template/jinja_parts.h"

/* A text of a document: the document's, or a copy that lives as long as the run. */
static value json_string_value(struct rf_jinja_run *run, struct rf_str text, uint8_t origin,
                               int copies)
{
    char *copy = copies && text.bytes ? rf_jinja_take(run, text.bytes, 1) : NULL;
    if (copy) {
        memcpy(copy, text.data, text.bytes);
        text.data = copy;
    }
    return copies && text.bytes && !copy ? (value){0} : rf_jinja_string(text, origin);
}

/* An integer beyond 64 bits; its digits are followed by a zero byte. */
static value big_value(struct rf_jinja_run *run, struct rf_str digits, uint8_t origin)
{
    char *copy = rf_jinja_take(run, digits.bytes + 1, 1);
    if (!copy) return (value){0};
    memcpy(copy, digits.data, digits.bytes);
    return (value){.type = RF_JINJA_BIG, .origin = origin, .u.data = copy, .bytes = digits.bytes};
}

static value convert_json(struct rf_jinja_run *run, const struct rf_json *json, uint8_t origin,
                          int copies)
{
    struct rf_str text, key;
    const struct rf_json *member;
    char number[RF_JSON_NUMBER_BUFFER];
    int64_t integer;
    double real;
    int flag;
    if (rf_json_string(json, &text)) return json_string_value(run, text, origin, copies);
    if (rf_json_integer(json, &integer)) return rf_jinja_integer(integer);
    if (rf_json_number_string(json, number, &text)) {
        if (strcspn(text.data, ".eE") >= text.bytes && text.bytes > 2) /* not -0 */
            return big_value(run, text, origin);
        if (!rf_json_number(json, &real)) real = text.data[0] == '-' ? -INFINITY : INFINITY;
        return rf_jinja_real(real);
    }
    if (rf_json_bool(json, &flag)) return rf_jinja_bool(flag);
    if (rf_json_is_array(json)) {
        value list = rf_jinja_list(run);
        for (size_t i = 0; i < rf_json_count(json) && !run->code; i++)
            rf_jinja_add(run, list, convert_json(run, rf_json_at(json, i), origin, copies));
        return list;
    }
    if (!rf_json_is_object(json)) return rf_jinja_none();
    value dict = rf_jinja_dict(run);
    for (void *i = NULL; !run->code && rf_json_next(json, &i, &key, &member);)
        rf_jinja_insert(run, dict.u.dict, json_string_value(run, key, origin, copies),
                        convert_json(run, member, origin, copies));
    return dict;
}

value rf_jinja_from_json(struct rf_jinja_run *run, const struct rf_json *json, uint8_t origin)
{
    return convert_json(run, json, origin, 0);
}

value rf_jinja_read_json(struct rf_jinja_run *run, value text)
{
    struct rf_error why = {0};
    struct rf_reading reading = {.path = "a text", .error = &why};
    struct output out = {0};
    value v = {0};
    if (rf_jinja_charge(run, text.bytes * RF_JINJA_ITEM)) return v;
    rf_jinja_write_text(run, &out, "["); /* the text may be any value */
    rf_jinja_write(run, &out, text);
    rf_jinja_write_text(run, &out, "]");
    if (run->code) return v;
    struct rf_json *document = rf_json_parse(&reading, NULL, (struct rf_str){out.text, out.n});
    if (rf_json_count(document) == 1)
        v = convert_json(run, rf_json_at(document, 0), text.origins ? text.origins[0] : text.origin,
                         1);
    else
        rf_jinja_fail(run, RF_ERR_ARGUMENT, "a text is not JSON");
    rf_json_free(document);
    return v;
}
