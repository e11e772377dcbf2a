/* Takes the place of src/devices/backends.c in programs that are linked with it: models are opened
 * on a CUDA device, and the test is skipped where there is none. */
#include <stdio.h>
#include <stdlib.h>

#include "devices/devices.h"

const struct rf_backend_kind *const rf_backend_kinds[] = {&rf_cuda_backend_kind, NULL};

__attribute__((constructor)) static void device_must_exist(void)
{
    const struct rf_backend_options options = {0};
    struct rf_error error;
    if (!rf_cuda_backend_kind.describe(&options, NULL, &error)) return;
    fprintf(stderr, "skipped: %s\n", error.text);
    exit(77);
}
