/* Plans of weights: what follows from a tensor, its role and the form; and that packing strip by
 * strip, in any pieces, gives the panels of whole rows. */
#include <stdlib.h>
#include <string.h>

#include "platform/cpu.h"
#include "support/check.h"
#include "weights/pack.h"
#include "weights/repack.h"

static _Alignas(64) uint8_t data[1 << 16];

static struct rf_weight_plan planned(const struct rf_tensor *tensor, enum rf_weight_role role,
                                     enum rf_weight_form form)
{
    struct rf_weight_plan plan = {.tensor = tensor, .role = role, .form = form, .layer = 3};
    rf_plan_weight(&plan);
    CHECK(plan.tensor == tensor && plan.layer == 3);
    return plan;
}

static struct rf_tensor tensor_of(enum rf_dtype dtype, int64_t k, int64_t rows, int64_t experts)
{
    struct rf_tensor tensor = {.dtype = dtype, .n_dims = 3, .ne = {k, rows, experts, 1}};
    tensor.data = data;
    tensor.bytes = rf_dtype_bytes(dtype, (size_t)(k * rows * experts));
    return tensor;
}

static void test_matrices(void)
{
    struct rf_tensor tensor = tensor_of(RF_Q5_0, 64, 37, 1);
    struct rf_weight_plan plan = planned(&tensor, RF_WEIGHT_MATRIX, RF_WEIGHTS_STORED);
    CHECK(plan.is_matrix && plan.dtype == RF_Q5_0 && plan.format == RF_FORMAT_Q8_0);
    CHECK(!plan.in_place && plan.n_experts == 1 && plan.rows == 37 && plan.columns == 64);
    CHECK(plan.strip_rows == 16 && plan.strips == 3);
    CHECK_INT((long long)plan.bytes, (long long)(3 * rf_panel_bytes(RF_FORMAT_Q8_0, 64)));
    CHECK(plan.cast_bytes == 0 && plan.scratch_bytes == 0);

    plan = planned(&tensor, RF_WEIGHT_MATRIX, RF_WEIGHTS_MXFP4);
    CHECK(plan.dtype == RF_MXFP4 && plan.target == RF_TARGET_MXFP4);
    CHECK_INT((long long)plan.cast_bytes, 576); /* 16 rows of 34 bytes, in whole lines */
    CHECK(plan.scratch_bytes == plan.cast_bytes);

    plan = planned(&tensor, RF_WEIGHT_ROUTER, RF_WEIGHTS_BF16);
    CHECK(plan.format == RF_FORMAT_BF16 && plan.strip_rows == 1 && plan.bytes == 2 * 37 * 64);
}

static void test_experts(void)
{
    struct rf_tensor tensor = tensor_of(RF_Q4_1, 32, 20, 5);
    struct rf_weight_plan plan = planned(&tensor, RF_WEIGHT_EXPERTS, RF_WEIGHTS_STORED);
    CHECK(plan.n_experts == 5 && plan.rows == 20 && plan.strips == 2);
    CHECK(plan.bytes == 5 * plan.matrix_bytes);
    /* Biases of experts are one vector for each. */
    struct rf_tensor bias = tensor_of(RF_F32, 20, 5, 1);
    plan = planned(&bias, RF_WEIGHT_VECTOR, RF_WEIGHTS_STORED);
    CHECK(plan.n_experts == 1 && plan.rows == 5 && plan.bytes == 5 * 20 * sizeof(float));
}

