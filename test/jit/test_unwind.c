/* The stack is walked through generated functions, as handlers of crashes, profilers in the process
 * and C++ exceptions do: at every instruction of the first and last bytes, in functions that fault,
 * and in functions that a timer interrupts. With the argument "fault" nothing handles the fault, so
 * that test_gdb.py can look at it. */
#define _GNU_SOURCE
#include <execinfo.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unwind.h>

#include "jit/panels.h"
#include "platform/cpu.h"
#include "support/check.h"
#include "support/pages.h"

const void *_Unwind_Find_FDE(void *pc, void *bases[3]); /* libgcc's look-up of frames */

enum { LACKS_AVX2 = 77, MOST_FRAMES = 64, SAVED = 6, TRAP_FLAG = 0x100 };

static struct rf_panels_kernels kernels;
static const void *main_return; /* into main, from the check that runs */

static int is_in(const void *address, const struct rf_function *function)
{
    size_t at = (size_t)((uintptr_t)address - (uintptr_t)kernels.code.memory);
    return at >= function->begin && at < function->end;
}

/* The range and the name of a function; emitting it again gives its size. */
static struct rf_function function_of(enum rf_format format, size_t n, size_t p)
{
    static uint8_t code[1 << 16];
    struct rf_assembler assembler = {.code = code, .capacity = sizeof code};
    struct rf_function function = {0};
    rf_panels_emit(&assembler, kernels.form, format, (int)n, (int)p);
    function.begin =
        (unsigned)((uintptr_t)kernels.fn[format][n - 1][p - 1] - (uintptr_t)kernels.code.memory);
    function.end = function.begin + (unsigned)assembler.used;
    rf_panels_name(function.name, kernels.form, format, (int)n, (int)p);
    return function;
}

/* One step of the processor in a function. */
static struct {
    struct rf_function function;
    uint64_t stack, back; /* the caller's stack pointer, and where the function returns to */
    int steps, looked_at, wrong;
} stepped;

enum { STEP_NOT_FOUND, STEP_IN_FUNCTION, STEP_IN_CALLER };

/* Compares the frame behind the function's with the caller's registers as check_step sets them. */
static _Unwind_Reason_Code look_at_frame(struct _Unwind_Context *context, void *state)
{
    static const int registers[SAVED] = {3, 6, 12, 13, 14, 15}; /* DWARF's numbers: rbx, rbp, r12 */
    int *place = state;
    if (*place == STEP_NOT_FOUND) {
        if (is_in((void *)_Unwind_GetIP(context), &stepped.function)) *place = STEP_IN_FUNCTION;
        return _URC_NO_REASON;
    }
    int wrong = _Unwind_GetIP(context) != stepped.back || _Unwind_GetCFA(context) != stepped.stack;
    for (int i = 0; i < SAVED && !wrong; i++)
        wrong |= _Unwind_GetGR(context, registers[i]) != (uint64_t)(101 + i);
    stepped.wrong += wrong;
    *place = STEP_IN_CALLER;
    return _URC_NORMAL_STOP;
}

static void on_step(int number, siginfo_t *information, void *user)
{
    enum { EDGE = 80, SOMETIMES = 61 };
    (void)number, (void)information;
    greg_t *registers = ((ucontext_t *)user)->uc_mcontext.gregs;
    const struct rf_function *function = &stepped.function;
    uint64_t at = (uint64_t)registers[REG_RIP] - (uint64_t)(uintptr_t)kernels.code.memory;
    if (at < function->begin || at >= function->end) {
        if (stepped.steps) registers[REG_EFL] &= ~TRAP_FLAG; /* it has returned */
        return;
    }
    int place = STEP_NOT_FOUND;
    if (stepped.steps++ % SOMETIMES && at >= function->begin + EDGE && at < function->end - EDGE)
        return;
    stepped.looked_at++;
    _Unwind_Backtrace(look_at_frame, &place);
    stepped.wrong += place != STEP_IN_CALLER;
}

