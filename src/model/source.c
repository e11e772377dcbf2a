/* The source of a model, its mapped files and the rows of its tensors. A mapping stays until the
 * source closes, and rf_source_check tells when a part of a file has gone meanwhile. */
#include "model/source.h"

#include <string.h>

#include "model/reader.h"

struct rf_mapped_file {
    struct rf_mapped_file *next;
    const char *path;
    struct rf_mapping mapping;
};

/* One block of memory: freeing the source frees both. */
struct opened {
    struct rf_source source;
    struct rf_source_private private_;
};

int rf_source_new(struct rf_source **source, const struct rf_allocator *allocator,
                  struct rf_error *error)
{
    *source = NULL;
    struct opened *made = rf_calloc(allocator, 1, sizeof *made, "model", error);
    if (!made) return RF_ERR_MEMORY;
    made->private_.allocator = *allocator;
    made->private_.arena.allocator = &made->private_.allocator;
    made->source = (struct rf_source){.params = {.rope = {.scale = 1.0f, .magnitude = 1.0f}},
                                      .name = "",
                                      .private_ = &made->private_};
    *source = &made->source;
    return 0;
}

void rf_source_close(struct rf_source *source)
{
    if (!source) return;
    struct rf_source_private *private_ = source->private_;
    struct rf_allocator allocator = private_->allocator;
    for (struct rf_mapped_file *file = private_->files; file; file = file->next)
        rf_unmap_file(&file->mapping);
    rf_arena_free(&private_->arena);
    rf_free(&allocator, source);
}

int rf_source_map(struct rf_source *source, const char *path, struct rf_mapping *mapping,
                  struct rf_error *error)
{
    struct rf_mapped_file *file =
        rf_arena_alloc(&source->private_->arena, 1, sizeof *file, path, error);
    if (!file) return RF_ERR_MEMORY;
    size_t n = strlen(path) + 1;
    char *name = rf_arena_alloc(&source->private_->arena, n, 1, path, error);
    if (!name) return RF_ERR_MEMORY;
    int code = rf_map_file(&file->mapping, path, source->private_->options.map_flags, error);
    if (code) return code;
    file->path = memcpy(name, path, n);
    file->next = source->private_->files;
    source->private_->files = file;
    source->file_bytes += file->mapping.bytes;
    source->private_->stored_bytes += file->mapping.stored_bytes;
    *mapping = file->mapping;
    return 0;
}

int rf_source_check(const struct rf_source *source, struct rf_error *error)
{
    const struct rf_source_private *private_ = source->private_;
    for (const struct rf_mapped_file *file = private_ ? private_->files : NULL; file;
         file = file->next)
        if (rf_mapping_is_lost(&file->mapping))
            return rf_fail(error, RF_ERR_IO, "%s: the file became shorter while it was in use",
                           file->path);
    return 0;
}

int rf_source_is_mapped(const struct rf_source *source, const void *data, uint64_t bytes)
{
    const struct rf_source_private *private_ = source->private_;
    if (!private_ || private_->options.map_flags & RF_MAP_COPY) return 0;
    for (const struct rf_mapped_file *file = private_->files; file; file = file->next) {
        uintptr_t from = (uintptr_t)data - (uintptr_t)file->mapping.data;
        if ((uintptr_t)data >= (uintptr_t)file->mapping.data && from <= file->mapping.bytes &&
            bytes <= file->mapping.bytes - from)
            return 1;
    }
    return 0;
}

/* A block of MXFP4 as a GGUF file has it: the exponent, then bytes with value j in the lower half
 * and value 16 + j in the upper one. */
static void put_mxfp4(unsigned char *block, const unsigned char *codes, unsigned char exponent)
{
    block[0] = exponent;
    for (int j = 0; j < 16; j++) {
        int low = codes[j / 2] >> j % 2 * 4 & 15, high = codes[8 + j / 2] >> j % 2 * 4 & 15;
        block[1 + j] = (unsigned char)(low | high << 4);
    }
}

/* Whether the values of each row lie one behind the other, and so do the rows of a piece. */
static int has_whole_pieces(const struct rf_tensor *tensor)
{
    const struct rf_scattered *s = tensor->scattered;
    size_t value = rf_dtype_info(tensor->dtype)->block_bytes;
    return !s->scales && s->value_bytes == value &&
           s->row_bytes == rf_dtype_bytes(tensor->dtype, (size_t)tensor->ne[0]);
}

static void gather_row(const struct rf_tensor *tensor, size_t row, unsigned char *to)
{
    const struct rf_scattered *s = tensor->scattered;
    size_t piece = row / rf_piece_rows(tensor), r = row % rf_piece_rows(tensor),
           bytes = rf_dtype_bytes(tensor->dtype, (size_t)tensor->ne[0]),
           value = rf_dtype_info(tensor->dtype)->block_bytes;
    const unsigned char *from = s->experts[piece] + r * s->row_bytes,
                        *scales = s->scales ? s->scales[piece] + r * s->scale_row_bytes : NULL;
    if (has_whole_pieces(tensor)) {
        memcpy(to, from, bytes);
        return;
    }
    for (size_t i = 0; i < bytes / value; i++, to += value)
        if (scales)
            put_mxfp4(to, from + i * s->value_bytes, scales[i]);
        else
            memcpy(to, from + i * s->value_bytes, value);
}

const void *rf_tensor_rows(const struct rf_tensor *tensor, size_t first, size_t n, void *scratch)
{
    const struct rf_scattered *s = tensor->scattered;
    size_t bytes = rf_dtype_bytes(tensor->dtype, (size_t)tensor->ne[0]);
    if (!s) return (const char *)tensor->data + first * bytes;
    size_t rows = rf_piece_rows(tensor), row = first % rows;
    if (has_whole_pieces(tensor) && row + n <= rows)
        return s->experts[first / rows] + row * s->row_bytes;
    for (size_t r = 0; r < n; r++)
        gather_row(tensor, first + r, (unsigned char *)scratch + r * bytes);
    return scratch;
}

int rf_tensor_has_whole_experts(const struct rf_tensor *tensor)
{
    return !tensor->scattered || (!tensor->scattered->piece_rows && has_whole_pieces(tensor));
}
