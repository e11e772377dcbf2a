/* The safetensors container: eight bytes of length, a JSON header, then the tensors' bytes. The
 * format: README of the safetensors project. The reader translates names and dimensions to
 * GGUF's. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/cursor.h"
#include "model/hf.h"
#include "model/tensors.h"

enum { MAX_HEADER_BYTES = 100 << 20 /* the reference reader's limit */ };

struct name {
    const char *gguf, *hf;
};
#define NAMES(field, gguf, hf, ...) {gguf, hf},
static const struct name model_names[] = {RF_EACH_MODEL_TENSOR(NAMES)};
static const struct name layer_names[] = {RF_EACH_LAYER_TENSOR(NAMES)};
#undef NAMES

/* Skips a layer number, which has no leading zeros. NULL if there is none. */
static const char *skip_layer(const char *text)
{
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 6 || (n > 1 && text[0] == '0')) return NULL;
    return text + n;
}

/* Translates a tensor's name; `to_gguf` gives the direction. 0 when the name is not known. */
static int translate(const char *name, int to_gguf, char *buffer, size_t bytes)
{
    for (size_t i = 0; i < RF_MODEL_TENSORS; i++) {
        if (strcmp(name, to_gguf ? model_names[i].hf : model_names[i].gguf) != 0) continue;
        snprintf(buffer, bytes, "%s", to_gguf ? model_names[i].gguf : model_names[i].hf);
        return 1;
    }
    const char *prefix = to_gguf ? "model.layers." : "blk.";
    if (strncmp(name, prefix, strlen(prefix)) != 0) return 0;
    const char *layer = name + strlen(prefix), *end = skip_layer(layer);
    if (!end || *end != '.') return 0;
    for (size_t i = 0; i < RF_LAYER_TENSORS; i++) {
        if (strcmp(end + 1, to_gguf ? layer_names[i].hf : layer_names[i].gguf) != 0) continue;
        snprintf(buffer, bytes, "%s%.*s.%s", to_gguf ? "blk." : "model.layers.", (int)(end - layer),
                 layer, to_gguf ? layer_names[i].gguf : layer_names[i].hf);
        return 1;
    }
    return 0;
}

const char *rf_hf_tensor_name(const char *name, char *buffer, size_t bytes)
{
    return translate(name, 0, buffer, bytes) ? buffer : name;
}

static int is_ignored(const char *name)
{
    static const char suffix[] = ".rotary_emb.inv_freq"; /* a constant that old exports contain */
    size_t n = strlen(name), m = sizeof suffix - 1;
    return n >= m && strcmp(name + n - m, suffix) == 0;
}

/* A list of the tensors, until their number is known. */
struct node {
    struct rf_tensor tensor;
    struct node *next;
};

struct reader {
    struct rf_hf *hf;
    const struct rf_hf_shard *shard;
    const unsigned char *data; /* after the header */
    size_t data_bytes;
    int tied;
    struct node *first;
    int32_t count;
};

static int read_dtype(const struct reader *reader, const char *name, const struct rf_json *entry,
                      enum rf_dtype *dtype)
{
    static const struct {
        const char *name;
        enum rf_dtype dtype;
    } types[] = {{"F32", RF_F32}, {"F16", RF_F16}, {"BF16", RF_BF16}};
    struct rf_str text = rf_json_text(rf_json_get(entry, "dtype"));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (!rf_str_is(text, types[i].name)) continue;
        *dtype = types[i].dtype;
        return 0;
    }
    return rf_fail(reader->hf->error, RF_ERR_UNSUPPORTED,
                   "%s: tensor %.200s is of type \"%.*s\"; F32, F16 and BF16 are read",
                   reader->shard->path, name, rf_shown(text), text.data);
}

/* [rows][columns] becomes ne = {columns, rows}. */
static int read_shape(const struct reader *reader, const char *name, const struct rf_json *entry,
                      struct rf_tensor *tensor)
{
    const struct rf_json *shape = rf_json_get(entry, "shape");
    size_t n = rf_json_count(shape);
    if (!rf_json_is_array(shape) || n < 1 || n > 4)
        return rf_fail(reader->hf->error, RF_ERR_FORMAT,
                       "%s: tensor %.200s: shape is missing or not of 1 to 4 numbers",
                       reader->shard->path, name);
    tensor->n_dims = (int32_t)n;
    tensor->bytes = rf_dtype_info(tensor->dtype)->block_bytes;
    for (size_t i = 0; i < 4; i++) {
        tensor->ne[i] = 1;
        if (i >= n) continue;
        int64_t ne = 0;
        if (!rf_json_integer(rf_json_at(shape, n - 1 - i), &ne) || ne < 1 ||
            rf_mul_wraps(tensor->bytes, (uint64_t)ne, &tensor->bytes))
            return rf_fail(
                reader->hf->error, RF_ERR_FORMAT,
                "%s: tensor %.200s: shape[%zu] is not a number from 1 on that a file can hold",
                reader->shard->path, name, n - 1 - i);
        tensor->ne[i] = ne;
    }
    return 0;
}

