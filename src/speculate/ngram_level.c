#include "speculate/ngram_level.h"

static void follow(void *self, const int32_t *text, int32_t n, int32_t kept)
{
    rf_ngram_sync(self, text, n, kept);
}

static int32_t draft(void *self, const int32_t *text, int32_t n, int32_t max, struct rf_choice *out,
                     struct rf_error *error)
{
    (void)error;
    return rf_ngram_draft(self, text, n, max, out);
}

const struct rf_level_ops rf_ngram_level_ops = {.follow = follow, .draft = draft};
