/* Windows's calling convention: arguments by their position in rcx, rdx, r8, r9 and above 32 bytes
 * of the stack that are the callee's; numbers in the xmm of the same position. A fifth argument
 * follows a number, so it is the last of the others. Generated kernels follow the System V
 * convention and take one argument, which is in rdi, too. */
#include <string.h>

#include "kcheck/run.h"

__attribute__((naked, noinline, target("avx512f"))) void
kcheck_run(__attribute__((unused)) struct call *call)
{
    __asm__(
        "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15; push %rsi; push %rdi\n"
        "sub $216, %rsp\n"
        "movups %xmm6, 48(%rsp); movups %xmm7, 64(%rsp); movups %xmm8, 80(%rsp)\n"
        "movups %xmm9, 96(%rsp); movups %xmm10, 112(%rsp); movups %xmm11, 128(%rsp)\n"
        "movups %xmm12, 144(%rsp); movups %xmm13, 160(%rsp); movups %xmm14, 176(%rsp)\n"
        "movups %xmm15, 192(%rsp)\n"
        "mov %rcx, %rax\n"
        "mov %rsp, 56(%rax)\n"
        "stmxcsr 80(%rax)\n"
        "fnstcw 88(%rax)\n"
        "mov 96(%rax), %rbx; mov 104(%rax), %rbp; mov 112(%rax), %r12\n"
        "mov 120(%rax), %r13; mov 128(%rax), %r14; mov 136(%rax), %r15\n"
        "mov 0(%rax), %rcx; mov 8(%rax), %rdx; mov 16(%rax), %r8; mov 24(%rax), %r9\n"
        "mov %r9, 32(%rsp)\n"
        "mov 1216(%rax), %rsi; mov 1224(%rax), %rdi\n"
        "movups 1248(%rax), %xmm6; movups 1264(%rax), %xmm7; movups 1280(%rax), %xmm8\n"
        "movups 1296(%rax), %xmm9; movups 1312(%rax), %xmm10; movups 1328(%rax), %xmm11\n"
        "movups 1344(%rax), %xmm12; movups 1360(%rax), %xmm13; movups 1376(%rax), %xmm14\n"
        "movups 1392(%rax), %xmm15\n"
        "movss 32(%rax), %xmm0; movaps %xmm0, %xmm2; movaps %xmm0, %xmm3\n"
        "cmpl $0, 36(%rax)\n"
        "je 1f\n"
        "vzeroupper\n"
        "1: call *40(%rax)\n"
        "mov kcheck_current(%rip), %r11\n"
        "mov %rax, 48(%r11)\n"
        "mov %rsp, 64(%r11)\n"
        "mov 56(%r11), %rsp\n"
        "pushfq; pop %rax; mov %rax, 72(%r11); cld\n"
        "stmxcsr 84(%r11); ldmxcsr 80(%r11)\n"
        "fnstcw 90(%r11); fldcw 88(%r11)\n"
        "mov %rbx, 144(%r11); mov %rbp, 152(%r11); mov %r12, 160(%r11)\n"
        "mov %r13, 168(%r11); mov %r14, 176(%r11); mov %r15, 184(%r11)\n"
        "mov %rsi, 1232(%r11); mov %rdi, 1240(%r11)\n"
        "movups %xmm6, 1408(%r11); movups %xmm7, 1424(%r11); movups %xmm8, 1440(%r11)\n"
        "movups %xmm9, 1456(%r11); movups %xmm10, 1472(%r11); movups %xmm11, 1488(%r11)\n"
        "movups %xmm12, 1504(%r11); movups %xmm13, 1520(%r11); movups %xmm14, 1536(%r11)\n"
        "movups %xmm15, 1552(%r11)\n"
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
        "3: movups 48(%rsp), %xmm6; movups 64(%rsp), %xmm7; movups 80(%rsp), %xmm8\n"
        "movups 96(%rsp), %xmm9; movups 112(%rsp), %xmm10; movups 128(%rsp), %xmm11\n"
        "movups 144(%rsp), %xmm12; movups 160(%rsp), %xmm13; movups 176(%rsp), %xmm14\n"
        "movups 192(%rsp), %xmm15\n"
        "add $216, %rsp; pop %rdi; pop %rsi\n"
        "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
        "ret\n");
}

const char *kcheck_moved(const struct call *call)
{
    if (call->moved_before[0] != call->moved_after[0]) return "changes rsi";
    if (call->moved_before[1] != call->moved_after[1]) return "changes rdi";
    return memcmp(call->low_before, call->low_after, sizeof call->low_before) == 0
               ? NULL
               : "changes xmm6 to xmm15";
}
