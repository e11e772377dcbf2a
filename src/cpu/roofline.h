/* Kernels beside the machine's limits: how much of the memory's reading speed and of an
 * instruction's issue rate they reach.
 *
 * Neighbours and clocks change both within seconds. So every round of a kernel lies between two
 * measurements of the ceilings, a round's figure is a ratio to their mean, and the result is the
 * median of the rounds. */
#ifndef RF_CPU_ROOFLINE_H
#define RF_CPU_ROOFLINE_H

#include "base/alloc.h"
#include "base/error.h"
#include "microkernels/kernels.h"
#include "microkernels/peak.h"

enum {
    RF_ROOFLINE_CONTEXT =
        16384, /* positions, heads of a group and their width, for attention: Qwen2.5-1.5B's */
    RF_ROOFLINE_HEAD_DIM = 128,
    RF_ROOFLINE_GROUP = 6,
    RF_ROOFLINE_MAX_QUERY_ROWS = 16 /* rows that attention takes in a call */
};

/* A kernel of the table. */
struct rf_roofline_kernel {
    const char *name; /* "linear_mxfp4_a8" */
    int is_attention;
    enum rf_format format;   /* of a linear layer's weights */
    enum rf_operand operand; /* the form of its rows */
    int bf16_kv;             /* of attention: else F16 */
};

/* Ended by an entry without a name. */
extern const struct rf_roofline_kernel rf_roofline_kernels[];

struct rf_roofline;

/* `pool_bytes` of memory to stream from, in which nothing may be found in a cache when it comes
 * round again; 0: four times the last-level cache, between 1 and 2 GiB, at most a quarter of the
 * memory. Filled by `threads` workers. */
int rf_roofline_new(struct rf_roofline **roofline, uint64_t pool_bytes, int threads,
                    const struct rf_allocator *allocator, struct rf_error *error);
void rf_roofline_free(struct rf_roofline *roofline);
uint64_t rf_roofline_pool_bytes(const struct rf_roofline *roofline);

/* From now on `threads` workers measure, at most as many as filled the pool. Ceilings are then
 * measured first. */
int rf_roofline_use_threads(struct rf_roofline *roofline, int threads, struct rf_error *error);
/* Makes the ceilings the medians of all that was measured of them with these threads, also beside
 * kernels. */
void rf_roofline_settle(struct rf_roofline *roofline);
struct rf_ceiling {
    double usual, best; /* a second; 0 where the processor lacks the instruction */
};
/* Bytes of streaming reads. */
struct rf_ceiling rf_roofline_read_ceiling(const struct rf_roofline *roofline);
/* Operations. */
struct rf_ceiling rf_roofline_peak_ceiling(const struct rf_roofline *roofline, enum rf_peak peak);

struct rf_roofline_case {
    const struct rf_roofline_kernel *kernel;
    const struct rf_kernels *table; /* of a tier that the machine has */
    enum rf_peak peak;              /* what the kernel lives on */
    size_t m, k, rows;              /* m and k of weights; attention has sizes of its own */
    int in_cache;                   /* a few weights again and again instead of the pool */
};

struct rf_roofline_result {
    size_t m, k;                  /* what was run: in a cache m is less */
    double bytes_per_second;      /* weights and scales, or keys and values */
    double operations_per_second; /* two for each product and its sum */
    double operations_per_byte;
    double of_read, of_peak; /* ratios to the ceilings of the same moments */
    int compute_binds;       /* the compute roof is the lower one at this intensity */
};

/* `stop` is asked before each round; non-zero ends the call with RF_ERR_CANCELLED. */
int rf_roofline_measure(struct rf_roofline *roofline, const struct rf_roofline_case *what,
                        int rounds, int (*stop)(void *user), void *user,
                        struct rf_roofline_result *result, struct rf_error *error);

#endif
