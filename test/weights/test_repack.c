/* Panels hold the values of the file: random blocks of every quantised type, repacked, and the
 * panels read back with the plainest reading of microkernels/panel.h, against rf_dequantize_f32,
 * bit for bit. */
#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "support/check.h"
#include "weights/repack.h"

static uint32_t next_random(void)
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

static const struct type {
    enum rf_dtype dtype;
    enum rf_format format;
    int halves[2]; /* where a block has its F16 numbers; -1: none */
} types[] = {
    {RF_Q4_0, RF_FORMAT_Q4_0, {0, -1}},          {RF_Q4_1, RF_FORMAT_Q4_1, {0, 2}},
    {RF_Q5_0, RF_FORMAT_Q8_0, {0, -1}},          {RF_Q5_1, RF_FORMAT_Q8_1, {0, 2}},
    {RF_Q8_0, RF_FORMAT_Q8_0, {0, -1}},          {RF_MXFP4, RF_FORMAT_MXFP4, {-1, -1}},
    {RF_Q2_K, RF_FORMAT_Q8_K, {80, 82}},         {RF_Q3_K, RF_FORMAT_Q8_K, {108, -1}},
    {RF_Q4_K, RF_FORMAT_Q4_K, {0, 2}},           {RF_Q5_K, RF_FORMAT_Q8_K, {0, 2}},
    {RF_Q6_K, RF_FORMAT_Q6_K, {208, -1}},        {RF_W4A8, RF_FORMAT_Q4_0, {0, -1}},
    {RF_IQ4_NL, RF_FORMAT_IQ4_NL, {0, -1}},      {RF_IQ4_XS, RF_FORMAT_IQ4_XS, {0, -1}},
    {RF_IQ1_S, RF_FORMAT_IQ2, {0, -1}},          {RF_IQ1_M, RF_FORMAT_IQ2, {-1, -1}},
    {RF_IQ2_XXS, RF_FORMAT_IQ2, {0, -1}},        {RF_IQ2_XS, RF_FORMAT_IQ2, {0, -1}},
    {RF_IQ2_S, RF_FORMAT_IQ2, {0, -1}},          {RF_IQ3_XXS, RF_FORMAT_IQ3_XXS, {0, -1}},
    {RF_IQ3_S, RF_FORMAT_IQ3_S, {0, -1}},        {RF_TQ1_0, RF_FORMAT_Q4_0, {52, -1}},
    {RF_TQ2_0, RF_FORMAT_Q4_0, {64, -1}},        {RF_W4A8_ROW, RF_FORMAT_W4A8_ROW, {0, -1}},
    {RF_W4A8_G128, RF_FORMAT_W4A8_G128, {0, -1}}};

/* Random bytes but for the F16 numbers, which are finite: of either sign, zero and denormal ones
 * among them. */
static void fill(const struct type *type, uint8_t *data, size_t bytes)
{
    size_t block = rf_dtype_info(type->dtype)->block_bytes;
    for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)next_random();
    for (size_t i = 0; i < bytes; i += block)
        for (int h = 0; h < 2; h++)
            if (type->halves[h] >= 0 && (data[i + (size_t)type->halves[h] + 1] & 0x7c) == 0x7c)
                data[i + (size_t)type->halves[h] + 1] &= 0x83;
    /* The upper bits of IQ1_M's are those of the last byte. */
    for (size_t i = block - 1; type->dtype == RF_IQ1_M && i < bytes; i += block)
        if ((data[i] & 0x70) == 0x70) data[i] &= 0x8f;
}

/* A row has one scale, and its groups integers of either sign. */
static void make_rows(const struct type *type, uint8_t *data, size_t rows, size_t row_bytes)
{
    size_t block = rf_dtype_info(type->dtype)->block_bytes;
    for (size_t i = 0; rf_is_row_dtype(type->dtype) && i < rows * row_bytes; i += block) {
        memcpy(data + i, data + i / row_bytes * row_bytes, 2);
        int a = data[i + 2] % RF_ROW_MOST + 1;
        if (type->dtype == RF_W4A8_G128) data[i + 2] = (uint8_t)(data[i + 2] & 128 ? -a : a);
    }
}

static float f16(const uint8_t *list, size_t r)
{
    return rf_f16_to_f32((uint16_t)(list[2 * r] | list[2 * r + 1] << 8));
}

