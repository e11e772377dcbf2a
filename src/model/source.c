#include "model/source.h"

#include <stdint.h>
#include <string.h>

#include "model/reader.h"

/* A list: a model has few files. */
struct rf_mapped_file {
    struct rf_mapped_file *next;
    struct rf_mapping mapping;
};

int rf_source_new(struct rf_source **source, const struct rf_allocator *allocator,
                  struct rf_error *error)
{
    *source = NULL;
    struct rf_source *made = rf_calloc(allocator, 1, sizeof *made, "model", error);
    if (!made) return RF_ERR_MEMORY;
    made->private_ = rf_calloc(allocator, 1, sizeof *made->private_, "model", error);
    if (!made->private_) {
        rf_free(allocator, made);
        return RF_ERR_MEMORY;
    }
    made->private_->allocator = *allocator;
    made->private_->arena.allocator = &made->private_->allocator;
    made->name = "";
    made->params.rope_scale = 1.0f;
    *source = made;
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
    rf_free(&allocator, private_);
    rf_free(&allocator, source);
}

void *rf_source_alloc(struct rf_source *source, size_t count, size_t size, const char *what,
                      struct rf_error *error)
{
    return rf_arena_alloc(&source->private_->arena, count, size, what, error);
}

int rf_source_map(struct rf_source *source, const char *path, struct rf_mapping *mapping,
                  struct rf_error *error)
{
    struct rf_mapped_file *file = rf_source_alloc(source, 1, sizeof *file, path, error);
    if (!file) return RF_ERR_MEMORY;
    int code = rf_map_file(&file->mapping, path, error);
    if (code) return code;
    file->next = source->private_->files;
    source->private_->files = file;
    source->file_bytes += file->mapping.bytes;
    *mapping = file->mapping;
    return 0;
}

static int ends_with(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && strcmp(text + n - m, suffix) == 0;
}

/* A .safetensors file is read with the JSON files beside it. */
static int read_safetensors_file(struct rf_source *source, const char *path, struct rf_error *error)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *folder = ".";
    if (slash) {
        size_t n = slash == path ? 1 : (size_t)(slash - path);
        folder = rf_arena_strndup(&source->private_->arena, path, n, error);
        if (!folder) return RF_ERR_MEMORY;
    }
    return rf_hf_read_folder(source, folder, name, error);
}

int rf_source_open(struct rf_source **source, const char *path,
                   const struct rf_allocator *allocator, struct rf_error *error)
{
    int code = rf_source_new(source, allocator, error);
    if (code) return code;
    if (rf_is_directory(path)) {
        code = rf_hf_read_folder(*source, path, NULL, error);
    } else if (ends_with(path, ".safetensors")) {
        code = read_safetensors_file(*source, path, error);
    } else {
        struct rf_mapping mapping;
        code = rf_source_map(*source, path, &mapping, error);
        if (!code) code = rf_gguf_read(*source, path, mapping.data, mapping.bytes, error);
    }
    if (code) {
        rf_source_close(*source);
        *source = NULL;
    }
    return code;
}

const struct rf_tensor *rf_source_tensor(const struct rf_source *source, const char *name)
{
    size_t low = 0, high = (size_t)source->n_tensors;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(source->tensors[middle].name, name);
        if (order == 0) return &source->tensors[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
