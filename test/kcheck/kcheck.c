/* Checks every kernel of every tier against the scalar reference: natively where this machine has
 * the tier, else with its missing instructions emulated (emulate.h) or its sources compiled for
 * this machine (wide/immintrin.h), on fewer shapes, or, where that cannot be, not at all; each is
 * said.
 *
 *     kcheck [SEED] [--tier NAME]
 */
#define _GNU_SOURCE
#include "kcheck/kcheck.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/tiers.h"
#include "emulate/emulate.h"
#include "jit/panels.h"
#include "platform/cpu.h"
#include "support/pages.h"

enum { SHOWN = 20 };

void *kcheck_guarded(size_t bytes)
{
    size_t pages = pages_of(bytes);
    char *base = pages_new(pages + 2 * PAGE);
    if (pages) pages_allow(base + PAGE, pages, 1);
    memset(base + PAGE, 0xff, pages);
    return base + PAGE + pages - bytes;
}

void kcheck_release(void *memory, size_t bytes)
{
    pages_free((char *)memory + bytes - pages_of(bytes) - PAGE, pages_of(bytes) + 2 * PAGE);
}

uint32_t kcheck_random(struct kcheck *check)
{
    check->random = check->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(check->random >> 33);
}

float kcheck_normal(struct kcheck *check)
{
    double sum = 0.0;
    for (int i = 0; i < 4; i++) sum += (double)kcheck_random(check) / 0x1p31;
    return (float)((sum - 2.0) * 1.7320508);
}

size_t kcheck_between(struct kcheck *check, size_t low, size_t high)
{
    return low + kcheck_random(check) % (high - low + 1);
}

size_t kcheck_shapes(const struct kcheck *check, size_t n, size_t few)
{
    return check->emulated ? few : n;
}

static void report(struct kcheck *check, const char *format, va_list arguments)
{
    if (check->failures++ >= SHOWN) return;
    fprintf(stderr, "%s: ", check->name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

void kcheck_near(struct kcheck *check, double got, double wanted, double tolerance,
                 const char *format, ...)
{
    check->checks++;
    if (fabs(got - wanted) <= tolerance || (got == wanted && isinf(got))) return;
    va_list arguments;
    va_start(arguments, format);
    report(check, format, arguments);
    va_end(arguments);
    if (check->failures <= SHOWN)
        fprintf(stderr, "    got %.9g, wanted %.9g within %.3g\n", got, wanted, tolerance);
}

void kcheck_same(struct kcheck *check, const void *got, const void *wanted, size_t bytes,
                 const char *format, ...)
{
    check->checks++;
    if (memcmp(got, wanted, bytes) == 0) return;
    va_list arguments;
    va_start(arguments, format);
    report(check, format, arguments);
    va_end(arguments);
}

float *kcheck_results(size_t n, size_t m, int accumulate)
{
    float *y = kcheck_guarded(kcheck_y_bytes(n, m));
    for (size_t i = 0; accumulate && i < n; i++)
        for (size_t r = 0; r < m; r++) y[i * kcheck_ldy(m) + r] = (float)((i * m + r) % 7) - 3.0f;
    return y;
}

void kcheck_gaps(struct kcheck *check, const char *name, const float *y, size_t n, size_t m)
{
    uint8_t poison[5 * sizeof(float)];
    memset(poison, 0xff, sizeof poison);
    for (size_t i = 0; i + 1 < n; i++)
        kcheck_same(check, y + i * kcheck_ldy(m) + m, poison, sizeof poison,
                    "%s m=%zu n=%zu: something is written behind row %zu", name, m, n, i);
}

/* Prints what was called before a crash. */
static const char *volatile running_table, *volatile running_kernel;

void kcheck_called(struct kcheck *check, const char *name, kcheck_kernel *kernel)
{
    running_table = check->name;
    running_kernel = name;
    for (int i = 0; i < check->n_called; i++)
        if (check->called[i] == kernel) return;
    if (check->n_called == (int)(sizeof check->called / sizeof *check->called)) {
        fprintf(stderr, "kcheck: more kernels than there is room to remember\n");
        exit(1);
    }
    check->called[check->n_called++] = kernel;
}

/* Checks that every pointer in the table was called, also one added later. */
static void check_all_called(struct kcheck *check)
{
    size_t end = offsetof(struct rf_kernels, linear_rows);
    for (size_t at = 0; at < end; at += sizeof(kcheck_kernel *)) {
        kcheck_kernel *kernel;
        memcpy(&kernel, (const char *)check->kernels + at, sizeof kernel);
        int called = kernel == NULL;
        for (int i = 0; i < check->n_called; i++) called |= check->called[i] == kernel;
        kcheck_near(check, called, 1, 0, "no check calls the kernel at byte %zu of the table", at);
    }
}

static void say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0) _exit(1);
}

