/* Missing instructions are not emulated on Windows. */
#include "emulate/emulate.h"

int emulate_install(void)
{
    return -1;
}

void emulate_uninstall(void)
{
}

int emulate_can_run(enum rf_tier tier)
{
    (void)tier;
    return 0;
}

uint64_t emulate_count(void)
{
    return 0;
}
