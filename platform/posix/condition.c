#define _POSIX_C_SOURCE 200809L
#include "platform/condition.h"

#include <time.h>

void rf_condition_init(struct rf_condition *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes); /* none of these fails on Linux */
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
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
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += milliseconds * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    pthread_cond_timedwait(&condition->condition, &lock->mutex, &until);
}
