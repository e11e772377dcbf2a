#include "model/source.h"

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
    made->source = (struct rf_source){.params = {.rope_scale = 1.0f, .rope_magnitude = 1.0f},
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
