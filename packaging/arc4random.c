/* libstdc++ of Debian 12 calls arc4random() for std::random_device, and glibc has that since 2.36
 * only. The bundle's copy of libstdc++ has this one, so that it runs with older C libraries. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

uint32_t arc4random(void);

uint32_t arc4random(void)
{
    uint32_t number;
    /* Up to 256 bytes come whole, or not at all when a signal comes first. */
    while (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) continue;
    return number;
}
