/* Parses a GGUF header. No number in it is trusted: before anything is allocated, its count is
 * checked against the bytes that are left, and every extent is taken from one cursor. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/cursor.h"
#include "model/gguf.h"
#include "model/reader.h"

enum {
    MAX_KEY_BYTES = 65535, /* the format's limit */
    MAX_NAME_BYTES = 255,  /* ggml's own is 63 */
    MAX_ENTRIES = 1 << 20, /* of metadata values or tensors: a sparse file can claim any size */
    MIN_VALUE_BYTES = 8 + 4 + 1,
    MIN_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8,
    DEFAULT_ALIGNMENT = 32,
    MIN_ALIGNMENT = 8,
    MAX_ALIGNMENT = 1 << 20
};

/* Bytes of one element; 0 for strings and arrays. */
static size_t type_bytes(uint32_t type)
{
    static const unsigned char bytes[RF_GGUF_TYPE_LIMIT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return bytes[type];
}

static int take_string(struct rf_cursor *cursor, const char *what, struct rf_str *string)
{
    uint64_t n;
    const unsigned char *data = NULL;
    int code = rf_cursor_u64(cursor, what, &n);
    if (!code) code = rf_cursor_take(cursor, n, what, &data);
    if (!code) *string = (struct rf_str){(const char *)data, (size_t)n};
    return code;
}

static int take_array(struct rf_cursor *cursor, struct rf_gguf_value *value)
{
    int code = rf_cursor_u32(cursor, "the element type of an array", &value->elem_type);
    if (!code) code = rf_cursor_u64(cursor, "the length of an array", &value->count);
    if (code) return code;
    int n = rf_shown(value->key);
    const char *key = value->key.data;
    if (value->elem_type == RF_GGUF_ARRAY)
        return rf_fail(cursor->error, RF_ERR_UNSUPPORTED, "%s: key %.*s is an array of arrays",
                       cursor->path, n, key);
    if (value->elem_type >= RF_GGUF_TYPE_LIMIT)
        return rf_fail(cursor->error, RF_ERR_FORMAT,
                       "%s: key %.*s is an array of the unknown type %" PRIu32, cursor->path, n,
                       key, value->elem_type);
    size_t start = cursor->at, elem_bytes = type_bytes(value->elem_type);
    size_t least =
        elem_bytes ? elem_bytes : sizeof(uint64_t); /* a string has at least its length */
    if (value->count > rf_cursor_left(cursor) / least)
        return rf_fail(cursor->error, RF_ERR_FORMAT,
                       "%s: key %.*s: an array of %" PRIu64
                       " elements does not fit the %zu bytes that are left",
                       cursor->path, n, key, value->count, rf_cursor_left(cursor));
    if (elem_bytes)
        return rf_cursor_take(cursor, value->count * elem_bytes, "an array", &value->data);
    value->data = cursor->data + start;
    struct rf_str string;
    for (uint64_t i = 0; i < value->count; i++) {
        code = take_string(cursor, "a string of an array", &string);
        if (code) return code;
    }
    return 0;
}

static int take_value(struct rf_cursor *cursor, struct rf_gguf_value *value)
{
    int code = take_string(cursor, "a metadata key", &value->key);
    if (code) return code;
    int n = rf_shown(value->key);
    if (value->key.bytes == 0 || value->key.bytes > MAX_KEY_BYTES)
        return rf_fail(cursor->error, RF_ERR_FORMAT, "%s: a metadata key at byte %zu has %zu bytes",
                       cursor->path, cursor->at, value->key.bytes);
    code = rf_cursor_u32(cursor, "the type of a metadata value", &value->type);
    if (code) return code;
    if (value->type >= RF_GGUF_TYPE_LIMIT)
        return rf_fail(cursor->error, RF_ERR_FORMAT, "%s: key %.*s has the unknown type %" PRIu32,
                       cursor->path, n, value->key.data, value->type);
    size_t start = cursor->at;
    if (value->type == RF_GGUF_STRING) {
        struct rf_str string;
        code = take_string(cursor, "a metadata string", &string);
        if (code) return code;
        value->data = (const unsigned char *)string.data;
        value->bytes = string.bytes;
        return 0;
    }
    if (value->type == RF_GGUF_ARRAY)
        code = take_array(cursor, value);
    else
        code = rf_cursor_take(cursor, type_bytes(value->type), "a metadata value", &value->data);
    if (!code) value->bytes = cursor->at - (size_t)(value->data - cursor->data);
    if (!code && value->type == RF_GGUF_BOOL && value->data[0] > 1)
        return rf_fail(cursor->error, RF_ERR_FORMAT,
                       "%s: key %.*s at byte %zu is a boolean of value %d", cursor->path, n,
                       value->key.data, start, value->data[0]);
    return code;
}

static int compare(struct rf_str a, struct rf_str b)
{
    int order = memcmp(a.data, b.data, a.bytes < b.bytes ? a.bytes : b.bytes);
    return order ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

static int by_key(const void *a, const void *b)
{
    return compare(((const struct rf_gguf_value *)a)->key, ((const struct rf_gguf_value *)b)->key);
}

const struct rf_gguf_value *rf_gguf_find(const struct rf_gguf *gguf, const char *key)
{
    struct rf_gguf_value wanted = {.key = {key, strlen(key)}};
    if (gguf->n_values == 0) return NULL;
    return bsearch(&wanted, gguf->values, gguf->n_values, sizeof *gguf->values, by_key);
}

static int parse_values(struct rf_gguf *gguf, struct rf_cursor *cursor, uint64_t n,
                        struct rf_arena *arena)
{
    gguf->values =
        rf_arena_alloc(arena, (size_t)n, sizeof *gguf->values, "metadata", cursor->error);
    if (!gguf->values) return RF_ERR_MEMORY;
    gguf->n_values = (size_t)n;
    for (size_t i = 0; i < gguf->n_values; i++) {
        int code = take_value(cursor, &gguf->values[i]);
        if (code) return code;
    }
    qsort(gguf->values, gguf->n_values, sizeof *gguf->values, by_key);
    for (size_t i = 1; i < gguf->n_values; i++) {
        struct rf_str key = gguf->values[i].key;
        if (compare(gguf->values[i - 1].key, key) == 0)
            return rf_fail(cursor->error, RF_ERR_FORMAT, "%s: key %.*s is there twice",
                           cursor->path, rf_shown(key), key.data);
    }
    return 0;
}

static int read_alignment(struct rf_gguf *gguf)
{
    const struct rf_gguf_value *value = rf_gguf_find(gguf, "general.alignment");
    gguf->alignment = DEFAULT_ALIGNMENT;
    if (!value) return 0;
    if (value->type != RF_GGUF_U32)
        return rf_fail(gguf->error, RF_ERR_FORMAT,
                       "%s: key general.alignment must be of type UINT32 (4), not %" PRIu32,
                       gguf->path, value->type);
    gguf->alignment = rf_load_le(value->data, 4);
    if (gguf->alignment < MIN_ALIGNMENT || gguf->alignment > MAX_ALIGNMENT ||
        gguf->alignment & (gguf->alignment - 1))
        return rf_fail(gguf->error, RF_ERR_FORMAT,
                       "%s: key general.alignment is %" PRIu64
                       "; it must be a power of two from %d to %d",
                       gguf->path, gguf->alignment, MIN_ALIGNMENT, MAX_ALIGNMENT);
    return 0;
}

/* ggml's names of types that we do not read, for the error sentence. */
static const char *foreign_type(uint32_t type)
{
    static const struct {
        uint32_t type;
        const char *name;
    } names[] = {{9, "Q8_1"},   {15, "Q8_K"},   {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
                 {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},   {22, "IQ2_S"},  {23, "IQ4_XS"},
                 {24, "I8"},    {25, "I16"},    {26, "I32"},     {27, "I64"},    {28, "F64"},
                 {29, "IQ1_M"}, {34, "TQ1_0"},  {35, "TQ2_0"},   {40, "NVFP4"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].type == type) return names[i].name;
    return "unknown";
}

static int tensor_bytes(struct rf_cursor *cursor, struct rf_tensor *tensor)
{
    const struct rf_dtype_info *info = rf_dtype_info(tensor->dtype);
    if (tensor->ne[0] % info->block_elems)
        return rf_fail(cursor->error, RF_ERR_FORMAT,
                       "%s: tensor %s has rows of %" PRId64
                       " elements, but %s comes in blocks of %" PRIu32,
                       cursor->path, tensor->name, tensor->ne[0], info->name, info->block_elems);
    uint64_t bytes = (uint64_t)tensor->ne[0] / info->block_elems;
    int wraps = rf_mul_wraps(bytes, info->block_bytes, &bytes);
    uint64_t elements = (uint64_t)tensor->ne[0];
    for (int i = 1; i < 4; i++) {
        wraps |= rf_mul_wraps(bytes, (uint64_t)tensor->ne[i], &bytes);
        wraps |= rf_mul_wraps(elements, (uint64_t)tensor->ne[i], &elements);
    }
    if (wraps || bytes > INT64_MAX || elements > INT64_MAX)
        return rf_fail(cursor->error, RF_ERR_FORMAT,
                       "%s: tensor %s of [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                       "] elements is larger than any file",
                       cursor->path, tensor->name, tensor->ne[0], tensor->ne[1], tensor->ne[2],
                       tensor->ne[3]);
    tensor->bytes = bytes;
    return 0;
}

static int take_tensor(struct rf_cursor *cursor, struct rf_source *source, struct rf_tensor *tensor,
                       uint64_t *offset)
{
    struct rf_str name;
    uint32_t n_dims, type;
    int code = take_string(cursor, "a tensor's name", &name);
    if (code) return code;
    if (name.bytes == 0 || name.bytes > MAX_NAME_BYTES || memchr(name.data, 0, name.bytes))
        return rf_fail(cursor->error, RF_ERR_FORMAT,
                       "%s: a tensor's name before byte %zu is not one (%zu bytes)", cursor->path,
                       cursor->at, name.bytes);
    tensor->name = rf_arena_strndup(&source->private_->arena, name.data, name.bytes, cursor->error);
    if (!tensor->name) return RF_ERR_MEMORY;
    code = rf_cursor_u32(cursor, "a tensor's number of dimensions", &n_dims);
    if (code) return code;
    if (n_dims < 1 || n_dims > 4)
        return rf_fail(cursor->error, RF_ERR_FORMAT,
                       "%s: tensor %s has %" PRIu32 " dimensions; 1 to 4 are possible",
                       cursor->path, tensor->name, n_dims);
    tensor->n_dims = (int32_t)n_dims;
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t ne = 1;
        if (i < n_dims) code = rf_cursor_u64(cursor, "a tensor's dimension", &ne);
        if (code) return code;
        if (ne < 1 || ne > INT64_MAX)
            return rf_fail(cursor->error, RF_ERR_FORMAT,
                           "%s: tensor %s: dimension %" PRIu32 " is %" PRIu64, cursor->path,
                           tensor->name, i, ne);
        tensor->ne[i] = (int64_t)ne;
    }
    code = rf_cursor_u32(cursor, "a tensor's type", &type);
    if (!code) code = rf_cursor_u64(cursor, "a tensor's offset", offset);
    if (code) return code;
    if (!rf_dtype_info(type))
        return rf_fail(cursor->error, RF_ERR_UNSUPPORTED,
                       "%s: tensor %s is of type %" PRIu32 " (%s), which is not read", cursor->path,
                       tensor->name, type, foreign_type(type));
    tensor->dtype = (enum rf_dtype)type;
    return tensor_bytes(cursor, tensor);
}

static int parse_tensors(struct rf_gguf *gguf, struct rf_cursor *cursor, struct rf_source *source,
                         uint64_t n, struct rf_arena *arena)
{
    source->tensors =
        rf_source_alloc(source, (size_t)n, sizeof *source->tensors, "tensors", gguf->error);
    uint64_t *offsets = rf_arena_alloc(arena, (size_t)n, sizeof *offsets, "tensors", gguf->error);
    if (!source->tensors || !offsets) return RF_ERR_MEMORY;
    source->n_tensors = (int32_t)n;
    for (int32_t i = 0; i < source->n_tensors; i++) {
        int code = take_tensor(cursor, source, &source->tensors[i], &offsets[i]);
        if (code) return code;
    }

    size_t padding = (size_t)((gguf->alignment - cursor->at % gguf->alignment) % gguf->alignment);
    size_t left = rf_cursor_left(cursor);
    size_t data_bytes = left > padding ? left - padding : 0;
    const unsigned char *data =
        cursor->data + (left > padding ? cursor->at + padding : cursor->bytes);
    for (int32_t i = 0; i < source->n_tensors; i++) {
        struct rf_tensor *tensor = &source->tensors[i];
        uint64_t offset = offsets[i], end;
        if (offset % gguf->alignment)
            return rf_fail(gguf->error, RF_ERR_FORMAT,
                           "%s: tensor %s: offset %" PRIu64
                           " is not a multiple of the alignment, %" PRIu64,
                           gguf->path, tensor->name, offset, gguf->alignment);
        if (rf_add_wraps(offset, tensor->bytes, &end) || end > data_bytes)
            return rf_fail(gguf->error, RF_ERR_FORMAT,
                           "%s: tensor %s: %" PRIu64 " bytes at offset %" PRIu64
                           " go beyond the %zu bytes of data in the file",
                           gguf->path, tensor->name, tensor->bytes, offset, data_bytes);
        tensor->data = data + offset;
    }
    return 0;
}

static int check_version(const struct rf_gguf *gguf)
{
    switch (gguf->version) {
    case 2:
    case 3: return 0;
    case 0x02000000u:
    case 0x03000000u:
        return rf_fail(gguf->error, RF_ERR_UNSUPPORTED,
                       "%s: is a big-endian GGUF file; only little-endian ones are read",
                       gguf->path);
    default:
        return rf_fail(gguf->error, RF_ERR_UNSUPPORTED,
                       "%s: is of GGUF version %" PRIu32 "; 2 and 3 are read", gguf->path,
                       gguf->version);
    }
}

int rf_gguf_parse(struct rf_gguf *gguf, struct rf_source *source, struct rf_arena *arena,
                  const unsigned char *data, size_t bytes)
{
    struct rf_cursor cursor = {data, bytes, 0, gguf->path, gguf->error};
    if (bytes < 4 || memcmp(data, "GGUF", 4) != 0)
        return rf_fail(gguf->error, RF_ERR_FORMAT,
                       bytes ? "%s: is not a GGUF file (it does not begin with \"GGUF\")"
                             : "%s: is empty",
                       gguf->path);
    cursor.at = 4;
    uint64_t n_tensors, n_values;
    int code = rf_cursor_u32(&cursor, "the version", &gguf->version);
    if (!code) code = check_version(gguf);
    if (!code) code = rf_cursor_u64(&cursor, "the number of tensors", &n_tensors);
    if (!code) code = rf_cursor_u64(&cursor, "the number of metadata values", &n_values);
    if (code) return code;
    size_t left = rf_cursor_left(&cursor);
    if (n_values > left / MIN_VALUE_BYTES || n_values > MAX_ENTRIES)
        return rf_fail(gguf->error, RF_ERR_FORMAT,
                       "%s: %" PRIu64 " metadata values do not fit a file of %zu bytes", gguf->path,
                       n_values, bytes);
    if (n_tensors > left / MIN_TENSOR_BYTES || n_tensors > MAX_ENTRIES)
        return rf_fail(gguf->error, RF_ERR_FORMAT,
                       "%s: %" PRIu64 " tensors do not fit a file of %zu bytes", gguf->path,
                       n_tensors, bytes);
    code = parse_values(gguf, &cursor, n_values, arena);
    if (!code) code = read_alignment(gguf);
    if (!code) code = parse_tensors(gguf, &cursor, source, n_tensors, arena);
    return code;
}
