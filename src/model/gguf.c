/* Reads a GGUF file as a model: its header, parameters and vocabulary, and then its tensors.
 * open.c calls it. */
#include "model/gguf.h"

static void read_texts(struct rf_gguf *gguf)
{
    struct rf_source *source = gguf->reading->source;
    struct rf_str none = {NULL, 0};
    source->name = rf_keep_text(gguf->reading, rf_gguf_string(gguf, "general.name", none));
    struct rf_str chat_template = rf_gguf_string(gguf, "tokenizer.chat_template", none);
    source->chat_template = chat_template.bytes ? chat_template.data : NULL;
    source->chat_template_bytes = chat_template.bytes;
    source->container = gguf->version == 2 ? "GGUF v2" : "GGUF v3";
}

int rf_gguf_read(struct rf_source *source, const char *path, const unsigned char *data,
                 size_t bytes, struct rf_error *error)
{
    struct rf_reading reading = rf_reading_of(source, path, error);
    struct rf_gguf gguf = {.reading = &reading};
    int code = rf_gguf_parse(&gguf, data, bytes);
    if (!code) rf_gguf_join_parts(&gguf);
    if (gguf.is_head)
        code = rf_bad(&reading, RF_ERR_UNSUPPORTED,
                      "is a draft head, which cannot run alone: give it with --head, beside the "
                      "model that it drafts for");
    if (!reading.code) rf_gguf_read_params(&gguf);
    if (gguf.n_further) rf_tensors_drop_further(&reading);
    source->has_mtp = gguf.n_further && rf_knows_mtp(source->params.arch);
    rf_tensors_split(&reading);
    if (!reading.code) code = rf_tensors_sort(&reading);
    if (!reading.code) rf_gguf_find_biases(&gguf);
    if (!reading.code) code = rf_layout_check(&reading);
    if (!reading.code) rf_gguf_read_vocab(&gguf);
    if (!reading.code) read_texts(&gguf);
    rf_arena_free(&reading.arena);
    return reading.code;
}
