/* The results of `riffle roofline`, and how they are shown: as tables (table.c) and as a
 * picture (picture.c). The verb collects them from the callbacks of rf_roofline. */
#ifndef ROOFLINE_RESULTS_H
#define ROOFLINE_RESULTS_H

#include "machine/roofline.h"
#include "output/buffer.h"
#include "output/origin.h"

struct roofline_results {
    struct origin origin;
    int chosen; /* --kernel chose the kernels; else the picture shows the most important ones */
    struct rf_ceiling *ceilings; /* the same ones for each number of threads */
    size_t n_ceilings;
    struct rf_roofline_row *rows; /* alternately from memory and in a cache */
    size_t n_rows;
};

/* A ceiling of 0 if it was not measured. */
const struct rf_ceiling *roofline_ceiling(const struct roofline_results *roofline, const char *key,
                                          int32_t threads);
/* The largest number of threads of any ceiling. */
int32_t roofline_threads(const struct roofline_results *roofline);

/* Whether the ceilings varied by more than a quarter: other load disturbed them. */
int roofline_was_disturbed(const struct roofline_results *roofline);
/* Appends warnings about the figures: sentences, each with a newline; none if all is well. */
void roofline_notes(const struct roofline_results *roofline, struct buffer *notes);

/* Tables on standard output: the ceilings, and the last row with its headings if they are due. */
void roofline_print_ceilings(const struct roofline_results *roofline);
void roofline_print_last(const struct roofline_results *roofline);

/* The roofline plot as SVG: operations per second over operations per byte, for the first tier and
 * shape and all threads. Legible at a width of 900 pixels. */
void roofline_draw(const struct roofline_results *roofline, struct buffer *svg);

#endif
