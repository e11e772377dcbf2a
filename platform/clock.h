/* Time. */
#ifndef RF_PLATFORM_CLOCK_H
#define RF_PLATFORM_CLOCK_H

/* Seconds on a clock that never goes back. */
double rf_clock_seconds(void);

#endif