static int read_place(const struct reader *reader, const char *name, const struct rf_json *entry,
                      struct rf_tensor *tensor)
{
    const struct rf_json *offsets = rf_json_get(entry, "data_offsets");
    int64_t begin, end;
    if (rf_json_count(offsets) != 2 || !rf_json_integer(rf_json_at(offsets, 0), &begin) ||
        !rf_json_integer(rf_json_at(offsets, 1), &end) || begin < 0 || end < begin)
        return rf_fail(reader->hf->error, RF_ERR_FORMAT,
                       "%s: tensor %.200s: data_offsets are not two rising numbers",
                       reader->shard->path, name);
    if ((uint64_t)end > reader->data_bytes)
        return rf_fail(reader->hf->error, RF_ERR_FORMAT,
                       "%s: tensor %.200s ends at byte %" PRId64
                       " of the data, but the file has %zu",
                       reader->shard->path, name, end, reader->data_bytes);
    if ((uint64_t)(end - begin) != tensor->bytes)
        return rf_fail(reader->hf->error, RF_ERR_FORMAT,
                       "%s: tensor %.200s: data_offsets span %" PRId64
                       " bytes, but its shape needs %" PRIu64,
                       reader->shard->path, name, end - begin, tensor->bytes);
    tensor->data = reader->data + begin;
    return 0;
}

static int read_tensor(struct reader *reader, const char *name, const struct rf_json *entry)
{
    struct rf_hf *hf = reader->hf;
    char translated[256];
    if (is_ignored(name)) return 0;
    if (!translate(name, 1, translated, sizeof translated))
        return rf_fail(hf->error, RF_ERR_UNSUPPORTED,
                       "%s: tensor %.200s is not one that a %s model computes with here",
                       reader->shard->path, name, hf->source->params.arch_name);
    if (reader->tied && strcmp(translated, "output.weight") == 0) return 0;
    struct node *node = rf_arena_alloc(&hf->scratch, 1, sizeof *node, "tensors", hf->error);
    if (!node) return RF_ERR_MEMORY;
    node->tensor.name =
        rf_arena_strndup(&hf->source->private_->arena, translated, strlen(translated), hf->error);
    if (!node->tensor.name) return RF_ERR_MEMORY;
    int code = read_dtype(reader, name, entry, &node->tensor.dtype);
    if (!code) code = read_shape(reader, name, entry, &node->tensor);
    if (!code) code = read_place(reader, name, entry, &node->tensor);
    if (code) return code;
    node->next = reader->first;
    reader->first = node;
    reader->count++;
    return 0;
}

static int read_shard(struct reader *reader)
{
    struct rf_hf *hf = reader->hf;
    const struct rf_hf_shard *shard = reader->shard;
    struct rf_cursor cursor = {shard->data, shard->bytes, 0, shard->path, hf->error};
    uint64_t header_bytes;
    const unsigned char *header = NULL;
    int code = rf_cursor_u64(&cursor, "the length of the header", &header_bytes);
    if (!code && header_bytes > MAX_HEADER_BYTES)
        code = rf_fail(hf->error, RF_ERR_FORMAT,
                       "%s: a header of %" PRIu64 " bytes is more than the %d that are allowed",
                       shard->path, header_bytes, MAX_HEADER_BYTES);
    if (!code) code = rf_cursor_take(&cursor, header_bytes, "the header", &header);
    if (code) return code;
    reader->data = cursor.data + cursor.at;
    reader->data_bytes = rf_cursor_left(&cursor);
    struct rf_json *document;
    code = rf_json_parse(&document, shard->path,
                         (struct rf_str){(const char *)header, (size_t)header_bytes}, hf->error);
    if (code) return code;
    if (!rf_json_is_object(document))
        code =
            rf_fail(hf->error, RF_ERR_FORMAT, "%s: the header is not a JSON object", shard->path);
    struct rf_str name;
    const struct rf_json *entry;
    for (void *at = NULL; !code && rf_json_next(document, &at, &name, &entry);)
        if (!rf_str_is(name, "__metadata__")) code = read_tensor(reader, name.data, entry);
    rf_json_free(document);
    return code;
}

int rf_safetensors_read(struct rf_hf *hf, int tied)
{
    struct reader reader = {.hf = hf, .tied = tied};
    for (size_t i = 0; i < hf->files->n_shards; i++) {
        reader.shard = &hf->files->shards[i];
        int code = read_shard(&reader);
        if (code) return code;
    }
    struct rf_source *source = hf->source;
    source->tensors = rf_source_alloc(source, (size_t)reader.count, sizeof *source->tensors,
                                      "tensors", hf->error);
    if (!source->tensors) return RF_ERR_MEMORY;
    for (struct node *node = reader.first; node; node = node->next)
        source->tensors[source->n_tensors++] = node->tensor;
    return 0;
}
