/* Random bits from getrandom(2); from the clock while the system has none yet. */
#define _DEFAULT_SOURCE
#include "platform/random.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

uint64_t rf_random(void)
{
    uint64_t x;
    if (getrandom(&x, sizeof x, GRND_NONBLOCK) == (ssize_t)sizeof x) return x;
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_REALTIME, &now);
    x = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + ((uint64_t)getpid() << 40);
    /* The finaliser of splitmix64 spreads the few bits that change. */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}
