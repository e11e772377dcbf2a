/* Measures plain decoding against the machine's memory bandwidth: prompts, decoding and passes at
 * depths of the context. The verb bench calls it without --suite. */
#ifndef BENCH_PLAIN_H
#define BENCH_PLAIN_H

#include "bench/results.h"

/* Measures what the options ask for. CLI_OK, or an exit status with a sentence. bench_plain_free
 * must follow in both cases. */
int bench_plain_measure(struct bench_plain *results, const struct cli_options *options);
void bench_plain_free(struct bench_plain *results);

#endif
