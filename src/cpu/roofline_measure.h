/* Measures one kernel against the machine's limits: memory read bandwidth, and the issue rate of an
 * instruction.
 *
 * The read bandwidth is that of the fastest of many patterns (cpu/read_search.h).
 *
 * Other load and clock changes move all of these within seconds. So every round of a kernel runs
 * between two measurements of the ceilings, its figures are ratios to their mean, and the result is
 * the median of the rounds. */
#ifndef RF_CPU_ROOFLINE_MEASURE_H
#define RF_CPU_ROOFLINE_MEASURE_H

#include "cpu/roofline.h"
#include "infer/backend.h"
#include "microkernels/kernels.h"
#include "microkernels/peak.h"

/* Sizes of attention: those of Qwen2.5-1.5B. */
enum {
    RF_ROOFLINE_CONTEXT = 16384, /* positions */
    RF_ROOFLINE_HEAD_DIM = 128,
    RF_ROOFLINE_GROUP = 6,          /* query heads that share a KV head */
    RF_ROOFLINE_MAX_QUERY_ROWS = 16 /* rows that attention takes in a call */
};

/* The ceilings: each enum rf_peak, then how fast memory and each cache are read. */
enum {
    RF_ROOFLINE_READ = RF_PEAK_COUNT,
    RF_ROOFLINE_L1,
    RF_ROOFLINE_L2,
    RF_ROOFLINE_L3,
    RF_ROOFLINE_CEILINGS
};

/* A kernel of the table. */
struct rf_roofline_kernel {
    const char *name; /* "linear_mxfp4_a8" */
    int is_attention;
    enum rf_format format;   /* of a linear layer's weights */
    enum rf_operand operand; /* the form of its rows */
    enum rf_kv_type kv;      /* what attention reads */
};

/* Ended by an entry without a name. */
extern const struct rf_roofline_kernel rf_roofline_kernels[];

struct rf_roofline;

/* Allocates `pool_bytes` of memory to stream from (0: rf_cpu_pool_bytes(1 GiB)) and fills it with
 * `threads` workers. */
int rf_roofline_new(struct rf_roofline **roofline, uint64_t pool_bytes, int threads,
                    const struct rf_allocator *allocator, struct rf_error *error);
void rf_roofline_free(struct rf_roofline *roofline);

/* Measures with `threads` workers from now on, at most as many as filled the pool, and first
 * measures the ceilings with them. */
int rf_roofline_use_threads(struct rf_roofline *roofline, int threads, struct rf_error *error);
/* Sets the ceilings to the medians of all their measurements with these threads, including those
 * beside kernels. */
void rf_roofline_settle(struct rf_roofline *roofline);
/* Of an enum rf_peak in operations, of the others in bytes. 0 where it is not measured. */
struct rf_ceiling rf_roofline_ceiling(const struct rf_roofline *roofline, int which);
/* How memory or a cache is read fastest, or why it is not measured. */
void rf_roofline_note(const struct rf_roofline *roofline, int which, char note[RF_CEILING_NOTE]);

struct rf_roofline_case {
    const struct rf_roofline_kernel *kernel;
    const struct rf_kernels *table; /* of a tier that the machine has */
    enum rf_peak peak;              /* the instruction that limits the kernel */
    size_t m, k, rows;              /* m and k of weights; attention has its own sizes */
    int in_cache;                   /* reuse a few weights instead of streaming from the pool */
};

/* The form of the case's rows: 16-bit ones have several. */
static inline enum rf_operand rf_roofline_operand(const struct rf_roofline_case *what)
{
    const struct rf_roofline_kernel *kernel = what->kernel;
    return kernel->operand == RF_OPERAND_A16 ? what->table->operand_a16[kernel->format]
                                             : kernel->operand;
}

/* Calls `stop` before each round; non-zero ends the call with RF_ERR_CANCELLED. */
int rf_roofline_measure(struct rf_roofline *roofline, const struct rf_roofline_case *what,
                        int rounds, int (*stop)(void *user), void *user,
                        struct rf_roofline_result *result, struct rf_error *error);

#endif
