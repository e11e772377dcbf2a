#include "cpu/tiers.h"

#include <stdatomic.h>
#include <stdio.h>

#include "jit/mxfp4.h"
#include "jit/panels.h"
#include "microkernels/amx/tier.h"
#include "platform/cpu.h"

struct tier {
    struct rf_kernels kernels;
    const struct rf_kernels *compiled;
    struct rf_mxfp4_kernels mxfp4;   /* of 256 bits */
    struct rf_panels_kernels panels; /* of 512 bits */
    char note[640];
    atomic_int state; /* 0: not made, 1: being made, 2: ready, 3: no kernels */
};

static struct tier tiers[RF_TIER_COUNT];

/* A kernel has nothing but its operands, so that each tier and each format has a function of its own. */
static void linear_mxfp4(const struct tier *tier, const struct rf_linear_args *args)
{
    if (args->n <= RF_MXFP4_MOST_ROWS)
        rf_mxfp4_linear(&tier->mxfp4, args);
    else
        tier->compiled->linear[RF_FORMAT_MXFP4](args);
}

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

/* On AMX, compiled kernels that use tiles take many rows. */
#define LINEAR(name, format)                                            \
    static void name##_avx512(const struct rf_linear_args *args)        \
    {                                                                   \
        rf_panels_linear(&tiers[RF_TIER_AVX512].panels, format, args);  \
    }                                                                   \
    static void name##_amx(const struct rf_linear_args *args)           \
    {                                                                   \
        if (args->n < RF_AMX_LEAST_ROWS)                                \
            rf_panels_linear(&tiers[RF_TIER_AMX].panels, format, args); \
        else                                                            \
            tiers[RF_TIER_AMX].compiled->linear[format](args);          \
    }
LINEAR(panels_mxfp4, RF_FORMAT_MXFP4)
LINEAR(panels_q4_0, RF_FORMAT_Q4_0)
LINEAR(panels_q4_1, RF_FORMAT_Q4_1)
LINEAR(panels_q4_k, RF_FORMAT_Q4_K)
LINEAR(panels_q6_k, RF_FORMAT_Q6_K)
LINEAR(panels_q8_0, RF_FORMAT_Q8_0)

static rf_linear_fn *const panels_avx512[RF_FORMAT_COUNT] = {
    [RF_FORMAT_MXFP4] = panels_mxfp4_avx512, [RF_FORMAT_Q4_0] = panels_q4_0_avx512,
    [RF_FORMAT_Q4_1] = panels_q4_1_avx512,   [RF_FORMAT_Q4_K] = panels_q4_k_avx512,
    [RF_FORMAT_Q6_K] = panels_q6_k_avx512,   [RF_FORMAT_Q8_0] = panels_q8_0_avx512,
};
static rf_linear_fn *const panels_amx[RF_FORMAT_COUNT] = {
    [RF_FORMAT_MXFP4] = panels_mxfp4_amx, [RF_FORMAT_Q4_0] = panels_q4_0_amx, [RF_FORMAT_Q4_1] = panels_q4_1_amx,
    [RF_FORMAT_Q4_K] = panels_q4_k_amx,   [RF_FORMAT_Q6_K] = panels_q6_k_amx, [RF_FORMAT_Q8_0] = panels_q8_0_amx,
};

/* What is generated for a tier: kernels of 512 bits, or MXFP4's of 256. */
static const struct generated {
    rf_linear_fn *const *panels;
    enum rf_mxfp4_form form;
    rf_linear_fn *linear_mxfp4;
} generated[RF_TIER_COUNT] = {
    [RF_TIER_AVX2] = {NULL, RF_MXFP4_AVX2, linear_mxfp4_avx2},
    [RF_TIER_AVXVNNI] = {NULL, RF_MXFP4_AVXVNNI, linear_mxfp4_avxvnni},
    [RF_TIER_AVXVNNIINT8] = {NULL, RF_MXFP4_AVXVNNIINT8, linear_mxfp4_avxvnniint8},
    [RF_TIER_AVX512] = {.panels = panels_avx512},
    [RF_TIER_AMX] = {.panels = panels_amx},
};

static int make(struct tier *tier, int number)
{
    tier->compiled = rf_kernels(number);
    if (!tier->compiled) return 0;
    tier->kernels = *tier->compiled;
    const struct generated *from = &generated[number];
    struct rf_error error;
    int code = 0;
    if (from->panels) {
        code = rf_panels_generate(&tier->panels, &error);
        for (int format = 0; format < RF_FORMAT_COUNT && !code; format++)
            if (from->panels[format]) tier->kernels.linear[format] = from->panels[format];
    } else if (from->linear_mxfp4) {
        int evex = from->form == RF_MXFP4_AVXVNNI && rf_cpu_needs_evex();
        code = rf_mxfp4_generate(&tier->mxfp4, evex ? RF_MXFP4_AVXVNNI_EVEX : from->form, &error);
        if (!code) tier->kernels.linear[RF_FORMAT_MXFP4] = from->linear_mxfp4;
    }
    if (code) snprintf(tier->note, sizeof tier->note, "%s; compiled kernels serve", error.text);
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
    if (!found || found->kernels.linear[format] == found->compiled->linear[format]) return 0;
    return tier == RF_TIER_AMX ? RF_AMX_LEAST_ROWS - 1 : generated[tier].panels ? SIZE_MAX : RF_MXFP4_MOST_ROWS;
}

const char *rf_cpu_kernels_note(int tier)
{
    const struct tier *found = made(tier);
    return found ? found->note : "";
}
