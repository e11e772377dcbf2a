/* Checks every kernel of every tier that this machine runs against the scalar reference.
 *
 *     kcheck [SEED]
 */
#define _GNU_SOURCE
#include "kcheck/kcheck.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "platform/cpu.h"

enum { PAGE = 4096, SHOWN = 20 };

static size_t pages_of(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

void *kcheck_guarded(size_t bytes)
{
    size_t pages = pages_of(bytes);
    char *base = mmap(NULL, pages + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(base, PAGE, PROT_NONE) || mprotect(base + PAGE + pages, PAGE, PROT_NONE)) {
        perror("kcheck: guard pages");
        exit(1);
    }
    memset(base + PAGE, 0xff, pages);
    return base + PAGE + pages - bytes;
}

void kcheck_release(void *memory, size_t bytes)
{
    munmap((char *)memory + bytes - pages_of(bytes) - PAGE, pages_of(bytes) + 2 * PAGE);
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

static void report(struct kcheck *check, const char *format, va_list arguments)
{
    if (check->failures++ >= SHOWN) return;
    fprintf(stderr, "%s: ", check->tier);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

void kcheck_near(struct kcheck *check, double got, double wanted, double tolerance, const char *format, ...)
{
    check->checks++;
    if (fabs(got - wanted) <= tolerance || (got == wanted && isinf(got))) return;
    va_list arguments;
    va_start(arguments, format);
    report(check, format, arguments);
    va_end(arguments);
    if (check->failures <= SHOWN) fprintf(stderr, "    got %.9g, wanted %.9g within %.3g\n", got, wanted, tolerance);
}

void kcheck_same(struct kcheck *check, const void *got, const void *wanted, size_t bytes, const char *format, ...)
{
    check->checks++;
    if (memcmp(got, wanted, bytes) == 0) return;
    va_list arguments;
    va_start(arguments, format);
    report(check, format, arguments);
    va_end(arguments);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    int failures = 0, checks = 0;
    for (int tier = 0; tier < RF_TIER_COUNT; tier++) {
        const char *name = rf_tier_name((enum rf_tier)tier);
        if (!rf_cpu_has_tier((enum rf_tier)tier) || !rf_kernels(tier)) {
            printf("%-12s not checked: %s\n", name,
                   rf_kernels(tier) ? "this machine lacks it" : "no kernels of its own");
            continue;
        }
        struct kcheck check = {
            .kernels = rf_kernels(tier), .ref = rf_kernels(RF_TIER_SCALAR), .tier = name, .random = seed};
        kcheck_linear(&check);
        kcheck_panels(&check);
        kcheck_attention(&check);
        kcheck_rows(&check);
        printf("%-12s %d checks, %d failed\n", name, check.checks, check.failures);
        failures += check.failures;
        checks += check.checks;
    }
    return failures || !checks;
}
