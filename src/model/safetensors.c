/* The safetensors container: eight bytes of length, a JSON header, then the tensors' bytes. The
 * format: README of the safetensors project. The reader translates names and dimensions to
 * GGUF's. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/cursor.h"
#include "model/hf.h"
#include "model/tensors.h"

enum { MAX_HEADER_BYTES = 100 << 20 /* the reference reader's limit */ };

struct name {
    const char *gguf, *hf;
    int is_used;
};
#define NAMES(field, gguf, hf, role, ne0, ne1, condition) {gguf, hf, (condition) != 0},

/* Skips a layer number, which has no leading zeros. NULL if there is none. */
static const char *skip_layer(const char *text)
{
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 6 || (n > 1 && text[0] == '0')) return NULL;
    return text + n;
}

/* The row of that name. Of two, the one that the architecture uses. */
static const struct name *find_name(const struct name *names, size_t n, const char *name,
                                    int to_gguf)
{
    const struct name *found = NULL;
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, to_gguf ? names[i].hf : names[i].gguf) == 0 &&
            (!found || names[i].is_used))
            found = &names[i];
    return found;
}

/* Translates a tensor's name; `to_gguf` gives the direction. 0 when the name is not known. */
static int translate(const struct rf_params *p, const char *name, int to_gguf, char *buffer,
                     size_t bytes)
{
    const struct name model_names[] = {RF_EACH_MODEL_TENSOR(NAMES)};
    const struct name layer_names[] = {RF_EACH_LAYER_TENSOR(NAMES) RF_EACH_FUSED_TENSOR(NAMES)};
    const struct name *row = find_name(model_names, RF_MODEL_TENSORS, name, to_gguf);
    if (row) {
        snprintf(buffer, bytes, "%s", to_gguf ? row->gguf : row->hf);
        return 1;
    }
    static const char *const prefixes[] = {"blk.", "model.layers."};
    size_t n = strlen(prefixes[to_gguf]);
    const char *end = strncmp(name, prefixes[to_gguf], n) == 0 ? skip_layer(name + n) : NULL;
    if (!end || *end != '.') return 0;
    row = find_name(layer_names, sizeof layer_names / sizeof *layer_names, end + 1, to_gguf);
    if (!row) return 0;
    snprintf(buffer, bytes, "%s%.*s.%s", prefixes[!to_gguf], (int)(end - (name + n)), name + n,
             to_gguf ? row->gguf : row->hf);
    return 1;
}
#undef NAMES

void rf_hf_tensor_name(const struct rf_params *params, const char *name, char *buffer, size_t bytes)
{
    if (!translate(params, name, 0, buffer, bytes)) snprintf(buffer, bytes, "%s", name);
}

/* A list of the tensors, until their number is known. */
struct node {
    struct rf_tensor tensor;
    struct node *next;
};

struct extent {
    const char *name;
    int64_t begin, end;
};

struct reader {
    struct rf_hf *hf;
    const unsigned char *data; /* after the header */
    size_t data_bytes;
    struct extent *extents; /* of the shard's tensors, those that are not read included */
    size_t n_extents;
    struct node *first;
    int32_t count;
};

static enum rf_dtype read_dtype(struct rf_reading *reading, const char *name,
                                const struct rf_json *entry)
{
    static const enum rf_dtype types[] = {RF_F32, RF_F16, RF_BF16};
    struct rf_str text = rf_json_text(rf_json_get(entry, "dtype"));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (rf_str_is(text, rf_dtype_info(types[i])->name)) return types[i];
    rf_bad(reading, RF_ERR_UNSUPPORTED,
           "tensor %.200s is of type \"%.*s\"; F32, F16 and BF16 are read", name, rf_shown(text),
           text.data);
    return RF_F32;
}

