/* Weights in panels times 8-bit or 16-bit rows: the definition, one result at a time. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "microkernels/ref/tier.h"

enum { A16_ROWS = 16 };

static size_t a8_bytes(size_t n, size_t k)
{
    return n * rf_a8_stride(k) * sizeof(struct rf_a8);
}

static void pack_a8(void *packed, size_t row, const float *x, size_t k)
{
    struct rf_a8 *to = (struct rf_a8 *)packed + row * rf_a8_stride(k);
    for (size_t g = 0; g < k / RF_BLOCK; g++, to++, x += RF_BLOCK) {
        float max = 0.0f;
        for (int j = 0; j < RF_BLOCK; j++) max = fabsf(x[j]) > max ? fabsf(x[j]) : max;
        float inverse = rf_a8_inverse(max);
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
    return n * rf_a16_stride(k) * sizeof(uint16_t);
}

/* RF_OPERAND_A16 */
static const size_t a16_order[4] = {0, 2, 1, 3};

static void pack_a16(void *packed, size_t row, const float *x, size_t k)
{
    uint16_t *to = (uint16_t *)packed + row * rf_a16_stride(k);
    for (size_t j = 0; j < k; j++) to[j] = rf_f32_to_bf16(x[j - j % 4 + a16_order[j % 4]]);
}

/* The code of row r and value j (0 .. 31) in a block. */
static int code_of(enum rf_format format, const uint8_t *block, size_t r, size_t j)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    if (layout->bits == 8) return block[j / 4 * 64 + 4 * r + j % 4];
    int code = block[j / 8 * 64 + 4 * r + j % 4] >> (j % 8 / 4 * 4) & 15;
    if (layout->bits == 6)
        code |= (block[256 + j / 16 * 64 + 4 * r + j % 4] >> (j % 16 / 4 * 2) & 3) << 4;
    return format == RF_FORMAT_MXFP4 ? rf_mxfp4_codes[code] : code;
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
    switch (format) {
    case RF_FORMAT_MXFP4: *s = rf_bits_float((uint32_t)at[r] << 23); break;
    case RF_FORMAT_Q4_K:
        *s = f16_at(at + 192, r) * (float)rf_q4k_scale(at, g, r);
        *b = f16_at(at + 192, 16 + r) * (float)rf_q4k_scale(at, 8 + g, r);
        break;
    case RF_FORMAT_Q6_K: *s = f16_at(at + 256, r) * (float)(int8_t)at[g * 16 + r]; break;
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
    for (size_t j = 0; j < k; j += layout->group) {
        const struct rf_a8 *block = x + j / RF_BLOCK;
        int32_t sum = 0;
        for (size_t t = j; t < j + layout->group; t++)
            sum += (code_of(format, panel + j / RF_BLOCK * layout->block_bytes, r, t % RF_BLOCK) -
                    layout->offset) *
                   block->q[t % RF_BLOCK];
        float s, b;
        scale_of(format, scales, j / layout->group, r, &s, &b);
        acc = fmaf((float)sum * block->d, s, acc);
        if (!layout->has_min) continue;
        if (layout->group == RF_BLOCK)
            acc = fmaf(b, block->d_sum, acc);
        else
            acc = fmaf(b / -32.0f, (float)block->m32[j / 16 % 2] * block->d, acc);
    }
    return acc;
}

static void linear_a8(const struct rf_linear_args *args, enum rf_format format)
{
    for (size_t i = 0; i < args->n; i++)
        for (size_t r = 0; r < args->m; r++)
            store(args, i, r,
                  dot_a8(format, (const uint8_t *)args->w + r / RF_PANEL_ROWS * args->ldw,
                         r % RF_PANEL_ROWS,
                         (const struct rf_a8 *)args->x + i * rf_a8_stride(args->k), args->k));
}

#define LINEAR(name, FORMAT, ...)                                \
    static void linear_##name(const struct rf_linear_args *args) \
    {                                                            \
        linear_a8(args, RF_FORMAT_##FORMAT);                     \
    }
RF_EACH_PANEL_FORMAT(LINEAR)

float rf_ref_panel_weight(enum rf_format format, const uint8_t *panel, size_t k, size_t r, size_t j)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    int code = code_of(format, panel + j / RF_BLOCK * layout->block_bytes, r, j % RF_BLOCK);
    float s, b;
    scale_of(format, panel + k / RF_BLOCK * layout->block_bytes, j / layout->group, r, &s, &b);
    return rf_bf16_to_f32(rf_f32_to_bf16(fmaf((float)(code - layout->offset), s, b)));
}

/* One weight row times rows i .. i + n - 1, n <= A16_ROWS, for which it is dequantised once. */
static void rows_a16(const struct rf_linear_args *args, enum rf_format format, size_t r, size_t i,
                     size_t n)
{
    const uint8_t *panel = (const uint8_t *)args->w + r / RF_PANEL_ROWS * args->ldw;
    size_t stride = rf_a16_stride(args->k);
    const uint16_t *x = (const uint16_t *)args->x + i * stride;
    float acc[A16_ROWS] = {0.0f};
    for (size_t j = 0; j < args->k; j++) {
        float weight = rf_ref_panel_weight(format, panel, args->k, r % RF_PANEL_ROWS, j);
        size_t at = j - j % 4 + a16_order[j % 4];
        for (size_t a = 0; a < n; a++) acc[a] += weight * rf_bf16_to_f32(x[a * stride + at]);
    }
    for (size_t a = 0; a < n; a++) store(args, i + a, r, acc[a]);
}

static void linear_a16(const struct rf_linear_args *args, enum rf_format format)
{
    for (size_t r = 0; r < args->m; r++)
        for (size_t i = 0; i < args->n; i += A16_ROWS)
            rows_a16(args, format, r, i, args->n - i < A16_ROWS ? args->n - i : A16_ROWS);
}

#define LINEAR_A16(name, FORMAT, ...)                                  \
    static void linear_##name##_a16(const struct rf_linear_args *args) \
    {                                                                  \
        linear_a16(args, RF_FORMAT_##FORMAT);                          \
    }
RF_EACH_PANEL_FORMAT(LINEAR_A16)

void rf_ref_init_panels(struct rf_kernels *kernels)
{
    kernels->packed_bytes[RF_OPERAND_A8] = a8_bytes;
    kernels->packed_bytes[RF_OPERAND_A16] = a16_bytes;
    kernels->pack[RF_OPERAND_A8] = pack_a8;
    kernels->pack[RF_OPERAND_A16] = pack_a16;
#define SET(name, FORMAT, ...)                           \
    kernels->linear[RF_FORMAT_##FORMAT] = linear_##name; \
    kernels->linear_a16[RF_FORMAT_##FORMAT] = linear_##name##_a16;
    RF_EACH_PANEL_FORMAT(SET)
#undef SET
}
