/* Writes a GGUF model again, header first: keys and tensors that nobody changes keep their bytes
 * and order. rf_quantize (src/quant) calls it. */
#include "model/gguf_write.h"

#include <stdlib.h>
#include <string.h>

#include "model/gguf.h"
#include "model/open.h"

enum { QUANTIZATION_VERSION = 2 /* ggml's version of its blocks */ };

struct rf_gguf_copy_private {
    struct rf_allocator allocator;
    struct rf_reading reading; /* a second parse of the file, for names and places */
    struct rf_gguf gguf;       /* values in the file's order, so rf_gguf_find does not work on it */
};

/* One block of memory: closing the copy frees both. */
struct opened {
    struct rf_gguf_copy copy;
    struct rf_gguf_copy_private private_;
};

/* ---- opening ---- */

static int by_key_data(const void *a, const void *b)
{
    const char *x = ((const struct rf_gguf_value *)a)->key.data,
               *y = ((const struct rf_gguf_value *)b)->key.data;
    return (x > y) - (x < y);
}

static int by_tensor_data(const void *a, const void *b)
{
    const char *x = ((const struct rf_copied_tensor *)a)->tensor->data;
    const char *y = ((const struct rf_copied_tensor *)b)->tensor->data;
    return (x > y) - (x < y);
}

/* The copy is one file: what says that the model was split goes. */
static void drop_split_keys(struct rf_gguf *gguf)
{
    size_t n = 0;
    for (size_t i = 0; i < gguf->n_values; i++) {
        struct rf_str key = gguf->values[i].key;
        if (key.bytes < 6 || memcmp(key.data, "split.", 6) != 0)
            gguf->values[n++] = gguf->values[i];
    }
    gguf->n_values = n;
}

static int reread_file(struct rf_gguf_copy *copy, const char *path, struct rf_error *error)
{
    struct rf_source *again;
    struct rf_gguf_copy_private *own = copy->private_;
    struct rf_mapping mapping;
    int code = rf_source_new(&again, &own->allocator, error);
    if (code) return code;
    own->reading = rf_reading_of(again, path, error);
    own->gguf.reading = &own->reading;
    code = rf_source_map(again, path, &mapping, error);
    if (!code) code = rf_gguf_parse(&own->gguf, mapping.data, mapping.bytes);
    if (!code) rf_gguf_join_parts(&own->gguf);
    if (!code) code = own->reading.code;
    if (code) return code;
    copy->n_tensors = (size_t)again->n_tensors;
    copy->tensors = rf_take(&own->reading, copy->n_tensors, sizeof *copy->tensors, "tensors");
    if (!copy->tensors) return RF_ERR_MEMORY;
    for (size_t i = 0; i < copy->n_tensors; i++) {
        const struct rf_tensor *tensor = &again->tensors[i];
        copy->tensors[i] = (struct rf_copied_tensor){.tensor = tensor, .dtype = tensor->dtype};
    }
    qsort(own->gguf.values, own->gguf.n_values, sizeof *own->gguf.values, by_key_data);
    /* Parts are mapped anywhere; their tensors keep the order of the parts. */
    if (own->gguf.is_joined)
        drop_split_keys(&own->gguf);
    else
        qsort(copy->tensors, copy->n_tensors, sizeof *copy->tensors, by_tensor_data);
    return 0;
}

int rf_gguf_copy_open(struct rf_gguf_copy **copy, const char *path,
                      const struct rf_allocator *allocator, struct rf_error *error)
{
    *copy = NULL;
    struct opened *made = rf_calloc(allocator, 1, sizeof *made, "model", error);
    if (!made) return RF_ERR_MEMORY;
    made->private_.allocator = *allocator;
    made->copy.private_ = &made->private_;
    int code = rf_source_open(&made->copy.source, path, NULL, allocator, error);
    if (!code && strncmp(made->copy.source->container, "GGUF", 4) != 0)
        code = rf_fail(error, RF_ERR_UNSUPPORTED,
                       "%s: is in %s; only GGUF files are quantised, as GGUF's metadata is written "
                       "as it was read",
                       path, made->copy.source->container);
    if (!code) code = reread_file(&made->copy, path, error);
    if (code)
        rf_gguf_copy_close(&made->copy);
    else
        *copy = &made->copy;
    return code;
}

int rf_gguf_copy_add(struct rf_gguf_copy *copy, const struct rf_tensor *tensor,
                     struct rf_error *error)
{
    struct rf_reading *reading = &copy->private_->reading;
    size_t n = copy->n_tensors;
    reading->error = error;
    struct rf_copied_tensor *more = rf_take(reading, n + 1, sizeof *more, "tensors");
    if (!more) return RF_ERR_MEMORY;
    memcpy(more, copy->tensors, n * sizeof *more);
    more[n] = (struct rf_copied_tensor){.tensor = tensor, .dtype = tensor->dtype};
    copy->tensors = more;
    copy->n_tensors = n + 1;
    return 0;
}

int rf_gguf_copy_check(const struct rf_gguf_copy *copy, struct rf_error *error)
{
    int code = rf_source_check(copy->source, error);
    return code ? code : rf_source_check(copy->private_->reading.source, error);
}

void rf_gguf_copy_close(struct rf_gguf_copy *copy)
{
    if (!copy) return;
    struct rf_gguf_copy_private *own = copy->private_;
    struct rf_allocator allocator = own->allocator;
    rf_source_close(copy->source);
    rf_arena_free(&own->reading.arena);
    rf_source_close(own->reading.source);
    rf_free(&allocator, copy);
}

/* ---- the header ---- */

static void put_u32(struct rf_writer *output, uint32_t number)
{
    rf_write(output, &number, sizeof number);
}

