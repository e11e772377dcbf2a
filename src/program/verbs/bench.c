/* The verb bench: plain decoding at depths, a suite of prompts with --suite, or shapes with
 * --format and --preset. It measures, has the results reported, and frees them. */
#include "bench/plain.h"
#include "bench/plain_report.h"
#include "bench/suite.h"
#include "bench/suite_report.h"
#include "output/errors.h"
#include "shapes/shapes.h"
#include "verbs/verbs.h"

static int bench_at_depths(const struct cli_options *options)
{
    struct bench_plain results;
    int status = bench_plain_measure(&results, options);
    if (status == CLI_OK) bench_plain_report(&results, options);
    bench_plain_free(&results);
    return status;
}

static int bench_with_suite(const struct cli_options *options)
{
    static const struct bench_watch printing = {bench_suite_print_head, bench_suite_print_row};
    struct bench_suite results;
    int status = bench_suite_measure(&results, options, options->json ? NULL : &printing);
    if (status == CLI_OK) {
        bench_suite_report(&results, options);
        status = bench_suite_check(&results);
    }
    bench_suite_free(&results);
    return status;
}

static int bench_shapes(const struct cli_options *options)
{
    struct shapes shapes;
    int status = shapes_measure(&shapes, options);
    if (status == CLI_OK) shapes_report(&shapes);
    shapes_free(&shapes);
    return status;
}

int verb_bench(const struct cli_options *options)
{
    if (options->format || options->preset) return bench_shapes(options);
    return options->suite ? bench_with_suite(options) : bench_at_depths(options);
}
