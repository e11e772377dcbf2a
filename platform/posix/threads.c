/* Threads on Linux. */
#define _GNU_SOURCE
#include "platform/threads.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(sizeof(struct rf_cpu_set) % sizeof(cpu_set_t) == 0, "the kernel's masks");

int rf_thread_get_cpus(struct rf_cpu_set *set)
{
    memset(set, 0, sizeof *set);
    return sched_getaffinity(0, sizeof *set, (cpu_set_t *)set);
}

void rf_thread_set_cpus(const struct rf_cpu_set *set)
{
    /* Fails if the cores have gone since the plan was made; then any other core will do. */
    sched_setaffinity(0, sizeof *set, (const cpu_set_t *)set);
}

void rf_thread_set_name(const char *name)
{
    char shown[16];
    snprintf(shown, sizeof shown, "%.15s", name);
    pthread_setname_np(pthread_self(), shown);
}

int rf_thread_start(pthread_t *thread, void *(*fn)(void *), void *argument)
{
    static const int faults[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGTRAP, SIGSYS};
    sigset_t ours, callers;
    sigfillset(&ours);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&ours, faults[i]);
    pthread_sigmask(SIG_SETMASK, &ours, &callers);
    int failed = pthread_create(thread, NULL, fn, argument);
    pthread_sigmask(SIG_SETMASK, &callers, NULL);
    return failed;
}

void rf_word_wait(_Atomic uint32_t *word, uint32_t old)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
}

void rf_word_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
