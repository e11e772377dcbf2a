#include "speculate/ngram_level.h"

static void rewind_level(void *self, int32_t n)
{
    rf_ngram_rewind(self, n);
}

static void follow(void *self, const int32_t *text, int32_t n)
{
    rf_ngram_follow(self, text, n);
}

static int draft(void *self, const int32_t *text, int32_t n, int32_t max, struct rf_draft *out,
                 struct rf_error *error)
{
    struct rf_choice choices[RF_MAX_DRAFT];
    (void)error;
    rf_draft_line(out, choices, rf_ngram_draft(self, text, n, max, choices));
    return 0;
}

const struct rf_level_ops rf_ngram_level_ops = {
    .rewind = rewind_level, .follow = follow, .draft = draft};

int rf_ngram_level_open(void **self, int32_t n_ctx, const struct rf_allocator *allocator,
                        struct rf_error *error)
{
    struct rf_ngram *ngram;
    int code = rf_ngram_new(&ngram, n_ctx, allocator, error);
    *self = ngram;
    return code;
}

void rf_ngram_level_close(void *self)
{
    rf_ngram_free(self);
}
