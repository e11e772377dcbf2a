/* Generated code as code: what instructions it is made of, that it leaves the caller's registers
 * alone, that its memory is never writable and executable at a time, and what happens where
 * executable memory is refused. */
#define _GNU_SOURCE
#include <Zydis/Zydis.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/tiers.h"
#include "jit/panels.h"
#include "platform/cpu.h"
#include "support/check.h"

static const char *const form_names[RF_PANELS_FORM_COUNT] = {"avx2", "avxvnni", "avxvnni (EVEX)",
                                                             "avxvnniint8", "avx512"};

/* Counts of what a function's instructions need. */
struct census {
    int instructions, evex, unknown;
    int vnni, signed_vnni, maddubs, permb, wide, other_extension;
};

/* vpdpbssd is newer than Zydis 4.0; it is vpdpbusd's VEX form with the prefix F2 (pp 3) in place of
 * 66 (pp 1). */
static int take_back_to_vpdpbusd(uint8_t *code)
{
    if (code[0] != 0xc4 || (code[1] & 0x1f) != 2 || (code[2] & 3) != 3 || code[3] != 0x50) return 0;
    code[2] = (uint8_t)((code[2] & ~3) | 1);
    return 1;
}

/* 1 if an instruction needs no more than the tier asks the processor for. */
static int is_of_form(const ZydisDecodedInstruction *found, enum rf_panels_form form)
{
    switch (found->meta.isa_set) {
    case ZYDIS_ISA_SET_AVX512F_256:
    case ZYDIS_ISA_SET_AVX512BW_256:
    case ZYDIS_ISA_SET_AVX512_VNNI_256: return form == RF_PANELS_AVXVNNI_EVEX;
    case ZYDIS_ISA_SET_AVX512F_512:
    case ZYDIS_ISA_SET_AVX512BW_512:
    case ZYDIS_ISA_SET_AVX512_VNNI_512:
    case ZYDIS_ISA_SET_AVX512_VBMI_512: return form == RF_PANELS_AVX512;
    default: break;
    }
    switch (found->meta.isa_ext) {
    case ZYDIS_ISA_EXT_AVX_VNNI: return form == RF_PANELS_AVXVNNI || form == RF_PANELS_AVXVNNIINT8;
    case ZYDIS_ISA_EXT_BASE:
    case ZYDIS_ISA_EXT_LONGMODE:
    case ZYDIS_ISA_EXT_SSE: /* prefetch */ return 1;
    case ZYDIS_ISA_EXT_AVX: /* vzeroupper; the rest has either encoding */
        return found->mnemonic == ZYDIS_MNEMONIC_VZEROUPPER || form < RF_PANELS_AVX512;
    case ZYDIS_ISA_EXT_AVX2:
    case ZYDIS_ISA_EXT_F16C:
    case ZYDIS_ISA_EXT_FMA: return form < RF_PANELS_AVX512;
    default: return 0;
    }
}

static struct census take_census(uint8_t *code, size_t bytes, enum rf_panels_form form)
{
    struct census census = {0};
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (size_t at = 0; at < bytes;) {
        ZydisDecodedInstruction found;
        ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
        int is_signed = take_back_to_vpdpbusd(code + at);
        if (!ZYAN_SUCCESS(
                ZydisDecoderDecodeFull(&decoder, code + at, bytes - at, &found, operands))) {
            census.unknown++;
            at++;
            continue;
        }
        census.instructions++;
        census.signed_vnni += is_signed;
        census.vnni += found.mnemonic == ZYDIS_MNEMONIC_VPDPBUSD && !is_signed;
        census.evex += found.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX;
        census.wide += found.avx.vector_length == 512;
        census.maddubs += found.mnemonic == ZYDIS_MNEMONIC_VPMADDUBSW;
        census.permb += found.mnemonic == ZYDIS_MNEMONIC_VPERMB;
        census.other_extension += !is_of_form(&found, form);
        at += found.length;
    }
    return census;
}

/* A block is eight vectors of 512 bits of codes, or sixteen of 256, for each panel. */
static void check_function(enum rf_panels_form form, enum rf_format format, int n, int p)
{
    static uint8_t code[1 << 16];
    struct rf_error error = {0};
    struct rf_assembler assembler = {.code = code, .capacity = sizeof code};
    rf_panels_emit(&assembler, form, format, n, p);
    CHECK_MSG(rf_asm_finish(&assembler, &error) == 0, "%s n=%d p=%d: %s", form_names[form], n, p,
              error.text);
    struct census found = take_census(code, assembler.used, form);
    int is_512 = form == RF_PANELS_AVX512, is_evex = is_512 || form == RF_PANELS_AVXVNNI_EVEX;
    int products = (is_512 ? 8 : 16) * n * p;
    CHECK_MSG(!found.unknown && !found.other_extension && found.instructions > products &&
                  (found.evex > 0) == is_evex && (found.wide > 0) == is_512,
              "%s %s n=%d p=%d: %d instructions, of them %d EVEX, %d of 512 bits, %d of other "
              "extensions; %d bytes "
              "unknown",
              form_names[form], rf_panel_layout(format)->name, n, p, found.instructions, found.evex,
              found.wide, found.other_extension, found.unknown);
    int is_signed = form == RF_PANELS_AVXVNNIINT8 && rf_panel_table(format);
    CHECK_INT(found.vnni, form == RF_PANELS_AVX2 || is_signed ? 0 : products);
    CHECK_INT(found.signed_vnni, is_signed ? products : 0);
    CHECK_INT(found.maddubs, form == RF_PANELS_AVX2 ? products : 0);
    CHECK_INT(found.permb, is_512 && rf_panel_table(format) ? 8 * p : 0);
}

