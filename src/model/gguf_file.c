/* Parses a GGUF header. No number in it is trusted: before anything is allocated, its count is
 * checked against the bytes that are left, and every extent is taken from one cursor. */
#include <inttypes.h>

#include "model/cursor.h"
#include "model/gguf.h"

#define RF_GGUF_IDS "d2t"

enum {
    MAX_KEY_BYTES = 65535, /* the format's limit */
    MAX_NAME_BYTES = 255,  /* ggml's own is 63 */
    MIN_VALUE_BYTES = 8 + 4 + 1,
    MIN_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8,
    DEFAULT_ALIGNMENT = 32,
    MIN_ALIGNMENT = 8,
    MAX_ALIGNMENT = 1 << 20
};

static struct rf_str take_string(struct rf_cursor *cursor, const char *what)
{
    uint64_t n = rf_cursor_u64(cursor, what);
    const unsigned char *data = rf_cursor_take(cursor, n, what);
    return (struct rf_str){(const char *)data, data ? (size_t)n : 0};
}

static void take_array(struct rf_cursor *cursor, struct rf_gguf_value *value)
{
    struct rf_reading *reading = cursor->reading;
    int n = rf_shown(value->key);
    const char *key = value->key.data;
    value->elem_type = rf_cursor_u32(cursor, "the element type of an array");
    value->count = rf_cursor_u64(cursor, "the length of an array");
    if (value->elem_type == RF_GGUF_ARRAY)
        rf_bad(reading, RF_ERR_UNSUPPORTED, "key %.*s is an array of arrays", n, key);
    if (value->elem_type >= RF_GGUF_TYPE_LIMIT)
        rf_bad(reading, RF_ERR_FORMAT, "key %.*s is an array of the unknown type %" PRIu32, n, key,
               value->elem_type);
    if (reading->code) return;
    size_t elem_bytes = rf_gguf_type_bytes(value->elem_type), left = rf_cursor_left(cursor);
    /* A string has at least its length. */
    if (value->count > left / (elem_bytes ? elem_bytes : sizeof(uint64_t)))
        rf_bad(reading, RF_ERR_FORMAT,
               "key %.*s: an array of %" PRIu64
               " elements does not fit the %zu bytes that are left",
               n, key, value->count, left);
    value->data = rf_cursor_take(cursor, value->count * elem_bytes, "an array");
    /* Every string is read, so in a sparse file their number and bytes count, too. */
    for (uint64_t i = 0; !elem_bytes && !reading->code && i < value->count; i++) {
        struct rf_str string = take_string(cursor, "a string of an array");
        rf_charge(reading, NULL, sizeof(uint64_t) + string.bytes, "arrays of strings");
    }
}

static void take_value(struct rf_cursor *cursor, struct rf_gguf_value *value)
{
    struct rf_reading *reading = cursor->reading;
    value->key = take_string(cursor, "a metadata key");
    if (value->key.bytes == 0 || value->key.bytes > MAX_KEY_BYTES)
        rf_bad(reading, RF_ERR_FORMAT, "a metadata key at byte %zu has %zu bytes", cursor->at,
               value->key.bytes);
    value->type = rf_cursor_u32(cursor, "the type of a metadata value");
    size_t start = cursor->at;
    if (value->type >= RF_GGUF_TYPE_LIMIT) {
        rf_bad(reading, RF_ERR_FORMAT, "key %.*s has the unknown type %" PRIu32,
               rf_shown(value->key), value->key.data, value->type);
    } else if (value->type == RF_GGUF_STRING) {
        struct rf_str string = take_string(cursor, "a metadata string");
        value->data = (const unsigned char *)string.data;
    } else if (value->type == RF_GGUF_ARRAY) {
        take_array(cursor, value);
    } else {
        value->data = rf_cursor_take(cursor, rf_gguf_type_bytes(value->type), "a metadata value");
    }
    if (reading->code) return;
    value->bytes = cursor->at - (size_t)(value->data - cursor->data);
    if (value->type == RF_GGUF_BOOL && value->data[0] > 1)
        rf_bad(reading, RF_ERR_FORMAT, "key %.*s at byte %zu is a boolean of value %d",
               rf_shown(value->key), value->key.data, start, value->data[0]);
}

static void parse_values(struct rf_gguf *gguf, struct rf_cursor *cursor, uint64_t n)
{
    struct rf_reading *reading = gguf->reading;
    gguf->values = rf_take(reading, (size_t)n, sizeof *gguf->values, "metadata");
    for (uint64_t i = 0; !reading->code && i < n; i++) take_value(cursor, &gguf->values[i]);
    if (reading->code) return;
    gguf->n_values = (size_t)n;
    rf_gguf_sort_values(gguf);
    for (size_t i = 1; i < gguf->n_values; i++) {
        struct rf_str key = gguf->values[i].key;
        if (rf_str_same(gguf->values[i - 1].key, key))
            rf_bad(reading, RF_ERR_FORMAT, "key %.*s is there twice", rf_shown(key), key.data);
    }
}

