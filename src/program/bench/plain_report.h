/* The report of plain decoding: it reads the results and prints them. The verb bench calls it
 * while the model is still open. */
#ifndef BENCH_PLAIN_REPORT_H
#define BENCH_PLAIN_REPORT_H

#include "bench/results.h"

/* Text, or what --json or --csv ask for, on standard output; notes on standard error. */
void bench_plain_report(const struct bench_plain *bench, const struct cli_options *options);

#endif
