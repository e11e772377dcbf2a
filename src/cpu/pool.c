#include "cpu/pool.h"

enum { MATRICES = RF_OP_INPUTS }; /* of an expert: gate, up and down */

struct cpu_place {
    const struct rf_weight
        *matrices[MATRICES]; /* of the layer whose expert is here; NULL: none is */
    size_t expert;
    uint64_t used; /* number of the choice that used it last */
};

struct cpu_pool {
    const struct rf_allocator *allocator;
    struct rf_lock lock;
    char *memory;
    size_t place_bytes, n_places;
    struct cpu_place *places;
    uint64_t choices;
};

int rf_cpu_pool_new(struct cpu_pool **pool, uint64_t bytes, size_t place_bytes,
                    const struct rf_allocator *allocator, struct rf_error *error)
{
    struct cpu_pool *made = rf_calloc(allocator, 1, sizeof *made, "experts", error);
    *pool = made;
    if (!made) return RF_ERR_MEMORY;
    made->allocator = allocator;
    made->place_bytes = place_bytes;
    made->n_places = (size_t)(bytes / place_bytes);
    rf_lock_init(&made->lock);
    made->memory = rf_malloc(allocator, made->n_places, place_bytes, "experts", error);
    made->places = rf_calloc(allocator, made->n_places, sizeof *made->places, "experts", error);
    return made->memory && made->places ? 0 : RF_ERR_MEMORY;
}

void rf_cpu_pool_free(struct cpu_pool *pool)
{
    if (!pool) return;
    rf_lock_destroy(&pool->lock);
    rf_free(pool->allocator, pool->memory);
    rf_free(pool->allocator, pool->places);
    rf_free(pool->allocator, pool);
}

static struct cpu_pool *pool_of(const struct cpu_view *view)
{
    return ((const struct cpu_weights *)view->base.shape.weights)->pool;
}

static size_t panels_of(const struct rf_weight *weight)
{
    return rf_padded((size_t)weight->rows) / RF_PANEL_ROWS;
}

static struct cpu_place *oldest(const struct cpu_pool *pool)
{
    struct cpu_place *found = pool->places;
    for (size_t i = 1; i < pool->n_places; i++)
        if (pool->places[i].used < found->used) found = &pool->places[i];
    return found;
}

/* Puts the expert there in the place of another one. */
static void give(const struct cpu_pool *pool, struct cpu_place *place,
                 const struct rf_weight *const *matrices, size_t expert)
{
    const char *at = pool->memory + (size_t)(place - pool->places) * pool->place_bytes;
    for (int m = 0; m < MATRICES; m++) {
        if (place->matrices[m]) place->matrices[m]->experts[place->expert] = NULL;
        place->matrices[m] = matrices[m];
        matrices[m]->experts[expert] = at;
        at += panels_of(matrices[m]) * matrices[m]->ld;
    }
    place->expert = expert;
    place->used = pool->choices;
}

void rf_cpu_pool_take(struct cpu_view *view, const struct rf_op *op)
{
    struct cpu_pool *pool = pool_of(view);
    if (!pool) return;
    rf_lock_take(&pool->lock);
    pool->choices++;
    for (size_t g = 0; g < view->n_experts; g++) {
        const char *at = op->weight[0]->experts[view->experts[g].number];
        if (at) pool->places[(size_t)(at - pool->memory) / pool->place_bytes].used = pool->choices;
    }
    view->n_missing = 0;
    for (size_t g = 0; g < view->n_experts; g++) {
        size_t expert = view->experts[g].number;
        if (op->weight[0]->experts[expert]) continue;
        give(pool, oldest(pool), op->weight, expert);
        view->missing[view->n_missing++] = expert;
    }
}

void rf_cpu_pool_fill(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    if (!pool_of(view) || !view->n_missing) return;
    size_t panels = 0;
    for (int m = 0; m < MATRICES; m++) panels += panels_of(op->weight[m]);
    struct cpu_items items = cpu_items(worker, view->n_missing * panels, 4);
    for (size_t item; cpu_items_next(&items, &item);) {
        size_t panel = item % panels;
        int m = 0;
        while (panel >= panels_of(op->weight[m])) panel -= panels_of(op->weight[m++]);
        rf_cpu_pack_panel(view, worker, op->weight[m], view->missing[item / panels], panel);
    }
}

void rf_cpu_pool_release(struct cpu_view *view)
{
    struct cpu_pool *pool = pool_of(view);
    if (pool) rf_lock_release(&pool->lock);
}
