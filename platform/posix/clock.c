/* Clocks of POSIX: seconds of a clock that nobody sets, for durations, and the time of day, for
 * texts. */
#define _POSIX_C_SOURCE 200809L
#include "platform/clock.h"

#include <time.h>

double rf_clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void rf_clock_utc(char text[RF_UTC_TEXT])
{
    rf_clock_utc_of((int64_t)time(NULL), text);
}

void rf_clock_utc_of(int64_t unix_seconds, char text[RF_UTC_TEXT])
{
    time_t then = (time_t)unix_seconds;
    struct tm parts;
    text[0] = 0;
    if (gmtime_r(&then, &parts)) strftime(text, RF_UTC_TEXT, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

int64_t rf_clock_unix(void)
{
    return (int64_t)time(NULL);
}

size_t rf_clock_format(int64_t unix_seconds, const char *format, char *text, size_t bytes)
{
    time_t now = (time_t)unix_seconds;
    struct tm parts;
    return localtime_r(&now, &parts) ? strftime(text, bytes, format, &parts) : 0;
}
