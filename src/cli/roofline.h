/* What `riffle roofline` has measured, and how it is shown. */
#ifndef CLI_ROOFLINE_H
#define CLI_ROOFLINE_H

#include "cli/buffer.h"
#include "riffle_experimental.h"

struct roofline {
    riffle_ceiling *ceilings; /* of each number of threads the same ones */
    size_t n_ceilings;
    riffle_roofline_row *rows; /* those from memory and in a cache take turns */
    size_t n_rows;
};

/* 0 where that was not measured. */
double roofline_ceiling(const struct roofline *roofline, const char *key, int32_t threads);
/* Of a ceiling, for people. */
const char *roofline_ceiling_name(const struct roofline *roofline, const char *key);
/* The most threads of any ceiling. */
int32_t roofline_threads(const struct roofline *roofline);

/* Whether something else kept the machine busy: the ceilings moved by more than a quarter. */
int roofline_was_disturbed(const struct roofline *roofline);

/* Tables on standard output: the ceilings, and the last row with what belongs above it. */
void roofline_print_ceilings(const struct roofline *roofline);
void roofline_print_last(const struct roofline *roofline);

/* The picture, as SVG: operations a second over operations per byte, for the first tier and shape
 * and all threads. */
void roofline_draw(const struct roofline *roofline, struct buffer *svg);

#endif
