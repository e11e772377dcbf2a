/* Operations on drafts (draft.h). Rows are few, so all of them are linear or quadratic in the rows.
 */
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

int32_t rf_draft_add(struct rf_draft *draft, int32_t parent, const struct rf_choice *choice,
                     struct rf_proposal by)
{
    int32_t row = draft->n;
    assert(parent >= -1 && parent < row);
    if (row == RF_DRAFT_ROWS) return -1;
    draft->tokens[row] = choice->token;
    draft->parents[row] = parent;
    draft->confidence[row] = choice->confidence;
    draft->by[row] = by;
    draft->n++;
    return row;
}

enum { NOWHERE = -2 }; /* place of a row that was left out; -1 is the text */

void rf_draft_filter(struct rf_draft *draft, const int *keep)
{
    int32_t moved[RF_DRAFT_ROWS], n = 0;
    for (int32_t i = 0; i < draft->n; i++) {
        int32_t parent = draft->parents[i] < 0 ? -1 : moved[draft->parents[i]];
        moved[i] = NOWHERE;
        if (!keep[i] || parent == NOWHERE) continue;
        draft->tokens[n] = draft->tokens[i];
        draft->parents[n] = parent;
        draft->confidence[n] = draft->confidence[i];
        draft->by[n] = draft->by[i];
        moved[i] = n++;
    }
    draft->n = n;
}

/* The row with that token after row `parent`, or NOWHERE. */
static int32_t find_row(const struct rf_draft *draft, int32_t parent, int32_t token)
{
    for (int32_t i = parent + 1; i < draft->n; i++)
        if (draft->parents[i] == parent && draft->tokens[i] == token) return i;
    return NOWHERE;
}

/* The probability that none of the first n rows follows row `parent`. */
static float left_after(const struct rf_draft *draft, int32_t n, int32_t parent)
{
    float left = 1.0f;
    for (int32_t i = parent + 1; i < n; i++)
        if (draft->parents[i] == parent)
            left -= draft->confidence[i] * (draft->by[i].runner_up ? left : 1.0f);
    return left > 0.0f ? left : 0.0f;
}

void rf_draft_merge(struct rf_draft *draft, int32_t at, const struct rf_draft *from)
{
    int32_t moved[RF_DRAFT_ROWS], n = draft->n;
    for (int32_t i = 0; i < from->n; i++) {
        int32_t parent = from->parents[i] < 0 ? at : moved[from->parents[i]];
        moved[i] = parent == NOWHERE ? NOWHERE : find_row(draft, parent, from->tokens[i]);
        if (moved[i] != NOWHERE || parent == NOWHERE || draft->n == RF_DRAFT_ROWS) continue;
        struct rf_choice choice = {from->tokens[i],
                                   from->confidence[i] * left_after(draft, n, parent)};
        moved[i] = rf_draft_add(draft, parent, &choice, from->by[i]);
    }
}

void rf_draft_order(const struct rf_draft *draft, const double *p, int32_t *order)
{
    for (int32_t i = 0; i < draft->n; i++) {
        int32_t at = i;
        for (; at > 0 && p[i] > p[order[at - 1]]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
}

int32_t rf_draft_path(const struct rf_draft *draft, int32_t row, int32_t *path)
{
    int32_t depth = 0;
    for (int32_t at = row; at >= 0; at = draft->parents[at]) depth++;
    for (int32_t at = row, d = depth; at >= 0; at = draft->parents[at]) path[--d] = at;
    return depth;
}

void rf_draft_sign(struct rf_draft *draft, int32_t origin, int32_t proposer)
{
    for (int32_t i = 0; i < draft->n; i++)
        draft->by[i] = (struct rf_proposal){(int8_t)origin, (int8_t)proposer, 0};
}
