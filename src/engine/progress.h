/* Progress of work that counts in itself (bytes, rows), told to a caller who wants a stage's name
 * with it. */
#ifndef RF_ENGINE_PROGRESS_H
#define RF_ENGINE_PROGRESS_H

#include <riffle.h>

struct rf_progress {
    riffle_progress_fn call; /* NULL: nobody listens */
    void *user;
    const char *stage;
};

/* A progress callback whose user is a struct rf_progress. Non-zero: the caller cancels. */
int rf_progress_report(void *progress, uint64_t done, uint64_t total);

#endif
