#include "speculate/draft.h"

#include <assert.h>

void rf_draft_line(struct rf_draft *draft, const struct rf_choice *choices, int32_t n)
{
    assert(n >= 0 && n <= RF_MAX_DRAFT);
    draft->n = n;
    for (int32_t i = 0; i < n; i++) {
        draft->tokens[i] = choices[i].token;
        draft->confidence[i] = choices[i].confidence;
        draft->parents[i] = i - 1;
    }
}

int rf_draft_is_line(const struct rf_draft *draft)
{
    for (int32_t i = 0; i < draft->n; i++)
        if (draft->parents[i] != i - 1) return 0;
    return 1;
}
