/* Sizes of weight panels, and tables of codes. Everything else about panels is in
 * panel.h, inline, so that kernels fold a format's traits into constants. */
#include "microkernels/panel.h"

#include <assert.h>

_Static_assert(8ll * RF_ROW_MOST * 127 * RF_ROW_MOST_K <= INT32_MAX, "sums are in 32 bits");

const uint8_t rf_mxfp4_codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
const uint8_t rf_iq4_codes[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                  129, 141, 153, 166, 181, 197, 217, 241};
const uint8_t rf_iq2_codes[16] = {64 + 8, 64 + 25, 64 + 43, 64, 64 - 7, 64 + 1, 64 + 9, 64,
                                  64 - 8, 64 - 25, 64 - 43, 64, 64 - 9, 64 - 1, 64 + 7, 64};
const uint8_t rf_iq3_xxs_codes[16] = {132, 140, 148, 156, 164, 172, 180, 190,
                                      124, 116, 108, 100, 92,  84,  76,  66};
const uint8_t rf_iq3_s_codes[16] = {129, 131, 133, 135, 137, 139, 141, 143,
                                    127, 125, 123, 121, 119, 117, 115, 113};

size_t rf_panel_bytes(enum rf_format format, size_t k)
{
    assert(format != RF_FORMAT_BF16 && k % rf_panel_layout(format)->unit == 0);
    size_t bytes = rf_panel_tail_at(format, k);
    if (rf_is_row_format(format)) bytes += RF_PANEL_ROWS * sizeof(float);
    return (bytes + 63) & ~(size_t)63;
}
