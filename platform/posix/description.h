/* The tables about generated functions for a debugger, a profiler and the compiler's unwinder, in
 * one block of memory: unwinding data, the image of an object file for GDB, and the functions'
 * names. The interface of platform/executable.h is above it. */
#ifndef RF_PLATFORM_POSIX_DESCRIPTION_H
#define RF_PLATFORM_POSIX_DESCRIPTION_H

#include <stdint.h>

#include "platform/executable.h"

/* GDB's node of one object file (GDB manual, "JIT Compilation Interface"). */
struct jit_code_entry {
    struct jit_code_entry *next, *prev;
    const void *object;
    uint64_t object_bytes;
};

struct rf_description {
    struct jit_code_entry entry;
    size_t bytes;          /* size of the block, which begins with this struct */
    unsigned char *frames; /* .eh_frame */
    size_t n;
    struct rf_function functions[]; /* [n]; the object file is behind them */
};

/* NULL: nothing to do. */
void rf_description_free(struct rf_description *description);

/* The size of the unwinding data of n functions, with its end mark. */
size_t rf_frames_bytes(const struct rf_prologue *prologue, size_t n);
/* Writes .eh_frame data of just that size. Addresses in it are absolute, so it may lie anywhere. */
void rf_frames_write(unsigned char *to, const unsigned char *memory,
                     const struct rf_prologue *prologue, const struct rf_function *functions,
                     size_t n);

/* The object file of a description, which has sections for code (without its bytes), frames and
 * symbols: its size; and writes it, and sets description->frames. */
size_t rf_object_bytes(size_t frames_bytes, const struct rf_function *functions, size_t n);
void rf_object_write(struct rf_description *description, unsigned char *to,
                     const unsigned char *memory, const struct rf_prologue *prologue);

/* Enters the object file into GDB's list, and takes it out. Any thread may call. */
void rf_debugger_add(struct jit_code_entry *entry);
void rf_debugger_remove(struct jit_code_entry *entry);

#endif
