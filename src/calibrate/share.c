/* Chooses matrices greedily by error per byte until the share of bytes is used up. calibrate.c
 * calls it once, after measuring. */
#include "calibrate/share.h"

#include <string.h>

/* The best that is not chosen and has at most `most` bytes; n if there is none. */
static size_t best_left(const struct candidate *candidates, size_t n, const uint8_t *high,
                        uint64_t most)
{
    size_t best = n;
    for (size_t i = 0; i < n; i++) {
        const struct candidate *now = &candidates[i];
        if (high[i] || !(now->error > 0) || now->bytes > most) continue;
        if (best == n || now->error * (double)candidates[best].bytes >
                             candidates[best].error * (double)now->bytes)
            best = i;
    }
    return best;
}

void rf_choose_high(const struct candidate *candidates, size_t n, int32_t percent, uint8_t *high)
{
    uint64_t left = 0;
    for (size_t i = 0; i < n; i++) left += candidates[i].bytes;
    left = left / 100 * (uint64_t)percent;
    memset(high, 0, n);
    for (size_t i; (i = best_left(candidates, n, high, left)) < n;) {
        high[i] = 1;
        left -= candidates[i].bytes;
    }
}
