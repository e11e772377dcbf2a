/* Looks up metadata values by key and expected type. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/cursor.h"
#include "model/gguf.h"

static const char *type_name(uint32_t type)
{
    static const char *const names[RF_GGUF_TYPE_LIMIT] = {
        "UINT8", "INT8",   "UINT16", "INT16",  "UINT32", "INT32",  "FLOAT32",
        "BOOL",  "STRING", "ARRAY",  "UINT64", "INT64",  "FLOAT64"};
    return names[type];
}

size_t rf_gguf_type_bytes(uint32_t type)
{
    static const unsigned char bytes[RF_GGUF_TYPE_LIMIT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return bytes[type];
}

static int key_order(const void *a, const void *b)
{
    return rf_str_order(((const struct rf_gguf_value *)a)->key,
                        ((const struct rf_gguf_value *)b)->key);
}

void rf_gguf_sort_values(struct rf_gguf *gguf)
{
    qsort(gguf->values, gguf->n_values, sizeof *gguf->values, key_order);
}

const struct rf_gguf_value *rf_gguf_find(struct rf_gguf *gguf, const char *key)
{
    if (gguf->reading->code) return NULL;
    const char *arch = *key == '.' ? gguf->reading->source->params.arch_name : "";
    snprintf(gguf->key, sizeof gguf->key, "%s%s", arch, key);
    struct rf_gguf_value wanted = {.key = rf_str_of(gguf->key)};
    if (gguf->n_values == 0) return NULL;
    return bsearch(&wanted, gguf->values, gguf->n_values, sizeof *gguf->values, key_order);
}

int rf_gguf_missing(struct rf_gguf *gguf)
{
    return rf_bad(gguf->reading, RF_ERR_FORMAT, "key %s is missing", gguf->key);
}

static void wrong_type(struct rf_gguf *gguf, uint32_t type, const char *wanted)
{
    rf_bad(gguf->reading, RF_ERR_FORMAT, "key %s is of type %s, not %s", gguf->key, type_name(type),
           wanted);
}

/* NULL also when the value is of another type. */
static const struct rf_gguf_value *find_typed(struct rf_gguf *gguf, const char *key, uint32_t type)
{
    const struct rf_gguf_value *found = rf_gguf_find(gguf, key);
    if (!found || found->type == type) return found;
    wrong_type(gguf, found->type, type_name(type));
    return NULL;
}

static int is_integer(uint32_t type)
{
    return type <= RF_GGUF_I32 || type == RF_GGUF_U64 || type == RF_GGUF_I64;
}

/* An integer of any type. An unsigned one beyond INT64_MAX becomes INT64_MAX, which no caller
 * accepts. */
static int64_t load_integer(uint32_t type, const unsigned char *data)
{
    switch (type) {
    case RF_GGUF_U8: return data[0];
    case RF_GGUF_I8: return (int8_t)data[0];
    case RF_GGUF_U16: return (uint16_t)rf_load_le(data, 2);
    case RF_GGUF_I16: return (int16_t)rf_load_le(data, 2);
    case RF_GGUF_U32: return (uint32_t)rf_load_le(data, 4);
    case RF_GGUF_I32: return (int32_t)rf_load_le(data, 4);
    case RF_GGUF_I64: return (int64_t)rf_load_le(data, 8);
    default: {
        uint64_t value = rf_load_le(data, 8);
        return value > INT64_MAX ? INT64_MAX : (int64_t)value;
    }
    }
}

static int64_t in_range(struct rf_gguf *gguf, int64_t value, int64_t lowest, int64_t highest,
                        int64_t otherwise)
{
    if (value >= lowest && value <= highest) return value;
    rf_bad(gguf->reading, RF_ERR_FORMAT,
           "key %s is %" PRId64 "; it must be from %" PRId64 " to %" PRId64, gguf->key, value,
           lowest, highest);
    return otherwise;
}

int64_t rf_gguf_integer(struct rf_gguf *gguf, const char *key, int64_t lowest, int64_t highest,
                        int64_t otherwise)
{
    const struct rf_gguf_value *found = rf_gguf_find(gguf, key);
    if (found && is_integer(found->type))
        return in_range(gguf, load_integer(found->type, found->data), lowest, highest, otherwise);
    if (found) wrong_type(gguf, found->type, "an integer");
    return otherwise;
}

