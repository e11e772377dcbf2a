/* Checks a pass against its view and its caches, once for all backends. */
#include "infer/pass.h"

#include <assert.h>

/* `n_before`: rows of the groups before this one. */
static int check_group(const struct rf_view *view, const struct rf_rows *rows, int32_t index,
                       int32_t n_before, struct rf_error *error)
{
    const struct rf_cache_shape *cache = &rows->cache->shape;
    if (rows->n < 1 || rows->first_pos < 0 || rows->n > cache->n_ctx - rows->first_pos)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "group %d: %d rows from position %d on, in a context of %d", index, rows->n,
                       rows->first_pos, cache->n_ctx);
    if (!rf_kv_can_read(view->shape.kv, cache->kv))
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "group %d: the view cannot read a KV cache of this type", index);
    if (rows->n > view->shape.max_rows - n_before)
        return rf_fail(error, RF_ERR_ARGUMENT, "group %d: its rows and those before are over %d",
                       index, view->shape.max_rows);
    for (int32_t i = 0; rows->parents && i < rows->n; i++)
        assert(rows->parents[i] >= -1 && rows->parents[i] < i);
    return 0;
}

int rf_pass_check(const struct rf_view *view, const struct rf_pass *pass, struct rf_error *error)
{
    int32_t n_rows = 0;
    int has_trees = 0;
    for (int32_t g = 0; g < pass->n_groups; g++) {
        int code = check_group(view, &pass->groups[g], g, n_rows, error);
        if (code) return code;
        n_rows += pass->groups[g].n;
        has_trees |= pass->groups[g].parents != NULL;
    }
    if (has_trees && n_rows > RF_TREE_ROWS)
        return rf_fail(error, RF_ERR_ARGUMENT, "%d rows: a pass with branches has at most %d",
                       n_rows, RF_TREE_ROWS);
    if (!pass->logprobs && pass->n_wanted > view->shape.max_logits)
        return rf_fail(error, RF_ERR_ARGUMENT, "%d answers: a pass has at most %d", pass->n_wanted,
                       view->shape.max_logits);
    return 0;
}
