/* Generated kernels against the reference, whose bits they promise: every number of rows, panels
 * that do not divide into streams, operands that end where an unreadable page begins. */
#include <stdatomic.h>
#include <stdlib.h>

#include "cpu/tiers.h"
#include "emulate/emulate.h"
#include "jit/panels.h"
#include "microkernels/amx/tier.h"
#include "platform/cpu.h"
#include "platform/memory.h"
#include "platform/team.h"
#include "support/check.h"
#include "support/pages.h"

static uint64_t state = 1;

static uint32_t next(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

/* `bytes`, a multiple of 64, that end where an unreadable page begins. */
struct guarded {
    unsigned char *map, *data;
    size_t map_bytes;
};

static struct guarded guard(size_t bytes)
{
    struct guarded made = {.map_bytes = (bytes + PAGE - 1) / PAGE * PAGE + PAGE};
    made.map = pages_new(made.map_bytes);
    pages_allow(made.map, made.map_bytes - PAGE, 1);
    made.data = made.map + made.map_bytes - PAGE - bytes;
    return made;
}

/* A generated form, or a tier's whole table. */
struct subject {
    const char *name;
    const struct rf_panels_kernels *generated;
    const struct rf_kernels *table;
};

static void multiply(const struct subject *subject, enum rf_format format,
                     const struct rf_linear_args *args)
{
    if (subject->generated)
        rf_panels_linear(subject->generated, format, args);
    else
        subject->table->linear[format](args);
}

/* A scale of MXFP4: all sizes, none, and one that makes results infinite. */
static uint8_t exponent(void)
{
    uint32_t kind = next() % 40;
    return kind == 0 ? 0 : kind == 1 ? (uint8_t)(next() % 256) : (uint8_t)(110 + next() % 20);
}

/* Any codes; scales of either sign, whose F16 parts, the last of a unit, are zero or between 2^-9
 * and 2^4. */
static void fill_panel(enum rf_format format, unsigned char *panel, size_t k)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    size_t codes = k / RF_BLOCK * layout->block_bytes, bytes = layout->scale_bytes;
    size_t halves = format == RF_FORMAT_Q4_K                                 ? 64
                    : format == RF_FORMAT_Q6_K || format == RF_FORMAT_IQ4_XS ? 32
                    : rf_has_f32_scale(format)                               ? 0
                                                                             : bytes;
    for (size_t i = 0; i < rf_panel_bytes(format, k); i++) panel[i] = (unsigned char)next();
    for (unsigned char *scales = panel + codes; scales < panel + codes + k / layout->unit * bytes;
         scales += bytes) {
        for (size_t i = 0; format == RF_FORMAT_MXFP4 && i < bytes; i++) scales[i] = exponent();
        for (size_t i = bytes - halves; format != RF_FORMAT_MXFP4 && i < bytes; i += 2) {
            uint32_t half = (next() & 0x83ff) | (6 + next() % 13) << 10;
            if (next() % 20 == 0) half = 0;
            scales[i] = (unsigned char)half;
            scales[i + 1] = (unsigned char)(half >> 8);
        }
        for (size_t r = 0; rf_has_f32_scale(format) && r < RF_PANEL_ROWS; r++) {
            float d = next() % 20 ? ((float)(next() % 2001) - 1000.0f) * 0.001f : 0.0f;
            memcpy(scales + bytes - 64 + r * sizeof d, &d, sizeof d);
        }
    }
}

