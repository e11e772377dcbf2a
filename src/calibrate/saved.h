/* Finished layers in a file beside the new one, so that calibrating can be continued. */
#ifndef RF_CALIBRATE_SAVED_H
#define RF_CALIBRATE_SAVED_H

#include "platform/partial.h"

struct saved {
    struct rf_partial partial;
    uint64_t at; /* place of the next layer */
};

/* Opens "`out`.calibration". Its contents are dropped if it was not made for `identity`, a hash of
 * everything that the layers depend on. rf_saved_close or rf_saved_drop must follow. */
int rf_saved_open(struct saved *saved, const char *out, uint64_t identity, struct rf_error *error);
/* Reads the next layer. 1; 0: it is not there, or not whole; or a negative code. */
int rf_saved_read(struct saved *saved, void *layer, size_t bytes, struct rf_error *error);
/* Adds the next layer, after rf_saved_read returned 0. */
int rf_saved_append(struct saved *saved, const void *layer, size_t bytes, struct rf_error *error);
void rf_saved_close(struct saved *saved);
void rf_saved_drop(struct saved *saved);

/* The place of the first layer in the file. */
enum { SAVED_HEADER = 16 };

/* FNV-1a, 64 bits. */
uint64_t rf_saved_hash(uint64_t hash, const void *data, size_t bytes);

#endif
