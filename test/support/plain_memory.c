#include "support/plain_memory.h"

#include <stdlib.h>
#include <string.h>

#include "platform/lock.h"
#include "support/pages.h"

enum { ALIGNMENT = 64 };

static const size_t CAPACITY = (size_t)512 << 20;

/* The memory in the order of its addresses: parts that are taken and parts that are free. */
struct span {
    struct span *next;
    size_t at, bytes;
    int is_taken;
};

struct plain_memory {
    struct rf_lock lock;
    char *base;
    struct span *first;
};

int plain_memory_new(struct plain_memory **memory, struct rf_error *error)
{
    struct plain_memory *made = calloc(1, sizeof *made);
    struct span *all = calloc(1, sizeof *all);
    *memory = NULL;
    if (!made || !all) {
        free(made);
        free(all);
        return rf_fail(error, RF_ERR_MEMORY, "no memory for the plain device");
    }
    all->bytes = CAPACITY;
    made->base = pages_new(CAPACITY);
    made->first = all;
    rf_lock_init(&made->lock);
    *memory = made;
    return 0;
}

void plain_memory_free(struct plain_memory *memory)
{
    if (!memory) return;
    for (struct span *span = memory->first, *next; span; span = next) {
        next = span->next;
        free(span);
    }
    pages_free(memory->base, CAPACITY);
    rf_lock_destroy(&memory->lock);
    free(memory);
}

void plain_memory_open(struct plain_memory *memory)
{
    rf_lock_take(&memory->lock);
    pages_allow(memory->base, CAPACITY, 1);
}

void plain_memory_close(struct plain_memory *memory)
{
    pages_allow(memory->base, CAPACITY, 0);
    rf_lock_release(&memory->lock);
}

float *plain_memory_take(struct plain_memory *memory, size_t count, const char *what,
                         struct rf_error *error)
{
    size_t bytes = (count * sizeof(float) + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    struct span *span = memory->first;
    while (span && (span->is_taken || span->bytes < bytes)) span = span->next;
    struct span *rest = span ? calloc(1, sizeof *rest) : NULL;
    if (!rest) {
        rf_fail(error, RF_ERR_MEMORY, "%s: no room for %zu bytes on the plain device", what, bytes);
        return NULL;
    }
    *rest = (struct span){span->next, span->at + bytes, span->bytes - bytes, 0};
    *span = (struct span){rest, span->at, bytes, 1};
    float *taken = (float *)(void *)(memory->base + span->at);
    plain_memory_ruin(taken, count);
    return taken;
}

void plain_memory_give(struct plain_memory *memory, float *taken)
{
    if (!taken) return;
    size_t at = (size_t)((char *)taken - memory->base);
    struct span *span = memory->first;
    while (span && !(span->is_taken && span->at == at)) span = span->next;
    if (!span) abort();
    span->is_taken = 0;
    for (span = memory->first; span; span = span->next)
        while (!span->is_taken && span->next && !span->next->is_taken) {
            struct span *next = span->next;
            span->bytes += next->bytes;
            span->next = next->next;
            free(next);
        }
}

void plain_memory_ruin(float *at, size_t count)
{
    memset(at, 0xff, count * sizeof *at);
}

const void *plain_memory_address(const struct plain_memory *memory)
{
    return memory->base;
}

size_t plain_memory_taken(const struct plain_memory *memory)
{
    size_t bytes = 0;
    for (const struct span *span = memory->first; span; span = span->next)
        bytes += span->is_taken ? span->bytes : 0;
    return bytes;
}
