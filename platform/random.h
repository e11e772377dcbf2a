/* Numbers that nobody can foresee. */
#ifndef RF_PLATFORM_RANDOM_H
#define RF_PLATFORM_RANDOM_H

#include <stdint.h>

/* 64 bits from the system; from the clock where the system gives none. */
uint64_t rf_random(void);

#endif
