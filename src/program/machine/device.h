/* A device of the roofline, and the list of its measurements. roofline.c walks through the list on
 * the processor (cpu.c) or on a device of the CUDA module (cuda.h). */
#ifndef RF_MACHINE_DEVICE_H
#define RF_MACHINE_DEVICE_H

#include "base/alloc.h"
#include "infer/backend.h"
#include "machine/roofline.h"
#include "microkernels/kernels.h"

enum { RF_ROOFLINE_ATTENTION_ROWS = 16 /* most rows that attention is measured with */ };

struct rf_roofline_kernel {
    const char *name; /* "linear_mxfp4_a8" */
    int is_attention;
    enum rf_format format;   /* a linear layer's weights */
    enum rf_operand operand; /* the form of its rows */
    enum rf_kv_type kv;      /* keys and values that attention reads */
};

/* One measurement: a kernel with a size. */
struct rf_roofline_case {
    const struct rf_roofline_kernel *kernel;
    int tier;          /* enum rf_tier, of the processor */
    int is_generated;  /* 1: generated at run time (jit/); 0: compiled */
    size_t m, k, rows; /* m and k: sizes of weights; attention has its own sizes */
    int in_cache;      /* reuse a few weights instead of streaming from a pool */
};

struct rf_roofline_result {
    const char *ceiling;          /* key of the compute ceiling */
    size_t m, k;                  /* sizes that were run: in a cache m is less */
    double bytes_per_second;      /* weights and scales, or keys and values */
    double operations_per_second; /* two for each product and its sum */
    double operations_per_byte;
    double of_read, of_peak; /* ratios to the ceilings measured at the same time */
    int compute_binds;       /* the compute ceiling is the lower one at this intensity */
};

/* A kind of device. `bench` is what `open` made. */
struct rf_roofline_device {
    const char *tier; /* a name for results, as the device has no tiers; NULL: the processor */
    const int32_t *default_rows;
    size_t n_default_rows;

    /* The request has its defaults filled in but for pool_bytes; threads is the most that `begin`
     * is called with. Both must outlive the bench. */
    int (*open)(void **bench, const struct rf_backend_options *options,
                const struct rf_roofline_request *request, const struct rf_allocator *allocator,
                struct rf_error *error);
    void (*close)(void *bench);
    /* Measures the ceilings with that many threads, if the last call was not for as many. `measure`
     * then uses these threads. */
    int (*begin)(void *bench, int32_t threads, struct rf_error *error);
    /* Calls `report` with each ceiling, bandwidths first: medians of all measurements since begin
     * measured them. Returns the first result other than 0. */
    int (*ceilings)(void *bench, int (*report)(void *user, const struct rf_ceiling *ceiling),
                    void *user);
    /* Calls `stop` at least once before it measures; non-zero ends the call with
     * RF_ERR_CANCELLED. */
    int (*measure)(void *bench, const struct rf_roofline_case *what, int (*stop)(void *user),
                   void *user, struct rf_roofline_result *result, struct rf_error *error);
};

extern const struct rf_roofline_device rf_roofline_cpu;

/* ---- cases.c ---- */

struct rf_roofline_cases {
    struct rf_roofline_case *list;
    size_t n;
};

/* Fills in the request's defaults and lists its measurements in their order, which is the same for
 * every number of threads; `list` is for rf_free. RF_ERR_ARGUMENT for an unknown tier or kernel, or
 * a shape or number out of range, or if nothing is to be measured; RF_ERR_UNSUPPORTED for a tier
 * that this machine lacks. */
int rf_roofline_list(struct rf_roofline_cases *cases, struct rf_roofline_request *request,
                     const struct rf_roofline_device *device, const struct rf_allocator *allocator,
                     struct rf_error *error);

#endif