static void check_shape(const struct subject *subject, enum rf_format format, size_t m, size_t n,
                        size_t k)
{
    const struct rf_kernels *ref = rf_kernels(RF_TIER_SCALAR),
                            *own = subject->table ? subject->table : ref;
    size_t panel_bytes = rf_panel_bytes(format, k), panels = (m + 15) / 16, ldy = m + 5;
    struct guarded w = guard(panels * panel_bytes),
                   x = guard(ref->packed_bytes[RF_OPERAND_A8](n, k)),
                   x_own = guard(own->packed_bytes[RF_OPERAND_A8](n, k));
    for (size_t p = 0; p < panels; p++) fill_panel(format, w.data + p * panel_bytes, k);
    float *row = malloc(k * sizeof *row), *bias = malloc(m * sizeof *bias);
    float *got = malloc(n * ldy * sizeof *got), *wanted = malloc(n * ldy * sizeof *wanted);
    for (size_t i = 0; i < n; i++) {
        /* Rows of extremes have the largest sums that there can be. */
        for (size_t j = 0; j < k; j++)
            row[j] = i % 3 == 2 ? (next() % 2 ? 127.0f : -127.0f)
                                : (float)((int)(next() % 2001) - 1000) * 0.013f;
        if (i % 5 == 4)
            for (size_t j = 0; j < k; j++) row[j] = 127.0f;
        ref->pack[RF_OPERAND_A8](&(struct rf_pack_args){x.data, i, k, row, 0, k, 0});
        own->pack[RF_OPERAND_A8](&(struct rf_pack_args){x_own.data, i, k, row, 0, k, 0});
    }
    for (size_t j = 0; j < m; j++) bias[j] = (float)(next() % 1000) * 0.01f;
    for (int form = 0; form < 3; form++) {
        for (size_t i = 0; i < n * ldy; i++) got[i] = wanted[i] = (float)(i % 7);
        struct rf_linear_args args = {.y = wanted,
                                      .ldy = ldy,
                                      .w = w.data,
                                      .ldw = panel_bytes,
                                      .x = x.data,
                                      .m = m,
                                      .n = n,
                                      .k = k,
                                      .bias = form ? bias : NULL,
                                      .accumulate = form == 2};
        ref->linear[format](&args);
        args.x = x_own.data;
        args.y = got;
        multiply(subject, format, &args);
        CHECK_MSG(memcmp(got, wanted, n * ldy * sizeof *got) == 0,
                  "%s, %s: m=%zu n=%zu k=%zu form %d differs", subject->name,
                  rf_panel_layout(format)->name, m, n, k, form);
    }
    free(row);
    free(bias);
    free(got);
    free(wanted);
    pages_free(w.map, w.map_bytes);
    pages_free(x.map, x.map_bytes);
    pages_free(x_own.map, x_own.map_bytes);
}

/* One unit and several, panels that do not divide into streams, and a last one of few rows. */
static void check_form_format(const struct subject *subject, enum rf_format format, int emulated)
{
    size_t unit = rf_panel_layout(format)->unit;
    for (size_t n = 1; n <= (emulated ? 2 * RF_PANELS_MOST_ROWS : 40); n++) {
        if (n > (IS_SANITIZED ? 6 : 18) && n % 7 != 5) continue;
        check_shape(subject, format, 37, n, unit);
        check_shape(subject, format, 16, n, 2 * unit);
        if (emulated) continue;
        for (size_t panels = 1; panels <= 15; panels += 2)
            check_shape(subject, format, panels * 16 - panels % 3, n,
                        unit * (unit > RF_BLOCK ? 1 + panels % 3 : panels));
        check_shape(subject, format, 150, n, unit > RF_BLOCK ? 4 * unit : 17 * unit);
    }
}

/* A form of its own, whether or not a tier of this machine would take it. */
static void check_form(enum rf_panels_form form, const char *name, int native, int emulated)
{
    struct rf_panels_kernels kernels;
    struct rf_error error = {0};
    CHECK_MSG(rf_panels_generate(&kernels, form, &error) == 0, "%s: %s", name, error.text);
    if (!kernels.code.memory) return;
    if (!native && !emulated) {
        printf("%-14s not called: this machine lacks it, and it cannot be emulated here\n", name);
        rf_panels_free(&kernels);
        return;
    }
    struct subject subject = {.name = name, .generated = &kernels};
    uint64_t before = emulate_count();
    for (int format = 0; format < RF_FORMAT_COUNT; format++)
        if (rf_panels_can(form, (enum rf_format)format))
            check_form_format(&subject, (enum rf_format)format, !native);
    printf("%-14s %s\n", name, native ? "natively" : "emulated");
    if (!native) CHECK(emulate_count() > before);
    rf_panels_free(&kernels);
}

