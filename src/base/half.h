/* The 16-bit float formats, one value at a time. Conversions to them round to nearest even and make
 * NaNs quiet. Conversions from them are exact. Masks replace conditions where the compiler must
 * vectorise. */
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
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint32_t quiet_nan = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}

static inline float rf_f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t rest = half & 0x7fffu;
    uint32_t is_denormal = 0u - (uint32_t)(rest < 0x0400u),
             is_special = 0u - (uint32_t)(rest >= 0x7c00u);
    uint32_t normal = (rest << 13) + (112u << 23) + (is_special & (112u << 23));
    /* No intermediate float is denormal, so the thread's flush-to-zero mode does not matter. */
    uint32_t denormal = rf_float_bits((float)(int32_t)rest * 0x1p-24f);
    return rf_bits_float(sign | (normal & ~is_denormal) | (denormal & is_denormal));
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