static float f32(const uint8_t *list, size_t r)
{
    float value;
    memcpy(&value, list + r * sizeof value, sizeof value);
    return value;
}

/* The value of row r and place j in a panel of rows of k values. */
static float panel_value(enum rf_format format, const uint8_t *panel, size_t k, size_t r, size_t j)
{
    static const float e2m1[16] = {0, 0.5f,  1,  1.5f,  2,  3,  4,  6,
                                   0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    static const float iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};
    static const float iq2[16] = {8, 25, 43, 0, -7, 1, 9, 0, -8, -25, -43, 0, -9, -1, 7, 0};
    static const float iq3_xxs[16] = {4,  12,  20,  28,  36,  44,  52,  62,
                                      -4, -12, -20, -28, -36, -44, -52, -62};
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    const uint8_t *block = panel + j / 32 * layout->block_bytes;
    const uint8_t *scales =
        panel + k / 32 * layout->block_bytes + j / layout->unit * layout->scale_bytes;
    size_t i = j % 32, group = j % 256 / 16;
    int code;
    if (layout->bits == 8) {
        code = block[i / 4 * 64 + 4 * r + i % 4];
    } else {
        code = block[i / 8 * 64 + 4 * r + i % 4] >> (i % 8 < 4 ? 0 : 4) & 15;
        if (layout->bits == 6)
            code += 16 * (block[256 + i / 16 * 64 + 4 * r + i % 4] >> (i % 16 / 4 * 2) & 3);
    }
    switch (format) {
    case RF_FORMAT_MXFP4: return scales[r] ? 2 * e2m1[code] * ldexpf(1, scales[r] - 127) : 0;
    case RF_FORMAT_Q4_0: return f16(scales, r) * (float)(code - 8);
    case RF_FORMAT_IQ4_NL: return f16(scales, r) * iq4[code];
    case RF_FORMAT_IQ4_XS:
        return f16(scales + 128, r) * (float)(int8_t)scales[16 * (group / 2) + r] * iq4[code];
    case RF_FORMAT_IQ2:
        return f32(scales + 256, r) * (float)(int8_t)scales[16 * group + r] * iq2[code];
    case RF_FORMAT_IQ3_XXS:
        return f32(scales + 128, r) * (float)(int8_t)scales[16 * (group / 2) + r] * iq3_xxs[code];
    case RF_FORMAT_IQ3_S:
        return f32(scales + 128, r) * (float)(int8_t)scales[16 * (group / 2) + r] *
               (float)((2 * (code % 8) + 1) * (code < 8 ? 1 : -1));
    case RF_FORMAT_W4A8_G128:
    case RF_FORMAT_W4A8_ROW: {
        float d;
        memcpy(&d, panel + rf_panel_tail_at(format, k) + r * sizeof d, sizeof d);
        int a = format == RF_FORMAT_W4A8_G128 ? (int8_t)scales[r] : 1;
        return d * (float)(a * (code - 8));
    }
    case RF_FORMAT_Q8_0: return f16(scales, r) * (float)(code - 128);
    case RF_FORMAT_Q4_1:
    case RF_FORMAT_Q8_1: return f16(scales, r) * (float)code + f16(scales, 16 + r);
    case RF_FORMAT_Q4_K: {
        float s = f16(scales + 192, r) * (float)rf_q4k_scale(scales, group / 2, r);
        float b = f16(scales + 192, 16 + r) * (float)rf_q4k_scale(scales, 8 + group / 2, r);
        return s * (float)code + b;
    }
    case RF_FORMAT_Q6_K:
        return f16(scales + 256, r) * (float)(int8_t)scales[16 * group + r] * (float)(code - 32);
    case RF_FORMAT_Q8_K: {
        float s = f16(scales + 512, r) * (float)(int8_t)scales[16 * group + r];
        float b = f16(scales + 512, 16 + r) * (float)(int8_t)scales[256 + 16 * group + r];
        return s * (float)code + b;
    }
    default: return NAN;
    }
}

/* Equal bits; zeros of either sign are the same weight. */
static int same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (a == 0 && b == 0);
}

