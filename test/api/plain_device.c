/* Takes the place of src/devices/backends.c in programs that are linked with it: models are opened
 * on the plain backend. */
#include "support/plain_backend.h"

const struct rf_backend_kind *const rf_backend_kinds[] = {&plain_backend_kind, NULL};
