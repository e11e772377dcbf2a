/* JSON documents of the library, on jansson's values (base/json.h). jansson allocates by itself:
 * the allocator of the model does not see it. */
#include "model/json.h"

#include <math.h>
#include <stdio.h>

#include "base/decimal.h"
#include "base/json.h"

static json_t *node(const struct rf_json *value)
{
    return (json_t *)(uintptr_t)value;
}

/* About what jansson takes for a document, with the headers of malloc's blocks: a string or a
 * member of an object has two blocks, an array or an object also its table. A number with a point
 * or an exponent may be an object (base/json.h). */
static uint64_t cost_of(struct rf_str text)
{
    enum { VALUE = 96, ARRAY = 128, OBJECT = 256, NUMBER = OBJECT + 2 * VALUE };
    uint64_t cost = 0;
    int in_string = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        char c = text.data[i];
        if (in_string && c == '\\') {
            i++;
        } else if (c == '"') {
            in_string = !in_string;
        } else if (!in_string) {
            int is_digit = i && text.data[i - 1] >= '0' && text.data[i - 1] <= '9';
            cost += c == ','                                         ? VALUE
                    : c == '['                                       ? ARRAY
                    : c == '{'                                       ? OBJECT
                    : is_digit && (c == '.' || c == 'e' || c == 'E') ? NUMBER
                                                                     : 0;
        }
    }
    return cost;
}

static struct rf_json *parse_json(struct rf_reading *reading, const char *part, struct rf_str text,
                                  int is_unique)
{
    /* The bytes first: a sparse file has more of them than anybody has the time to look at. */
    if (rf_charge(reading, part, text.bytes, "JSON") ||
        rf_charge(reading, part, cost_of(text), "JSON"))
        return NULL;
    struct rf_json_problem problem;
    json_t *parsed = is_unique ? rf_json_load_unique(text.data, text.bytes, &problem)
                               : rf_json_load(text.data, text.bytes, NULL, &problem);
    if (!parsed && problem.is_memory)
        rf_bad_part(reading, part, RF_ERR_MEMORY, "no memory for its JSON");
    else if (!parsed)
        rf_bad_part(reading, part, RF_ERR_FORMAT, "line %zu, column %zu: %s", problem.line,
                    problem.column, problem.text);
    return (struct rf_json *)parsed;
}

struct rf_json *rf_json_parse(struct rf_reading *reading, const char *part, struct rf_str text)
{
    return parse_json(reading, part, text, 0);
}

struct rf_json *rf_json_parse_unique(struct rf_reading *reading, const char *part,
                                     struct rf_str text)
{
    return parse_json(reading, part, text, 1);
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
           : rf_json_is_object(value) ? json_object_size(node(value))
                                      : 0;
}

const struct rf_json *rf_json_at(const struct rf_json *array, size_t index)
{
    return (const struct rf_json *)json_array_get(node(array), index);
}

int rf_json_is_object(const struct rf_json *value)
{
    return rf_json_is_map(node(value));
}

int rf_json_is_array(const struct rf_json *value)
{
    return json_is_array(node(value));
}

int rf_json_is_null(const struct rf_json *value)
{
    return json_is_null(node(value));
}

/* The number's text; it may be written to the buffer. */
static struct rf_str number_text(const struct rf_json *value, char buffer[RF_DOUBLE_TEXT])
{
    const char *text = rf_json_number_text(node(value));
    if (text) return rf_str_of(text);
    if (json_is_real(node(value)))
        rf_double_write(json_real_value(node(value)), buffer);
    else
        snprintf(buffer, RF_DOUBLE_TEXT, "%" JSON_INTEGER_FORMAT, json_integer_value(node(value)));
    return rf_str_of(buffer);
}

int rf_json_number_string(const struct rf_json *value, char buffer[RF_JSON_NUMBER_BUFFER],
                          struct rf_str *text)
{
    _Static_assert((int)RF_JSON_NUMBER_BUFFER >= (int)RF_DOUBLE_TEXT, "the buffer holds a float");
    if (!rf_json_is_any_number(node(value))) return 0;
    *text = number_text(value, buffer);
    return 1;
}

static int same_numbers(const struct rf_json *a, const struct rf_json *b)
{
    char buffers[2][RF_DOUBLE_TEXT];
    if (json_is_integer(node(a)) && json_is_integer(node(b)))
        return json_integer_value(node(a)) == json_integer_value(node(b));
    struct rf_str x = number_text(a, buffers[0]), y = number_text(b, buffers[1]);
    struct rf_decimal left = rf_decimal_of(x.data, x.bytes), right = rf_decimal_of(y.data, y.bytes);
    return rf_decimal_order(&left, &right) == 0;
}

static int same_members(const struct rf_json *a, const struct rf_json *b)
{
    struct rf_str key;
    const struct rf_json *value;
    if (rf_json_count(a) != rf_json_count(b)) return 0;
    for (void *i = NULL; rf_json_next(a, &i, &key, &value);) {
        const json_t *other = json_object_get(node(b), key.data);
        if (!other || !rf_json_same(value, (const struct rf_json *)other)) return 0;
    }
    return 1;
}

int rf_json_same(const struct rf_json *a, const struct rf_json *b)
{
    if (!a || !b) return 0;
    if (rf_json_is_any_number(node(a)) || rf_json_is_any_number(node(b)))
        return rf_json_is_any_number(node(a)) && rf_json_is_any_number(node(b)) &&
               same_numbers(a, b);
    if (json_typeof(node(a)) != json_typeof(node(b))) return 0;
    if (json_is_object(node(a))) return same_members(a, b);
    if (!json_is_array(node(a))) return json_equal(node(a), node(b));
    size_t n = rf_json_count(a), i = 0;
    while (n == rf_json_count(b) && i < n && rf_json_same(rf_json_at(a, i), rf_json_at(b, i))) i++;
    return n == rf_json_count(b) && i == n;
}

void rf_json_write(const struct rf_json *value, struct rf_writer *out)
{
    rf_json_put(node(value), 0, out);
}

void rf_json_write_string(struct rf_str text, struct rf_writer *out)
{
    rf_json_put_string(text.data, text.bytes, out);
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
    if (!rf_json_is_any_number(node(value))) return 0;
    *number = rf_json_to_double(node(value));
    return isfinite(*number);
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
    if (!rf_json_is_object(object)) return 0;
    *iterator =
        *iterator ? json_object_iter_next(node(object), *iterator) : json_object_iter(node(object));
    if (!*iterator) return 0;
    const char *text = json_object_iter_key(*iterator);
    *key = (struct rf_str){text, strlen(text)};
    *value = (const struct rf_json *)json_object_iter_value(*iterator);
    return 1;
}
