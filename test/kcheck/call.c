/* Calls a kernel as compiled code would and checks the state that it leaves. */
#include <immintrin.h>
#include <string.h>

#include "kcheck/run.h"
#include "platform/cpu.h"

struct call *volatile kcheck_current;

/* A tile configuration in use means that tiles were not released. */
__attribute__((target("amx-tile"))) static int tiles_in_use(void)
{
    _Alignas(64) uint8_t config[64];
    _tile_storeconfig(config);
    return config[0] != 0;
}

static int upper_halves_in_use(const struct call *call)
{
    uint8_t used = 0;
    for (size_t i = 0; i < 16; i++)
        for (size_t j = 16; j < call->vector_bytes; j++) used |= call->vectors[i][j];
    return used != 0;
}

static void perform(struct call *call)
{
    kcheck_current = call;
    kcheck_run(call);
}

__attribute__((target("avx2"))) static void add_one(float *x)
{
    _mm256_storeu_ps(x, _mm256_add_ps(_mm256_loadu_ps(x), _mm256_set1_ps(1.0f)));
}

uint32_t kcheck_vector_bytes(void)
{
    float x[8] = {0};
    struct call call = {
        .arguments = {kcheck_pointer(x)}, .vector_bytes = 32, .kernel = (kcheck_kernel *)add_one};
    if (!rf_cpu_has_tier(RF_TIER_AVX2)) return 0;
    perform(&call);
    if (upper_halves_in_use(&call)) return 0;
    return rf_cpu_has_tier(RF_TIER_AVX512) ? 64 : 32;
}

static const char *what_is_wrong(const struct kcheck *check, const struct call *call)
{
    enum { DIRECTION_FLAG = 0x400, MXCSR_STATUS = 0x3f };
    static const char *const saved[6] = {"changes rbx", "changes rbp", "changes r12",
                                         "changes r13", "changes r14", "changes r15"};
    for (size_t i = 0; i < 6; i++)
        if (call->saved_before[i] != call->saved_after[i]) return saved[i];
    if (!check->is_generated && kcheck_moved(call)) return kcheck_moved(call);
    if (call->stack_before != call->stack_after) return "changes rsp";
    if (call->flags & DIRECTION_FLAG) return "sets the direction flag";
    if ((call->mxcsr_before | MXCSR_STATUS) != (call->mxcsr_after | MXCSR_STATUS))
        return "changes MXCSR";
    if (call->x87_before != call->x87_after) return "changes the x87 control word";
    if (!check->is_translated && upper_halves_in_use(call))
        return "leaves upper halves of vector registers in use";
    if (check->has_tiles && tiles_in_use()) return "leaves tiles in use";
    return NULL;
}

uint64_t kcheck_call(struct kcheck *check, const char *name, kcheck_kernel *kernel,
                     const uint64_t arguments[4], float number)
{
    struct call call = {.number = number, .vector_bytes = check->vector_bytes, .kernel = kernel};
    memcpy(call.arguments, arguments, sizeof call.arguments);
    for (size_t i = 0; i < 6; i++)
        call.saved_before[i] = UINT64_C(0x5a5aa5a5) << 32 | kcheck_random(check);
    call.moved_before[0] = kcheck_random(check);
    call.moved_before[1] = arguments[0];
    for (size_t i = 0; i < sizeof call.low_before; i++)
        call.low_before[i / 16][i % 16] = (uint8_t)kcheck_random(check);
    kcheck_called(check, name, kernel);
    perform(&call);
    const char *wrong = what_is_wrong(check, &call);
    kcheck_near(check, wrong != NULL, 0, 0, "%s %s", name, wrong);
    return call.result;
}

void kcheck_pack_part(struct kcheck *check, const struct rf_kernels *kernels, enum rf_operand form,
                      const struct rf_pack_args *args)
{
    kcheck_call(check, "pack", (kcheck_kernel *)kernels->pack[form],
                (uint64_t[4]){kcheck_pointer(args)}, 0.0f);
}

void *kcheck_pack(struct kcheck *check, const struct rf_kernels *kernels, enum rf_operand form,
                  const float *x, size_t n, size_t k, size_t *bytes)
{
    *bytes =
        (size_t)kcheck_call(check, "packed_bytes", (kcheck_kernel *)kernels->packed_bytes[form],
                            (uint64_t[4]){n, k}, 0.0f);
    void *packed = kcheck_guarded(*bytes);
    /* Rows may be written in any order. */
    for (size_t i = n; i-- > 0;)
        kcheck_pack_part(check, kernels, form,
                         &(struct rf_pack_args){packed, i, k, x + i * k, 0, k, 0});
    return packed;
}

void kcheck_multiply(struct kcheck *check, const char *name, rf_linear_fn *linear,
                     const struct rf_linear_args *args)
{
    kcheck_call(check, name, (kcheck_kernel *)linear, (uint64_t[4]){kcheck_pointer(args)}, 0.0f);
}
