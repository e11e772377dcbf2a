/* The report of a suite: it reads the results and prints them. The verb bench has rows printed
 * while the suite runs, and the summary at the end. */
#ifndef BENCH_SUITE_REPORT_H
#define BENCH_SUITE_REPORT_H

#include "bench/results.h"

/* Text while a suite is measured: before the first row, and the last row. */
void bench_suite_print_head(const struct bench_suite *suite);
void bench_suite_print_row(const struct bench_suite *suite);
/* Prints the end when all is measured: the summary, or everything with --json, on standard output;
 * notes on standard error. */
void bench_suite_report(const struct bench_suite *suite, const struct cli_options *options);

#endif
