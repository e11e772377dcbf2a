#include "text/tokens.h"

#include <string.h>

int rf_tokens_append(const struct rf_allocator *allocator, struct rf_tokens *tokens,
                     const int32_t *ids, size_t n, struct rf_error *error)
{
    if (n == 0) return 0;
    if (n > SIZE_MAX / 16 - tokens->count)
        return rf_fail(error, RF_ERR_MEMORY, "more tokens than memory can hold");
    if (tokens->count + n > tokens->cap) {
        size_t cap = tokens->cap ? tokens->cap * 2 : 256;
        while (cap < tokens->count + n) cap *= 2;
        int32_t *grown = rf_malloc(allocator, cap, sizeof *grown, "token ids", error);
        if (!grown) return RF_ERR_MEMORY;
        if (tokens->count) memcpy(grown, tokens->ids, tokens->count * sizeof *grown);
        rf_free(allocator, tokens->ids);
        tokens->ids = grown;
        tokens->cap = cap;
    }
    memcpy(tokens->ids + tokens->count, ids, n * sizeof *ids);
    tokens->count += n;
    return 0;
}

void rf_tokens_free(const struct rf_allocator *allocator, struct rf_tokens *tokens)
{
    rf_free(allocator, tokens->ids);
    *tokens = (struct rf_tokens){0};
}
