/* Memory that is counted, for tests of every allocation's failure. */
#ifndef RF_TEST_API_METER_H
#define RF_TEST_API_METER_H

#include "api/helpers.h"
#include "platform/memory.h"

/* An allocator that counts what is out and refuses one call. */
struct meter {
    size_t calls, fail_at, bytes_out, blocks_out;
};

static inline void *meter_alloc(void *user, size_t bytes)
{
    struct meter *meter = user;
    if (++meter->calls == meter->fail_at) return NULL;
    void *memory = rf_system_allocator.alloc(NULL, bytes);
    if (!memory) return NULL;
    meter->bytes_out += bytes;
    meter->blocks_out++;
    return memory;
}

static inline void meter_release(void *user, void *memory, size_t bytes)
{
    struct meter *meter = user;
    if (!memory) return;
    meter->bytes_out -= bytes;
    meter->blocks_out--;
    rf_system_allocator.release(NULL, memory, bytes);
}

static inline void check_all_released(const struct meter *meter, size_t n, const char *call)
{
    CHECK_MSG(meter->bytes_out == 0 && meter->blocks_out == 0,
              "%s with failing allocation %zu keeps %zu blocks", call, n, meter->blocks_out);
}

#endif
