/* The kernels that the backend runs: a tier's compiled ones (microkernels/kernels.h) with generated
 * ones (jit/) laid over them where these are faster. Both compute the same bits. */
#ifndef RF_CPU_TIERS_H
#define RF_CPU_TIERS_H

#include "base/error.h"
#include "microkernels/kernels.h"

/* The table of a tier, or NULL where rf_kernels has none. The processor must have the tier, or
 * something must perform its instructions. The first call for a tier generates its kernels, which
 * takes 3 to 9 ms; they live as long as the process. Any thread may call. */
const struct rf_kernels *rf_cpu_kernels(int tier);
/* The most rows of activations that the tier's generated kernels for a weight format are given: 0
 * where it has none, SIZE_MAX where they take any number. Compiled ones get more. */
size_t rf_cpu_generated_rows(int tier, enum rf_format format);
/* Why the tier's table holds no generated kernels although there are some for it, or why a profiler
 * is not told of them although RIFFLE_PERF asks: one sentence without a full stop; or "". */
const char *rf_cpu_kernels_note(int tier);
/* The tier of that name, if the machine has it and there are kernels for it; else an error. The
 * sentence begins with `source`, which names the asker. */
int rf_cpu_find_tier(const char *source, const char *name, struct rf_error *error);

#endif
