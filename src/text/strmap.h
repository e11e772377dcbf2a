/* Maps the bytes of a token to its id: a hash table with open addressing. It does not own the
 * strings. */
#ifndef RF_TEXT_STRMAP_H
#define RF_TEXT_STRMAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/vocab.h"

struct rf_strmap {
    const struct rf_str *keys; /* indexed by id; borrowed */
    struct rf_strmap_slot {
        uint32_t hash;
        int32_t id; /* -1: free */
    } * slots;
    uint32_t mask;
    uint64_t base,
        factor; /* the hash's parameters: random, so that no file can foresee collisions */
};

/* Makes room for n_keys strings of `keys`, which must outlive the map. */
int rf_strmap_init(struct rf_strmap *map, const struct rf_str *keys, int32_t n_keys,
                   const struct rf_allocator *allocator, struct rf_error *error);
void rf_strmap_free(struct rf_strmap *map, const struct rf_allocator *allocator);

/* Adds keys[id] and returns id. If the bytes are there already, returns their id, and `replace`
 * decides whether the new id takes its place. */
int32_t rf_strmap_put(struct rf_strmap *map, int32_t id, int replace);
/* The id of the concatenation of two strings (the second may be empty), or -1. */
int32_t rf_strmap_find(const struct rf_strmap *map, struct rf_str first, struct rf_str second);

#endif
