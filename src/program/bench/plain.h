/* Measures plain decoding against the machine's memory bandwidth: prompts, decoding and passes at
 * depths of the context. The verb bench calls it without --suite. */
#ifndef BENCH_PLAIN_H
#define BENCH_PLAIN_H

#include "bench/results.h"

/* Measures what the options ask for. CLI_OK, or an exit status with a sentence. bench_plain_free
 * must follow in both cases. */
int bench_plain_measure(struct bench_plain *results, const struct cli_options *options);
void bench_plain_free(struct bench_plain *results);

/* The numbers of a list upwards, without repetitions, for free(); `otherwise` if it is not given.
 * CLI_OK or CLI_USAGE. */
int bench_take_list(const char *option, const char *list, int32_t least, int32_t otherwise,
                    int32_t **items, size_t *count);
/* An English text, repeated to `length` tokens, for free(). CLI_OK, or an exit status. */
int bench_text(const struct engine *engine, size_t length, int32_t **tokens);

#endif
