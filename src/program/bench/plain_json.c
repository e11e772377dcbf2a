/* Writes the members that every document of `riffle bench` has. Scripts below bench/ and the tests
 * read them, so names and units are fixed. */
#include "bench/plain_json.h"

#include <stdio.h>

void bench_write_plain(struct json_writer *json, const struct engine *engine,
                       const struct origin *origin, const struct bench_reads *reads,
                       const struct buffer *notes, const double figures[FIGURES])
{
    origin_write(origin, json);
    engine_write_model(engine, json);
    jw_put(json, "machine { cpu %s model %s threads %d read_gbps %g read_pattern %s } notes [",
           origin->machine.cpu, origin->model, origin->threads, bench_reads_median(reads) / 1e9,
           reads->pattern);
    jw_lines(json, notes);
    jw_put(json, "] plain { decode_tps %g prefill_tps %g percent_of_read %g", figures[DECODE_TPS],
           figures[PREFILL_TPS], figures[PERCENT_OF_READ]);
    if (figures[FIRST_TOKEN] >= 0) jw_put(json, "first_token_s %g", figures[FIRST_TOKEN]);
    jw_put(json, "pass_seconds {");
    for (int r = 0; r < BENCH_PASS_SIZES; r++) {
        char key[16];
        snprintf(key, sizeof key, "%d", bench_pass_rows[r]);
        jw_number(json, key, figures[PASS + r]);
    }
    jw_put(json, "} }");
}
