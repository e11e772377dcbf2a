/* Growing the array of ids that rf_tokenizer_encode returns. */
#ifndef RF_TEXT_TOKENS_H
#define RF_TEXT_TOKENS_H

#include "text/tokenizer.h"

/* Appends n ids. On failure the array is unchanged. */
int rf_tokens_append(const struct rf_allocator *allocator, struct rf_tokens *tokens,
                     const int32_t *ids, size_t n, struct rf_error *error);

#endif
