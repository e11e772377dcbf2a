/* The grids of IQ1, IQ2 and IQ3. A point is a number for each of its places, the first in the
 * lowest bits: 8 places of 2 bits, in IQ3 4 places of 3 bits. The numbers count the magnitudes of
 * the type, in IQ1 the values -1, 0, 1, from 0 on. */
#ifndef RF_MODEL_GRIDS_H
#define RF_MODEL_GRIDS_H

#include <stdint.h>

extern const uint16_t rf_grid_iq1_s[2048], rf_grid_iq2_xxs[256], rf_grid_iq2_xs[512],
    rf_grid_iq2_s[1024], rf_grid_iq3_xxs[256], rf_grid_iq3_s[512];

#endif
