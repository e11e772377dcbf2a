/* The kinds of devices of this build: the one place that knows them by name. The first is taken
 * where none is named. */
#include "cpu/cpu_backend.h"
#include "devices/devices.h"

const struct rf_backend_kind *const rf_backend_kinds[] = {&rf_cpu_backend_kind,
                                                          &rf_cuda_backend_kind, NULL};
