/* The System V calling convention. */
#include "kcheck/run.h"

__attribute__((naked, noinline, target("avx512f"))) void
kcheck_run(__attribute__((unused)) struct call *call)
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
            "mov kcheck_current(%rip), %r11\n"
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

const char *kcheck_moved(const struct call *call)
{
    (void)call;
    return NULL;
}
