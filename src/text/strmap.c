/* A hash table from texts to ids, built once. The hash is random, so that no file can foresee
 * collisions, and a key may be given as two halves, which merges need. */
#include "text/strmap.h"

#include <string.h>

#include "platform/random.h"

__extension__ typedef unsigned __int128 u128;

static const uint64_t prime = ((uint64_t)1 << 61) - 1;

/* The bytes as a polynomial in `base`, modulo the prime: two texts collide for at most as many
 * bases as they have bytes. It can continue from any state, so the two halves of a merge hash like
 * the token that they form. */
static uint64_t hash_bytes(const struct rf_strmap *map, uint64_t state, struct rf_str s)
{
    for (size_t i = 0; i < s.bytes; i++) {
        u128 x = (u128)state * map->base + (unsigned char)s.data[i] + 1;
        state = (uint64_t)(x & prime) + (uint64_t)(x >> 61);
        if (state >= prime) state -= prime;
    }
    return state;
}

static uint32_t fold_product(const struct rf_strmap *map, uint64_t state)
{
    return (uint32_t)(state * map->factor >> 32);
}

int rf_strmap_init(struct rf_strmap *map, const struct rf_str *keys, int32_t n_keys,
                   const struct rf_allocator *allocator, struct rf_error *error)
{
    /* The table stays at most 2/3 full. */
    size_t n_slots = 16;
    while (n_slots / 3 * 2 < (size_t)n_keys) n_slots *= 2;
    *map = (struct rf_strmap){.keys = keys,
                              .mask = (uint32_t)(n_slots - 1),
                              .base = 256 + rf_random() % (prime - 256),
                              .factor = rf_random() | 1};
    map->slots = rf_malloc(allocator, n_slots, sizeof *map->slots, "vocabulary index", error);
    if (!map->slots) return RF_ERR_MEMORY;
    memset(map->slots, 0xff, n_slots * sizeof *map->slots);
    return 0;
}

void rf_strmap_free(struct rf_strmap *map, const struct rf_allocator *allocator)
{
    rf_free(allocator, map->slots);
    map->slots = NULL;
}

/* The slot of first + second, or the free one where it would be. */
static struct rf_strmap_slot *strmap_slot(const struct rf_strmap *map, struct rf_str first,
                                          struct rf_str second, uint32_t hash)
{
    for (uint32_t at = hash & map->mask;; at = (at + 1) & map->mask) {
        struct rf_strmap_slot *slot = &map->slots[at];
        if (slot->id < 0) return slot;
        if (slot->hash != hash) continue;
        const struct rf_str *key = &map->keys[slot->id];
        if (key->bytes == first.bytes + second.bytes &&
            memcmp(key->data, first.data, first.bytes) == 0 &&
            (second.bytes == 0 || memcmp(key->data + first.bytes, second.data, second.bytes) == 0))
            return slot;
    }
}

int32_t rf_strmap_put(struct rf_strmap *map, int32_t id, int replace)
{
    uint32_t hash = fold_product(map, hash_bytes(map, 0, map->keys[id]));
    struct rf_strmap_slot *slot = strmap_slot(map, map->keys[id], (struct rf_str){"", 0}, hash);
    int32_t found = slot->id < 0 ? id : slot->id;
    if (slot->id < 0 || replace) *slot = (struct rf_strmap_slot){hash, id};
    return found;
}

int32_t rf_strmap_find(const struct rf_strmap *map, struct rf_str first, struct rf_str second)
{
    uint32_t hash = fold_product(map, hash_bytes(map, hash_bytes(map, 0, first), second));
    return strmap_slot(map, first, second, hash)->id;
}
