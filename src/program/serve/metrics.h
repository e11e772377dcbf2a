/* The server's counters, and their text for Prometheus. They are under the server's lock. */
#ifndef SERVE_METRICS_H
#define SERVE_METRICS_H

#include <riffle_experimental.h>

#include "base/alloc.h"
#include "base/error.h"

enum { METRICS_BUCKETS = 12, METRICS_STATUSES = 600 };

struct histogram {
    uint64_t counts[METRICS_BUCKETS + 1]; /* the last: above all bounds */
    double sum;
};

struct metrics {
    uint64_t replies[METRICS_STATUSES]; /* index: status of HTTP */
    uint64_t prompt_tokens, kept_tokens, generated_tokens, drafted, accepted, cancelled;
    struct histogram first_token, between_tokens; /* seconds */
    int32_t waiting;                              /* requests that the batch does not have yet */
    riffle_batch_stats batch;
};

void histogram_add(struct histogram *histogram, double seconds);
void metrics_answer(struct metrics *metrics, const riffle_answer *answer);
int metrics_write(const struct metrics *metrics, struct rf_bytes *text, struct rf_error *error);

#endif
