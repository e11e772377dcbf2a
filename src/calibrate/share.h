/* Chooses the matrices of a model that get more than four bits. */
#ifndef RF_CALIBRATE_SHARE_H
#define RF_CALIBRATE_SHARE_H

#include <stddef.h>
#include <stdint.h>

struct candidate {
    double error;   /* the layer's output error where only this matrix has four bits; 0: none */
    uint64_t bytes; /* bytes that more bits add */
};

/* Sets high[i], else clears it, for the candidates with the greatest errors for their bytes,
 * which together add at most `percent` of the bytes that all would. */
void rf_choose_high(const struct candidate *candidates, size_t n, int32_t percent, uint8_t *high);

#endif