static void read_alignment(struct rf_gguf *gguf)
{
    const struct rf_gguf_value *value = rf_gguf_find(gguf, "general.alignment");
    gguf->alignment = DEFAULT_ALIGNMENT;
    if (!value) return;
    if (value->type == RF_GGUF_U32)
        gguf->alignment = rf_load_le(value->data, 4);
    else
        rf_bad(gguf->reading, RF_ERR_FORMAT,
               "key general.alignment must be of type UINT32 (4), not %" PRIu32, value->type);
    if (gguf->alignment < MIN_ALIGNMENT || gguf->alignment > MAX_ALIGNMENT ||
        gguf->alignment & (gguf->alignment - 1))
        rf_bad(gguf->reading, RF_ERR_FORMAT,
               "key general.alignment is %" PRIu64 "; it must be a power of two from %d to %d",
               gguf->alignment, MIN_ALIGNMENT, MAX_ALIGNMENT);
}

/* ggml's names of types that we do not read, for the error sentence. */
static const char *foreign_type(uint32_t type)
{
    static const struct {
        uint32_t type;
        const char *name;
    } names[] = {{9, "Q8_1"}, {15, "Q8_K"}, {24, "I8"},  {25, "I16"},
                 {26, "I32"}, {27, "I64"},  {28, "F64"}, {40, "NVFP4"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].type == type) return names[i].name;
    return "unknown";
}

static void set_tensor_bytes(struct rf_reading *reading, struct rf_tensor *tensor)
{
    const struct rf_dtype_info *info = rf_dtype_info(tensor->dtype);
    const int64_t *ne = tensor->ne;
    if (ne[0] % info->block_elems)
        rf_bad(reading, RF_ERR_FORMAT,
               "tensor %s has rows of %" PRId64 " elements, but %s comes in blocks of %" PRIu32,
               tensor->name, ne[0], info->name, info->block_elems);
    uint64_t elements = (uint64_t)ne[0];
    int wraps = rf_mul_wraps(elements / info->block_elems, info->block_bytes, &tensor->bytes);
    for (int i = 1; i < 4; i++) {
        wraps |= rf_mul_wraps(tensor->bytes, (uint64_t)ne[i], &tensor->bytes);
        wraps |= rf_mul_wraps(elements, (uint64_t)ne[i], &elements);
    }
    if (wraps || tensor->bytes > INT64_MAX || elements > INT64_MAX)
        rf_bad(reading, RF_ERR_FORMAT,
               "tensor %s of [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
               "] elements is larger than any file",
               tensor->name, ne[0], ne[1], ne[2], ne[3]);
}

static void take_dimensions(struct rf_cursor *cursor, struct rf_tensor *tensor)
{
    uint32_t n_dims = rf_cursor_u32(cursor, "a tensor's number of dimensions");
    if (n_dims < 1 || n_dims > 4)
        rf_bad(cursor->reading, RF_ERR_FORMAT,
               "tensor %s has %" PRIu32 " dimensions; 1 to 4 are possible", tensor->name, n_dims);
    tensor->n_dims = (int32_t)n_dims;
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t ne = i < n_dims ? rf_cursor_u64(cursor, "a tensor's dimension") : 1;
        if (ne < 1 || ne > INT64_MAX)
            rf_bad(cursor->reading, RF_ERR_FORMAT, "tensor %s: dimension %" PRIu32 " is %" PRIu64,
                   tensor->name, i, ne);
        tensor->ne[i] = (int64_t)ne;
    }
}

/* Rows of I8 that are blocks of a type like W4A8. */
static void take_w4a8(struct rf_reading *reading, enum rf_dtype dtype, struct rf_tensor *tensor)
{
    const struct rf_dtype_info *info = rf_dtype_info(dtype);
    if (tensor->ne[0] % info->block_bytes)
        rf_bad(reading, RF_ERR_FORMAT,
               "tensor %s has rows of %" PRId64 " bytes, but %s comes in blocks of %" PRIu32,
               tensor->name, tensor->ne[0], info->name, info->block_bytes);
    if (rf_is_row_dtype(dtype) &&
        tensor->ne[0] / info->block_bytes > RF_W4A8_MOST_K / info->block_elems)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "tensor %s: rows of %s have up to %d values, as many as sums of 32 bits hold",
               tensor->name, info->name, (int)RF_W4A8_MOST_K);
    if (tensor->ne[0] > INT64_MAX / 2)
        rf_bad(reading, RF_ERR_FORMAT, "tensor %s is larger than any file", tensor->name);
    else
        tensor->ne[0] = tensor->ne[0] / info->block_bytes * info->block_elems;
    tensor->dtype = dtype;
}

