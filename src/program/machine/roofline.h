/* The roofline of this machine: its measured limits, and its kernels against them (the roofline
 * model: Williams, Waterman and Patterson, Communications of the ACM 52(4), 2009). Only the program
 * has it; `riffle roofline` calls it. The other headers of this folder are for the component itself
 * and for the CUDA module. */
#ifndef RF_MACHINE_ROOFLINE_H
#define RF_MACHINE_ROOFLINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct rf_roofline_shape {
    int64_t m, k; /* outputs and inputs of a linear layer; k is a multiple of 256 */
};

struct rf_roofline_request {
    const char *device;  /* "cpu", "cuda", "cuda:N" or "auto"; NULL: the processor */
    const char *tier;    /* the processor's tier, where `tiers` is NULL; NULL: the best */
    const char *tiers;   /* separated by commas; NULL: `tier` */
    const char *kernels; /* parts of names: "mxfp4,attention"; NULL: all kernels */
    const struct rf_roofline_shape *shapes;
    size_t n_shapes; /* 0: 8192 x 8192 */
    /* Rows of activations. Attention takes 16 at most and is not measured with more. */
    const int32_t *rows;
    size_t n_rows;   /* 0: 1, 2, 4, 8, 16, 128; a CUDA device 1, 4, 8, 16, 512 */
    int32_t threads; /* 0: one, then one for each core */
    int32_t rounds;  /* measurements of each kernel; 0: 11 */
    /* Memory to stream weights from; 0: four times the last-level cache, at least 1 GiB and at most
     * 2 GiB or a quarter of the memory. */
    uint64_t pool_bytes;
};

enum { RF_CEILING_NOTE = 128 };

/* A measured limit of this machine. Each is reported twice: before the kernels are measured, and
 * after them as the median of all its measurements. Strings live as long as the process. */
struct rf_ceiling {
    const char *key;   /* "read" (of memory), "l1", "l2", "l3", "fma_256", "vpdpbusd_512", ... */
    const char *name;  /* title: "vpdpbusd, 512 bits" */
    int32_t threads;   /* threads that reached it together */
    int is_bandwidth;  /* memory or a cache, in bytes; else operations: two for each product and
                          its sum */
    double per_second; /* median; 0: a cache that was not measured */
    double best;       /* highest measurement; far above the median when other load interferes */
    char note[RF_CEILING_NOTE]; /* the fastest way of reading memory or a cache, or why it was not
                                   measured; or "" */
};

/* A kernel's measured speed. Each round is compared with ceilings measured just before and after
 * it; percentages are medians over the rounds. Strings live as long as the process. */
struct rf_roofline_row {
    const char *kernel;      /* "attention_f16", or "linear_mxfp4_a8": MXFP4 weights, 8-bit rows */
    const char *tier;        /* "avx512" */
    const char *form;        /* "compiled" or "generated" */
    const char *where;       /* place of the weights: "memory", a pool larger than any cache; or
                                "cache" */
    const char *ceiling;     /* key of the compute ceiling that the kernel is compared with */
    const char *binds;       /* the lower limit: "memory" or "compute" */
    int32_t threads, rows;   /* rows of activations */
    int64_t m, k;            /* shape of the weights; for attention positions and head_dim */
    double bytes_per_second; /* weights and scales, or keys and values */
    double ops_per_second;
    double ops_per_byte;
    double percent_of_read;
    double percent_of_compute;
};

/* All are set; non-zero cancels. */
struct rf_roofline_callbacks {
    int (*ceiling)(void *user, const struct rf_ceiling *ceiling);
    int (*row)(void *user, const struct rf_roofline_row *row);
    int (*progress)(void *user, uint64_t done, uint64_t total); /* counts measurements */
    void *user;
};

/* Measures the ceilings, then the kernels. RF_ERR_ARGUMENT: an unknown device, tier or kernel, or a
 * shape or number out of range. RF_ERR_UNSUPPORTED: a tier or device that this machine lacks.
 * RF_ERR_CANCELLED: a callback cancelled. */
int rf_roofline(const struct rf_roofline_request *request,
                const struct rf_roofline_callbacks *callbacks, struct rf_error *error);

#endif