static void check_instructions(void)
{
    for (int form = 0; form < RF_PANELS_FORM_COUNT; form++)
        for (int format = 0; format < RF_FORMAT_COUNT; format++) {
            enum rf_panels_form its_form = (enum rf_panels_form)form;
            if (!rf_panels_can(its_form, (enum rf_format)format)) continue;
            for (size_t n = 1; n <= (size_t)RF_PANELS_MOST_ROWS; n++)
                for (size_t p = rf_panels_at_once(n); p > 0; p /= 2)
                    check_function(its_form, (enum rf_format)format, (int)n, (int)p);
        }
}

/* An instruction that cannot be encoded, or does not fit, is an error, and nothing is written past
 * the end. */
static void check_assembler_errors(void)
{
    uint8_t code[512];
    struct rf_error error;
    for (size_t capacity = 0; capacity < 400; capacity += 7) {
        memset(code, 0xee, sizeof code);
        struct rf_assembler assembler = {.code = code, .capacity = capacity};
        rf_panels_emit(&assembler, RF_PANELS_AVX512, RF_FORMAT_Q6_K, 8, 1);
        CHECK_INT(rf_asm_finish(&assembler, &error), RF_ERR_SYSTEM);
        CHECK(assembler.used <= capacity);
        for (size_t i = capacity; i < sizeof code; i++) CHECK(code[i] == 0xee);
    }
    struct rf_assembler assembler = {.code = code, .capacity = sizeof code, .vector_bytes = 32};
    rf_asm_vector(&assembler, RF_VPERMB, 0, 1, rf_reg(2));
    CHECK_INT(rf_asm_finish(&assembler, &error), RF_ERR_SYSTEM);
    CHECK_INT(assembler.used, 0);
    assembler = (struct rf_assembler){.code = code, .capacity = sizeof code, .vector_bytes = 32};
    rf_asm_vector(&assembler, RF_VPAND, 16, 1, rf_reg(2));
    CHECK_INT(rf_asm_finish(&assembler, &error), RF_ERR_SYSTEM);
}

static int machine_has(enum rf_panels_form form)
{
    switch (form) {
    case RF_PANELS_AVX2: return rf_cpu_has_tier(RF_TIER_AVX2);
    case RF_PANELS_AVXVNNI: return rf_cpu_has_tier(RF_TIER_AVXVNNI) && !rf_cpu_needs_evex();
    case RF_PANELS_AVXVNNIINT8: return rf_cpu_has_tier(RF_TIER_AVXVNNIINT8);
    default: return rf_cpu_has_tier(RF_TIER_AVX512);
    }
}

/* Calls with known values in the registers that a function must give back, and returns which differ
 * afterwards, a bit each: RBX, RBP, R12 to R15. */
static unsigned registers_changed(rf_panels_fn *fn, struct rf_panels_call *call)
{
    uint64_t after[6] = {0};
    __asm__ volatile(
        "sub $128, %%rsp\n" /* the red zone */
        "push %%rbx\n push %%rbp\n push %%r12\n push %%r13\n push %%r14\n push %%r15\n push %%rdx\n"
        "mov $101, %%ebx\n mov $102, %%ebp\n mov $103, %%r12d\n"
        "mov $104, %%r13d\n mov $105, %%r14d\n mov $106, %%r15d\n"
        "call *%%rax\n"
        "pop %%rdx\n"
        "mov %%rbx, (%%rdx)\n mov %%rbp, 8(%%rdx)\n mov %%r12, 16(%%rdx)\n"
        "mov %%r13, 24(%%rdx)\n mov %%r14, 32(%%rdx)\n mov %%r15, 40(%%rdx)\n"
        "pop %%r15\n pop %%r14\n pop %%r13\n pop %%r12\n pop %%rbp\n pop %%rbx\n"
        "add $128, %%rsp\n"
        : "+a"(fn), "+D"(call)
        : "d"(after)
        : "rcx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3",
          "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
          "xmm14", "xmm15");
    unsigned changed = 0;
    for (unsigned i = 0; i < 6; i++) changed |= (unsigned)(after[i] != 101 + i) << i;
    return changed;
}

