#include "cli/bench_plain.h"

#include <stdio.h>

#include "base/median.h"
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
    engine_write_model(engine, json);
    jw_object(json, "machine");
    jw_string(json, "cpu", plain->cpu);
    jw_int(json, "threads", plain->threads);
    jw_number(json, "read_gbps", plain->read / 1e9);
    jw_end_object(json);
    jw_object(json, "plain");
    jw_number(json, "decode_tps", plain->decode_tps);
    jw_number(json, "prefill_tps", plain->prefill_tps);
    jw_number(json, "percent_of_read", plain->percent_of_read);
    if (plain->first_token_seconds >= 0)
        jw_number(json, "first_token_s", plain->first_token_seconds);
    jw_object(json, "pass_seconds");
    for (int r = 0; r < BENCH_PASS_SIZES; r++) {
        char key[16];
        snprintf(key, sizeof key, "%d", bench_pass_rows[r]);
        jw_number(json, key, plain->pass_seconds[r]);
    }
    jw_end_object(json);
    jw_end_object(json);
}
