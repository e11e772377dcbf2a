/* Finds the kind of device that a user's word means, among the kinds of this build. */
#include <stdlib.h>
#include <string.h>

#include "devices/devices.h"

/* "NAME" or "NAME:N". */
static int names_kind(const char *name, const struct rf_backend_kind *kind, int32_t *index)
{
    size_t length = strlen(kind->name);
    char *end;
    *index = 0;
    if (strncmp(name, kind->name, length) != 0) return 0;
    if (!name[length]) return 1;
    if (name[length] != ':' || name[length + 1] < '0' || name[length + 1] > '9') return 0;
    long n = strtol(name + length + 1, &end, 10);
    *index = (int32_t)n;
    return !*end && n < 1024;
}

int rf_find_device(const char *name, const struct rf_backend_kind **kind, int32_t *index,
                   struct rf_error *error)
{
    const struct rf_backend_options first = {0};
    int is_auto = strcmp(name, "auto") == 0;
    for (size_t k = is_auto ? 1 : 0; rf_backend_kinds[k]; k++) {
        struct rf_error ignored;
        *kind = rf_backend_kinds[k];
        *index = 0;
        if (is_auto && !(*kind)->describe(&first, NULL, &ignored)) return 0;
        if (names_kind(name, *kind, index) && (k > 0 || !strchr(name, ':'))) return 0;
    }
    *kind = rf_backend_kinds[0];
    if (is_auto) return 0;
    return rf_fail(error, RF_ERR_ARGUMENT, "device \"%s\": known are auto, cpu, cuda and cuda:N",
                   name);
}
