/* The origin of figures: the machine, the program and the time. Every output of measurements has
 * it, so that a figure can be compared with another one, and repeated. */
#ifndef OUTPUT_ORIGIN_H
#define OUTPUT_ORIGIN_H

#include "output/json.h"
#include "platform/clock.h"
#include "riffle.h"

/* The output of `git describe` for the checkout when the program was built; "unknown" without one.
 */
extern const char riffle_commit[];

struct origin {
    char model[96]; /* model of the processor; "unknown processor" */
    riffle_machine machine;
    char date[RF_UTC_TEXT]; /* time at which measuring began */
    int32_t threads;
};

/* CLI_OK, or an exit status with a sentence. */
int origin_take(struct origin *origin, int32_t threads);
/* "AMD EPYC, avx512, 2 threads" and "2026-11-22T08:40:11Z, riffle 0.1.0 (1a2b3c4d5e6f)" */
void origin_machine(const struct origin *origin, struct buffer *text);
void origin_program(const struct origin *origin, struct buffer *text);
/* The members "date", "version" and "commit" of an object. */
void origin_write(const struct origin *origin, struct json_writer *json);

/* ---- ceilings ---- */

/* Whether other load disturbed a ceiling: its median is more than a quarter below its best. */
int ceiling_moved(double usual, double best);
extern const char ceilings_moved_note[]; /* a sentence without a full stop */

/* Whether something is faster than its ceiling by more than the error of measurement. */
int is_over_ceiling(double percent);
/* Appends an explanation for `percent` of the read bandwidth, reached with `bytes` that are read
 * again and again: a sentence without a full stop. */
void over_ceiling_note(double percent, uint64_t bytes, struct buffer *note);

#endif
