/* Takes the place of src/devices/backends.c in programs that are linked with it: models are opened
 * on two of the processor's backends, each with some of their layers. */
#include "support/shared_kind.h"

const struct rf_backend_kind *const rf_backend_kinds[] = {&shared_cpu_kind, NULL};
