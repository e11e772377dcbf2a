/* A lock for things that threads share and that are held for a pass at most. */
#ifndef RF_PLATFORM_LOCK_H
#define RF_PLATFORM_LOCK_H

#include <pthread.h>

struct rf_lock {
    pthread_mutex_t mutex;
};

static inline void rf_lock_init(struct rf_lock *lock)
{
    pthread_mutex_init(&lock->mutex, NULL); /* does not fail with default attributes on Linux */
}

static inline void rf_lock_destroy(struct rf_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

static inline void rf_lock_take(struct rf_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
}

static inline void rf_lock_release(struct rf_lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}

#endif
