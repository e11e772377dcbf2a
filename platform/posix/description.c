/* Tells the compiler's unwinder and GDB of generated functions, and takes that back. The tables are
 * in memory of their own, which stays writable because GDB's list goes through it; the code's
 * memory never is writable and executable. */
#define _DEFAULT_SOURCE
#include "platform/posix/description.h"

#include <string.h>
#include <sys/mman.h>

/* libgcc's. They are weak for systems whose unwinder lacks them. */
__attribute__((weak)) void __register_frame(void *frames);
__attribute__((weak)) void __deregister_frame(void *frames);
__attribute__((weak)) const void *_Unwind_Find_FDE(void *pc, void *bases[3]);

/* libgcc sorts a table, and allocates for that, when it is first searched. That is done here, since
 * a handler of signals may be the next to search. */
static void add_to_unwinder(const struct rf_description *description, unsigned char *memory)
{
    void *bases[3];
    if (!__register_frame || !__deregister_frame) return;
    __register_frame(description->frames);
    if (_Unwind_Find_FDE) (void)_Unwind_Find_FDE(memory + description->functions[0].begin, bases);
}

int rf_executable_describe(struct rf_executable *executable, const struct rf_prologue *prologue,
                           const struct rf_function *functions, size_t n, struct rf_error *error)
{
    if (n == 0) return 0;
    size_t at = sizeof(struct rf_description) + n * sizeof *functions;
    at = (at + 63) / 64 * 64;
    size_t object = rf_object_bytes(rf_frames_bytes(prologue, n), functions, n);
    void *memory =
        mmap(NULL, at + object, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return rf_fail(error, RF_ERR_MEMORY, "there is no memory for names of generated code");
    struct rf_description *description = memory;
    unsigned char *to = (unsigned char *)memory + at;
    *description =
        (struct rf_description){.entry = {NULL, NULL, to, object}, .bytes = at + object, .n = n};
    memcpy(description->functions, functions, n * sizeof *functions);
    rf_object_write(description, to, executable->memory, prologue);
    add_to_unwinder(description, executable->memory);
    rf_debugger_add(&description->entry);
    executable->description = description;
    return 0;
}

void rf_description_free(struct rf_description *description)
{
    if (!description) return;
    rf_debugger_remove(&description->entry);
    if (__register_frame && __deregister_frame) __deregister_frame(description->frames);
    munmap(description, description->bytes);
}
