/* Makes each tier's table of kernels when it is first asked for. Invariant: a table never changes
 * once it is ready. backend.c, tests and benches take tables from here. */
#include "cpu/tiers.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "jit/panels.h"
#include "microkernels/amx/tier.h"
#include "platform/cpu.h"

struct tier {
    struct rf_kernels kernels;
    const struct rf_kernels *compiled;
    struct rf_panels_kernels generated;
    char note[640];
    atomic_int state; /* 0: not made, 1: being made, 2: ready, 3: no kernels */
};

static struct tier tiers[RF_TIER_COUNT];

/* More rows are worth decoding many blocks at a time with 256 bits (docs/design/kernels.md). */
enum { MOST_ROWS_256 = 16 };

/* Kernels that are generated for a tier, and the most rows that they get: on AMX as many as are too
 * few for tiles. */
static const struct plan {
    enum rf_panels_form form;
    size_t most_rows; /* 0: nothing is generated */
} plans[RF_TIER_COUNT] = {
    [RF_TIER_AVX2] = {RF_PANELS_AVX2, MOST_ROWS_256},
    [RF_TIER_AVXVNNI] = {RF_PANELS_AVXVNNI, MOST_ROWS_256}, /* or its EVEX twin */
    [RF_TIER_AVXVNNIINT8] = {RF_PANELS_AVXVNNIINT8, MOST_ROWS_256},
    [RF_TIER_AVX512] = {RF_PANELS_AVX512, SIZE_MAX},
    [RF_TIER_AMX] = {RF_PANELS_AVX512, RF_AMX_LEAST_A8 - 1},
};

static void tier_linear(enum rf_tier tier, enum rf_format format, const struct rf_linear_args *args)
{
    if (args->n <= plans[tier].most_rows)
        rf_panels_linear(&tiers[tier].generated, format, args);
    else
        tiers[tier].compiled->linear[format](args);
}

/* Formats with a generated kernel, for each tier. */
#define EACH_OF_SMALL_CODES(X, tier) \
    X(tier, MXFP4)                   \
    X(tier, Q4_0)                    \
    X(tier, Q4_1)                    \
    X(tier, Q4_K)                    \
    X(tier, Q6_K)
#define EACH(X, tier)            \
    EACH_OF_SMALL_CODES(X, tier) \
    X(tier, Q8_0)                \
    X(tier, IQ4_NL)              \
    X(tier, IQ4_XS)              \
    X(tier, IQ2)                 \
    X(tier, IQ3_XXS)             \
    X(tier, IQ3_S)
#define EACH_GENERATED(X)        \
    EACH_OF_SMALL_CODES(X, AVX2) \
    EACH(X, AVXVNNI)             \
    EACH(X, AVXVNNIINT8)         \
    EACH(X, AVX512)              \
    EACH(X, AMX)

/* A kernel gets only its operands, so each tier and format needs a function of its own. */
#define LINEAR(tier, format)                                                \
    static void linear_##tier##_##format(const struct rf_linear_args *args) \
    {                                                                       \
        tier_linear(RF_TIER_##tier, RF_FORMAT_##format, args);              \
    }
EACH_GENERATED(LINEAR)

static rf_linear_fn *const linears[RF_TIER_COUNT][RF_FORMAT_COUNT] = {
#define ENTRY(tier, format) [RF_TIER_##tier][RF_FORMAT_##format] = linear_##tier##_##format,
    EACH_GENERATED(ENTRY)};

static int make_tier(struct tier *tier, int number)
{
    tier->compiled = rf_kernels(number);
    if (!tier->compiled) return 0;
    tier->kernels = *tier->compiled;
    if (!plans[number].most_rows) return 1;
    enum rf_panels_form form = plans[number].form;
    if (form == RF_PANELS_AVXVNNI && rf_cpu_needs_evex()) form = RF_PANELS_AVXVNNI_EVEX;
    struct rf_error error;
    if (rf_panels_generate(&tier->generated, form, &error)) {
        snprintf(tier->note, sizeof tier->note, "%s; compiled kernels serve", error.text);
        return 1;
    }
    if (rf_executable_profile(&tier->generated.code, &error))
        snprintf(tier->note, sizeof tier->note, "%s", error.text);
    for (int format = 0; format < RF_FORMAT_COUNT; format++)
        if (linears[number][format]) tier->kernels.linear[format] = linears[number][format];
    return 1;
}

/* Made once; threads that come at the same time wait for the first. */
static struct tier *tier_made(int number)
{
    if (number < 0 || number >= RF_TIER_COUNT) return NULL;
    struct tier *tier = &tiers[number];
    int expected = 0, now;
    if (atomic_compare_exchange_strong(&tier->state, &expected, 1))
        atomic_store_explicit(&tier->state, make_tier(tier, number) ? 2 : 3, memory_order_release);
    while ((now = atomic_load_explicit(&tier->state, memory_order_acquire)) == 1) continue;
    return now == 2 ? tier : NULL;
}

const struct rf_kernels *rf_cpu_kernels(int tier)
{
    const struct tier *found = tier_made(tier);
    return found ? &found->kernels : NULL;
}

size_t rf_cpu_generated_rows(int tier, enum rf_format format)
{
    const struct tier *found = tier_made(tier);
    if (!found || found->kernels.linear[format] == found->compiled->linear[format]) return 0;
    return plans[tier].most_rows;
}

const char *rf_cpu_kernels_note(int tier)
{
    const struct tier *found = tier_made(tier);
    return found ? found->note : "";
}

int rf_cpu_find_tier(const char *source, const char *name, struct rf_error *error)
{
    int tier = rf_tier_by_name(name);
    if (tier < 0)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "%s: there is no cpu tier \"%s\" (known: scalar, avx2, avxvnni, "
                       "avxvnniint8, avx512, amx)",
                       source, name);
    const char *best = rf_tier_name((enum rf_tier)rf_kernels_best_tier());
    if (!rf_cpu_has_tier((enum rf_tier)tier))
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "%s: this machine lacks the cpu tier %s; its best is %s", source, name,
                       best);
    if (!rf_kernels(tier))
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "%s: this version has no kernels for the cpu tier %s; the best is %s",
                       source, name, best);
    return tier;
}