/* The ids of a head. Until they are taken out of the list, they count as twice as many floats. */
static void take_ids(struct rf_gguf *gguf, struct rf_tensor *tensor)
{
    if (gguf->n_ids) rf_bad(gguf->reading, RF_ERR_FORMAT, "two tensors are called " RF_GGUF_IDS);
    if (tensor->n_dims != 1 || tensor->ne[0] > INT32_MAX / 2) {
        rf_bad(gguf->reading, RF_ERR_FORMAT,
               "tensor " RF_GGUF_IDS " is not a list that a vocabulary can have");
        return;
    }
    gguf->n_ids = (int32_t)tensor->ne[0];
    tensor->ne[0] *= 2;
    tensor->dtype = RF_F32;
}

/* Moves the ids out of the list of tensors. */
static void find_ids(struct rf_gguf *gguf)
{
    struct rf_source *source = gguf->reading->source;
    int32_t n = 0;
    for (int32_t i = 0; i < source->n_tensors; i++)
        if (gguf->n_ids && strcmp(source->tensors[i].name, RF_GGUF_IDS) == 0)
            gguf->ids = source->tensors[i].data;
        else
            source->tensors[n++] = source->tensors[i];
    source->n_tensors = n;
}

/* The type that I8 stands for in this file; RF_F32: none. */
static enum rf_dtype dtype_of_i8(struct rf_gguf *gguf)
{
    static const enum rf_dtype types[] = {RF_W4A8, RF_W4A8_ROW, RF_W4A8_G128};
    int64_t group = rf_gguf_integer(gguf, RF_W4A8_KEY, 0, INT32_MAX, -1);
    int64_t levels = rf_gguf_integer(gguf, RF_W4A8_LEVELS_KEY, 1, 2, 0);
    if (group > 0 && group % rf_dtype_info(RF_W4A8)->block_elems)
        rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
               "key " RF_W4A8_KEY " is %" PRId64 ", which is not a multiple of 64", group);
    if (levels && group != (levels == 1 ? 0 : rf_dtype_info(RF_W4A8_G128)->block_elems))
        rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
               "key " RF_W4A8_LEVELS_KEY " is %" PRId64 ", but " RF_W4A8_KEY " is not %d", levels,
               levels == 1 ? 0 : 128);
    return group < 0 ? RF_F32 : types[levels];
}

static void take_tensor(struct rf_gguf *gguf, struct rf_cursor *cursor, enum rf_dtype of_i8,
                        struct rf_tensor *tensor, uint64_t *offset)
{
    struct rf_reading *reading = cursor->reading;
    struct rf_str name = take_string(cursor, "a tensor's name");
    if (name.bytes == 0 || name.bytes > MAX_NAME_BYTES || memchr(name.data, 0, name.bytes))
        rf_bad(reading, RF_ERR_FORMAT, "a tensor's name before byte %zu is not one (%zu bytes)",
               cursor->at, name.bytes);
    tensor->name = rf_keep_text(reading, name);
    take_dimensions(cursor, tensor);
    uint32_t type = rf_cursor_u32(cursor, "a tensor's type");
    *offset = rf_cursor_u64(cursor, "a tensor's offset");
    int is_ids = type == RF_GGUF_TENSOR_I64 && gguf->is_head && rf_str_is(name, RF_GGUF_IDS);
    if (is_ids || (type == RF_GGUF_TENSOR_I8 && of_i8 != RF_F32)) {
        if (is_ids)
            take_ids(gguf, tensor);
        else
            take_w4a8(reading, of_i8, tensor);
        if (!reading->code) set_tensor_bytes(reading, tensor);
        return;
    }
    if (!rf_dtype_info(type) || type >= RF_W4A8)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "tensor %s is of type %" PRIu32 " (%s), which is not read", tensor->name, type,
               foreign_type(type));
    tensor->dtype = (enum rf_dtype)type;
    if (!reading->code) set_tensor_bytes(reading, tensor);
}

/* `expected`: the first aligned offset behind the tensor before. A file whose tensors lie elsewhere
 * is damaged: another type or dimension in its header would read other bytes, without an error. */
