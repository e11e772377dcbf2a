/* The clocks of the system: seconds for durations, which never go back, and the time of day for
 * texts. */
#ifndef RF_PLATFORM_CLOCK_H
#define RF_PLATFORM_CLOCK_H

#include <stddef.h>
#include <stdint.h>

/* Seconds on a clock that never goes back. */
double rf_clock_seconds(void);

/* The time of day as ISO 8601 in UTC: "2026-11-22T08:40:11Z". */
enum { RF_UTC_TEXT = 24 };
void rf_clock_utc(char text[RF_UTC_TEXT]);
/* The same for a time in seconds of Unix. */
void rf_clock_utc_of(int64_t unix_seconds, char text[RF_UTC_TEXT]);

/* Seconds of Unix, and such a time in the local zone as strftime() writes it. Returns the bytes
 * without the terminating zero; 0 if they do not fit. */
int64_t rf_clock_unix(void);
size_t rf_clock_format(int64_t unix_seconds, const char *format, char *text, size_t bytes);

#endif
