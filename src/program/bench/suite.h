/* Measures a suite: each prompt is answered by plain decoding and by every chain in turn. The verb
 * bench calls it, and passes it functions that print rows as they come. */
#ifndef BENCH_SUITE_H
#define BENCH_SUITE_H

#include "bench/results.h"

/* Told of the results while they grow. */
struct bench_watch {
    void (*head)(const struct bench_suite *suite); /* called before the first row */
    void (*row)(const struct bench_suite *suite);  /* called after each row, then the last one */
};

/* Measures what the options ask for. `watch` may be NULL. CLI_OK, or an exit status with a
 * sentence. bench_suite_free must follow in both cases. */
int bench_suite_measure(struct bench_suite *suite, const struct cli_options *options,
                        const struct bench_watch *watch);
/* CLI_OK, or CLI_FAILED with a sentence about the first token that a chain changed. */
int bench_suite_check(const struct bench_suite *suite);
void bench_suite_free(struct bench_suite *suite);

#endif
