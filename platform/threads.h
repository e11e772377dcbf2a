/* System calls of the worker team: where threads run, and how they wait for a word. */
#ifndef RF_PLATFORM_THREADS_H
#define RF_PLATFORM_THREADS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* A set of hardware threads by the system's numbers, below RF_MOST_CPUS. */
enum { RF_MOST_CPUS = 4096 };
struct rf_cpu_set {
    uint64_t words[RF_MOST_CPUS / 64];
};

static inline void rf_cpu_set_add(struct rf_cpu_set *set, int cpu)
{
    if (cpu >= 0 && cpu < RF_MOST_CPUS) set->words[cpu / 64] |= (uint64_t)1 << cpu % 64;
}

static inline int rf_cpu_set_has(const struct rf_cpu_set *set, int cpu)
{
    return cpu >= 0 && cpu < RF_MOST_CPUS && (set->words[cpu / 64] >> cpu % 64 & 1);
}

int rf_cpu_set_count(const struct rf_cpu_set *set);

/* The hardware threads that the calling thread may run on. 0, or -1 where they are not known. */
int rf_thread_get_cpus(struct rf_cpu_set *set);
/* Limits the calling thread to these. Nothing happens where they have gone. */
void rf_thread_set_cpus(const struct rf_cpu_set *set);
/* Names the calling thread, for debuggers; cut after 15 bytes. */
void rf_thread_set_name(const char *name);
/* Starts a thread that takes no signals but those of its own faults, which leaves the others to the
 * program's threads. 0, or the number of the error. */
int rf_thread_start(pthread_t *thread, void *(*fn)(void *), void *argument);

/* Sleeps while the word is `old`, until woken; it may also end for no reason. */
void rf_word_wait(_Atomic uint32_t *word, uint32_t old);
/* Wakes all threads that wait for the word. */
void rf_word_wake(_Atomic uint32_t *word);

#endif
