/* Weights in panels times 8-bit or 16-bit rows: the definition, one result at a time. Tests compare
 * all other tiers and generated kernels with it. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "microkernels/ref/tier.h"
#include "platform/fused.h"

static size_t a8_bytes(size_t n, size_t k)
{
    return n * rf_a8_stride(k) * sizeof(struct rf_a8);
}

static float greatest_magnitude(const float x[RF_BLOCK])
{
    float max = 0.0f;
    for (int j = 0; j < RF_BLOCK; j++) max = fabsf(x[j]) > max ? fabsf(x[j]) : max;
    return max;
}

static void ref_pack_a8(const struct rf_pack_args *args)
{
    struct rf_a8 *to = rf_a8_blocks(args);
    const float *x = args->x;
    for (size_t g = 0; g < args->n / RF_BLOCK; g++, to++, x += RF_BLOCK) {
        float max = greatest_magnitude(x), inverse = rf_a8_inverse(max);
        int32_t sum[2] = {0, 0};
        for (int j = 0; j < RF_BLOCK; j++) {
            float q = rintf(x[j] * inverse);
            to->q[j] = (int8_t)(q >= -127.0f && q <= 127.0f ? q : 0.0f);
            sum[j / 16] += to->q[j];
        }
        rf_a8_complete(to, max, sum[0], sum[1]);
    }
}

static size_t a16_bytes(size_t n, size_t k)
{
    return n * rf_a16_stride(k) * sizeof(struct rf_a16);
}

/* Index of value j of a block in q. */
static size_t a16_place(size_t j)
{
    return j - j % 4 + (j % 4 >> 1 | (j & 1) << 1); /* order of four: 0, 2, 1, 3 */
}

static void ref_pack_a16(const struct rf_pack_args *args)
{
    struct rf_a16 *to = rf_a16_blocks(args);
    const float *x = args->x;
    for (size_t g = 0; g < args->n / RF_BLOCK; g++, to++, x += RF_BLOCK) {
        float max = greatest_magnitude(x), inverse = rf_a16_begin(&to->d, max);
        int32_t sum[2] = {0, 0};
        for (size_t j = 0; j < RF_BLOCK; j++) {
            int32_t q = inverse > 0.0f ? (int32_t)rintf(x[j] * inverse) : 0;
            to->q[a16_place(j)] = (int16_t)q;
            sum[j / 16] += q;
        }
        rf_a16_complete(to, sum[0], sum[1]);
    }
}

/* The codes of row r in a block, less the offset, in the order of k. */
static void ref_codes_of(enum rf_format format, const uint8_t *block, size_t r,
                         int16_t codes[RF_BLOCK])
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    const uint8_t *table = rf_panel_table(format);
    for (size_t j = 0; j < RF_BLOCK; j++) {
        int code;
        if (layout->bits == 8) {
            code = block[j / 4 * 64 + 4 * r + j % 4];
        } else {
            code = block[j / 8 * 64 + 4 * r + j % 4] >> (j % 8 / 4 * 4) & 15;
            if (layout->bits == 6)
                code |= (block[256 + j / 16 * 64 + 4 * r + j % 4] >> (j % 16 / 4 * 2) & 3) << 4;
            if (table) code = table[code];
        }
        codes[j] = (int16_t)(code - layout->offset);
    }
}

static float f16_at(const uint8_t *data, size_t i)
{
    return rf_f16_to_f32((uint16_t)(data[2 * i] | data[2 * i + 1] << 8));
}

/* Scale and minimum of row r and the group with number `group` of a panel. */
static void scale_of(enum rf_format format, const uint8_t *scales, size_t group, size_t r, float *s,
                     float *b)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    size_t groups = layout->unit / layout->group, g = group % groups;
    const uint8_t *at = scales + group / groups * layout->scale_bytes;
    *b = 0.0f;
    if (rf_has_f32_scale(format)) {
        float d;
        memcpy(&d, at + groups * RF_PANEL_ROWS + r * sizeof d, sizeof d);
        *s = d * (float)(int8_t)at[g * RF_PANEL_ROWS + r];
        return;
    }
    switch (format) {
    case RF_FORMAT_MXFP4: *s = rf_bits_float((uint32_t)at[r] << 23); break;
    case RF_FORMAT_Q4_K:
        *s = f16_at(at + 192, r) * (float)rf_q4k_scale(at, g, r);
        *b = f16_at(at + 192, 16 + r) * (float)rf_q4k_scale(at, 8 + g, r);
        break;
    case RF_FORMAT_Q6_K: *s = f16_at(at + 256, r) * (float)(int8_t)at[g * 16 + r]; break;
    case RF_FORMAT_IQ4_XS: *s = f16_at(at + 128, r) * (float)(int8_t)at[g * 16 + r]; break;
    case RF_FORMAT_Q8_K:
        *s = f16_at(at + 512, r) * (float)(int8_t)at[g * 16 + r];
        *b = f16_at(at + 512, 16 + r) * (float)(int8_t)at[256 + g * 16 + r];
        break;
    default:
        *s = f16_at(at, r);
        if (layout->has_min) *b = f16_at(at, 16 + r);
        break;
    }
}

