/* The read bandwidth beside which decoding is shown, measured again and again, as clocks and other
 * load change within seconds. Both forms of `riffle bench` measure it between their passes. */
#ifndef BENCH_CEILING_H
#define BENCH_CEILING_H

#include "output/buffer.h"
#include "riffle_experimental.h"

/* All measurements of the read bandwidth so far. All zero is empty. */
struct bench_reads {
    double *values; /* bytes per second; for free() */
    size_t count;
    char pattern[128]; /* the fastest way of reading in the last one */
};

/* Adds a measurement of the memory that the model computes from. 0 or a code of the library. */
int bench_read(struct bench_reads *reads, const riffle_model *model, int32_t threads);
/* The mean of the last two measurements, which enclose the work that was timed between them. */
double bench_reads_around(const struct bench_reads *reads);
double bench_reads_median(const struct bench_reads *reads);
/* Appends notes about the figures: sentences, each with a newline; none if all is well.
 * `percent`: of the read bandwidth, with `bytes` that are read again and again. */
void bench_notes(const struct bench_reads *reads, double percent, uint64_t bytes,
                 struct buffer *notes);
void bench_reads_free(struct bench_reads *reads);

#endif
