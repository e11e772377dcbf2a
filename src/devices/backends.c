/* The kinds of devices of this build: the one place that knows them by name. */
#include "cpu/cpu_backend.h"

const struct rf_backend_kind *const rf_backend_kinds[] = {&rf_cpu_backend_kind, NULL};
