/* The processor's side of the roofline: its ceilings (cpu_ceilings.c), its kernels beside them
 * (cpu_kernels.c), and the device made of both (cpu.c).
 *
 * Other load and clock changes move all speeds within seconds. So every round of a kernel runs
 * between two measurements of the ceilings, its figures are ratios to their mean, and the result is
 * the median of the rounds. */
#ifndef RF_MACHINE_CPU_BENCH_H
#define RF_MACHINE_CPU_BENCH_H

#include "cpu/read_speed.h"
#include "machine/device.h"
#include "machine/peak.h"

/* The ceilings: each enum rf_peak, then how fast memory and each cache are read. */
enum {
    CEILING_READ = RF_PEAK_COUNT,
    CEILING_L1,
    CEILING_L2,
    CEILING_L3,
    CEILINGS,
    CEILING_SAMPLES = 1024 /* latest measurements of a ceiling that are kept */
};

struct cpu_ceiling {
    double rates[CEILING_SAMPLES]; /* operations or bytes per second */
    size_t count;
    double usual, best;             /* median and maximum */
    struct rf_read_pattern pattern; /* the fastest, for memory and caches */
    size_t bytes;                   /* a cache: bytes that each worker reads again and again */
    char why_not[RF_CEILING_NOTE];  /* why a cache is not measured */
};

struct cpu_bench {
    const struct rf_allocator *allocator;
    const struct rf_roofline_request *asked;
    struct rf_reader reader; /* the pool, and the workers in use */
    int most_threads;        /* workers that filled the pool */
    struct cpu_ceiling ceilings[CEILINGS];
    struct rf_peak_loop loops[RF_PEAK_COUNT];
};

/* Measures with `threads` workers from now on, at most most_threads, and first measures the
 * ceilings with them. */
int cpu_ceilings_begin(struct cpu_bench *bench, int threads, struct rf_error *error);
/* Reads, or issues an instruction, for about `seconds`. Returns bytes or operations per second. */
double cpu_ceiling_measure(struct cpu_bench *bench, int which, double seconds);
/* Sets the ceilings to the medians of all their measurements with these threads, including those
 * beside kernels. */
void cpu_ceilings_settle(struct cpu_bench *bench);
/* Writes how memory or a cache is read fastest, or why it is not measured. */
void cpu_ceiling_note(const struct cpu_bench *bench, int which, char note[RF_CEILING_NOTE]);

/* rf_roofline_device.measure. */
int cpu_kernel_measure(void *bench, const struct rf_roofline_case *what, int (*stop)(void *user),
                       void *user, struct rf_roofline_result *result, struct rf_error *error);

#endif
