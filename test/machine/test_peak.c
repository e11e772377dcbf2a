/* The loops behind the compute ceilings: they leave nothing behind, and a loop has as many
 * operations as it says. */
#include "emulate/emulate.h"
#include "machine/peak.h"
#include "support/check.h"

/* Emulated instructions of so many loops; 0 where the processor has them. */
static uint64_t emulated(const struct rf_peak_loop *loop, uint64_t loops)
{
    uint64_t before = emulate_count();
    loop->run(loops);
    return emulate_count() - before;
}

static void check_tiles(enum rf_peak peak, double operations_of_one)
{
    struct rf_peak_loop loop;
    rf_peak_find(peak, &loop);
    double each = (double)(emulated(&loop, 3) - emulated(&loop, 1)) / 2;
    if (!rf_cpu_has_tier(RF_TIER_AMX)) CHECK(each * operations_of_one == loop.operations);
}

int main(void)
{
    CHECK(emulate_install() == 0 || !rf_cpu_has_tier(RF_TIER_AVX2));
    for (int peak = 0; peak < RF_PEAK_COUNT; peak++) {
        struct rf_peak_loop loop;
        CHECK(rf_peak_key((enum rf_peak)peak)[0] && rf_peak_name((enum rf_peak)peak)[0]);
        if (!rf_peak_find((enum rf_peak)peak, &loop)) continue;
        /* Whoever calls keeps what the compiler holds in registers: these must come out as they
         * went in. */
        double sum = 0;
        for (uint64_t loops = 1; loops <= 9; loops++) {
            loop.run(loops);
            sum += (double)loops / 2;
        }
        CHECK(sum == 22.5 && loop.operations > 0);
    }
    if (emulate_can_run(RF_TIER_AMX)) {
        check_tiles(RF_PEAK_TDPBUSD, 2.0 * 16 * 16 * 64);
        check_tiles(RF_PEAK_TDPBF16, 2.0 * 16 * 16 * 32);
    }
    return check_result();
}
