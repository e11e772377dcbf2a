/* Generated kernels against the reference, whose bits they promise: every number of rows, panels that do not divide into
 * streams, operands that end where an unreadable page begins. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "check.h"
#include "cpu/tiers.h"
#include "emulate.h"
#include "jit/mxfp4.h"
#include "platform/cpu.h"
#include "platform/memory.h"
#include "platform/team.h"

enum { PAGE = 4096 };

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
    made.map = mmap(NULL, made.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made.map == MAP_FAILED || mprotect(made.map + made.map_bytes - PAGE, PAGE, PROT_NONE)) {
        perror("guard pages");
        exit(1);
    }
    made.data = made.map + made.map_bytes - PAGE - bytes;
    return made;
}

/* A generated form, or a tier's whole table. */
struct subject {
    const char *name;
    const struct rf_mxfp4_kernels *generated;
    const struct rf_kernels *table;
};

static void multiply(const struct subject *subject, const struct rf_linear_args *args)
{
    if (subject->generated)
        rf_mxfp4_linear(subject->generated, args);
    else
        subject->table->linear[RF_FORMAT_MXFP4](args);
}

/* Scales of all sizes, none, and one that makes results infinite. */
static uint8_t scale(void)
{
    uint32_t kind = next() % 40;
    return kind == 0 ? 0 : kind == 1 ? (uint8_t)(next() % 256) : (uint8_t)(110 + next() % 20);
}

static void check_shape(const struct subject *subject, size_t m, size_t n, size_t k)
{
    const struct rf_kernels *ref = rf_kernels(RF_TIER_SCALAR);
    size_t panel_bytes = rf_panel_bytes(RF_FORMAT_MXFP4, k), panels = (m + 15) / 16, ldy = m + 5;
    struct guarded w = guard(panels * panel_bytes), x = guard(ref->packed_bytes[RF_OPERAND_A8](n, k));
    for (size_t i = 0; i < panels * panel_bytes; i++) w.data[i] = (unsigned char)next();
    for (size_t p = 0; p < panels; p++)
        for (size_t i = 0; i < k / 2; i++) w.data[p * panel_bytes + k * 8 + i] = scale();
    float *row = malloc(k * sizeof *row), *bias = malloc(m * sizeof *bias);
    float *got = malloc(n * ldy * sizeof *got), *wanted = malloc(n * ldy * sizeof *wanted);
    for (size_t i = 0; i < n; i++) {
        /* Rows of extremes have the largest sums that there can be. */
        for (size_t j = 0; j < k; j++)
            row[j] = i % 3 == 2 ? (next() % 2 ? 127.0f : -127.0f) : (float)((int)(next() % 2001) - 1000) * 0.013f;
        if (i % 5 == 4)
            for (size_t j = 0; j < k; j++) row[j] = 127.0f;
        ref->pack[RF_OPERAND_A8](x.data, i, row, k);
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
        ref->linear[RF_FORMAT_MXFP4](&args);
        args.y = got;
        multiply(subject, &args);
        CHECK_MSG(memcmp(got, wanted, n * ldy * sizeof *got) == 0, "%s: m=%zu n=%zu k=%zu form %d differs",
                  subject->name, m, n, k, form);
    }
    free(row);
    free(bias);
    free(got);
    free(wanted);
    munmap(w.map, w.map_bytes);
    munmap(x.map, x.map_bytes);
}

static void check_subject(const struct subject *subject, int emulated)
{
    size_t most = subject->table ? 18 : RF_MXFP4_MOST_ROWS;
    for (size_t n = 1; n <= most; n++) {
        check_shape(subject, 37, n, 32);
        check_shape(subject, 16, n, 64);
        if (emulated) continue;
        for (size_t panels = 1; panels <= 15; panels += 2)
            check_shape(subject, panels * 16 - panels % 3, n, 32 * panels);
        check_shape(subject, 150, n, 544);
    }
}

/* A form of its own, whether or not a tier of this machine would take it. */
static void check_form(enum rf_mxfp4_form form, const char *name, int native, int emulated)
{
    struct rf_mxfp4_kernels kernels;
    struct rf_error error = {0};
    if (!native && !emulated) {
        printf("%-14s not checked: this machine lacks it, and it cannot be emulated here\n", name);
        return;
    }
    CHECK_MSG(rf_mxfp4_generate(&kernels, form, &error) == 0, "%s: %s", name, error.text);
    if (!kernels.code.memory) return;
    struct subject subject = {.name = name, .generated = &kernels};
    uint64_t before = emulate_count();
    check_subject(&subject, !native);
    printf("%-14s %s\n", name, native ? "natively" : "emulated");
    if (!native) CHECK(emulate_count() > before);
    rf_mxfp4_free(&kernels);
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
    for (int i = worker->index; i < 4; i += worker->count) race->found[i] = rf_cpu_kernels(race->tier);
}

static void check_tier(int tier)
{
    if (!rf_cpu_has_tier((enum rf_tier)tier) || !rf_kernels(tier)) return;
    struct rf_team *team = NULL;
    struct rf_error error;
    struct race race = {.tier = tier};
    CHECK_INT(rf_team_new(&team, 4, &rf_system_allocator, &error), 0);
    if (!team) return;
    rf_team_run(team, ask, &race);
    rf_team_free(team);
    const struct rf_kernels *table = rf_cpu_kernels(tier);
    for (int i = 0; i < 4; i++) CHECK(race.found[i] == table);
    CHECK_STR(rf_cpu_kernels_note(tier), "");
    CHECK((table->linear[RF_FORMAT_MXFP4] != rf_kernels(tier)->linear[RF_FORMAT_MXFP4]) == (tier != RF_TIER_SCALAR));
    CHECK((rf_cpu_generated_rows(tier, RF_FORMAT_MXFP4) > 0) == (tier != RF_TIER_SCALAR));
    CHECK_INT(rf_cpu_generated_rows(tier, RF_FORMAT_Q8_0), 0);
    CHECK(table->linear[RF_FORMAT_Q8_0] == rf_kernels(tier)->linear[RF_FORMAT_Q8_0]);
    struct subject subject = {.name = rf_tier_name((enum rf_tier)tier), .table = table};
    check_subject(&subject, 0);
}

int main(void)
{
    int emulates = emulate_install() == 0, has_avx512 = rf_cpu_has_tier(RF_TIER_AVX512);
    check_form(RF_MXFP4_AVX2, "avx2", rf_cpu_has_tier(RF_TIER_AVX2), 0);
    check_form(RF_MXFP4_AVXVNNI, "avxvnni", rf_cpu_has_tier(RF_TIER_AVXVNNI) && !rf_cpu_needs_evex(),
               emulates && emulate_can_run(RF_TIER_AVXVNNI));
    check_form(RF_MXFP4_AVXVNNI_EVEX, "avxvnni (EVEX)", has_avx512, 0);
    check_form(RF_MXFP4_AVXVNNIINT8, "avxvnniint8", rf_cpu_has_tier(RF_TIER_AVXVNNIINT8),
               emulates && emulate_can_run(RF_TIER_AVXVNNIINT8));
    check_form(RF_MXFP4_AVX512, "avx512", has_avx512, 0);
    for (int tier = 0; tier < RF_TIER_COUNT; tier++) check_tier(tier);
    CHECK(rf_cpu_kernels(-1) == NULL);
    CHECK(rf_cpu_kernels(RF_TIER_COUNT) == NULL);
    CHECK_STR(rf_cpu_kernels_note(-1), "");
    return check_result();
}
