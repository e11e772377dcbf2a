#include <stdio.h>

#include "base/median.h"
#include "cli/bench.h"
#include "platform/terminal.h"
#include "riffle_experimental.h"

enum { PASSES = 3 };

const int32_t bench_pass_rows[BENCH_PASS_SIZES] = {1, 2, 4, 8, 16};

int bench_passes(riffle_session *session, int32_t context, double seconds[BENCH_PASS_SIZES])
{
    for (int r = 0; r < BENCH_PASS_SIZES; r++) {
        double values[PASSES];
        for (int pass = 0; pass < PASSES; pass++) {
            if (rf_interrupts() > 0) return RIFFLE_ERR_CANCELLED;
            int code = riffle_measure_pass(session, bench_pass_rows[r], context, 1, &values[pass]);
            if (code < 0) return code;
        }
        seconds[r] = rf_median(values, PASSES);
    }
    return RIFFLE_OK;
}

void bench_write_plain(struct json_writer *json, const struct engine *engine,
                       const struct bench_plain *plain)
{
    engine_write(engine, json, plain->cpu, plain->threads, plain->read);
    jw_put(json, "plain { decode_tps %g prefill_tps %g percent_of_read %g", plain->decode_tps,
           plain->prefill_tps, plain->percent_of_read);
    if (plain->first_token_seconds >= 0)
        jw_put(json, "first_token_s %g", plain->first_token_seconds);
    jw_put(json, "pass_seconds {");
    for (int r = 0; r < BENCH_PASS_SIZES; r++) {
        char key[16];
        snprintf(key, sizeof key, "%d", bench_pass_rows[r]);
        jw_number(json, key, plain->pass_seconds[r]);
    }
    jw_put(json, "} }");
}