static void test_in_place(void)
{
    struct rf_tensor tensor = tensor_of(RF_BF16, 32, 4, 2);
    CHECK(planned(&tensor, RF_WEIGHT_MATRIX, RF_WEIGHTS_STORED).in_place);
    CHECK(planned(&tensor, RF_WEIGHT_EXPERTS, RF_WEIGHTS_BF16).in_place);
    CHECK(!planned(&tensor, RF_WEIGHT_MATRIX, RF_WEIGHTS_Q4).in_place);
    tensor.data = data + 1;
    CHECK(!planned(&tensor, RF_WEIGHT_MATRIX, RF_WEIGHTS_STORED).in_place);
    CHECK(planned(&tensor, RF_WEIGHT_TABLE, RF_WEIGHTS_STORED).in_place);

    struct rf_tensor gain = tensor_of(RF_F32, 32, 1, 1);
    CHECK(planned(&gain, RF_WEIGHT_VECTOR, RF_WEIGHTS_BF16).in_place);
    gain.data = data + 2;
    CHECK(!planned(&gain, RF_WEIGHT_VECTOR, RF_WEIGHTS_BF16).in_place);
}

static void test_tables(void)
{
    static const struct {
        enum rf_dtype dtype;
        enum rf_weight_form form;
        int in_bf16;
    } cases[] = {{RF_F32, RF_WEIGHTS_STORED, 0}, {RF_F32, RF_WEIGHTS_BF16, 1},
                 {RF_F32, RF_WEIGHTS_MXFP4, 1},  {RF_Q8_0, RF_WEIGHTS_STORED, 0},
                 {RF_Q8_0, RF_WEIGHTS_MXFP4, 0}, {RF_Q8_0, RF_WEIGHTS_BF16, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rf_tensor tensor = tensor_of(cases[i].dtype, 32, 8, 1);
        struct rf_weight_plan plan = planned(&tensor, RF_WEIGHT_TABLE, cases[i].form);
        CHECK_INT(plan.table_in_bf16, cases[i].in_bf16);
        CHECK(plan.bytes == 0 && plan.scratch_bytes == 0 && plan.dtype == cases[i].dtype);
    }
    struct rf_tensor tensor = tensor_of(RF_F32, 32, 8, 1);
    struct rf_weight_plan plan = planned(&tensor, RF_WEIGHT_TABLE, RF_WEIGHTS_BF16);
    float value = 1.001f, row[32];
    memcpy(data + (3 * 32 + 7) * sizeof value, &value, sizeof value);
    rf_weight_read_row(&plan, 3, row);
    CHECK(row[7] == 1.0f);
}

static void test_packing(void)
{
    const struct rf_kernels *kernels = rf_kernels(RF_TIER_SCALAR);
    struct rf_tensor tensor = tensor_of(RF_Q8_0, 32, 20, 3);
    for (size_t i = 0; i < tensor.bytes; i++) data[i] = (uint8_t)(i * 7 % 61);
    struct rf_weight_plan plan = planned(&tensor, RF_WEIGHT_EXPERTS, RF_WEIGHTS_MXFP4);
    uint8_t *whole = malloc(plan.bytes), *parts = malloc(plan.bytes),
            *scratch = malloc(plan.scratch_bytes), *cast = malloc(16 * 17);
    if (!whole || !parts || !scratch || !cast) exit(1);
    size_t strips = plan.n_experts * plan.strips;
    rf_weight_pack(&plan, kernels, 0, strips, whole, scratch);
    for (size_t s = 0; s < strips; s++)
        rf_weight_pack(&plan, kernels, s, 1, parts + s * plan.strip_bytes, scratch);
    CHECK(memcmp(whole, parts, plan.bytes) == 0);
    /* The last panel of the last expert has 4 rows. */
    rf_cast_values(kernels, RF_TARGET_MXFP4, RF_Q8_0, data + (2 * 20 + 16) * 34, RF_MXFP4, cast,
                   4 * 32);
    rf_repack_panel(RF_MXFP4, cast, 17, 4, 32, parts);
    CHECK(memcmp(whole + (strips - 1) * plan.strip_bytes, parts, plan.strip_bytes) == 0);
    free(whole);
    free(parts);
    free(scratch);
    free(cast);
}

int main(void)
{
    test_matrices();
    test_experts();
    test_in_place();
    test_tables();
    test_packing();
    return check_result();
}
