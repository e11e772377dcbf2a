/* The counters of models and of the server, and their text for Prometheus. They are under the
 * server's lock. */
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

/* Counts of one model. */
struct metrics {
    uint64_t prompt_tokens, kept_tokens, generated_tokens, drafted, accepted, cancelled;
    struct histogram first_token, between_tokens; /* seconds */
    riffle_batch_stats batch;                     /* of the open model */
    riffle_batch_stats past;                      /* counters of those that were open before */
};

void histogram_add(struct histogram *histogram, double seconds);
void metrics_answer(struct metrics *metrics, const riffle_answer *answer);
/* The batch is no more. */
void metrics_end_batch(struct metrics *metrics);

/* A model as it is now. */
struct metrics_model {
    const char *name;
    struct metrics metrics;
    int32_t waiting; /* requests that its batch does not have yet */
    int is_open;
    uint64_t bytes; /* while it is open */
};

/* All counters, with the replies by status of HTTP, and the requests whose model is not known yet.
 */
struct metrics_server {
    struct metrics_model *models; /* [n] */
    size_t n;
    uint64_t replies[METRICS_STATUSES];
    int32_t preparing;
};

int metrics_write(const struct metrics_server *server, struct rf_bytes *text,
                  struct rf_error *error);

#endif
