/* GDB's interface for generated code (GDB manual, "JIT Compilation Interface"): a list of object
 * files in memory, and a function where GDB has a breakpoint. GDB finds both by their names among
 * the local symbols. They are static, so that a program can link another JIT that has them. */
#include <pthread.h>

#include "platform/posix/description.h"

enum { JIT_NOACTION, JIT_REGISTER, JIT_UNREGISTER };

struct jit_descriptor {
    uint32_t version, action;
    struct jit_code_entry *relevant, *first;
};

static pthread_mutex_t debugger_lock = PTHREAD_MUTEX_INITIALIZER;
__attribute__((used)) static struct jit_descriptor __jit_debug_descriptor = {1, JIT_NOACTION, NULL,
                                                                             NULL};

__attribute__((noinline, used)) static void __jit_debug_register_code(void)
{
    __asm__ volatile("" ::: "memory");
}

static void tell_debugger(uint32_t action, struct jit_code_entry *entry)
{
    __jit_debug_descriptor.action = action;
    __jit_debug_descriptor.relevant = entry;
    __jit_debug_register_code();
    __jit_debug_descriptor.action = JIT_NOACTION;
    __jit_debug_descriptor.relevant = NULL;
}

void rf_debugger_add(struct jit_code_entry *entry)
{
    pthread_mutex_lock(&debugger_lock);
    entry->prev = NULL;
    entry->next = __jit_debug_descriptor.first;
    if (entry->next) entry->next->prev = entry;
    __jit_debug_descriptor.first = entry;
    tell_debugger(JIT_REGISTER, entry);
    pthread_mutex_unlock(&debugger_lock);
}

void rf_debugger_remove(struct jit_code_entry *entry)
{
    pthread_mutex_lock(&debugger_lock);
    if (entry->prev)
        entry->prev->next = entry->next;
    else
        __jit_debug_descriptor.first = entry->next;
    if (entry->next) entry->next->prev = entry->prev;
    tell_debugger(JIT_UNREGISTER, entry);
    pthread_mutex_unlock(&debugger_lock);
}
