/* Reads every byte that an opened source promises, so that a sanitizer sees a promise that was not
 * kept. */
#ifndef RF_TEST_TOUCH_H
#define RF_TEST_TOUCH_H

#include <stdlib.h>
#include <string.h>

#include "model/source.h"

static inline void touch_bytes(const volatile char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) (void)data[i];
}

static inline void touch_str(struct rf_str string)
{
    touch_bytes(string.data, string.bytes);
}

static inline void touch_tensors(const struct rf_source *source)
{
    for (int32_t i = 0; i < source->n_tensors; i++) {
        const struct rf_tensor *tensor = &source->tensors[i];
        if (rf_source_tensor(source, tensor->name) != tensor) abort();
        touch_bytes(tensor->data, (size_t)tensor->bytes);
        float values[256];
        rf_dequantize_f32(tensor->dtype, tensor->data, values,
                          rf_dtype_info(tensor->dtype)->block_elems);
    }
}

static inline void touch_source(const struct rf_source *source)
{
    const struct rf_params *params = &source->params;
    const struct rf_vocab *vocab = &source->vocab;
    for (int32_t i = 0; i < vocab->n_tokens; i++) touch_str(vocab->tokens[i]);
    touch_bytes((const char *)vocab->types, (size_t)vocab->n_tokens);
    if (vocab->scores)
        touch_bytes((const char *)vocab->scores, (size_t)vocab->n_tokens * sizeof *vocab->scores);
    for (size_t i = 0; i < vocab->n_merges; i++) {
        touch_str(vocab->merges[i].left);
        touch_str(vocab->merges[i].right);
    }
    touch_tensors(source);
    touch_str(vocab->pre);
    touch_str(vocab->spm_proto);
    touch_bytes(source->chat_template, source->chat_template_bytes);
    touch_bytes(source->name, strlen(source->name));
    for (int32_t i = 0; params->rope.factors && i < params->rope_dim / 2; i++)
        if (!(params->rope.factors[i] > 0)) abort();
    if (params->n_vocab != vocab->n_tokens || vocab->bos >= vocab->n_tokens) abort();
}

#endif
