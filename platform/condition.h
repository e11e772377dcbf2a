/* A condition that threads with a lock wait for. */
#ifndef RF_PLATFORM_CONDITION_H
#define RF_PLATFORM_CONDITION_H

#include "platform/lock.h"

struct rf_condition {
    pthread_cond_t condition;
    int clock; /* the clock that it waits by */
};

void rf_condition_init(struct rf_condition *condition);
void rf_condition_destroy(struct rf_condition *condition);
/* Ends the waiting of one thread. */
void rf_condition_signal(struct rf_condition *condition);
/* Releases the lock until the condition is signalled, or so many milliseconds below 1000 have gone;
 * takes it again. It may also end for no reason. */
void rf_condition_wait(struct rf_condition *condition, struct rf_lock *lock, int milliseconds);

#endif
