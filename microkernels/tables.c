/* The tables of all tiers: the reference first, then each tier over the ones below it. */
#include "microkernels/kernels.h"

#include <stdatomic.h>

#include "platform/cpu.h"

/* Fills a table with the kernels of the tiers below and then of the tier itself. */
static int fill_tables(struct rf_kernels *kernels, int tier)
{
    rf_kernels_init_ref(kernels);
    switch (tier) {
    case RF_TIER_SCALAR: return 1;
    case RF_TIER_AVX2: rf_kernels_init_avx2(kernels); return 1;
    case RF_TIER_AVXVNNI:
    case RF_TIER_AVXVNNIINT8: /* takes compiled ones from below; its own are generated */
        rf_kernels_init_avx2(kernels);
        if (rf_cpu_needs_evex())
            rf_kernels_init_avxvnni_evex(kernels);
        else
            rf_kernels_init_avxvnni(kernels);
        return 1;
    case RF_TIER_AVX512:
        rf_kernels_init_avx2(kernels);
        rf_kernels_init_avx512(kernels);
        return 1;
    case RF_TIER_AMX:
        rf_kernels_init_avx2(kernels);
        rf_kernels_init_avx512(kernels);
        rf_kernels_init_amx(kernels);
        return 1;
    default: return 0;
    }
}

const struct rf_kernels *rf_kernels(int tier)
{
    /* Each table is built once, by the first thread that asks for it; others wait. */
    static struct rf_kernels tables[RF_TIER_COUNT];
    static _Atomic int
        state[RF_TIER_COUNT]; /* 0: not built, 1: being built, 2: ready, 3: no kernels */
    if (tier < 0 || tier >= RF_TIER_COUNT) return NULL;
    int expected = 0;
    if (atomic_compare_exchange_strong(&state[tier], &expected, 1))
        atomic_store_explicit(&state[tier], fill_tables(&tables[tier], tier) ? 2 : 3,
                              memory_order_release);
    int now;
    while ((now = atomic_load_explicit(&state[tier], memory_order_acquire)) == 1) continue;
    return now == 2 ? &tables[tier] : NULL;
}

int rf_kernels_best_tier(void)
{
    int tier = RF_TIER_COUNT - 1;
    while (tier > RF_TIER_SCALAR && !(rf_cpu_has_tier((enum rf_tier)tier) && rf_kernels(tier)))
        tier--;
    return tier;
}
