/* A second backend, in plain loops like reference/forward.c, on a "device" with memory of its own
 * (plain_memory.h). It takes the interface at its word: nothing runs before `sync` or a call that
 * has to wait for the pass, what a failed pass leaves in caches is NaN, and answers are gone at the
 * next submit. */
#ifndef RF_TEST_PLAIN_BACKEND_H
#define RF_TEST_PLAIN_BACKEND_H

#include "infer/backend.h"

extern const struct rf_backend_kind plain_backend_kind;

/* The n-th call from now on that can fail does, with this code: n = 1 is the next one. A pass that
 * fails has done some of its operations. 0: none fails. For one thread. */
void plain_fail_at(int32_t n, int code);
/* 1 if the call that plain_fail_at named has come. */
int plain_has_failed(void);

/* Whether the device says that it computes no model. */
void plain_refuse_models(int refuses);

/* How much memory the device says it has, all of it free; at first it has no limit. */
void plain_set_memory(uint64_t bytes);

/* An address of the device's memory, and the bytes of it that are taken. */
const void *plain_device_address(const struct rf_backend *backend);
size_t plain_device_bytes(const struct rf_backend *backend);

#endif
