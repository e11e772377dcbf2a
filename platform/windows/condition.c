#include "platform/condition.h"

#include <pthread_time.h>

void rf_condition_init(struct rf_condition *condition)
{
    pthread_cond_init(&condition->condition, NULL);
}

void rf_condition_destroy(struct rf_condition *condition)
{
    pthread_cond_destroy(&condition->condition);
}

void rf_condition_signal(struct rf_condition *condition)
{
    pthread_cond_signal(&condition->condition);
}

/* winpthreads knows only the time of day here. A clock that is set makes one wait longer or
 * shorter. */
void rf_condition_wait(struct rf_condition *condition, struct rf_lock *lock, int milliseconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += milliseconds * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    pthread_cond_timedwait(&condition->condition, &lock->mutex, &until);
}
