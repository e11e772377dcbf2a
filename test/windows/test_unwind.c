/* Windows can walk the stack through generated functions: from inside one it finds the caller and
 * the caller's registers. */
#include <windows.h>

#include "jit/panels.h"
#include "support/check.h"

/* A stack as it is inside a function: what was pushed, last first, then the return address. */
enum { PUSHED = 6, INSIDE = 32 };

static void check_function(const struct rf_panels_kernels *kernels, rf_panels_fn *fn)
{
    uint64_t stack[32] = {0};
    for (uint64_t i = 0; i <= PUSHED; i++) stack[i] = 100 + i;
    CONTEXT context = {.ContextFlags = CONTEXT_FULL};
    context.Rip = (DWORD64)(uintptr_t)fn + INSIDE;
    context.Rsp = (DWORD64)(uintptr_t)stack;
    DWORD64 base = 0, establisher = 0;
    void *handler = NULL;
    RUNTIME_FUNCTION *entry = RtlLookupFunctionEntry(context.Rip, &base, NULL);
    CHECK(entry != NULL);
    if (!entry) return;
    CHECK_INT(base, (DWORD64)(uintptr_t)kernels->code.memory);
    CHECK_INT(base + entry->BeginAddress, (DWORD64)(uintptr_t)fn);
    RtlVirtualUnwind(UNW_FLAG_NHANDLER, base, context.Rip, entry, &context, &handler, &establisher,
                     NULL);
    CHECK_INT(context.R15, 100);
    CHECK_INT(context.R14, 101);
    CHECK_INT(context.R13, 102);
    CHECK_INT(context.R12, 103);
    CHECK_INT(context.Rbp, 104);
    CHECK_INT(context.Rbx, 105);
    CHECK_INT(context.Rip, 106);
    CHECK_INT(context.Rsp, (DWORD64)(uintptr_t)(stack + PUSHED + 1));
}

int main(void)
{
    struct rf_panels_kernels kernels;
    struct rf_error error;
    CHECK_INT(rf_panels_generate(&kernels, RF_PANELS_AVX2, &error), 0);
    rf_panels_fn *last = kernels.fn[RF_FORMAT_MXFP4][0][0];
    check_function(&kernels, last);
    check_function(&kernels, kernels.fn[RF_FORMAT_MXFP4][7][1]);
    rf_panels_free(&kernels);
    DWORD64 base;
    CHECK(RtlLookupFunctionEntry((DWORD64)(uintptr_t)last + INSIDE, &base, NULL) == NULL);
    return check_result();
}
