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

const void *rf_tensor_rows(const struct rf_tensor *tensor, size_t first, size_t n, void *scratch)
{
    const struct rf_scattered *s = tensor->scattered;
    size_t k = (size_t)tensor->ne[0], bytes = rf_dtype_bytes(tensor->dtype, k);
    if (!s) return (const char *)tensor->data + first * bytes;
    size_t expert = first / (size_t)tensor->ne[1], row = first % (size_t)tensor->ne[1];
    const unsigned char *from = s->experts[expert] + row * s->row_bytes;
    size_t value = rf_dtype_info(tensor->dtype)->block_bytes;
    if (rf_tensor_has_whole_experts(tensor)) return from;
    unsigned char *to = scratch;
    for (size_t r = 0; r < n; r++, from += s->row_bytes) {
        const unsigned char *scales =
            s->scales ? s->scales[expert] + (row + r) * s->scale_row_bytes : NULL;
        for (size_t i = 0; i < bytes / value; i++, to += value)
            if (scales)
                put_mxfp4(to, from + i * s->value_bytes, scales[i]);
            else
                memcpy(to, from + i * s->value_bytes, value);
    }
    return scratch;
}

int rf_tensor_has_whole_experts(const struct rf_tensor *tensor)
{
    const struct rf_scattered *s = tensor->scattered;
    size_t value = rf_dtype_info(tensor->dtype)->block_bytes;
    return !s || (!s->scales && s->value_bytes == value &&
                  s->row_bytes == rf_dtype_bytes(tensor->dtype, (size_t)tensor->ne[0]));
}
