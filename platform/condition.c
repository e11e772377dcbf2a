/* Condition variables that wait by a clock which nobody sets, where the system has one. The
 * threads of src/program/serve wait on them. */
#define _POSIX_C_SOURCE 200809L
#include "platform/condition.h"

#include <time.h>

enum { NANOSECONDS = 1000000000 };

/* The clock that is never set, where the system waits by it. winpthreads knows only the time of
 * day, so that a clock that is set makes one wait longer or shorter. */
void rf_condition_init(struct rf_condition *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    int is_monotonic = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0;
    condition->clock = is_monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    pthread_cond_init(&condition->condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

void rf_condition_destroy(struct rf_condition *condition)
{
    pthread_cond_destroy(&condition->condition);
}

void rf_condition_signal(struct rf_condition *condition)
{
    pthread_cond_signal(&condition->condition);
}

void rf_condition_wait(struct rf_condition *condition, struct rf_lock *lock, int milliseconds)
{
    struct timespec until;
    clock_gettime(condition->clock, &until);
    until.tv_nsec += milliseconds * 1000000L;
    if (until.tv_nsec >= NANOSECONDS) {
        until.tv_sec++;
        until.tv_nsec -= NANOSECONDS;
    }
    pthread_cond_timedwait(&condition->condition, &lock->mutex, &until);
}