static void on_crash(int number)
{
    say("kcheck: ");
    say(running_table ? running_table : "no table");
    say(": ");
    say(running_kernel ? running_kernel : "no kernel");
    say(number == SIGILL   ? " met an instruction that is neither this machine's nor emulated\n"
        : number == SIGFPE ? " divided by zero\n"
                           : " touched memory that is not its own\n");
    signal(number, SIG_DFL);
}

/* Keeps handlers that are installed already: a sanitizer's messages say more. */
static void report_crashes(void)
{
    const int signals[] = {SIGSEGV, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        void (*before)(int) = signal(signals[i], on_crash);
        if (before != SIG_DFL && before != SIG_ERR) signal(signals[i], before);
    }
}

struct options {
    uint64_t seed;
    int tier; /* or -1: all */
    int can_emulate;
};

struct totals {
    int checks, failures;
};

static struct kcheck new_check(const char *name, const struct rf_kernels *kernels, int native,
                               const struct options *options)
{
    return (struct kcheck){.kernels = kernels,
                           .ref = rf_kernels(RF_TIER_SCALAR),
                           .name = name,
                           .emulated = !native,
                           .vector_bytes = kcheck_vector_bytes(),
                           .random = options->seed,
                           .emulated_before = emulate_count()};
}

static void conclude(const struct kcheck *check, struct totals *totals)
{
    printf("%-26s %d checks, %d failed", check->name, check->checks, check->failures);
    if (check->emulated && !check->is_translated)
        printf(" (emulated: %llu instructions)",
               (unsigned long long)(emulate_count() - check->emulated_before));
    printf("\n");
    fflush(stdout);
    totals->checks += check->checks;
    totals->failures += check->failures;
}

/* Checks all kernels of a table that this machine runs, natively or emulated. */
static void check_table(struct kcheck *check, struct totals *totals)
{
    kcheck_linear(check);
    kcheck_panels(check);
    kcheck_attention(check);
    kcheck_rows(check);
    kcheck_cast(check);
    check_all_called(check);
    kcheck_near(check, (double)(check->kernels->linear_rows % RF_PANEL_ROWS), 0, 0,
                "linear_rows is %zu", check->kernels->linear_rows);
    conclude(check, totals);
}

/* 1 if the tier runs natively or emulated; otherwise prints why not. */
static int runs(const char *name, int native, enum rf_tier tier, const struct options *options)
{
    if (native || (options->can_emulate && emulate_can_run(tier))) return 1;
    printf("%-26s not checked: this machine lacks it, and it cannot be emulated here\n", name);
    return 0;
}

static void check_tier(enum rf_tier tier, const struct options *options, struct totals *totals)
{
    const char *name = rf_tier_name(tier);
    int native = rf_cpu_has_tier(tier);
    /* Even filling the table takes instructions of the tier. */
    if (!runs(name, native, tier, options)) return;
    const struct rf_kernels *kernels = rf_kernels((int)tier);
    if (!kernels) {
        printf("%-26s not checked: no kernels of its own\n", name);
        return;
    }
    if (!native && tier == RF_TIER_AVXVNNIINT8 &&
        memcmp(kernels, rf_kernels(RF_TIER_AVXVNNI), sizeof *kernels) == 0) {
        printf("%-26s the compiled kernels are those of avxvnni\n", name);
        return;
    }
    struct kcheck check = new_check(name, kernels, native, options);
    check.generated = rf_cpu_kernels((int)tier);
    check.has_tiles = check.has_sixteens = tier == RF_TIER_AMX;
    check.has_split_rows = tier >= RF_TIER_AVX512;
    check_table(&check, totals);
}

