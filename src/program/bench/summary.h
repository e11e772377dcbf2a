/* The figures of a whole suite, computed from its rows. The suite calls it once, when all rows are
 * there. */
#ifndef BENCH_SUMMARY_H
#define BENCH_SUMMARY_H

#include "bench/results.h"

/* Sets suite->figures, but for the passes, and the summaries of suite->chains. */
void bench_summarise(struct bench_suite *suite);

#endif
