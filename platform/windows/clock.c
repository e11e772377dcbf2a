/* Clocks of Windows: the performance counter, for durations, and the time of day, for texts. */
#include "platform/clock.h"

#include <time.h>

#include "platform/windows/wide.h"

double rf_clock_seconds(void)
{
    LARGE_INTEGER now, rate;
    QueryPerformanceFrequency(&rate); /* constant since the system started */
    QueryPerformanceCounter(&now);
    return (double)now.QuadPart / (double)rate.QuadPart;
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
    if (gmtime_s(&parts, &then) == 0) strftime(text, RF_UTC_TEXT, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

int64_t rf_clock_unix(void)
{
    return (int64_t)time(NULL);
}

size_t rf_clock_format(int64_t unix_seconds, const char *format, char *text, size_t bytes)
{
    time_t now = (time_t)unix_seconds;
    struct tm parts;
    return localtime_s(&parts, &now) == 0 ? strftime(text, bytes, format, &parts) : 0;
}