/* Threads that come at the same time find one table. */
struct race {
    int tier;
    const struct rf_kernels *found[4];
};

static void ask(void *argument, struct rf_worker *worker)
{
    struct race *race = argument;
    rf_team_barrier(worker);
    for (int i = worker->index; i < 4; i += worker->count)
        race->found[i] = rf_cpu_kernels(race->tier);
}

/* The formats that a tier has generated kernels for, and up to how many rows. */
static size_t generated_rows(int tier, enum rf_format format)
{
    enum rf_panels_form form = tier == RF_TIER_AVX2 ? RF_PANELS_AVX2 : RF_PANELS_AVX512;
    if (tier == RF_TIER_SCALAR || !rf_panels_can(form, format)) return 0;
    return tier == RF_TIER_AVX512 ? SIZE_MAX : tier == RF_TIER_AMX ? RF_AMX_LEAST_A8 - 1 : 16;
}

static void check_tier(int tier)
{
    if (!rf_cpu_has_tier((enum rf_tier)tier) || !rf_kernels(tier)) return;
    struct rf_team *team = NULL;
    struct rf_error error;
    struct race race = {.tier = tier};
    CHECK_INT(rf_team_of(&team, NULL, 4, &rf_system_allocator, &error), 0);
    if (!team) return;
    rf_team_run(team, 4, ask, &race);
    rf_team_free(team);
    const struct rf_kernels *table = rf_cpu_kernels(tier);
    for (int i = 0; i < 4; i++) CHECK(race.found[i] == table);
    CHECK_STR(rf_cpu_kernels_note(tier), "");
    struct subject subject = {.name = rf_tier_name((enum rf_tier)tier), .table = table};
    for (int format = 0; format < RF_FORMAT_COUNT; format++) {
        size_t rows = generated_rows(tier, (enum rf_format)format);
        CHECK(rf_cpu_generated_rows(tier, (enum rf_format)format) == rows);
        CHECK((table->linear[format] != rf_kernels(tier)->linear[format]) == (rows > 0));
        /* Through the place where compiled kernels take over, if they do. */
        for (size_t n = 1; rows && n <= 2 * RF_PANELS_MOST_ROWS + 2; n++)
            check_shape(&subject, (enum rf_format)format, 37, n,
                        rf_panel_layout((enum rf_format)format)->unit);
    }
}

int main(void)
{
    /* Sanitizers see the generator, not its code, and a signal takes 10 us. */
    int emulates = !IS_SANITIZED && emulate_install() == 0,
        has_avx512 = rf_cpu_has_tier(RF_TIER_AVX512);
    check_form(RF_PANELS_AVX2, "avx2", rf_cpu_has_tier(RF_TIER_AVX2), 0);
    check_form(RF_PANELS_AVXVNNI, "avxvnni",
               rf_cpu_has_tier(RF_TIER_AVXVNNI) && !rf_cpu_needs_evex(),
               emulates && emulate_can_run(RF_TIER_AVXVNNI));
    check_form(RF_PANELS_AVXVNNI_EVEX, "avxvnni (EVEX)", has_avx512, 0);
    check_form(RF_PANELS_AVXVNNIINT8, "avxvnniint8", rf_cpu_has_tier(RF_TIER_AVXVNNIINT8),
               emulates && emulate_can_run(RF_TIER_AVXVNNIINT8));
    check_form(RF_PANELS_AVX512, "avx512", has_avx512, 0);
    for (int tier = 0; tier < RF_TIER_COUNT; tier++) check_tier(tier);
    CHECK(rf_cpu_kernels(-1) == NULL);
    CHECK(rf_cpu_kernels(RF_TIER_COUNT) == NULL);
    CHECK_STR(rf_cpu_kernels_note(-1), "");
    return check_result();
}
