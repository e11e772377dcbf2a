/* Random bits from the system's generator; from clocks where it fails. */
#include "platform/random.h"

#include "platform/windows/wide.h"

#include <bcrypt.h>

uint64_t rf_random(void)
{
    uint64_t x;
    if (BCryptGenRandom(NULL, (PUCHAR)&x, sizeof x, BCRYPT_USE_SYSTEM_PREFERRED_RNG) == 0) return x;
    LARGE_INTEGER now;
    QueryPerformanceCounter(&now);
    x = (uint64_t)now.QuadPart + GetTickCount64() + ((uint64_t)GetCurrentProcessId() << 40);
    /* The finaliser of splitmix64 spreads the few bits that change. */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}
