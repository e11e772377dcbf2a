#ifndef CLI_BENCH_SUITE_H
#define CLI_BENCH_SUITE_H

#include "cli/options.h"

/* `riffle bench --suite`: an exit status. */
int bench_suite(const struct cli_options *options);

#endif