static void store(const struct rf_linear_args *args, size_t i, size_t r, float sum)
{
    float *y = args->y + i * args->ldy + r;
    if (args->bias) sum += args->bias[r];
    *y = args->accumulate ? *y + sum : sum;
}

static float dot_a8(enum rf_format format, const uint8_t *panel, size_t r, const struct rf_a8 *x,
                    size_t k)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    const uint8_t *scales = panel + k / RF_BLOCK * layout->block_bytes;
    float acc = 0.0f;
    for (size_t j = 0; j < k; j += RF_BLOCK, x++) {
        int16_t codes[RF_BLOCK];
        ref_codes_of(format, panel + j / RF_BLOCK * layout->block_bytes, r, codes);
        for (size_t g = 0; g < RF_BLOCK; g += layout->group) {
            int32_t sum = 0;
            for (size_t t = g; t < g + layout->group; t++) sum += codes[t] * x->q[t];
            float s, b;
            scale_of(format, scales, (j + g) / layout->group, r, &s, &b);
            acc = rf_fused((float)sum * x->d, s, acc);
            if (!layout->has_min) continue;
            if (layout->group == RF_BLOCK)
                acc = rf_fused(b, x->d_sum, acc);
            else
                acc = rf_fused(b / -32.0f, (float)x->m32[g / 16] * x->d, acc);
        }
    }
    return acc;
}

static void ref_linear_a8(const struct rf_linear_args *args, enum rf_format format)
{
    for (size_t i = 0; i < args->n; i++)
        for (size_t r = 0; r < args->m; r++)
            store(args, i, r,
                  dot_a8(format, (const uint8_t *)args->w + r / RF_PANEL_ROWS * args->ldw,
                         r % RF_PANEL_ROWS,
                         (const struct rf_a8 *)args->x + i * rf_a8_stride(args->k), args->k));
}

#define LINEAR(name, FORMAT, ...)                                         \
    static void ref_linear_##name##_a8(const struct rf_linear_args *args) \
    {                                                                     \
        ref_linear_a8(args, RF_FORMAT_##FORMAT);                          \
    }
RF_EACH_PANEL_FORMAT(LINEAR)

static float dot_a16(enum rf_format format, const uint8_t *panel, size_t r, const struct rf_a16 *x,
                     size_t k)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    const uint8_t *scales = panel + k / RF_BLOCK * layout->block_bytes;
    float acc = 0.0f;
    for (size_t j = 0; j < k; j += RF_BLOCK, x++) {
        int16_t codes[RF_BLOCK];
        ref_codes_of(format, panel + j / RF_BLOCK * layout->block_bytes, r, codes);
        for (size_t g = 0; g < RF_BLOCK; g += layout->group) {
            int32_t sum = 0;
            for (size_t t = g; t < g + layout->group; t++) sum += codes[t] * x->q[a16_place(t)];
            float s, b;
            scale_of(format, scales, (j + g) / layout->group, r, &s, &b);
            acc = rf_fused((float)sum * x->d, s, acc);
            if (layout->has_min)
                acc = rf_fused(b, layout->group == RF_BLOCK ? x->d_sum : x->d_half[g / 16], acc);
        }
    }
    return acc;
}

static void ref_linear_a16(const struct rf_linear_args *args, enum rf_format format)
{
    for (size_t i = 0; i < args->n; i++)
        for (size_t r = 0; r < args->m; r++)
            store(args, i, r,
                  dot_a16(format, (const uint8_t *)args->w + r / RF_PANEL_ROWS * args->ldw,
                          r % RF_PANEL_ROWS,
                          (const struct rf_a16 *)args->x + i * rf_a16_stride(args->k), args->k));
}

