/* The part of the JSON that both forms of `riffle bench` write. Both reports call it first, so
 * that the figures of plain decoding have the same members everywhere. */
#ifndef BENCH_PLAIN_JSON_H
#define BENCH_PLAIN_JSON_H

#include "bench/results.h"

/* The members "date", "version", "commit", "model", "machine", "notes" and "plain" of an object. */
void bench_write_plain(struct json_writer *json, const struct engine *engine,
                       const struct origin *origin, const struct bench_reads *reads,
                       const struct buffer *notes, const double figures[FIGURES]);

#endif
