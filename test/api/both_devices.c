/* Takes the place of src/devices/backends.c in programs that are linked with it: the processor, and
 * the plain device or a CUDA device beside it. */
#include "cpu/cpu_backend.h"
#include "devices/devices.h"
#include "support/plain_backend.h"

const struct rf_backend_kind *const rf_backend_kinds[] = {&rf_cpu_backend_kind, &plain_backend_kind,
                                                          &rf_cuda_backend_kind, NULL};