static void put_u64(struct rf_writer *output, uint64_t number)
{
    rf_write(output, &number, sizeof number);
}

static void put_string(struct rf_writer *output, const char *text)
{
    put_u64(output, strlen(text));
    rf_write_text(output, text);
}

static enum rf_dtype most_frequent(const struct rf_gguf_copy *copy)
{
    uint64_t elements[RF_DTYPE_LIMIT] = {0};
    enum rf_dtype most = RF_F32;
    for (size_t i = 0; i < copy->n_tensors; i++)
        elements[copy->tensors[i].dtype] += rf_tensor_elements(copy->tensors[i].tensor);
    for (int t = 0; t < RF_DTYPE_LIMIT; t++)
        if (elements[t] > elements[most]) most = (enum rf_dtype)t;
    return most;
}

/* The type that I8 stands for, W4A8 or one like it; RF_F32: none. */
static enum rf_dtype dtype_of_i8(const struct rf_gguf_copy *copy)
{
    enum rf_dtype dtype = RF_F32;
    for (size_t i = 0; i < copy->n_tensors; i++)
        if (copy->tensors[i].dtype >= RF_W4A8) dtype = copy->tensors[i].dtype;
    return dtype;
}

/* The keys whose values depend on the types of the tensors. */
struct set_key {
    const char *key;
    uint32_t number;
    int is_there; /* the file that is read has it */
};
enum { N_SETS = 4 };

static void put_set_key(struct rf_writer *output, const struct set_key *set)
{
    put_string(output, set->key);
    put_u32(output, RF_GGUF_U32);
    put_u32(output, set->number);
}

static struct set_key *find_set(struct set_key *sets, struct rf_str key)
{
    for (size_t i = 0; i < N_SETS && sets[i].key; i++)
        if (rf_str_is(key, sets[i].key)) return &sets[i];
    return NULL;
}

/* A value and its key are contiguous in the file: length, key, type and value. */
static void put_values(struct rf_writer *output, const struct rf_gguf *gguf, struct set_key *sets)
{
    for (size_t i = 0; i < gguf->n_values; i++) {
        const struct rf_gguf_value *value = &gguf->values[i];
        const struct set_key *set = find_set(sets, value->key);
        const char *begin = value->key.data - sizeof(uint64_t),
                   *end = (const char *)value->data + value->bytes;
        if (set)
            put_set_key(output, set);
        else
            rf_write(output, begin, (size_t)(end - begin));
    }
    for (size_t i = 0; i < N_SETS && sets[i].key; i++)
        if (!sets[i].is_there) put_set_key(output, &sets[i]);
}

static void put_tensor(struct rf_writer *output, const struct rf_copied_tensor *copied)
{
    const struct rf_tensor *tensor = copied->tensor;
    int is_w4a8 = copied->dtype >= RF_W4A8;
    uint64_t columns = (uint64_t)tensor->ne[0];
    put_string(output, tensor->name);
    put_u32(output, (uint32_t)tensor->n_dims);
    put_u64(output, is_w4a8 ? rf_dtype_bytes(copied->dtype, columns) : columns);
    for (int32_t i = 1; i < tensor->n_dims; i++) put_u64(output, (uint64_t)tensor->ne[i]);
    put_u32(output, is_w4a8 ? RF_GGUF_TENSOR_I8 : (uint32_t)copied->dtype);
    put_u64(output, copied->offset);
}

static void place_tensors(struct rf_gguf_copy *copy, uint64_t alignment)
{
    uint64_t offset = 0;
    for (size_t i = 0; i < copy->n_tensors; i++) {
        struct rf_copied_tensor *copied = &copy->tensors[i];
        copied->bytes = rf_dtype_bytes(copied->dtype, (size_t)rf_tensor_elements(copied->tensor));
        copied->offset = offset;
        offset += (copied->bytes + alignment - 1) & ~(alignment - 1);
    }
}

int rf_gguf_copy_header(struct rf_gguf_copy *copy, struct rf_bytes *header, uint64_t *alignment,
                        struct rf_error *error)
{
    const struct rf_gguf *gguf = &copy->private_->gguf;
    struct rf_writer output = {&copy->private_->allocator, header, error, 0};
    enum rf_dtype of_i8 = dtype_of_i8(copy);
    struct set_key sets[N_SETS] = {
        {"general.file_type", rf_dtype_info(most_frequent(copy))->file_type, 0},
        {"general.quantization_version", QUANTIZATION_VERSION, 0},
        {of_i8 != RF_F32 ? RF_W4A8_KEY : NULL, (uint32_t)copy->w4a8_group, 0},
        {rf_is_row_dtype(of_i8) ? RF_W4A8_LEVELS_KEY : NULL, of_i8 == RF_W4A8_ROW ? 1 : 2, 0}};
    size_t n_values = gguf->n_values + N_SETS - !sets[2].key - !sets[3].key, start = header->count;
    *alignment = gguf->alignment;
    place_tensors(copy, *alignment);
    for (size_t i = 0; i < gguf->n_values; i++) {
        struct set_key *set = find_set(sets, gguf->values[i].key);
        if (set) n_values--;
        if (set) set->is_there = 1;
    }
    rf_write(&output, "GGUF", 4);
    put_u32(&output, 3);
    put_u64(&output, copy->n_tensors);
    put_u64(&output, n_values);
    put_values(&output, gguf, sets);
    for (size_t i = 0; i < copy->n_tensors; i++) put_tensor(&output, &copy->tensors[i]);
    while (!output.code && (header->count - start) % *alignment) rf_write(&output, "", 1);
    return output.code;
}
