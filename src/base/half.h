/* The 16-bit float formats, one value at a time. Conversions round to nearest even; NaNs stay (quiet) NaNs. */
#ifndef RF_BASE_HALF_H
#define RF_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t rf_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float rf_bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float rf_bf16_to_f32(uint16_t half)
{
    return rf_bits_float((uint32_t)half << 16);
}

static inline uint16_t rf_f32_to_bf16(float value)
{
    uint32_t bits = rf_float_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float rf_f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00) return rf_bits_float(sign | 0x7f800000 | (rest & 0x3ff) << 13 | (rest > 0x7c00 ? 0x400000 : 0));
    if (rest >= 0x400) return rf_bits_float(sign | ((rest << 13) + 0x38000000));
    /* Subnormal: rest * 2^-24 is exact in F32. */
    float magnitude = (float)rest * 0x1p-24f;
    return rf_bits_float(sign | rf_float_bits(magnitude));
}

static inline uint16_t rf_f32_to_f16(float value)
{
    uint32_t bits = rf_float_bits(value), sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (bits >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* rounds to 65536 or more */
    if (bits < 0x38800000) {
        /* Subnormal: adding 0.5 leaves the rounded value in units of 2^-24 in the low bits. */
        return (uint16_t)(sign | (rf_float_bits(rf_bits_float(bits) + 0.5f) - 0x3f000000));
    }
    return (uint16_t)(sign | ((bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13));
}

#endif
