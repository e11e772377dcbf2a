/* Formats with a scale for a row times 8-bit rows with one scale: the definition, one result at a
 * time. Sums are integers, modulo 2^32, and end in 32 bits (RF_ROW_MOST_K), so every tier has the
 * same bits. */
#include <math.h>
#include <string.h>

#include "microkernels/ref/tier.h"

static size_t a8_row_bytes(size_t n, size_t k)
{
    return n * rf_a8_row_bytes(k);
}

static void ref_pack_a8_row(const struct rf_pack_args *args)
{
    struct rf_a8_row *to =
        (struct rf_a8_row *)(void *)((char *)args->packed + args->row * rf_a8_row_bytes(args->k));
    int32_t *sums = rf_a8_row_sums(to);
    int8_t *q = rf_a8_row_codes(to, args->k);
    float max = 0.0f;
    for (size_t j = 0; j < args->k; j++) max = fabsf(args->x[j]) > max ? fabsf(args->x[j]) : max;
    float inverse = rf_a8_inverse(max);
    memset(to, 0, sizeof *to + rf_a8_row_sums_bytes(args->k));
    for (size_t j = 0; j < args->k; j++) {
        float value = rintf(args->x[j] * inverse);
        q[j] = (int8_t)(value >= -127.0f && value <= 127.0f ? value : 0.0f);
        sums[j / RF_ROW_GROUP] -= 8 * q[j];
        to->m8 -= 8 * q[j];
    }
    to->d = max > 0x1p-100f ? max / 127.0f : 0.0f;
}

/* The integer sum of row r of a panel and a row of activations. */
static int32_t dot_row(enum rf_format format, const uint8_t *panel, size_t r, const int8_t *q,
                       size_t k)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    const uint8_t *scales = panel + k / RF_BLOCK * layout->block_bytes;
    uint32_t sum = 0;
    for (size_t j = 0; j < k; j++) {
        const uint8_t *block = panel + j / RF_BLOCK * layout->block_bytes;
        int code = block[j % RF_BLOCK / 8 * 64 + 4 * r + j % 4] >> (j % 8 / 4 * 4) & 15;
        int a =
            layout->scale_bytes ? (int8_t)scales[j / layout->group * layout->scale_bytes + r] : 1;
        sum += (uint32_t)(a * (code - layout->offset) * q[j]);
    }
    return (int32_t)sum;
}

static void ref_linear_row(const struct rf_linear_args *args, enum rf_format format)
{
    for (size_t i = 0; i < args->n; i++) {
        const struct rf_a8_row *x =
            (const struct rf_a8_row *)(const void *)((const char *)args->x +
                                                     i * rf_a8_row_bytes(args->k));
        for (size_t r = 0; r < args->m; r++) {
            const uint8_t *panel = (const uint8_t *)args->w + r / RF_PANEL_ROWS * args->ldw;
            float d, *y = args->y + i * args->ldy + r;
            memcpy(&d, panel + rf_panel_tail_at(format, args->k) + r % RF_PANEL_ROWS * sizeof d,
                   sizeof d);
            float sum = (float)dot_row(format, panel, r % RF_PANEL_ROWS,
                                       rf_a8_row_codes(x, args->k), args->k) *
                        x->d * d;
            if (args->bias) sum += args->bias[r];
            *y = args->accumulate ? *y + sum : sum;
        }
    }
}

#define LINEAR(name, FORMAT, ...)                                         \
    static void ref_linear_##name##_a8(const struct rf_linear_args *args) \
    {                                                                     \
        ref_linear_row(args, RF_FORMAT_##FORMAT);                         \
    }
RF_EACH_ROW_FORMAT(LINEAR)

void rf_ref_init_panels_row(struct rf_kernels *kernels)
{
    kernels->packed_bytes[RF_OPERAND_A8_ROW] = a8_row_bytes;
    kernels->pack[RF_OPERAND_A8_ROW] = ref_pack_a8_row;
#define SET(name, FORMAT, ...)                                        \
    kernels->linear[RF_FORMAT_##FORMAT] = ref_linear_##name##_a8;     \
    kernels->linear_a16[RF_FORMAT_##FORMAT] = ref_linear_##name##_a8; \
    kernels->operand_a16[RF_FORMAT_##FORMAT] = RF_OPERAND_A8_ROW;
    RF_EACH_ROW_FORMAT(SET)
#undef SET
}
