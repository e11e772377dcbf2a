/* Threads on Windows. A hardware thread's number is 64 times its processor group plus its number
 * within, as in hwloc. */
#include "platform/threads.h"

#include <stdlib.h>
#include <string.h>

#include "platform/library.h"
#include "platform/windows/wide.h"

enum { GROUP_CPUS = 64, MOST_GROUPS = RF_MOST_CPUS / GROUP_CPUS };

int rf_thread_get_cpus(struct rf_cpu_set *set)
{
    USHORT groups[MOST_GROUPS], n = MOST_GROUPS;
    GROUP_AFFINITY affinity;
    memset(set, 0, sizeof *set);
    if (!GetThreadGroupAffinity(GetCurrentThread(), &affinity)) return -1;
    set->words[affinity.Group % MOST_GROUPS] = affinity.Mask;
    /* A process that spans groups may move its threads to any of them. */
    if (!GetProcessGroupAffinity(GetCurrentProcess(), &n, groups)) return 0;
    for (int i = 0; i < n; i++) {
        DWORD cpus = GetActiveProcessorCount(groups[i]);
        if (groups[i] == affinity.Group || groups[i] >= MOST_GROUPS || cpus == 0) continue;
        set->words[groups[i]] = ~(uint64_t)0 >> (GROUP_CPUS - (cpus < GROUP_CPUS ? cpus : 64));
    }
    return 0;
}

typedef BOOL(WINAPI *select_fn)(HANDLE thread, PGROUP_AFFINITY masks, USHORT n);

void rf_thread_set_cpus(const struct rf_cpu_set *set)
{
    GROUP_AFFINITY masks[MOST_GROUPS] = {{0}};
    USHORT n = 0, largest = 0;
    for (int i = 0; i < MOST_GROUPS; i++) {
        if (!set->words[i]) continue;
        masks[n].Mask = set->words[i];
        masks[n].Group = (WORD)i;
        if (__builtin_popcountll(masks[n].Mask) > __builtin_popcountll(masks[largest].Mask))
            largest = n;
        n++;
    }
    if (n == 0) return;
    /* Since Windows 11 and Server 2022 a thread may have CPUs of several groups. */
    HMODULE kernel = n > 1 ? GetModuleHandleW(L"kernel32.dll") : NULL;
    select_fn choose =
        kernel ? (select_fn)(rf_any_fn *)GetProcAddress(kernel, "SetThreadSelectedCpuSetMasks")
               : NULL;
    if (choose && choose(GetCurrentThread(), masks, n)) return;
    SetThreadGroupAffinity(GetCurrentThread(), &masks[largest], NULL);
}

void rf_thread_set_name(const char *name)
{
    typedef HRESULT(WINAPI * name_fn)(HANDLE thread, PCWSTR name);
    HMODULE kernel = GetModuleHandleW(L"kernel32.dll");
    name_fn set =
        kernel ? (name_fn)(rf_any_fn *)GetProcAddress(kernel, "SetThreadDescription") : NULL;
    wchar_t *wide = set ? rf_wide(name) : NULL;
    if (wide) set(GetCurrentThread(), wide);
    free(wide);
}

int rf_thread_start(pthread_t *thread, void *(*fn)(void *), void *argument)
{
    return pthread_create(thread, NULL, fn, argument);
}

void rf_word_wait(_Atomic uint32_t *word, uint32_t old)
{
    WaitOnAddress((volatile void *)word, &old, sizeof old, INFINITE);
}

void rf_word_wake(_Atomic uint32_t *word)
{
    WakeByAddressAll((void *)word);
}
