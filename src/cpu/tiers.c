#include "cpu/tiers.h"

#include <stdatomic.h>
#include <stdio.h>

#include "jit/mxfp4.h"
#include "platform/cpu.h"

struct tier {
    struct rf_kernels kernels;
    const struct rf_kernels *compiled;
    struct rf_mxfp4_kernels mxfp4;
    size_t most_rows; /* that generated kernels take; compiled ones take more */
    char note[640];
    atomic_int state; /* 0: not made, 1: being made, 2: ready, 3: no kernels */
};

static struct tier tiers[RF_TIER_COUNT];

static void linear_mxfp4(const struct tier *tier, const struct rf_linear_args *args)
{
    if (args->n <= tier->most_rows)
        rf_mxfp4_linear(&tier->mxfp4, args);
    else
        tier->compiled->linear[RF_FORMAT_MXFP4](args);
}

/* A kernel has nothing but its operands, so that each tier has a function of its own. */
static void linear_mxfp4_avx2(const struct rf_linear_args *args)
{
    linear_mxfp4(&tiers[RF_TIER_AVX2], args);
}

static void linear_mxfp4_avxvnni(const struct rf_linear_args *args)
{
    linear_mxfp4(&tiers[RF_TIER_AVXVNNI], args);
}

static void linear_mxfp4_avxvnniint8(const struct rf_linear_args *args)
{
    linear_mxfp4(&tiers[RF_TIER_AVXVNNIINT8], args);
}

static void linear_mxfp4_avx512(const struct rf_linear_args *args)
{
    linear_mxfp4(&tiers[RF_TIER_AVX512], args);
}

static void linear_mxfp4_amx(const struct rf_linear_args *args)
{
    linear_mxfp4(&tiers[RF_TIER_AMX], args);
}

/* From twelve rows on, AMX's compiled kernels use tiles. */
enum { LESS_THAN_TILES = 11 };

static const struct generated {
    enum rf_mxfp4_form form;
    size_t most_rows;
    rf_linear_fn *linear_mxfp4;
} generated[RF_TIER_COUNT] = {
    [RF_TIER_AVX2] = {RF_MXFP4_AVX2, RF_MXFP4_MOST_ROWS, linear_mxfp4_avx2},
    [RF_TIER_AVXVNNI] = {RF_MXFP4_AVXVNNI, RF_MXFP4_MOST_ROWS, linear_mxfp4_avxvnni},
    [RF_TIER_AVXVNNIINT8] = {RF_MXFP4_AVXVNNIINT8, RF_MXFP4_MOST_ROWS, linear_mxfp4_avxvnniint8},
    [RF_TIER_AVX512] = {RF_MXFP4_AVX512, RF_MXFP4_MOST_ROWS, linear_mxfp4_avx512},
    [RF_TIER_AMX] = {RF_MXFP4_AVX512, LESS_THAN_TILES, linear_mxfp4_amx},
};

static int make(struct tier *tier, int number)
{
    tier->compiled = rf_kernels(number);
    if (!tier->compiled) return 0;
    tier->kernels = *tier->compiled;
    const struct generated *from = &generated[number];
    if (!from->linear_mxfp4) return 1;
    enum rf_mxfp4_form form = from->form;
    if (form == RF_MXFP4_AVXVNNI && rf_cpu_needs_evex()) form = RF_MXFP4_AVXVNNI_EVEX;
    struct rf_error error;
    if (rf_mxfp4_generate(&tier->mxfp4, form, &error)) {
        snprintf(tier->note, sizeof tier->note, "%s; compiled kernels serve", error.text);
        return 1;
    }
    tier->most_rows = from->most_rows;
    tier->kernels.linear[RF_FORMAT_MXFP4] = from->linear_mxfp4;
    return 1;
}

/* Made once; threads that come at the same time wait for the first. */
static struct tier *made(int number)
{
    if (number < 0 || number >= RF_TIER_COUNT) return NULL;
    struct tier *tier = &tiers[number];
    int expected = 0, now;
    if (atomic_compare_exchange_strong(&tier->state, &expected, 1))
        atomic_store_explicit(&tier->state, make(tier, number) ? 2 : 3, memory_order_release);
    while ((now = atomic_load_explicit(&tier->state, memory_order_acquire)) == 1) continue;
    return now == 2 ? tier : NULL;
}

const struct rf_kernels *rf_cpu_kernels(int tier)
{
    const struct tier *found = made(tier);
    return found ? &found->kernels : NULL;
}

size_t rf_cpu_generated_rows(int tier, enum rf_format format)
{
    const struct tier *found = made(tier);
    return found && format == RF_FORMAT_MXFP4 ? found->most_rows : 0;
}

const char *rf_cpu_kernels_note(int tier)
{
    const struct tier *found = made(tier);
    return found ? found->note : "";
}
