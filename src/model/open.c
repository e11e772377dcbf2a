/* Opens a model or a draft head: a folder, a .safetensors file of one, or a GGUF file, told apart
 * by their names. On failure everything is closed. The API calls it for each model and draft, and
 * head.c for heads. */
#include "model/open.h"

#include <string.h>

#include "model/gguf.h"
#include "model/hf.h"
#include "model/reader.h"
#include "platform/file.h"

/* A .safetensors file is read with the JSON files beside it. */
static int map_safetensors_file(struct rf_source *source, const char *path,
                                struct rf_hf_files *files, struct rf_error *error)
{
    struct rf_reading reading = rf_reading_of(source, path, error);
    const char *slash = rf_path_separator(path);
    if (!slash) return rf_hf_map(source, ".", path, files, error);
    size_t n = slash == path ? 1 : (size_t)(slash - path);
    const char *folder = rf_keep_text(&reading, (struct rf_str){path, n});
    return folder ? rf_hf_map(source, folder, slash + 1, files, error) : reading.code;
}

static int open_folder(struct rf_source *source, const char *path,
                       const struct rf_open_readers *readers, struct rf_error *error)
{
    struct rf_hf_files files;
    int code = rf_is_directory(path) ? rf_hf_map(source, path, NULL, &files, error)
                                     : map_safetensors_file(source, path, &files, error);
    return code ? code : readers->folder(source, &files, readers->user, error);
}

int rf_source_open_with(struct rf_source **source, const char *path,
                        const struct rf_open_options *options, const struct rf_allocator *allocator,
                        const struct rf_open_readers *readers, struct rf_error *error)
{
    int code = rf_source_new(source, allocator, error);
    if (code) return code;
    if (options) (*source)->private_->options = *options;
    if (rf_is_directory(path) || rf_ends_with(path, ".safetensors")) {
        code = open_folder(*source, path, readers, error);
    } else {
        struct rf_mapping mapping;
        code = rf_source_map(*source, path, &mapping, error);
        if (!code)
            code = readers->gguf(*source, path, mapping.data, mapping.bytes, readers->user, error);
    }
    /* Pages that went missing read as zeros, which may have failed for another reason first. */
    if (rf_source_check(*source, error)) code = RF_ERR_IO;
    if (code) {
        rf_source_close(*source);
        *source = NULL;
    }
    return code;
}

static int read_folder(struct rf_source *source, const struct rf_hf_files *files, void *user,
                       struct rf_error *error)
{
    (void)user;
    return rf_hf_read(source, files, error);
}

static int read_gguf(struct rf_source *source, const char *path, const unsigned char *data,
                     size_t bytes, void *user, struct rf_error *error)
{
    (void)user;
    return rf_gguf_read(source, path, data, bytes, error);
}

int rf_source_open(struct rf_source **source, const char *path,
                   const struct rf_open_options *options, const struct rf_allocator *allocator,
                   struct rf_error *error)
{
    const struct rf_open_readers readers = {.folder = read_folder, .gguf = read_gguf};
    return rf_source_open_with(source, path, options, allocator, &readers, error);
}
