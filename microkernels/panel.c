#include "microkernels/panel.h"

static const struct rf_panel_layout layouts[RF_FORMAT_COUNT] = {
    [RF_FORMAT_MXFP4] = {"MXFP4", 4, 12, 32, 0, 256, 32, 16},
    [RF_FORMAT_Q4_0] = {"Q4_0", 4, 8, 32, 0, 256, 32, 32},
    [RF_FORMAT_Q4_1] = {"Q4_1", 4, 0, 32, 1, 256, 32, 64},
    [RF_FORMAT_Q4_K] = {"Q4_K", 4, 0, 32, 1, 256, 256, 256},
    [RF_FORMAT_Q6_K] = {"Q6_K", 6, 32, 16, 0, 384, 256, 288},
    [RF_FORMAT_Q8_0] = {"Q8_0", 8, 128, 32, 0, 512, 32, 32},
    [RF_FORMAT_Q8_1] = {"Q8_1", 8, 0, 32, 1, 512, 32, 64},
    [RF_FORMAT_Q8_K] = {"Q8_K", 8, 0, 16, 1, 512, 256, 576},
};

const uint8_t rf_mxfp4_codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

const struct rf_panel_layout *rf_panel_layout(enum rf_format format)
{
    return layouts[format].name ? &layouts[format] : 0;
}

size_t rf_panel_bytes(enum rf_format format, size_t k)
{
    const struct rf_panel_layout *layout = &layouts[format];
    size_t bytes = k / RF_BLOCK * layout->block_bytes + k / layout->unit * layout->scale_bytes;
    return (bytes + 63) & ~(size_t)63;
}
