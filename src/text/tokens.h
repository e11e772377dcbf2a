/* Growing the array of ids that rf_tokenizer_encode returns. */
#ifndef RF_TEXT_TOKENS_H
#define RF_TEXT_TOKENS_H

#include "text/tokenizer.h"

/* Appends to `tokens` until something fails; `code` is then of that failure. */
struct rf_token_writer {
    const struct rf_allocator *allocator;
    struct rf_tokens *tokens;
    struct rf_error *error;
    int code;
};
void rf_tokens_append(struct rf_token_writer *writer, const int32_t *ids, size_t n);

#endif
