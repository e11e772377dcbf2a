/* Opens a model: a folder, a .safetensors file of one, or a GGUF file, told apart by their
 * names. On failure everything is closed. The API calls it for each model and draft. */
#include "model/open.h"

#include <string.h>

#include "model/gguf.h"
#include "model/hf.h"
#include "model/reader.h"
#include "platform/file.h"

/* A .safetensors file is read with the JSON files beside it. */
static int read_safetensors_file(struct rf_source *source, const char *path, struct rf_error *error)
{
    struct rf_reading reading = rf_reading_of(source, path, error);
    const char *slash = rf_path_separator(path);
    if (!slash) return rf_hf_read_folder(source, ".", path, error);
    size_t n = slash == path ? 1 : (size_t)(slash - path);
    const char *folder = rf_keep_text(&reading, (struct rf_str){path, n});
    return folder ? rf_hf_read_folder(source, folder, slash + 1, error) : reading.code;
}

int rf_source_open(struct rf_source **source, const char *path,
                   const struct rf_open_options *options, const struct rf_allocator *allocator,
                   struct rf_error *error)
{
    int code = rf_source_new(source, allocator, error);
    if (code) return code;
    if (options) (*source)->private_->options = *options;
    if (rf_is_directory(path)) {
        code = rf_hf_read_folder(*source, path, NULL, error);
    } else if (rf_ends_with(path, ".safetensors")) {
        code = read_safetensors_file(*source, path, error);
    } else {
        struct rf_mapping mapping;
        code = rf_source_map(*source, path, &mapping, error);
        if (!code) code = rf_gguf_read(*source, path, mapping.data, mapping.bytes, error);
    }
    /* Pages that went missing read as zeros, which may have failed for another reason first. */
    if (rf_source_check(*source, error)) code = RF_ERR_IO;
    if (code) {
        rf_source_close(*source);
        *source = NULL;
    }
    return code;
}
