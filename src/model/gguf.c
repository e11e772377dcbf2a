/* A GGUF file as a model. */
#include "model/gguf.h"

#include <string.h>

#include "model/reader.h"

static int read_texts(const struct rf_gguf *gguf, struct rf_source *source)
{
    struct rf_str name = {"", 0}, chat_template;
    int found = rf_gguf_string(gguf, "general.name", &name);
    if (found < 0) return found;
    source->name = rf_arena_strndup(&source->private_->arena, name.data, name.bytes, gguf->error);
    if (!source->name) return RF_ERR_MEMORY;
    found = rf_gguf_string(gguf, "tokenizer.chat_template", &chat_template);
    if (found < 0) return found;
    if (found && chat_template.bytes) {
        source->chat_template = chat_template.data;
        source->chat_template_bytes = chat_template.bytes;
    }
    source->container = gguf->version == 2 ? "GGUF v2" : "GGUF v3";
    return 0;
}

int rf_gguf_read(struct rf_source *source, const char *path, const unsigned char *data,
                 size_t bytes, struct rf_error *error)
{
    struct rf_arena scratch = {.allocator = &source->private_->allocator};
    struct rf_gguf gguf = {.path = path, .error = error};
    int code = rf_gguf_parse(&gguf, source, &scratch, data, bytes);
    if (!code) code = rf_gguf_read_params(&gguf, source);
    if (!code) code = rf_tensors_sort(source, path, NULL, error);
    if (!code) code = rf_layout_check(source, path, NULL, error);
    if (!code) code = rf_gguf_read_vocab(&gguf, source);
    if (!code) code = read_texts(&gguf, source);
    rf_arena_free(&scratch);
    return code;
}