static void place_tensor(const struct rf_gguf *gguf, struct rf_tensor *tensor, uint64_t offset,
                         uint64_t expected, const unsigned char *data, size_t data_bytes)
{
    if (offset % gguf->alignment)
        rf_bad(gguf->reading, RF_ERR_FORMAT,
               "tensor %s: offset %" PRIu64 " is not a multiple of the alignment, %" PRIu64,
               tensor->name, offset, gguf->alignment);
    if (offset != expected)
        rf_bad(gguf->reading, RF_ERR_FORMAT,
               "tensor %s: offset %" PRIu64 " is not that behind the tensor before it, %" PRIu64,
               tensor->name, offset, expected);
    if (tensor->bytes > data_bytes || offset > data_bytes - tensor->bytes)
        rf_bad(gguf->reading, RF_ERR_FORMAT,
               "tensor %s: %" PRIu64 " bytes at offset %" PRIu64
               " go beyond the %zu bytes of data in the file",
               tensor->name, tensor->bytes, offset, data_bytes);
    else
        tensor->data = data + offset;
}

static void parse_tensors(struct rf_gguf *gguf, struct rf_cursor *cursor, uint64_t n)
{
    struct rf_reading *reading = gguf->reading;
    struct rf_source *source = reading->source;
    source->tensors = rf_keep(reading, (size_t)n, sizeof *source->tensors, "tensors");
    uint64_t *offsets = rf_take(reading, (size_t)n, sizeof *offsets, "tensors");
    enum rf_dtype of_i8 = dtype_of_i8(gguf);
    for (uint64_t i = 0; !reading->code && i < n; i++)
        take_tensor(gguf, cursor, of_i8, &source->tensors[i], &offsets[i]);
    if (reading->code) return;
    source->n_tensors = (int32_t)n;

    size_t padding = (size_t)((gguf->alignment - cursor->at % gguf->alignment) % gguf->alignment);
    size_t left = rf_cursor_left(cursor);
    if (padding > left) padding = left;
    const unsigned char *data = cursor->data + cursor->at + padding;
    uint64_t end = 0;
    left -= padding;
    for (uint64_t i = 0; !reading->code && i < n; i++) {
        place_tensor(gguf, &source->tensors[i], offsets[i], end, data, left);
        end = offsets[i] + source->tensors[i].bytes;
        end += (gguf->alignment - end % gguf->alignment) % gguf->alignment;
    }
    if (left > end)
        rf_bad(reading, RF_ERR_FORMAT, "%" PRIu64 " bytes follow the last tensor", left - end);
    if (!reading->code) find_ids(gguf);
}

static void check_version(const struct rf_gguf *gguf)
{
    if (gguf->version == 0x02000000u || gguf->version == 0x03000000u)
        rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
               "is a big-endian GGUF file; only little-endian ones are read");
    else if (gguf->version != 2 && gguf->version != 3)
        rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
               "is of GGUF version %" PRIu32 "; 2 and 3 are read", gguf->version);
}

/* Checks a number of things before memory for them is allocated. */
static void check_count(const struct rf_cursor *cursor, uint64_t n, size_t least, const char *what)
{
    if (n > rf_cursor_left(cursor) / least)
        rf_bad(cursor->reading, RF_ERR_FORMAT, "%" PRIu64 " %s do not fit a file of %zu bytes", n,
               what, cursor->bytes);
    rf_count(cursor->reading, n, what);
}

int rf_gguf_parse(struct rf_gguf *gguf, const unsigned char *data, size_t bytes)
{
    struct rf_reading *reading = gguf->reading;
    struct rf_cursor cursor = {data, bytes, 4, reading};
    if (bytes == 0) return rf_bad(reading, RF_ERR_FORMAT, "is empty");
    if (bytes < 4 || memcmp(data, "GGUF", 4) != 0)
        return rf_bad(reading, RF_ERR_FORMAT,
                      "is not a GGUF file (it does not begin with \"GGUF\")");
    gguf->version = rf_cursor_u32(&cursor, "the version");
    check_version(gguf);
    uint64_t n_tensors = rf_cursor_u64(&cursor, "the number of tensors");
    uint64_t n_values = rf_cursor_u64(&cursor, "the number of metadata values");
    check_count(&cursor, n_values, MIN_VALUE_BYTES, "metadata values");
    check_count(&cursor, n_tensors, MIN_TENSOR_BYTES, "tensors");
    parse_values(gguf, &cursor, n_values);
    read_alignment(gguf);
    struct rf_str arch = rf_gguf_string(gguf, "general.architecture", (struct rf_str){NULL, 0});
    gguf->is_head = rf_str_is(arch, RF_GGUF_HEAD);
    parse_tensors(gguf, &cursor, n_tensors);
    return reading->code;
}
