/* The kinds of devices that are not the processor, and the names of all devices. */
#ifndef RF_DEVICES_DEVICES_H
#define RF_DEVICES_DEVICES_H

#include "infer/backend.h"

/* `describe` or `open` must have succeeded before the other functions are called. */
extern const struct rf_backend_kind rf_cuda_backend_kind;

/* The kind that a name of a device means, and which one of it: "cpu", "cuda", "cuda:N" or "auto",
 * the first kind besides the processor that has a device, or else the processor. RF_ERR_ARGUMENT
 * for any other name. Whether there is such a device is not looked up except for "auto". */
int rf_find_device(const char *name, const struct rf_backend_kind **kind, int32_t *index,
                   struct rf_error *error);

#endif
