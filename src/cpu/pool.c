/* The places of a pool of experts. Invariant: a place that an expert has is the one that its
 * matrices' `experts` entries point to, and no other entry points there. */
#include "cpu/pool.h"

struct cpu_place {
    const struct rf_weight *layer[RF_OP_INPUTS]; /* the layer of the expert here; NULL: none */
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

static struct cpu_place *oldest_place(const struct cpu_pool *pool)
{
    struct cpu_place *found = pool->places;
    for (size_t i = 1; i < pool->n_places; i++)
        if (pool->places[i].used < found->used) found = &pool->places[i];
    return found;
}

/* Puts the expert there in the place of another one. */
static void give_place(const struct cpu_pool *pool, struct cpu_place *place, cpu_pool_layer layer,
                       size_t expert)
{
    const char *at = pool->memory + (size_t)(place - pool->places) * pool->place_bytes;
    for (int m = 0; m < RF_OP_INPUTS; m++) {
        if (place->layer[m]) place->layer[m]->experts[place->expert] = NULL;
        place->layer[m] = layer[m];
        if (!layer[m]) continue;
        layer[m]->experts[expert] = at;
        at += layer[m]->plan.matrix_bytes;
    }
    place->expert = expert;
    place->used = pool->choices;
}

void rf_cpu_pool_take(struct cpu_pool *pool, cpu_pool_layer layer, const struct cpu_expert *chosen,
                      size_t n_chosen, size_t *missing, size_t *n_missing)
{
    rf_lock_take(&pool->lock);
    pool->choices++;
    for (size_t g = 0; g < n_chosen; g++) {
        const char *at = layer[0]->experts[chosen[g].number];
        if (at) pool->places[(size_t)(at - pool->memory) / pool->place_bytes].used = pool->choices;
    }
    *n_missing = 0;
    for (size_t g = 0; g < n_chosen; g++) {
        size_t expert = chosen[g].number;
        if (layer[0]->experts[expert]) continue;
        give_place(pool, oldest_place(pool), layer, expert);
        missing[(*n_missing)++] = expert;
    }
}

void rf_cpu_pool_fill(cpu_pool_layer layer, const size_t *missing, size_t n_missing,
                      struct rf_worker *worker, rf_cpu_pack_fn *pack, const void *user)
{
    size_t panels = 0;
    for (int m = 0; m < RF_OP_INPUTS; m++) panels += layer[m] ? layer[m]->plan.strips : 0;
    struct cpu_items items = cpu_items(worker, n_missing * panels, 4);
    for (size_t item; cpu_items_next(&items, &item);) {
        size_t panel = item % panels;
        int m = 0;
        while (panel >= layer[m]->plan.strips) panel -= layer[m++]->plan.strips;
        pack(user, worker, layer[m], missing[item / panels], panel);
    }
}

void rf_cpu_pool_release(struct cpu_pool *pool)
{
    if (pool) rf_lock_release(&pool->lock);
}
