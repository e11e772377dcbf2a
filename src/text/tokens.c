/* Growing arrays of token ids, which all encoders write. The first failure stays in the writer. */
#include "text/tokens.h"

#include <string.h>

void rf_tokens_append(struct rf_token_writer *writer, const int32_t *ids, size_t n)
{
    struct rf_tokens *tokens = writer->tokens;
    if (n == 0 || writer->code) return;
    if (tokens->limit && n > tokens->limit - tokens->count) {
        writer->code = rf_fail(writer->error, RF_ERR_CONTEXT, "the text has more than %zu tokens",
                               tokens->limit);
        return;
    }
    int32_t *grown = rf_grow(writer->allocator, tokens->ids, tokens->count, n, &tokens->cap,
                             sizeof *grown, "token ids", writer->error);
    if (!grown) {
        writer->code = RF_ERR_MEMORY;
        return;
    }
    tokens->ids = grown;
    memcpy(tokens->ids + tokens->count, ids, n * sizeof *ids);
    tokens->count += n;
}

void rf_tokens_free(const struct rf_allocator *allocator, struct rf_tokens *tokens)
{
    rf_free(allocator, tokens->ids);
    *tokens = (struct rf_tokens){0};
}
