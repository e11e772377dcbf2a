/* The adapter between rf_load_progress and the caller's riffle_progress_fn (progress.h). */
#include "engine/progress.h"

int rf_progress_report(void *progress, uint64_t done, uint64_t total)
{
    const struct rf_progress *to = progress;
    return to->call ? to->call(to->user, to->stage, done, total) : 0;
}
