/* The read bandwidth and the notes about it. A measurement is added before and after each piece of
 * work, so that the mean around it is of the same seconds. */
#include "bench/ceiling.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/median.h"
#include "output/origin.h"

int bench_read(struct bench_reads *reads, const riffle_model *model, int32_t threads)
{
    riffle_read_speed speed;
    int code = riffle_measure_model_read(model, threads, &speed, sizeof speed);
    if (code < 0) return code;
    reads->values = cli_reallocate(reads->values, reads->count + 1, sizeof *reads->values);
    reads->values[reads->count++] = speed.bytes_per_second;
    snprintf(reads->pattern, sizeof reads->pattern, "%s", speed.pattern);
    return RIFFLE_OK;
}

double bench_reads_around(const struct bench_reads *reads)
{
    return (reads->values[reads->count - 2] + reads->values[reads->count - 1]) / 2;
}

double bench_reads_median(const struct bench_reads *reads)
{
    double *values = cli_allocate(reads->count, sizeof *values);
    for (size_t i = 0; i < reads->count; i++) values[i] = reads->values[i];
    double median = rf_median(values, reads->count);
    free(values);
    return median;
}

void bench_notes(const struct bench_reads *reads, double percent, uint64_t bytes,
                 struct buffer *notes)
{
    double best = 0;
    for (size_t i = 0; i < reads->count; i++)
        if (reads->values[i] > best) best = reads->values[i];
    if (ceiling_moved(bench_reads_median(reads), best))
        buffer_printf(notes, "%s\n", ceilings_moved_note);
    if (!is_over_ceiling(percent)) return;
    buffer_puts(notes, "decoding reaches ");
    over_ceiling_note(percent, bytes, notes);
    buffer_puts(notes, "\n");
}

void bench_reads_free(struct bench_reads *reads)
{
    free(reads->values);
    *reads = (struct bench_reads){0};
}
