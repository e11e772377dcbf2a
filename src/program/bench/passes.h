/* Passes of several rows over the weights, as a verification of drafts has them. Both forms of
 * `riffle bench` time them, on a session that holds a text already. */
#ifndef BENCH_PASSES_H
#define BENCH_PASSES_H

#include "riffle_experimental.h"

enum { BENCH_PASS_SIZES = 5 };
/* Rows of the passes that are timed. */
extern const int32_t bench_pass_rows[BENCH_PASS_SIZES];

/* Measures a pass of each size after `context` tokens, each as the median of a few passes, and
 * writes seconds. 0 or a code of the library. */
int bench_passes(riffle_session *session, int32_t context, double seconds[BENCH_PASS_SIZES]);

#endif
