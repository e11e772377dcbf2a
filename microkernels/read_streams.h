/* The loops of read_streams. A tier defines, before it includes this file,
 *
 *     line              registers that hold a cache line
 *     xor_line          a line combined with 64 bytes of memory
 *     READ_HINT         where prefetches go
 */
#ifndef RF_MICROKERNELS_READ_STREAMS_H
#define RF_MICROKERNELS_READ_STREAMS_H

#include <string.h>

#include "microkernels/x86.h"

enum { READ_LINE = 64, READ_STEP = 256, READ_SUMS = 4 };

/* Reads `streams` runs of `bytes`, one after another in memory, in turn `step` bytes of each. */
INLINE void read_side_by_side(line sums[READ_SUMS], const char *at, size_t bytes, size_t streams,
                              size_t step, size_t ahead, int asks)
{
    for (size_t i = 0; i < bytes; i += step) {
#pragma GCC unroll 16
        for (size_t s = 0; s < streams; s++) {
#pragma GCC unroll 4
            for (size_t l = 0; l < step; l += READ_LINE) {
                const char *from = at + s * bytes + i + l;
                line *sum = &sums[(s + l / READ_LINE) % READ_SUMS];
                if (asks) _mm_prefetch(from + ahead, READ_HINT);
                *sum = xor_line(*sum, from);
            }
        }
    }
}

INLINE void read_steps(line sums[READ_SUMS], const struct rf_read_args *args, size_t bytes,
                       size_t streams)
{
    const char *at = args->data;
    int narrow = args->step < READ_STEP;
    if (args->ahead && narrow)
        read_side_by_side(sums, at, bytes, streams, READ_LINE, args->ahead, 1);
    else if (args->ahead)
        read_side_by_side(sums, at, bytes, streams, READ_STEP, args->ahead, 1);
    else if (narrow)
        read_side_by_side(sums, at, bytes, streams, READ_LINE, 0, 0);
    else
        read_side_by_side(sums, at, bytes, streams, READ_STEP, 0, 0);
}

static uint64_t read_streams(const struct rf_read_args *args)
{
    line sums[READ_SUMS];
    uint64_t words[READ_SUMS * READ_LINE / 8], sum = 0;
    size_t bytes = args->n / args->streams / READ_STEP;
    /* Streams at an even distance would compete for a few places of the caches. */
    if (bytes > 1 && bytes % 2 == 0 && args->streams > 1) bytes--;
    bytes *= READ_STEP;
    const size_t all = args->streams * bytes;
    const char *rest = (const char *)args->data + all;
    memset(sums, 0, sizeof sums);
    for (size_t time = 0; time < args->times; time++) {
        switch (args->streams) {
        case 2: read_steps(sums, args, bytes, 2); break;
        case 4: read_steps(sums, args, bytes, 4); break;
        case 8: read_steps(sums, args, bytes, 8); break;
        case 16: read_steps(sums, args, bytes, 16); break;
        default: read_steps(sums, args, bytes, 1);
        }
        read_side_by_side(sums, rest, args->n - all, 1, READ_LINE, 0, 0);
    }
    memcpy(words, sums, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) sum ^= words[i];
    return sum;
}

#endif
