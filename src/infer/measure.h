/* Measurements of a device's speed: requests and results of rf_backend_kind's functions. */
#ifndef RF_INFER_MEASURE_H
#define RF_INFER_MEASURE_H

#include <stddef.h>
#include <stdint.h>

struct rf_roofline_shape {
    int64_t m, k; /* outputs and inputs of a linear layer */
};

struct rf_roofline_request {
    const char *tiers;   /* separated by commas; NULL: that of the options */
    const char *kernels; /* parts of names, separated by commas; NULL: all */
    const struct rf_roofline_shape *shapes;
    size_t n_shapes; /* 0: one default shape */
    const int32_t *rows;
    size_t n_rows;       /* 0: default numbers of rows */
    int32_t threads;     /* 1 or more */
    int also_one_thread; /* measure with one thread first */
    int32_t rounds;      /* rounds of each kernel; 0: the default */
    uint64_t pool_bytes; /* 0: the default */
};

/* Per second; 0 where the processor lacks the instruction. */
struct rf_ceiling {
    double usual, best; /* median and maximum of the measurements */
};

enum { RF_CEILING_NOTE = 128 };

/* A ceiling as it is reported. */
struct rf_ceiling_report {
    const char *key, *name;
    int is_bandwidth; /* bytes per second; else operations */
    int32_t threads;
    struct rf_ceiling found;
    /* The fastest pattern of reading memory or a cache, or why it was not measured; else "". */
    char note[RF_CEILING_NOTE];
};

/* The fastest way of reading memory that was found. */
struct rf_read_speed {
    double bytes_per_second, best; /* median and maximum of the measurements */
    char pattern[RF_CEILING_NOTE]; /* "4 streams a thread, turns of 64 bytes, prefetch 1 KiB" */
};

struct rf_roofline_result {
    size_t m, k;                  /* the shape that was run: in a cache m is less */
    double bytes_per_second;      /* weights and scales, or keys and values */
    double operations_per_second; /* two for each product and its sum */
    double operations_per_byte;
    double of_read, of_peak; /* ratios to the ceilings measured at the same time */
    int compute_binds;       /* the compute ceiling is the lower one at this intensity */
};

struct rf_roofline_row {
    const char *kernel, *tier, *form, *ceiling;
    int in_cache;
    int32_t threads, rows;
    struct rf_roofline_result result;
};

/* All are set; non-zero cancels. */
struct rf_roofline_callbacks {
    int (*ceiling)(void *user, const struct rf_ceiling_report *ceiling);
    int (*row)(void *user, const struct rf_roofline_row *row);
    int (*progress)(void *user, uint64_t done,
                    uint64_t total); /* done and total count measurements */
    void *user;
};

#endif