/* The number that the elements have in common; 0 where they are not n integers. */
static int64_t common_element(struct rf_gguf *gguf, const struct rf_gguf_value *array, int32_t n,
                              void (*on_zero)(void *user, int32_t i), void *user)
{
    uint32_t type = array->elem_type;
    int64_t common = 0;
    if (!is_integer(type)) {
        wrong_type(gguf, type, "integers");
        return 0;
    }
    if (array->count != (uint64_t)n) {
        rf_bad(gguf->reading, RF_ERR_FORMAT,
               "key %s has %" PRIu64 " elements, but the model has %" PRId32 " layers", gguf->key,
               array->count, n);
        return 0;
    }
    for (int32_t i = 0; i < n; i++) {
        int64_t element = rf_gguf_element(array, (uint64_t)i);
        if (on_zero && element == 0) {
            on_zero(user, i);
            continue;
        }
        if (common == 0) common = element;
        if (element != common)
            rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
                   "key %s differs between layers (%" PRId64 " and %" PRId64
                   "), which is not supported",
                   gguf->key, common, element);
    }
    return common;
}

int32_t rf_gguf_per_layer_or_0(struct rf_gguf *gguf, const char *key, int32_t n, int32_t otherwise,
                               void (*on_zero)(void *user, int32_t i), void *user)
{
    const struct rf_gguf_value *found = rf_gguf_find(gguf, key);
    if (!found || found->type != RF_GGUF_ARRAY)
        return (int32_t)rf_gguf_integer(gguf, key, 1, INT32_MAX, otherwise);
    int64_t common = common_element(gguf, found, n, on_zero, user);
    return gguf->reading->code ? otherwise
                               : (int32_t)in_range(gguf, common, 1, INT32_MAX, otherwise);
}

int32_t rf_gguf_per_layer(struct rf_gguf *gguf, const char *key, int32_t n, int32_t otherwise)
{
    return rf_gguf_per_layer_or_0(gguf, key, n, otherwise, NULL, NULL);
}

double rf_gguf_float(struct rf_gguf *gguf, const char *key, double otherwise)
{
    const struct rf_gguf_value *found = rf_gguf_find(gguf, key);
    float single;
    if (found && found->type == RF_GGUF_F32) {
        memcpy(&single, found->data, sizeof single);
        return (double)single;
    }
    if (found && found->type == RF_GGUF_F64)
        memcpy(&otherwise, found->data, sizeof otherwise);
    else if (found)
        wrong_type(gguf, found->type, "FLOAT32");
    return otherwise;
}

int8_t rf_gguf_bool(struct rf_gguf *gguf, const char *key, int8_t otherwise)
{
    const struct rf_gguf_value *found = find_typed(gguf, key, RF_GGUF_BOOL);
    return found ? (int8_t)found->data[0] : otherwise;
}

struct rf_str rf_gguf_string(struct rf_gguf *gguf, const char *key, struct rf_str otherwise)
{
    const struct rf_gguf_value *found = find_typed(gguf, key, RF_GGUF_STRING);
    return found ? (struct rf_str){(const char *)found->data, found->bytes} : otherwise;
}

const struct rf_gguf_value *rf_gguf_array(struct rf_gguf *gguf, const char *key, uint32_t elem_type)
{
    const struct rf_gguf_value *found = find_typed(gguf, key, RF_GGUF_ARRAY);
    if (!found || found->elem_type == elem_type) return found;
    rf_bad(gguf->reading, RF_ERR_FORMAT, "key %s is an array of %s, not of %s", gguf->key,
           type_name(found->elem_type), type_name(elem_type));
    return NULL;
}

const struct rf_gguf_value *rf_gguf_integers(struct rf_gguf *gguf, const char *key)
{
    const struct rf_gguf_value *found = find_typed(gguf, key, RF_GGUF_ARRAY);
    if (!found || is_integer(found->elem_type)) return found;
    rf_bad(gguf->reading, RF_ERR_FORMAT, "key %s is an array of %s, not of integers", gguf->key,
           type_name(found->elem_type));
    return NULL;
}

int64_t rf_gguf_element(const struct rf_gguf_value *array, uint64_t i)
{
    return load_integer(array->elem_type,
                        array->data + (size_t)i * rf_gguf_type_bytes(array->elem_type));
}

struct rf_str rf_gguf_next_string(const unsigned char **data)
{
    struct rf_str string = {(const char *)*data + 8, (size_t)rf_load_le(*data, 8)};
    *data += 8 + string.bytes;
    return string;
}
