/* Derives a weight's plan from its request. Each question about a weight (its type, layout, sizes,
 * whether the file's bytes can serve) has its one answer here. */
#include "weights/plan.h"

#include <assert.h>

#include "weights/repack.h"

static const enum rf_cast_target targets[] = {[RF_WEIGHTS_BF16] = RF_TARGET_BF16,
                                              [RF_WEIGHTS_MXFP4] = RF_TARGET_MXFP4,
                                              [RF_WEIGHTS_Q4] = RF_TARGET_Q4,
                                              [RF_WEIGHTS_W4] = RF_TARGET_W4A8_G128};

/* Parts of scratch memory are whole cache lines, so that no two workers write to the same one. */
static size_t whole_lines(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static void plan_type(struct rf_weight_plan *plan)
{
    const struct rf_tensor *tensor = plan->tensor;
    plan->is_matrix = plan->role != RF_WEIGHT_TABLE && plan->role != RF_WEIGHT_VECTOR;
    plan->dtype = tensor->dtype;
    plan->format = RF_FORMAT_BF16;
    if (plan->is_matrix && plan->form != RF_WEIGHTS_STORED && !plan->is_split) {
        plan->target = targets[plan->form];
        plan->dtype = rf_cast_type(plan->target, tensor->dtype, tensor->ne[0]);
    }
    if (plan->is_matrix) plan->format = rf_format_of(plan->dtype);
    /* Embeddings beside casts are the same as if the file itself held the cast: floats in BF16,
     * others as stored. */
    plan->table_in_bf16 =
        plan->role == RF_WEIGHT_TABLE &&
        (plan->form == RF_WEIGHTS_BF16 ||
         (plan->form != RF_WEIGHTS_STORED && rf_format_of(tensor->dtype) == RF_FORMAT_BF16));
}

/* Whether a tensor has several matrices, all of one shape. */
static int has_matrices(enum rf_weight_role role)
{
    return role == RF_WEIGHT_EXPERTS || role == RF_WEIGHT_HEADS;
}

static void plan_sizes(struct rf_weight_plan *plan)
{
    const struct rf_tensor *tensor = plan->tensor;
    int has_panels = plan->format != RF_FORMAT_BF16;
    plan->n_experts = has_matrices(plan->role) ? (size_t)tensor->ne[2] : 1;
    plan->columns = (size_t)tensor->ne[0];
    plan->rows = (size_t)rf_tensor_elements(tensor) / plan->columns / plan->n_experts;
    plan->strip_rows = has_panels ? RF_PANEL_ROWS : 1;
    plan->strips = (plan->rows + plan->strip_rows - 1) / plan->strip_rows;
    plan->strip_bytes = has_panels        ? rf_panel_bytes(plan->format, plan->columns)
                        : plan->is_matrix ? rf_plan_packed_columns(plan) * sizeof(uint16_t)
                        : plan->role == RF_WEIGHT_VECTOR ? plan->columns * sizeof(float)
                                                         : 0;
    plan->matrix_bytes = plan->strips * plan->strip_bytes;
    plan->bytes = plan->n_experts * plan->matrix_bytes;
    /* BF16 rows and vectors are converted straight to their place. */
    if (has_panels && plan->dtype != tensor->dtype)
        plan->cast_bytes = whole_lines(RF_PANEL_ROWS * rf_dtype_bytes(plan->dtype, plan->columns));
    plan->scratch_bytes = plan->cast_bytes;
    if (tensor->scattered)
        plan->scratch_bytes +=
            whole_lines(plan->strip_rows * rf_dtype_bytes(tensor->dtype, plan->columns));
}

/* Each expert's matrix has its rows one behind the other, at an even address. */
static int is_bf16_in_place(const struct rf_weight_plan *plan)
{
    const struct rf_tensor *tensor = plan->tensor;
    uintptr_t places = 0;
    if (tensor->dtype != RF_BF16 || plan->dtype != RF_BF16) return 0;
    if (!rf_tensor_has_whole_experts(tensor)) return 0;
    for (size_t e = 0; e < plan->n_experts; e++)
        places |= (uintptr_t)rf_tensor_rows(tensor, e * plan->rows, 1, NULL);
    return places % sizeof(uint16_t) == 0;
}

static int is_in_place(const struct rf_weight_plan *plan)
{
    const struct rf_tensor *tensor = plan->tensor;
    if (plan->role == RF_WEIGHT_TABLE) return 1;
    if (plan->is_matrix) return is_bf16_in_place(plan);
    return tensor->dtype == RF_F32 && !tensor->scattered &&
           (uintptr_t)tensor->data % sizeof(float) == 0;
}

void rf_plan_weight(struct rf_weight_plan *plan)
{
    const struct rf_weight_plan request = *plan;
    *plan = (struct rf_weight_plan){.tensor = request.tensor,
                                    .role = request.role,
                                    .form = request.form,
                                    .layer = request.layer,
                                    .weight = request.weight,
                                    .is_split = request.is_split,
                                    .is_mapped = request.is_mapped};
    plan_type(plan);
    plan_sizes(plan);
    plan->in_place = is_in_place(plan);
    assert(plan->n_experts >= 1 && (plan->n_experts == 1 || has_matrices(plan->role)));
    assert(plan->is_matrix || plan->format == RF_FORMAT_BF16);
}