static void values_are_the_files(const struct type *type, size_t m, size_t k)
{
    const struct rf_dtype_info *info = rf_dtype_info(type->dtype);
    size_t row_bytes = k / info->block_elems * info->block_bytes,
           panel_bytes = rf_panel_bytes(type->format, k);
    uint8_t *data = malloc(m * row_bytes + 1), *panel = malloc(panel_bytes + 1);
    float *wanted = malloc(k * sizeof *wanted);
    if (!data || !panel || !wanted) exit(1);
    fill(type, data + 1, m * row_bytes);
    make_rows(type, data + 1, m, row_bytes);
    for (size_t first = 0; first < m; first += 16) {
        size_t rows = m - first < 16 ? m - first : 16;
        memset(panel, 0xaa, panel_bytes + 1);
        rf_repack_panel(type->dtype, data + 1 + first * row_bytes, row_bytes, rows, k, panel);
        CHECK_INT(panel[panel_bytes], 0xaa);
        for (size_t r = 0; r < 16; r++) {
            memset(wanted, 0, k * sizeof *wanted);
            const uint8_t *row = data + 1 + (first + r) * row_bytes;
            if (r < rows) rf_dequantize_f32(type->dtype, row, wanted, k);
            size_t off = 0;
            for (size_t j = 0; j < k; j++) {
                if (type->dtype == RF_MXFP4 && r < rows && row[j / 32 * info->block_bytes] < 2)
                    wanted[j] = 0;
                off += !same(panel_value(type->format, panel, k, r, j), wanted[j]);
            }
            CHECK_MSG(off == 0, "%s, %zu rows of %zu: row %zu has %zu other values", info->name, m,
                      k, first + r, off);
        }
        size_t used =
            k / 32 * rf_panel_layout(type->format)->block_bytes +
            k / rf_panel_layout(type->format)->unit * rf_panel_layout(type->format)->scale_bytes +
            (rf_is_row_format(type->format) ? 16 * sizeof(float) : 0);
        for (size_t i = used; i < panel_bytes; i++) CHECK_INT(panel[i], 0);
    }
    free(data);
    free(panel);
    free(wanted);
}

/* Rows that panels cannot hold are refused with a sentence. */
static void lies(void)
{
    enum { ROWS = 3, K = 384, BLOCK = 67, ROW_BYTES = K / 128 * BLOCK };
    static uint8_t data[ROWS * ROW_BYTES];
    const struct type *type = &types[sizeof types / sizeof *types - 1];
    struct rf_tensor tensor = {.name = "ffn",
                               .dtype = RF_W4A8_G128,
                               .n_dims = 2,
                               .ne = {K, ROWS, 1, 1},
                               .data = data,
                               .bytes = sizeof data};
    static const struct {
        size_t at;
        uint8_t change;
        const char *says;
    } cases[] = {{ROW_BYTES + 2 * BLOCK, 1, "row 1 has two scales"},
                 {2 * ROW_BYTES + BLOCK + 2, 0, "row 2 has a group with the scale 0"},
                 {2, 16, "row 0 has a group with the scale 16"},
                 {BLOCK + 2, 0xf0, "row 0 has a group with the scale -16"},
                 {BLOCK + 2, 0x80, "row 0 has a group with the scale -128"}};
    struct rf_error error = {0};
    fill(type, data, sizeof data);
    make_rows(type, data, ROWS, ROW_BYTES);
    CHECK_INT(rf_check_rows(&tensor, &error), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t kept = data[cases[i].at];
        data[cases[i].at] = i ? cases[i].change : (uint8_t)(kept ^ cases[i].change);
        CHECK_INT(rf_check_rows(&tensor, &error), RF_ERR_FORMAT);
        CHECK_MSG(strstr(error.text, cases[i].says) != NULL, "\"%s\" lacks \"%s\"", error.text,
                  cases[i].says);
        data[cases[i].at] = kept;
    }
    tensor.dtype = RF_Q4_0; /* whatever it has is not looked at */
    CHECK_INT(rf_check_rows(&tensor, &error), 0);
}

int main(void)
{
    lies();
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        CHECK_INT(rf_format_of(types[t].dtype), types[t].format);
        size_t unit = rf_dtype_info(types[t].dtype)->block_elems;
        for (size_t m = 1; m <= 17; m++) values_are_the_files(&types[t], m, unit);
        values_are_the_files(&types[t], 16, 5 * unit);
        values_are_the_files(&types[t], 37, 12 * unit);
    }
    static const enum rf_dtype floats[] = {RF_F32, RF_F16, RF_BF16};
    for (size_t t = 0; t < 3; t++) CHECK_INT(rf_format_of(floats[t]), RF_FORMAT_BF16);
    return check_result();
}
