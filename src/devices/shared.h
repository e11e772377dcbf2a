/* One model on two devices: the embedding and the first layers on one, the last layers and the head
 * on the other. A backend over two others, whose programs are the two parts of a program. */
#ifndef RF_DEVICES_SHARED_H
#define RF_DEVICES_SHARED_H

#include "infer/backend.h"

/* The last n_second >= 1 layers of each model are the second device's, or all if a model has no
 * more; then the first device does nothing. The made backend frees both; on failure they are the
 * caller's. Positions of a cache that were saved can be loaded by each device alone. */
int rf_shared_backend_new(struct rf_backend **backend, struct rf_backend *first,
                          struct rf_backend *second, int32_t n_second,
                          const struct rf_allocator *allocator, struct rf_error *error);

/* Passes over one row so far, and the seconds in which each device did its part of them. */
struct rf_shared_times {
    uint64_t passes;
    double seconds[2];
};
/* The times of a view on such a backend; NULL: it is on another one. */
const struct rf_shared_times *rf_shared_times(const struct rf_view *view);

#endif
