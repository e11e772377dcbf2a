/* The plan of the cores, as `riffle cores` shows it. The verb fills the struct; the functions only
 * print it. */
#ifndef REPORT_CORES_TEXT_H
#define REPORT_CORES_TEXT_H

#include <stddef.h>

#include "riffle.h"

enum { CORE_KINDS = 3 };

/* The cores of one kind together. */
struct core_kind {
    const char *name;
    int cores, threads, workers;
    double decode_share, prompt_share;
};

struct cores {
    riffle_cores_info info;
    riffle_core *items; /* every hardware thread, in the order of the cores */
    size_t count;
    struct core_kind kinds[CORE_KINDS];
    int n_kinds; /* kinds that occur */
};

/* Text: the machine, its workers, and whether their shares are measured. */
void cores_print_summary(const struct cores *cores);
/* A picture with a cell for each worker and each idle core, by package and kind. */
void cores_print_picture(const struct cores *cores);
/* The threads that are left out, and why. */
void cores_print_left_out(const struct cores *cores);

#endif
