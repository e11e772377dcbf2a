/* The advice of `riffle doctor`: what slows this machine, and what to do about it. */
#ifndef REPORT_ADVICE_H
#define REPORT_ADVICE_H

#include <riffle.h>

#include "output/buffer.h"
#include "platform/health.h"

struct doctor_facts {
    riffle_machine machine;
    riffle_cores_info cores;
    struct rf_health health;
    int has_huge_pages;
    double read_bytes_per_second; /* all cores; 0: not measured */
    int n_models;                 /* complete ones on the disk */
    const char *largest;          /* the largest of them; NULL: none */
    uint64_t largest_bytes;
};

/* Appends a line for each fact that costs speed: the fact, a colon, and what to do. Nothing if none
 * is known. */
void doctor_advise(const struct doctor_facts *facts, struct buffer *lines);

#endif