/* [rows][columns] becomes ne = {columns, rows}. */
static void read_shape(struct rf_reading *reading, const char *name, const struct rf_json *entry,
                       struct rf_tensor *tensor)
{
    const struct rf_json *shape = rf_json_get(entry, "shape");
    size_t n = rf_json_count(shape);
    if (!rf_json_is_array(shape) || n < 1 || n > 4)
        rf_bad(reading, RF_ERR_FORMAT, "tensor %.200s: shape is missing or not of 1 to 4 numbers",
               name);
    tensor->n_dims = (int32_t)n;
    tensor->bytes = rf_dtype_info(tensor->dtype)->block_bytes;
    for (size_t i = 0; i < 4; i++) {
        int64_t *ne = &tensor->ne[i];
        *ne = 1;
        if (i < n && (!rf_json_integer(rf_json_at(shape, n - 1 - i), ne) || *ne < 1 ||
                      rf_mul_wraps(tensor->bytes, (uint64_t)*ne, &tensor->bytes)))
            rf_bad(reading, RF_ERR_FORMAT,
                   "tensor %.200s: shape[%zu] is not a number from 1 on that a file can hold", name,
                   n - 1 - i);
    }
}

static struct extent read_extent(const struct reader *reader, const char *name,
                                 const struct rf_json *entry)
{
    struct rf_reading *reading = &reader->hf->reading;
    const struct rf_json *offsets = rf_json_get(entry, "data_offsets");
    int64_t begin = 0, end = 0;
    if (rf_json_count(offsets) != 2 || !rf_json_integer(rf_json_at(offsets, 0), &begin) ||
        !rf_json_integer(rf_json_at(offsets, 1), &end) || begin < 0 || end < begin)
        rf_bad(reading, RF_ERR_FORMAT, "tensor %.200s: data_offsets are not two rising numbers",
               name);
    else if ((uint64_t)end > reader->data_bytes)
        rf_bad(reading, RF_ERR_FORMAT,
               "tensor %.200s ends at byte %" PRId64 " of the data, but the file has %zu", name,
               end, reader->data_bytes);
    return (struct extent){name, begin, end};
}

static int takes_prefix(const char **name, const char *prefix)
{
    int has = strncmp(*name, prefix, strlen(prefix)) == 0;
    if (has) *name += strlen(prefix);
    return has;
}

/* Of a model with a vision tower, the name that the tensor has in the text model alone; NULL where
 * it is of another part. transformers has moved the parts once. */
static const char *name_in_text_model(const char *name, char *buffer, size_t bytes)
{
    if (takes_prefix(&name, "language_model.")) return name;
    if (takes_prefix(&name, "model.language_model.")) {
        snprintf(buffer, bytes, "model.%s", name);
        return buffer;
    }
    static const char *const others[] = {"vision_tower.", "multi_modal_projector.",
                                         "model.vision_tower.", "model.multi_modal_projector."};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (takes_prefix(&name, others[i])) return NULL;
    return name;
}

static void read_tensor(struct reader *reader, const char *name, const struct rf_json *entry)
{
    struct rf_reading *reading = &reader->hf->reading;
    char translated[256] = "", of_text[256];
    struct extent extent = read_extent(reader, name, entry);
    reader->extents[reader->n_extents++] = extent;
    if (reader->hf->has_vision) name = name_in_text_model(name, of_text, sizeof of_text);
    if (!name) return;
    if (rf_ends_with(name, ".rotary_emb.inv_freq")) return; /* a constant in old exports */
    if (!translate(&reading->source->params, name, 1, translated, sizeof translated))
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "tensor %.200s is not one that a %s model computes with here", name,
               reading->source->params.arch_name);
    if (reader->hf->is_tied && strcmp(translated, "output.weight") == 0) return;
    struct node *node = rf_take(reading, 1, sizeof *node, "tensors");
    if (!node) return;
    node->tensor.name = rf_keep_text(reading, rf_str_of(translated));
    node->tensor.dtype = read_dtype(reading, name, entry);
    read_shape(reading, name, entry, &node->tensor);
    if ((uint64_t)(extent.end - extent.begin) != node->tensor.bytes)
        rf_bad(reading, RF_ERR_FORMAT,
               "tensor %.200s: data_offsets span %" PRId64 " bytes, but its shape needs %" PRIu64,
               name, extent.end - extent.begin, node->tensor.bytes);
    node->tensor.data = reader->data + extent.begin;
    node->next = reader->first;
    reader->first = node;
    reader->count++;
}

