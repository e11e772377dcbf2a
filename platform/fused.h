/* a * b + c with one rounding, as the processor's instruction has it. */
#ifndef RF_PLATFORM_FUSED_H
#define RF_PLATFORM_FUSED_H

#include <math.h>

#if defined(_WIN32)
/* mingw-w64's fmaf() rounds twice. */
float rf_fused(float a, float b, float c);
#else
static inline float rf_fused(float a, float b, float c)
{
    return fmaf(a, b, c);
}
#endif

#endif
