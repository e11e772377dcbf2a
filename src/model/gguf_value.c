/* Looks up metadata values by key and expected type. */
#include <inttypes.h>
#include <string.h>

#include "model/cursor.h"
#include "model/gguf.h"

static const char *type_name(uint32_t type)
{
    static const char *const names[RF_GGUF_TYPE_LIMIT] = {
        "UINT8", "INT8",   "UINT16", "INT16",  "UINT32", "INT32",  "FLOAT32",
        "BOOL",  "STRING", "ARRAY",  "UINT64", "INT64",  "FLOAT64"};
    return names[type];
}

static int wrong_type(const struct rf_gguf *gguf, const char *key, uint32_t type,
                      const char *wanted)
{
    return rf_fail(gguf->error, RF_ERR_FORMAT, "%s: key %s is of type %s, not %s", gguf->path, key,
                   type_name(type), wanted);
}

int rf_gguf_missing(const struct rf_gguf *gguf, const char *key)
{
    return rf_fail(gguf->error, RF_ERR_FORMAT, "%s: key %s is missing", gguf->path, key);
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

static int in_range(const struct rf_gguf *gguf, const char *key, int64_t value, int64_t lowest,
                    int64_t highest)
{
    if (value >= lowest && value <= highest) return 1;
    return rf_fail(gguf->error, RF_ERR_FORMAT,
                   "%s: key %s is %" PRId64 "; it must be from %" PRId64 " to %" PRId64, gguf->path,
                   key, value, lowest, highest);
}

int rf_gguf_integer(const struct rf_gguf *gguf, const char *key, int64_t lowest, int64_t highest,
                    int64_t *value)
{
    const struct rf_gguf_value *found = rf_gguf_find(gguf, key);
    if (!found) return 0;
    if (!is_integer(found->type)) return wrong_type(gguf, key, found->type, "an integer");
    int64_t integer = load_integer(found->type, found->data);
    int code = in_range(gguf, key, integer, lowest, highest);
    if (code == 1) *value = integer;
    return code;
}

static size_t integer_bytes(uint32_t type)
{
    return type <= RF_GGUF_I8 ? 1 : type <= RF_GGUF_I16 ? 2 : type <= RF_GGUF_I32 ? 4 : 8;
}

int rf_gguf_integer_per_layer(const struct rf_gguf *gguf, const char *key, int64_t n,
                              int64_t highest, int64_t *value)
{
    const struct rf_gguf_value *found = rf_gguf_find(gguf, key);
    if (!found || found->type != RF_GGUF_ARRAY)
        return rf_gguf_integer(gguf, key, 1, highest, value);
    if (!is_integer(found->elem_type)) return wrong_type(gguf, key, found->elem_type, "integers");
    if (found->count != (uint64_t)n)
        return rf_fail(gguf->error, RF_ERR_FORMAT,
                       "%s: key %s has %" PRIu64 " elements, but the model has %" PRId64 " layers",
                       gguf->path, key, found->count, n);
    int64_t first = load_integer(found->elem_type, found->data);
    for (uint64_t i = 1; i < found->count; i++) {
        int64_t other =
            load_integer(found->elem_type, found->data + i * integer_bytes(found->elem_type));
        if (other != first)
            return rf_fail(gguf->error, RF_ERR_UNSUPPORTED,
                           "%s: key %s differs between layers (%" PRId64 " and %" PRId64
                           "), which is not supported",
                           gguf->path, key, first, other);
    }
    int code = in_range(gguf, key, first, 1, highest);
    if (code == 1) *value = first;
    return code;
}

int rf_gguf_float(const struct rf_gguf *gguf, const char *key, double *value)
{
    const struct rf_gguf_value *found = rf_gguf_find(gguf, key);
    if (!found) return 0;
    if (found->type == RF_GGUF_F32) {
        float single;
        memcpy(&single, found->data, sizeof single);
        *value = (double)single;
    } else if (found->type == RF_GGUF_F64) {
        memcpy(value, found->data, sizeof *value);
    } else {
        return wrong_type(gguf, key, found->type, "FLOAT32");
    }
    return 1;
}

int rf_gguf_bool(const struct rf_gguf *gguf, const char *key, int *value)
{
    const struct rf_gguf_value *found = rf_gguf_find(gguf, key);
    if (!found) return 0;
    if (found->type != RF_GGUF_BOOL) return wrong_type(gguf, key, found->type, "BOOL");
    *value = found->data[0];
    return 1;
}

int rf_gguf_string(const struct rf_gguf *gguf, const char *key, struct rf_str *value)
{
    const struct rf_gguf_value *found = rf_gguf_find(gguf, key);
    if (!found) return 0;
    if (found->type != RF_GGUF_STRING) return wrong_type(gguf, key, found->type, "STRING");
    *value = (struct rf_str){(const char *)found->data, found->bytes};
    return 1;
}

int rf_gguf_array(const struct rf_gguf *gguf, const char *key, uint32_t elem_type,
                  const struct rf_gguf_value **value)
{
    const struct rf_gguf_value *found = rf_gguf_find(gguf, key);
    if (!found) return 0;
    if (found->type != RF_GGUF_ARRAY) return wrong_type(gguf, key, found->type, "ARRAY");
    if (found->elem_type != elem_type)
        return rf_fail(gguf->error, RF_ERR_FORMAT, "%s: key %s is an array of %s, not of %s",
                       gguf->path, key, type_name(found->elem_type), type_name(elem_type));
    *value = found;
    return 1;
}

struct rf_str rf_gguf_next_string(const unsigned char **data)
{
    struct rf_str string = {(const char *)*data + 8, (size_t)rf_load_le(*data, 8)};
    *data += 8 + string.bytes;
    return string;
}
