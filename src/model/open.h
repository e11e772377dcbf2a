/* Opening a model, whatever its container. The readers do not know of this header. */
#ifndef RF_MODEL_OPEN_H
#define RF_MODEL_OPEN_H

#include "model/source.h"

/* `path`: a .gguf file, a .safetensors file beside its config.json, or a folder with them. Reads
 * and checks everything but the contents of tensors. On failure nothing is kept. rf_source_close
 * frees the source. `options` NULL: the defaults. */
int rf_source_open(struct rf_source **source, const char *path,
                   const struct rf_open_options *options, const struct rf_allocator *allocator,
                   struct rf_error *error);

/* What is read of the files, whose bytes live as long as the source: a model, or a draft head. */
struct rf_hf_files;
struct rf_open_readers {
    int (*folder)(struct rf_source *source, const struct rf_hf_files *files, void *user,
                  struct rf_error *error);
    int (*gguf)(struct rf_source *source, const char *path, const unsigned char *data, size_t bytes,
                void *user, struct rf_error *error);
    void *user;
};
int rf_source_open_with(struct rf_source **source, const char *path,
                        const struct rf_open_options *options, const struct rf_allocator *allocator,
                        const struct rf_open_readers *readers, struct rf_error *error);

#endif