#define LINEAR_A16(name, FORMAT, ...)                                      \
    static void ref_linear_##name##_a16(const struct rf_linear_args *args) \
    {                                                                      \
        ref_linear_a16(args, RF_FORMAT_##FORMAT);                          \
    }
RF_EACH_PANEL_FORMAT(LINEAR_A16)

/* ---- rows whose unit is that of a superblock ---- */

static size_t a16_super_bytes(size_t n, size_t k)
{
    return n * rf_a16_supers(k) * sizeof(struct rf_a16_super);
}

static void ref_pack_a16_super(const struct rf_pack_args *args)
{
    struct rf_a16_super *to =
        (struct rf_a16_super *)args->packed + args->row * rf_a16_supers(args->k);
    for (size_t first = 0; first < args->k; first += RF_SUPERBLOCK, to++) {
        float max = 0.0f;
        int finite = 1;
        for (size_t j = 0; j < RF_SUPERBLOCK; j++) {
            max = fmaxf(max, fabsf(args->x[first + j]));
            finite &= isfinite(args->x[first + j]) != 0;
        }
        *to = (struct rf_a16_super){.numbers.d = 0.0f};
        float inverse = rf_a16_begin(&to->numbers.d, finite ? max : INFINITY);
        for (size_t j = 0; inverse > 0.0f && j < RF_SUPERBLOCK; j++) {
            int32_t q = (int32_t)rintf(args->x[first + j] * inverse);
            to->q[a16_place(j)] = (int16_t)q;
            /* Multiples of d below 2^19: exact. */
            to->numbers.d_sum[j / RF_BLOCK] += to->numbers.d * (float)q;
        }
    }
}

/* Code (less the offset) times the integer of its scale, in 8 bits. */
static int scaled_code(enum rf_format format, const uint8_t *unit, size_t t, size_t r, int code)
{
    if (format == RF_FORMAT_Q4_K) return (rf_q4k_scale(unit, t / 32, r) * code + 2) >> 2;
    int a = 4 * (int8_t)unit[t / 16 * 16 + r];
    return (int)floorf((float)((a < -509 ? -509 : a) * code + 64) / 128.0f); /* exact */
}

static float dot_a16_super(enum rf_format format, const uint8_t *panel, size_t r,
                           const struct rf_a16_super *x, size_t k)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    const uint8_t *unit = panel + k / RF_BLOCK * layout->block_bytes;
    float acc = 0.0f;
    for (size_t j = 0; j < k; j += RF_SUPERBLOCK, unit += layout->scale_bytes, x++) {
        int16_t codes[RF_BLOCK];
        int32_t sum = 0;
        for (size_t t = 0; t < RF_SUPERBLOCK; t++) {
            if (t % RF_BLOCK == 0)
                ref_codes_of(format, panel + (j + t) / RF_BLOCK * layout->block_bytes, r, codes);
            sum += scaled_code(format, unit, t, r, codes[t % RF_BLOCK]) * x->q[a16_place(t)];
        }
        float d =
            format == RF_FORMAT_Q4_K ? 4.0f * f16_at(unit + 192, r) : 32.0f * f16_at(unit + 256, r);
        acc = rf_fused((float)sum * x->numbers.d, d, acc);
        for (size_t g = 0; format == RF_FORMAT_Q4_K && g < 8; g++)
            acc = rf_fused(f16_at(unit + 192, 16 + r) * (float)rf_q4k_scale(unit, 8 + g, r),
                           x->numbers.d_sum[g], acc);
    }
    return acc;
}

static void ref_linear_a16_super(const struct rf_linear_args *args, enum rf_format format)
{
    for (size_t i = 0; i < args->n; i++)
        for (size_t r = 0; r < args->m; r++)
            store(args, i, r,
                  dot_a16_super(format, (const uint8_t *)args->w + r / RF_PANEL_ROWS * args->ldw,
                                r % RF_PANEL_ROWS,
                                (const struct rf_a16_super *)args->x + i * rf_a16_supers(args->k),
                                args->k));
}

static void ref_linear_q4_k_a16_super(const struct rf_linear_args *args)
{
    ref_linear_a16_super(args, RF_FORMAT_Q4_K);
}

static void ref_linear_q6_k_a16_super(const struct rf_linear_args *args)
{
    ref_linear_a16_super(args, RF_FORMAT_Q6_K);
}

rf_linear_fn *const rf_ref_linear_a16_super[RF_FORMAT_COUNT] = {
    [RF_FORMAT_Q4_K] = ref_linear_q4_k_a16_super,
    [RF_FORMAT_Q6_K] = ref_linear_q6_k_a16_super,
};

void rf_ref_init_panels(struct rf_kernels *kernels)
{
    kernels->packed_bytes[RF_OPERAND_A16_SUPER] = a16_super_bytes;
    kernels->pack[RF_OPERAND_A16_SUPER] = ref_pack_a16_super;
    kernels->packed_bytes[RF_OPERAND_A8] = a8_bytes;
    kernels->packed_bytes[RF_OPERAND_A16] = a16_bytes;
    kernels->pack[RF_OPERAND_A8] = ref_pack_a8;
    kernels->pack[RF_OPERAND_A16] = ref_pack_a16;
#define SET(name, FORMAT, ...)                                         \
    kernels->linear[RF_FORMAT_##FORMAT] = ref_linear_##name##_a8;      \
    kernels->linear_a16[RF_FORMAT_##FORMAT] = ref_linear_##name##_a16; \
    kernels->operand_a16[RF_FORMAT_##FORMAT] = RF_OPERAND_A16;
    RF_EACH_PANEL_FORMAT(SET)
#undef SET
}
