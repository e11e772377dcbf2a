#include "speculate/drafters.h"

#include <string.h>

const struct rf_drafter *rf_drafter_find(const char *name, size_t bytes)
{
#define ROW(name) &rf_##name##_drafter,
    static const struct rf_drafter *const drafters[] = {RF_EACH_DRAFTER(ROW)};
#undef ROW
    for (size_t i = 0; i < sizeof drafters / sizeof *drafters; i++)
        if (strlen(drafters[i]->name) == bytes && memcmp(drafters[i]->name, name, bytes) == 0)
            return drafters[i];
    return NULL;
}