/* avxvnni has its kernels in two encodings; the machine's table has one. */
static void check_other_encoding(const struct options *options, struct totals *totals)
{
    int vex = rf_cpu_needs_evex();
    const char *name = vex ? "avxvnni (VEX)" : "avxvnni (EVEX)";
    struct rf_kernels kernels;
    if (!runs(name, !vex && rf_cpu_has_tier(RF_TIER_AVX512), vex ? RF_TIER_AVXVNNI : RF_TIER_AVX512,
              options))
        return;
    rf_kernels_init_ref(&kernels);
    rf_kernels_init_avx2(&kernels);
    if (vex)
        rf_kernels_init_avxvnni(&kernels);
    else
        rf_kernels_init_avxvnni_evex(&kernels);
    struct kcheck check = new_check(name, &kernels, !vex, options);
    check_table(&check, totals);
}

#ifdef RF_TEST_WIDE
void rf_wide_init(struct rf_kernels *kernels);
void rf_wide_init_amx(struct rf_kernels *kernels);

/* The kernels of avx512 or amx, compiled for processors with AVX2 (wide/immintrin.h). */
static void check_sources(enum rf_tier tier, const struct options *options, struct totals *totals)
{
    struct rf_kernels kernels;
    if (!rf_cpu_has_tier(RF_TIER_AVX2)) return;
    rf_kernels_init_ref(&kernels);
    rf_kernels_init_avx2(&kernels);
    rf_wide_init(&kernels);
    if (tier == RF_TIER_AMX) rf_wide_init_amx(&kernels);
    struct kcheck check =
        new_check(tier == RF_TIER_AMX ? "amx (by AVX2)" : "avx512 (by AVX2)", &kernels, 0, options);
    check.is_translated = check.has_split_rows = 1;
    check.has_sixteens = tier == RF_TIER_AMX;
    check_table(&check, totals);
}
#endif

static void check_generated(int form, const struct options *options, struct totals *totals)
{
    int native = kcheck_generated_is_native(form);
    enum rf_tier tier = (enum rf_tier)kcheck_generated_tier(form);
    /* The emulator knows VEX alone. */
    if (form == RF_PANELS_AVXVNNI_EVEX && !native) tier = RF_TIER_AVX512;
    if (!runs(kcheck_generated_name(form), native, tier, options)) return;
    struct kcheck check = new_check(kcheck_generated_name(form), NULL, native, options);
    kcheck_generated(&check, form);
    conclude(&check, totals);
}

static int usage(void)
{
    fprintf(stderr, "usage: kcheck [SEED] [--tier NAME]\n");
    return 2;
}

int main(int argc, char **argv)
{
    struct options options = {.seed = 1, .tier = -1};
    for (int i = 1; i < argc; i++) {
        char *end;
        if (strcmp(argv[i], "--tier") == 0) {
            options.tier = i + 1 < argc ? rf_tier_by_name(argv[++i]) : -1;
            if (options.tier < 0) return usage();
        } else {
            options.seed = strtoull(argv[i], &end, 0);
            if (end == argv[i] || *end) return usage();
        }
    }
    report_crashes();
    /* Sanitizers do not instrument kernels (CMakeLists.txt), and a signal takes 10 us. */
    options.can_emulate = !IS_SANITIZED && emulate_install() == 0;
    struct totals totals = {0, 0};
    for (int tier = 0; tier < RF_TIER_COUNT; tier++) {
        if (options.tier >= 0 && options.tier != tier) continue;
        check_tier((enum rf_tier)tier, &options, &totals);
        if (tier == RF_TIER_AVXVNNI) check_other_encoding(&options, &totals);
#ifdef RF_TEST_WIDE
        if (tier >= RF_TIER_AVX512) check_sources((enum rf_tier)tier, &options, &totals);
#endif
        for (int form = 0; kcheck_generated_tier(form) >= 0; form++)
            if (kcheck_generated_tier(form) == tier) check_generated(form, &options, &totals);
    }
    if (!totals.checks) fprintf(stderr, "kcheck: nothing was checked\n");
    return totals.failures || !totals.checks;
}
