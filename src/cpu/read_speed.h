/* How fast the processor reads memory: the fastest of many patterns (cpu/read_search.h) over a pool
 * that is larger than any cache. The backend's measure_read is one such search. The program's
 * roofline (src/program/machine) reads and measures with the same pool and workers. */
#ifndef RF_CPU_READ_SPEED_H
#define RF_CPU_READ_SPEED_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "cpu/read_search.h"
#include "infer/measure.h"
#include "microkernels/kernels.h"
#include "platform/team.h"

enum {
    RF_READ_PAGE = 4096,    /* places in the pool begin at multiples of it */
    RF_READ_FIRST = 7,      /* measurements that only find out how much work is enough */
    RF_READ_FINAL_TIMES = 5 /* final rounds of a search read as many times the bytes */
};

/* A pool of memory and the workers that read it. */
struct rf_reader {
    const struct rf_allocator *allocator;
    uint64_t (*read_streams)(const struct rf_read_args *args); /* the best tier's */
    char *pool;
    size_t pool_bytes, cursor; /* cursor: place of the least recently used data */
    int threads;
    struct rf_team *team;
};

/* Memory to stream from without cache hits: four times the last-level cache, between `least` and
 * 2 GiB, at most a quarter of the memory. */
uint64_t rf_reader_pool_bytes(uint64_t least);

/* Allocates a pool of at least 64 MiB and fills it with `threads` workers. Its values are valid in
 * every format of weights, keys and values. On failure nothing is left to free. */
int rf_reader_init(struct rf_reader *reader, uint64_t pool_bytes, int threads,
                   const struct rf_allocator *allocator, struct rf_error *error);
void rf_reader_release(struct rf_reader *reader);

/* Returns `bytes` of the pool at the cursor, and moves the cursor past them. */
char *rf_reader_take(const struct rf_reader *reader, size_t *cursor, size_t bytes);
/* Seconds of fn on all workers that have a core of their own. */
double rf_reader_time(const struct rf_reader *reader, rf_team_fn fn, void *argument);
/* Reads `n` bytes `times` times on the calling thread. */
void rf_reader_read(const struct rf_reader *reader, const struct rf_read_pattern *pattern,
                    const char *data, size_t n, size_t times);

/* Reads about `bytes` of the pool with all workers. Returns bytes per second. */
double rf_reader_rate(struct rf_reader *reader, const struct rf_read_pattern *pattern,
                      double bytes);
/* Finds the fastest pattern. `rate`: bytes per second that memory is known to reach. */
struct rf_found rf_reader_search(struct rf_reader *reader, double rate);

/* Streaming read bandwidth of memory with `threads` workers, over rf_reader_pool_bytes(256 MiB).
 * Takes some tenths of a second. */
int rf_cpu_measure_read(int32_t threads, const struct rf_allocator *allocator,
                        struct rf_read_speed *speed, struct rf_error *error);

#endif
