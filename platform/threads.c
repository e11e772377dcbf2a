/* The part of threads.h that needs no system call: counts of CPU sets. */
#include "platform/threads.h"

int rf_cpu_set_count(const struct rf_cpu_set *set)
{
    int count = 0;
    for (int i = 0; i < RF_MOST_CPUS / 64; i++) count += __builtin_popcountll(set->words[i]);
    return count;
}
