/* How fast a device reads: the result of rf_backend_kind's measure_read. */
#ifndef RF_INFER_MEASURE_H
#define RF_INFER_MEASURE_H

enum { RF_READ_NOTE = 128 };

/* The fastest way of reading memory that was found. */
struct rf_read_speed {
    double bytes_per_second, best; /* median and maximum of the measurements */
    char pattern[RF_READ_NOTE];    /* "4 streams a thread, turns of 64 bytes, prefetch 1 KiB" */
};

#endif
