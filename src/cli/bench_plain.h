/* Plain decoding, as both forms of `riffle bench` measure and report it. */
#ifndef CLI_BENCH_PLAIN_H
#define CLI_BENCH_PLAIN_H

#include "cli/engine.h"

enum { BENCH_PASS_SIZES = 5 };
/* Rows of the passes that are timed. */
extern const int32_t bench_pass_rows[BENCH_PASS_SIZES];
/* Seconds of a pass of each size after `context` tokens, each the median of a few passes. 0 or a
 * code of the library. */
int bench_passes(riffle_session *session, int32_t context, double seconds[BENCH_PASS_SIZES]);

struct bench_plain {
    const char *cpu;
    int32_t threads;
    double read; /* memory bandwidth, bytes per second */
    double decode_tps, prefill_tps, percent_of_read;
    double first_token_seconds; /* negative: not measured */
    const double *pass_seconds; /* [BENCH_PASS_SIZES] */
};
/* The members "model", "machine" and "plain" of an object. */
void bench_write_plain(struct json_writer *json, const struct engine *engine,
                       const struct bench_plain *plain);

#endif