/* The permissions of the mapping at an address, as in "r-xp"; "" if there is none. */
static void permissions_at(const void *address, char out[5])
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[1024];
    out[0] = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char permissions[5];
        if (sscanf(line, "%lx-%lx %4s", &from, &to, permissions) == 3 &&
            (unsigned long)(uintptr_t)address >= from && (unsigned long)(uintptr_t)address < to)
            strcpy(out, permissions);
    }
    if (maps) fclose(maps);
}

static void check_generated(enum rf_panels_form form)
{
    enum { UNITS = 2, MOST_BLOCKS = UNITS * RF_SUPERBLOCK / RF_BLOCK };
    static alignas(64)
        uint8_t panels[RF_PANELS_MOST][UNITS * 3392]; /* Q6_K has the largest units */
    static alignas(64) struct rf_a8 rows[RF_PANELS_MOST_ROWS][MOST_BLOCKS];
    static struct rf_panels_call call;
    struct rf_panels_kernels kernels;
    struct rf_error error;
    CHECK_INT(rf_panels_generate(&kernels, form, &error), 0);
    char permissions[5];
    permissions_at(kernels.code.memory, permissions);
    CHECK_STR(permissions, "r-xp");
    for (int format = 0; machine_has(form) && format < RF_FORMAT_COUNT; format++)
        for (int n = 1; n <= RF_PANELS_MOST_ROWS; n++)
            for (int p = 1; p <= RF_PANELS_MOST; p++) {
                if (!kernels.fn[format][n - 1][p - 1]) continue;
                const struct rf_panel_layout *layout = rf_panel_layout((enum rf_format)format);
                size_t codes = UNITS * layout->unit / RF_BLOCK * layout->block_bytes;
                CHECK(codes + UNITS * layout->scale_bytes <= sizeof *panels);
                call.codes = call.next_codes = panels[0];
                call.scales = call.next_scales = panels[0] + codes;
                call.part = sizeof *panels;
                call.rows = rows[0];
                call.row_bytes = sizeof *rows;
                call.units = UNITS;
                CHECK_INT(registers_changed(kernels.fn[format][n - 1][p - 1], &call), 0);
            }
    rf_panels_free(&kernels);
}

static void check_memory(void)
{
    struct rf_executable executable;
    struct rf_error error;
    CHECK_INT(rf_executable_new(&executable, 0, &error), RF_ERR_ARGUMENT);
    CHECK_INT(rf_executable_new(&executable, SIZE_MAX, &error), RF_ERR_ARGUMENT);
    CHECK_INT(rf_executable_new(&executable, SIZE_MAX / 2, &error), RF_ERR_MEMORY);
    CHECK(executable.memory == NULL);
    CHECK_INT(rf_executable_new(&executable, 1, &error), 0);
    char permissions[5];
    permissions_at(executable.memory, permissions);
    CHECK_STR(permissions, "rw-p");
    executable.memory[0] = 0xc3;
    CHECK_INT(rf_executable_seal(&executable, &error), 0);
    permissions_at(executable.memory, permissions);
    CHECK_STR(permissions, "r-xp");
    rf_executable_free(&executable);
    CHECK(executable.memory == NULL);
}

/* From now on the system refuses to make memory executable, as hardened ones do. */
static int refuse_executable_memory(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

enum { NOT_REFUSED_HERE = 77 };

static int run_refused(void)
{
    if (refuse_executable_memory()) return NOT_REFUSED_HERE;
    struct rf_panels_kernels kernels;
    struct rf_error error = {0};
    CHECK_INT(rf_panels_generate(&kernels, RF_PANELS_AVX2, &error), RF_ERR_SYSTEM);
    CHECK_STR(error.text, "executable memory is refused here: Permission denied");
    CHECK(kernels.code.memory == NULL);
    for (int tier = RF_TIER_AVX2; tier < RF_TIER_COUNT; tier++) {
        if (!rf_cpu_has_tier((enum rf_tier)tier) || !rf_kernels(tier)) continue;
        CHECK_STR(rf_cpu_kernels_note(tier),
                  "executable memory is refused here: Permission denied; compiled kernels serve");
        for (int format = 0; format < RF_FORMAT_COUNT; format++)
            CHECK_INT(rf_cpu_generated_rows(tier, (enum rf_format)format), 0);
        CHECK(memcmp(rf_cpu_kernels(tier), rf_kernels(tier), sizeof(struct rf_kernels)) == 0);
    }
    CHECK_STR(rf_cpu_kernels_note(RF_TIER_SCALAR), "");
    return check_failures ? 1 : 0;
}

/* The check has a process of its own, since the refusal cannot be undone. */
static void check_refusal(void)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(run_refused());
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_REFUSED_HERE)
        printf("not checked: this system has no filter for system calls, so that nothing refuses "
               "executable memory\n");
    else
        CHECK_INT(WEXITSTATUS(status), 0);
}

int main(void)
{
    check_memory();
    check_refusal();
    check_assembler_errors();
    check_instructions();
    for (int form = 0; form < RF_PANELS_FORM_COUNT; form++)
        check_generated((enum rf_panels_form)form);
    return check_result();
}
