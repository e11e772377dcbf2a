/* An n-gram dictionary as a level of the cascade. */
#include "speculate/drafters.h"
#include "speculate/ngram.h"

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

static int open_level(void **self, int32_t n_ctx, const struct rf_allocator *allocator,
                      struct rf_error *error)
{
    struct rf_ngram *ngram;
    int code = rf_ngram_new(&ngram, n_ctx, allocator, error);
    *self = ngram;
    return code;
}

static void close_level(void *self)
{
    rf_ngram_free(self);
}

const struct rf_drafter rf_ngram_drafter = {
    .name = "ngram",
    .acceptance = 0.5,
    .ops = {.rewind = rewind_level, .follow = follow, .draft = draft},
    .open = open_level,
    .close = close_level};
