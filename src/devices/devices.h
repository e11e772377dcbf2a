/* The kinds of devices that are not the processor. */
#ifndef RF_DEVICES_DEVICES_H
#define RF_DEVICES_DEVICES_H

#include "infer/backend.h"

/* `describe` or `open` must have succeeded before the other functions are called. */
extern const struct rf_backend_kind rf_cuda_backend_kind;

#endif
