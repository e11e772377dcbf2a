/* The table of drafters without a model (drafters.h). */
#include "speculate/drafters.h"

#include <string.h>

#define ROW(name) &rf_##name##_drafter,
const struct rf_drafter *const rf_drafters[] = {RF_EACH_DRAFTER(ROW) NULL};
#undef ROW

const struct rf_drafter *rf_drafter_find(const char *name, size_t bytes)
{
    for (size_t i = 0; rf_drafters[i]; i++)
        if (strlen(rf_drafters[i]->name) == bytes && memcmp(rf_drafters[i]->name, name, bytes) == 0)
            return rf_drafters[i];
    return NULL;
}