static int by_begin(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
                                : (x->end > y->end) - (x->end < y->end);
}

/* The format: the tensors cover the data without holes. */
static void check_extents(struct reader *reader)
{
    struct rf_reading *reading = &reader->hf->reading;
    int64_t end = 0;
    if (reading->code) return;
    if (reader->n_extents)
        qsort(reader->extents, reader->n_extents, sizeof *reader->extents, by_begin);
    for (size_t i = 0; i < reader->n_extents; i++) {
        const struct extent *extent = &reader->extents[i];
        if (extent->begin < end)
            rf_bad(reading, RF_ERR_FORMAT, "tensors %.100s and %.100s overlap", extent[-1].name,
                   extent->name);
        if (extent->begin > end)
            rf_bad(reading, RF_ERR_FORMAT,
                   "bytes %" PRId64 " to %" PRId64 " of the data, before tensor %.100s, are of no "
                   "tensor",
                   end, extent->begin - 1, extent->name);
        end = extent->end;
    }
    if ((uint64_t)end != reader->data_bytes)
        rf_bad(reading, RF_ERR_FORMAT, "%" PRIu64 " bytes follow the last tensor",
               reader->data_bytes - (uint64_t)end);
}

static void check_metadata(struct rf_reading *reading, const struct rf_json *metadata)
{
    struct rf_str key, text;
    const struct rf_json *value;
    if (!rf_json_is_object(metadata))
        rf_bad(reading, RF_ERR_FORMAT, "__metadata__ is not a JSON object");
    for (void *at = NULL; rf_json_next(metadata, &at, &key, &value);)
        if (!rf_json_string(value, &text))
            rf_bad(reading, RF_ERR_FORMAT, "__metadata__: %.*s is not a string", rf_shown(key),
                   key.data);
}

static void read_shard(struct reader *reader, const struct rf_hf_shard *shard)
{
    struct rf_reading *reading = &reader->hf->reading;
    struct rf_cursor cursor = {shard->data, shard->bytes, 0, reading};
    uint64_t header_bytes = rf_cursor_u64(&cursor, "the length of the header");
    if (header_bytes > MAX_HEADER_BYTES)
        rf_bad(reading, RF_ERR_FORMAT,
               "a header of %" PRIu64 " bytes is more than the %d that are allowed", header_bytes,
               MAX_HEADER_BYTES);
    const unsigned char *header = rf_cursor_take(&cursor, header_bytes, "the header");
    if (!header) return;
    reader->data = cursor.data + cursor.at;
    reader->data_bytes = rf_cursor_left(&cursor);
    struct rf_str text = {(const char *)header, (size_t)header_bytes}, name;
    struct rf_json *document = rf_json_parse(reading, NULL, text);
    if (!rf_json_is_object(document))
        rf_bad(reading, RF_ERR_FORMAT, "the header is not a JSON object");
    const struct rf_json *entry;
    reader->extents = rf_take(reading, rf_json_count(document), sizeof *reader->extents, "tensors");
    reader->n_extents = 0;
    for (void *at = NULL; !reading->code && rf_json_next(document, &at, &name, &entry);) {
        if (rf_str_is(name, "__metadata__"))
            check_metadata(reading, entry);
        else
            read_tensor(reader, name.data, entry);
    }
    check_extents(reader);
    rf_json_free(document);
}

void rf_safetensors_read(struct rf_hf *hf)
{
    struct rf_reading *reading = &hf->reading;
    struct rf_source *source = reading->source;
    struct reader reader = {.hf = hf};
    for (size_t i = 0; !reading->code && i < hf->files->n_shards; i++) {
        reading->path = hf->files->shards[i].path;
        read_shard(&reader, &hf->files->shards[i]);
    }
    reading->path = hf->files->folder;
    source->tensors = rf_keep(reading, (size_t)reader.count, sizeof *source->tensors, "tensors");
    if (!source->tensors) return;
    for (struct node *node = reader.first; node; node = node->next)
        source->tensors[source->n_tensors++] = node->tensor;
}
