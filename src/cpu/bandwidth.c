/* Memory read bandwidth: the upper limit for streaming weights. */
#include <string.h>

#include "base/median.h"
#include "cpu/roofline.h"
#include "microkernels/kernels.h"
#include "platform/clock.h"
#include "platform/cpu.h"
#include "platform/memory.h"
#include "platform/team.h"

enum { PASSES = 7, PAGE = 4096 };

static const uint64_t LEAST_POOL = (uint64_t)256 << 20, MOST_POOL = (uint64_t)2 << 30;

struct stream {
    const struct rf_kernels *kernels;
    char *pool;
    size_t bytes; /* of each worker's part, a multiple of 4 pages */
    int threads;
    int fill;
};

static void stream_part(void *argument, struct rf_worker *worker)
{
    struct stream *stream = argument;
    for (int part = worker->index; part < stream->threads; part += worker->count) {
        char *from = stream->pool + (size_t)part * stream->bytes;
        if (stream->fill) {
            memset(from, 1, stream->bytes);
        } else {
            volatile uint64_t sum = stream->kernels->read_stream(from, stream->bytes);
            (void)sum;
        }
    }
}

uint64_t rf_cpu_pool_bytes(uint64_t least)
{
    uint64_t pool = 4 * (uint64_t)rf_cpu_cache_bytes(), memory = rf_memory_physical() / 4;
    if (pool < least) pool = least;
    if (pool > MOST_POOL) pool = MOST_POOL;
    return pool < memory ? pool : memory;
}

int rf_cpu_measure_read(int tier, int threads, const struct rf_allocator *allocator,
                        double *bytes_per_second, struct rf_error *error)
{
    uint64_t pool = rf_cpu_pool_bytes(LEAST_POOL);
    struct stream stream = {.kernels = rf_kernels(tier), .threads = threads, .fill = 1};
    stream.bytes = (size_t)pool / (size_t)threads / (4 * PAGE) * (4 * PAGE);
    struct rf_team *team = NULL;
    int code = rf_team_of(&team, NULL, threads, allocator, error);
    if (!code) {
        stream.pool =
            rf_malloc(allocator, (size_t)threads, stream.bytes, "bandwidth measurement", error);
        if (!stream.pool) code = RF_ERR_MEMORY;
    }
    if (!code) {
        double rates[PASSES];
        rf_team_run(team, 0, stream_part, &stream);
        stream.fill = 0;
        for (int i = 0; i < PASSES; i++) {
            double start = rf_clock_seconds();
            rf_team_run(team, 0, stream_part, &stream);
            rates[i] = (double)stream.bytes * threads / (rf_clock_seconds() - start);
        }
        *bytes_per_second = rf_median(rates, PASSES);
    }
    rf_free(allocator, stream.pool);
    rf_team_free(team);
    return code;
}
