/* The only file that uses jansson. jansson allocates by itself: the allocator of the model does not
 * see it. */
#include "model/json.h"

#include <jansson.h>

static json_t *node(const struct rf_json *value)
{
    return (json_t *)(uintptr_t)value;
}

/* About what jansson takes for a document, with the headers of malloc's blocks: a string or a
 * member of an object has two blocks, an array or an object also its table. */
static uint64_t cost_of(struct rf_str text)
{
    enum { VALUE = 96, ARRAY = 128, OBJECT = 256 };
    uint64_t cost = 0;
    int in_string = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        char c = text.data[i];
        if (in_string && c == '\\') {
            i++;
        } else if (c == '"') {
            in_string = !in_string;
        } else if (!in_string) {
            cost += c == ',' ? VALUE : c == '[' ? ARRAY : c == '{' ? OBJECT : 0;
        }
    }
    return cost;
}

struct rf_json *rf_json_parse(struct rf_reading *reading, const char *part, struct rf_str text)
{
    /* The bytes first: a sparse file has more of them than anybody has the time to look at. */
    if (rf_charge(reading, part, text.bytes, "JSON") ||
        rf_charge(reading, part, cost_of(text), "JSON"))
        return NULL;
    json_error_t problem;
    json_t *parsed = json_loadb(text.data, text.bytes, JSON_REJECT_DUPLICATES, &problem);
    if (!parsed && json_error_code(&problem) == json_error_out_of_memory)
        rf_bad_part(reading, part, RF_ERR_MEMORY, "no memory for its JSON");
    else if (!parsed)
        rf_bad_part(reading, part, RF_ERR_FORMAT, "line %d, column %d: %s", problem.line,
                    problem.column, problem.text);
    return (struct rf_json *)parsed;
}

void rf_json_free(struct rf_json *document)
{
    json_decref((json_t *)document);
}

const struct rf_json *rf_json_get(const struct rf_json *value, const char *key)
{
    json_t *member = json_object_get(node(value), key);
    return json_is_null(member) ? NULL : (const struct rf_json *)member;
}

int rf_json_has(const struct rf_json *value, const char *key)
{
    return json_object_get(node(value), key) != NULL;
}

size_t rf_json_count(const struct rf_json *value)
{
    return json_is_array(node(value)) ? json_array_size(node(value))
                                      : json_object_size(node(value));
}

const struct rf_json *rf_json_at(const struct rf_json *array, size_t index)
{
    return (const struct rf_json *)json_array_get(node(array), index);
}

int rf_json_is_object(const struct rf_json *value)
{
    return json_is_object(node(value));
}

int rf_json_is_array(const struct rf_json *value)
{
    return json_is_array(node(value));
}

int rf_json_is_null(const struct rf_json *value)
{
    return json_is_null(node(value));
}

int rf_json_same(const struct rf_json *a, const struct rf_json *b)
{
    return json_equal(node(a), node(b));
}

static int json_append(const char *text, size_t n, void *out)
{
    rf_write(out, text, n);
    return 0;
}

void rf_json_write(const struct rf_json *value, struct rf_writer *out)
{
    if (json_dump_callback(node(value), json_append, out, JSON_COMPACT | JSON_ENCODE_ANY) != 0 &&
        !out->code)
        out->code = rf_fail(out->error, RF_ERR_MEMORY, "no memory to write JSON");
}

void rf_json_write_string(struct rf_str text, struct rf_writer *out)
{
    json_t *string = json_stringn(text.data, text.bytes);
    if (string)
        rf_json_write((const struct rf_json *)string, out);
    else if (!out->code)
        out->code = rf_fail(out->error, RF_ERR_MEMORY, "no memory to write JSON");
    json_decref(string);
}

int rf_json_string(const struct rf_json *value, struct rf_str *string)
{
    if (!json_is_string(node(value))) return 0;
    *string = (struct rf_str){json_string_value(node(value)), json_string_length(node(value))};
    return 1;
}

int rf_json_integer(const struct rf_json *value, int64_t *integer)
{
    if (!json_is_integer(node(value))) return 0;
    *integer = json_integer_value(node(value));
    return 1;
}

int rf_json_number(const struct rf_json *value, double *number)
{
    if (!json_is_number(node(value))) return 0;
    *number = json_number_value(node(value));
    return 1;
}

int rf_json_bool(const struct rf_json *value, int *flag)
{
    if (!json_is_boolean(node(value))) return 0;
    *flag = json_is_true(node(value));
    return 1;
}

struct rf_str rf_json_text(const struct rf_json *value)
{
    struct rf_str text = {"", 0};
    rf_json_string(value, &text);
    return text;
}

int rf_json_is_true(const struct rf_json *value)
{
    return json_is_true(node(value));
}

int rf_json_next(const struct rf_json *object, void **iterator, struct rf_str *key,
                 const struct rf_json **value)
{
    *iterator =
        *iterator ? json_object_iter_next(node(object), *iterator) : json_object_iter(node(object));
    if (!*iterator) return 0;
    const char *text = json_object_iter_key(*iterator);
    *key = (struct rf_str){text, strlen(text)};
    *value = (const struct rf_json *)json_object_iter_value(*iterator);
    return 1;
}
