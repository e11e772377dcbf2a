/* Times passes of 1 to 16 rows. The median of a few passes is taken, as one alone is disturbed
 * easily. */
#include "bench/passes.h"

#include "base/median.h"
#include "platform/terminal.h"

enum { PASSES = 3 }; /* timed passes of each size */

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
