/* What `riffle roofline` has measured, and how it is shown. */
#ifndef CLI_ROOFLINE_H
#define CLI_ROOFLINE_H

#include "output/buffer.h"
#include "output/origin.h"
#include "riffle_experimental.h"

struct roofline_results {
    struct origin origin;
    int chosen; /* by --kernel; else the picture shows only the kernels that matter most */
    riffle_ceiling *ceilings; /* the same ones for each number of threads */
    size_t n_ceilings;
    riffle_roofline_row *rows; /* alternately from memory and in a cache */
    size_t n_rows;
};

/* If it is not measured, one of 0. */
const riffle_ceiling *roofline_ceiling(const struct roofline_results *roofline, const char *key,
                                       int32_t threads);
/* The largest number of threads of any ceiling. */
int32_t roofline_threads(const struct roofline_results *roofline);

/* Whether the ceilings varied by more than a quarter: other load disturbed them. */
int roofline_was_disturbed(const struct roofline_results *roofline);
/* What a reader of the figures must know: sentences, each with a newline; "" if all is well. */
void roofline_notes(const struct roofline_results *roofline, struct buffer *notes);

/* Tables on standard output: the ceilings, and the last row with its headings if they are due. */
void roofline_print_ceilings(const struct roofline_results *roofline);
void roofline_print_last(const struct roofline_results *roofline);

/* The roofline plot as SVG: operations per second over operations per byte, for the first tier and
 * shape and all threads. Legible at a width of 900 pixels. */
void roofline_draw(const struct roofline_results *roofline, struct buffer *svg);

#endif