/* Calls with known values in the registers that a function gives back, a step at a time. */
static void call_in_steps(rf_panels_fn *fn, struct rf_panels_call *call)
{
    __asm__ volatile("sub $128, %%rsp\n" /* the red zone */
                     "push %%rbx\n push %%rbp\n push %%r12\n push %%r13\n push %%r14\n push %%r15\n"
                     "mov %%rsp, (%%rdx)\n lea 1f(%%rip), %%rcx\n mov %%rcx, 8(%%rdx)\n"
                     "mov $101, %%ebx\n mov $102, %%ebp\n mov $103, %%r12d\n"
                     "mov $104, %%r13d\n mov $105, %%r14d\n mov $106, %%r15d\n"
                     "pushfq\n orq $0x100, (%%rsp)\n popfq\n"
                     "call *%%rax\n"
                     "1: nop\n"
                     "pop %%r15\n pop %%r14\n pop %%r13\n pop %%r12\n pop %%rbp\n pop %%rbx\n"
                     "add $128, %%rsp\n"
                     : "+a"(fn), "+D"(call)
                     : "d"(&stepped.stack)
                     : "rcx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory", "xmm0", "xmm1",
                       "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
                       "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

/* One unit of the format for each panel and row. */
static struct rf_panels_call *call_of(enum rf_format format)
{
    enum { MOST_BLOCKS = RF_SUPERBLOCK / RF_BLOCK, MOST_UNIT = 4096 };
    static alignas(64) uint8_t panels[RF_PANELS_MOST][MOST_UNIT];
    static alignas(64) struct rf_a8 rows[RF_PANELS_MOST_ROWS][MOST_BLOCKS];
    static struct rf_panels_call call;
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    call.codes = call.next_codes = panels[0];
    call.scales = call.next_scales = panels[0] + layout->unit / RF_BLOCK * layout->block_bytes;
    call.part = sizeof *panels;
    call.rows = rows[0];
    call.row_bytes = sizeof *rows;
    call.units = 1;
    return &call;
}

static void check_steps(void)
{
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, before;
    sigaction(SIGTRAP, &action, &before);
    for (int format = 0; format < RF_FORMAT_COUNT; format++)
        for (size_t n = 1; n <= RF_PANELS_MOST_ROWS; n += n == 1 ? 3 : 4)
            for (size_t p = 1; p <= RF_PANELS_MOST; p *= 2) {
                if (!kernels.fn[format][n - 1][p - 1]) continue;
                memset(&stepped, 0, sizeof stepped);
                stepped.function = function_of((enum rf_format)format, n, p);
                call_in_steps(kernels.fn[format][n - 1][p - 1], call_of((enum rf_format)format));
                CHECK_MSG(stepped.wrong == 0 && stepped.looked_at > 30,
                          "%s: of %d places, %d give wrong frames", stepped.function.name,
                          stepped.looked_at, stepped.wrong);
            }
    sigaction(SIGTRAP, &before, NULL);
}

/* A handler's look at the stack. */
static struct {
    void *frames[MOST_FRAMES];
    int n;
} seen;

static int sees(const struct rf_function *function)
{
    for (int i = 0; i < seen.n; i++)
        if (is_in(seen.frames[i], function)) return 1;
    return 0;
}

static int sees_main(void)
{
    for (int i = 0; i < seen.n; i++)
        if (seen.frames[i] == main_return) return 1;
    return 0;
}

static sigjmp_buf behind_fault;

static void on_fault(int number)
{
    (void)number;
    seen.n = backtrace(seen.frames, MOST_FRAMES);
    siglongjmp(behind_fault, 1);
}

/* Multiplies weights that nobody may read by a row of zeros. */
static void multiply_forbidden(void)
{
    enum { K = 2 * RF_SUPERBLOCK, BYTES = 64 * PAGE };
    static alignas(64) struct rf_a8 row[K / RF_BLOCK];
    static float y[RF_PANEL_ROWS];
    uint8_t *weights = pages_new(BYTES);
    struct rf_linear_args args = {.y = y,
                                  .ldy = RF_PANEL_ROWS,
                                  .w = weights,
                                  .ldw = rf_panel_bytes(RF_FORMAT_Q4_K, K),
                                  .x = row,
                                  .m = RF_PANEL_ROWS,
                                  .n = 1,
                                  .k = K};
    rf_panels_linear(&kernels, RF_FORMAT_Q4_K, &args);
    pages_free(weights, BYTES);
}

__attribute__((noinline)) static void check_fault(void)
{
    struct sigaction action = {.sa_handler = on_fault}, before;
    struct rf_function function = function_of(RF_FORMAT_Q4_K, 1, 1);
    main_return = __builtin_return_address(0);
    sigaction(SIGSEGV, &action, &before);
    if (!sigsetjmp(behind_fault, 1)) multiply_forbidden();
    sigaction(SIGSEGV, &before, NULL);
    CHECK(sees(&function));
    CHECK(sees_main());
}

/* The places at which the timer's signals came. */
static struct {
    struct rf_function function;
    volatile int in_function, lost;
} timed;

static void on_timer(int number)
{
    (void)number;
    seen.n = backtrace(seen.frames, MOST_FRAMES);
    if (!sees(&timed.function)) return;
    timed.in_function++;
    timed.lost += !sees_main();
}

__attribute__((noinline)) static void check_timer(void)
{
    enum { ENOUGH = 50, MOST_SECONDS = 60 };
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART}, before;
    struct itimerval period = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    time_t begin = time(NULL);
    timed.function = function_of(RF_FORMAT_Q6_K, 8, 2);
    main_return = __builtin_return_address(0);
    sigaction(SIGPROF, &action, &before);
    setitimer(ITIMER_PROF, &period, NULL);
    while (timed.in_function < ENOUGH && time(NULL) - begin < MOST_SECONDS)
        for (int i = 0; i < 1000; i++) kernels.fn[RF_FORMAT_Q6_K][7][1](call_of(RF_FORMAT_Q6_K));
    setitimer(ITIMER_PROF, &never, NULL);
    sigaction(SIGPROF, &before, NULL);
    CHECK(timed.in_function > 0);
    CHECK_INT(timed.lost, 0);
}

/* Nothing is told of memory that has been freed. */
static void check_withdrawn(void)
{
    void *bases[3], *inside = kernels.code.memory + function_of(RF_FORMAT_Q4_0, 1, 1).begin;
    struct rf_panels_kernels others;
    struct rf_error error;
    CHECK_INT(rf_panels_generate(&others, RF_PANELS_AVXVNNI, &error), 0);
    CHECK(_Unwind_Find_FDE(inside, bases) != NULL);
    void *inside_others = others.code.memory + 1;
    CHECK(_Unwind_Find_FDE(inside_others, bases) != NULL);
    rf_panels_free(&kernels);
    CHECK(_Unwind_Find_FDE(inside, bases) == NULL);
    CHECK(_Unwind_Find_FDE(inside_others, bases) != NULL);
    rf_panels_free(&others);
    CHECK(_Unwind_Find_FDE(inside_others, bases) == NULL);
}

int main(int count, char **arguments)
{
    struct rf_error error = {0};
    if (!rf_cpu_has_tier(RF_TIER_AVX2)) {
        printf("not checked: this processor lacks AVX2\n");
        return LACKS_AVX2;
    }
    CHECK_MSG(rf_panels_generate(&kernels, RF_PANELS_AVX2, &error) == 0, "%s", error.text);
    if (!kernels.code.memory) return check_result();
    if (count > 1 && strcmp(arguments[1], "fault") == 0) multiply_forbidden();
    backtrace(seen.frames, MOST_FRAMES); /* loads the unwinder */
    check_steps();
    check_fault();
    check_timer();
    check_withdrawn();
    return check_result();
}
