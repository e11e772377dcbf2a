/* Calls a kernel as compiled code would and checks the state that it leaves. */
#include <immintrin.h>
#include <string.h>

#include "kcheck/kcheck.h"
#include "platform/cpu.h"

/* The call's arguments and the state after it. The assembly below depends on the offsets. */
struct call {
    uint64_t arguments[4];
    float number;
    uint32_t vector_bytes; /* to be stored of each register: 0, 32 or 64 */
    kcheck_kernel *kernel;
    uint64_t result;
    uint64_t stack_before, stack_after, flags;
    uint32_t mxcsr_before, mxcsr_after;
    uint16_t x87_before, x87_after, unused[2];
    uint64_t saved_before[6], saved_after[6]; /* rbx, rbp, r12 .. r15 */
    _Alignas(64) uint8_t vectors[16][64];
};

_Static_assert(offsetof(struct call, number) == 32 && offsetof(struct call, vector_bytes) == 36,
               "known below");
_Static_assert(offsetof(struct call, kernel) == 40 && offsetof(struct call, result) == 48,
               "known below");
_Static_assert(offsetof(struct call, stack_before) == 56 && offsetof(struct call, flags) == 72,
               "known below");
_Static_assert(offsetof(struct call, mxcsr_before) == 80 && offsetof(struct call, x87_before) == 88,
               "known below");
_Static_assert(offsetof(struct call, saved_before) == 96 && offsetof(struct call, vectors) == 192,
               "known below");

/* The current call, so that the assembly finds it whatever the kernel did to registers and stack.
 */
__attribute__((used)) static struct call *volatile current_call;

__attribute__((naked, noinline, target("avx512f"))) static void
run(__attribute__((unused)) struct call *call)
{
    __asm__("push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15; sub $8, %rsp\n"
            "mov %rdi, %rax\n"
            "mov %rsp, 56(%rax)\n"
            "stmxcsr 80(%rax)\n"
            "fnstcw 88(%rax)\n"
            "mov 96(%rax), %rbx; mov 104(%rax), %rbp; mov 112(%rax), %r12\n"
            "mov 120(%rax), %r13; mov 128(%rax), %r14; mov 136(%rax), %r15\n"
            "mov 0(%rax), %rdi; mov 8(%rax), %rsi; mov 16(%rax), %rdx; mov 24(%rax), %rcx\n"
            "movss 32(%rax), %xmm0\n"
            "cmpl $0, 36(%rax)\n"
            "je 1f\n"
            "vzeroupper\n"
            "1: call *40(%rax)\n"
            "mov current_call(%rip), %r11\n"
            "mov %rax, 48(%r11)\n"
            "mov %rsp, 64(%r11)\n"
            "mov 56(%r11), %rsp\n"
            "pushfq; pop %rax; mov %rax, 72(%r11); cld\n"
            "stmxcsr 84(%r11); ldmxcsr 80(%r11)\n"
            "fnstcw 90(%r11); fldcw 88(%r11)\n"
            "mov %rbx, 144(%r11); mov %rbp, 152(%r11); mov %r12, 160(%r11)\n"
            "mov %r13, 168(%r11); mov %r14, 176(%r11); mov %r15, 184(%r11)\n"
            "cmpl $32, 36(%r11)\n"
            "jb 3f\n"
            "ja 2f\n"
            "vmovups %ymm0, 192(%r11); vmovups %ymm1, 256(%r11); vmovups %ymm2, 320(%r11); vmovups "
            "%ymm3, 384(%r11)\n"
            "vmovups %ymm4, 448(%r11); vmovups %ymm5, 512(%r11); vmovups %ymm6, 576(%r11); vmovups "
            "%ymm7, 640(%r11)\n"
            "vmovups %ymm8, 704(%r11); vmovups %ymm9, 768(%r11); vmovups %ymm10, 832(%r11); "
            "vmovups %ymm11, 896(%r11)\n"
            "vmovups %ymm12, 960(%r11); vmovups %ymm13, 1024(%r11)\n"
            "vmovups %ymm14, 1088(%r11); vmovups %ymm15, 1152(%r11)\n"
            "jmp 3f\n"
            "2: vmovups %zmm0, 192(%r11); vmovups %zmm1, 256(%r11); vmovups %zmm2, 320(%r11); "
            "vmovups %zmm3, 384(%r11)\n"
            "vmovups %zmm4, 448(%r11); vmovups %zmm5, 512(%r11); vmovups %zmm6, 576(%r11); vmovups "
            "%zmm7, 640(%r11)\n"
            "vmovups %zmm8, 704(%r11); vmovups %zmm9, 768(%r11); vmovups %zmm10, 832(%r11); "
            "vmovups %zmm11, 896(%r11)\n"
            "vmovups %zmm12, 960(%r11); vmovups %zmm13, 1024(%r11)\n"
            "vmovups %zmm14, 1088(%r11); vmovups %zmm15, 1152(%r11)\n"
            "3: add $8, %rsp; pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
            "ret\n");
}

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
    current_call = call;
    run(call);
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
    if (call->stack_before != call->stack_after) return "changes rsp";
    if (call->flags & DIRECTION_FLAG) return "sets the direction flag";
    if ((call->mxcsr_before | MXCSR_STATUS) != (call->mxcsr_after | MXCSR_STATUS))
        return "changes MXCSR";
    if (call->x87_before != call->x87_after) return "changes the x87 control word";
    if (upper_halves_in_use(call)) return "leaves upper halves of vector registers in use";
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
                         &(struct rf_pack_args){packed, i, k, x + i * k, 0, k});
    return packed;
}

void kcheck_multiply(struct kcheck *check, const char *name, rf_linear_fn *linear,
                     const struct rf_linear_args *args)
{
    kcheck_call(check, name, (kcheck_kernel *)linear, (uint64_t[4]){kcheck_pointer(args)}, 0.0f);
}
