/* Time. */
#ifndef RF_PLATFORM_CLOCK_H
#define RF_PLATFORM_CLOCK_H

/* Seconds on a clock that never goes back. */
double rf_clock_seconds(void);

/* The time of day as ISO 8601 in UTC: "2026-11-22T08:40:11Z". */
enum { RF_UTC_TEXT = 24 };
void rf_clock_utc(char text[RF_UTC_TEXT]);

#endif
