/* From the file's rows to strips: gathers rows that lie scattered, casts them, and repacks them
 * into panels, or converts them to BF16 or F32. Allocates nothing. */
#include "weights/pack.h"

#include <assert.h>

#include "base/half.h"
#include "platform/memory.h"
#include "weights/kept.h"
#include "weights/repack.h"

/* A panel of one expert; panels are counted through all experts. Gathered rows lie behind the cast
 * ones in `scratch`. */
static void pack_panel(const struct rf_weight_plan *plan, const struct rf_kernels *kernels,
                       size_t panel, void *out, char *scratch)
{
    const struct rf_tensor *tensor = plan->tensor;
    size_t expert = panel / plan->strips, row = panel % plan->strips * RF_PANEL_ROWS,
           left = plan->rows - row, rows = left < RF_PANEL_ROWS ? left : RF_PANEL_ROWS;
    const void *data =
        rf_tensor_rows(tensor, expert * plan->rows + row, rows, scratch + plan->cast_bytes);
    if (plan->cast_bytes) {
        rf_cast_rows(kernels, plan->target, tensor->dtype, data, plan->dtype, scratch, rows,
                     plan->columns);
        data = scratch;
    }
    rf_repack_panel(plan->dtype, data, rf_dtype_bytes(plan->dtype, plan->columns), rows,
                    plan->columns, out);
}

/* A row as three in BF16 (RF_SPLIT_PARTS). */
static void split_row(const struct rf_weight_plan *plan, const void *data, uint16_t *out)
{
    enum { PART = 256 };
    float values[PART];
    size_t n = plan->columns, bytes = rf_dtype_bytes(plan->tensor->dtype, 1);
    for (size_t at = 0; at < n; at += PART) {
        size_t some = n - at < PART ? n - at : PART;
        rf_dequantize_f32(plan->tensor->dtype, (const char *)data + at * bytes, values, some);
        for (size_t j = 0; j < some; j++) {
            uint16_t upper = rf_f32_to_bf16(values[j]);
            out[at + j] = out[2 * n + at + j] = upper;
            out[n + at + j] = rf_f32_to_bf16(values[j] - rf_bf16_to_f32(upper));
        }
    }
}

/* Rows [first, first + n), counted through all experts. */
static void convert_rows(const struct rf_weight_plan *plan, size_t first, size_t n, char *out,
                         void *scratch)
{
    const struct rf_tensor *tensor = plan->tensor;
    size_t step = tensor->scattered || plan->is_split ? 1 : n;
    for (size_t r = 0; r < n; r += step, out += step * plan->strip_bytes) {
        const void *data = rf_tensor_rows(tensor, first + r, step, scratch);
        if (plan->is_split)
            split_row(plan, data, (uint16_t *)(void *)out);
        else if (plan->is_matrix)
            rf_dequantize_bf16(tensor->dtype, data, (uint16_t *)(void *)out, step * plan->columns);
        else
            rf_dequantize_f32(tensor->dtype, data, (float *)(void *)out, step * plan->columns);
    }
}

static void pack_panels(const struct rf_weight_plan *plan, const struct rf_kernels *kernels,
                        size_t first, size_t n, char *out, void *scratch)
{
    uint64_t kept_at = plan->kept_at + first * plan->strip_bytes;
    if (plan->kept && rf_kept_read(plan->kept, kept_at, out, n, plan->strip_bytes)) return;
    for (size_t p = 0; p < n; p++)
        pack_panel(plan, kernels, first + p, out + p * plan->strip_bytes, scratch);
    if (plan->kept) rf_kept_write(plan->kept, kept_at, out, n, plan->strip_bytes);
}

/* The rows of these strips were read once and are not needed again. Without that, loading would
 * take the memory of the file and of its copy. */
static void give_back(const struct rf_weight_plan *plan, size_t first, size_t n)
{
    size_t row = first / plan->strips * plan->rows + first % plan->strips * plan->strip_rows,
           last = first + n - 1, bytes = rf_dtype_bytes(plan->tensor->dtype, plan->columns);
    size_t end = last / plan->strips * plan->rows + (last % plan->strips + 1) * plan->strip_rows,
           limit = (last / plan->strips + 1) * plan->rows;
    if (plan->tensor->scattered) return;
    if (end > limit) end = limit;
    rf_memory_give_back((const char *)plan->tensor->data + row * bytes, (end - row) * bytes);
}

void rf_weight_pack(const struct rf_weight_plan *plan, const struct rf_kernels *kernels,
                    size_t first, size_t n, void *out, void *scratch)
{
    assert(plan->role != RF_WEIGHT_TABLE && first + n <= plan->n_experts * plan->strips);
    if (plan->format == RF_FORMAT_BF16)
        convert_rows(plan, first, n, out, scratch);
    else
        pack_panels(plan, kernels, first, n, out, scratch);
    if (plan->is_mapped) give_back(plan, first, n);
}

void rf_weight_read_row(const struct rf_weight_plan *plan, size_t row, float *out)
{
    assert(plan->role == RF_WEIGHT_TABLE && row < plan->rows);
    rf_dequantize_f32(plan->tensor->dtype, rf_tensor_rows(plan->tensor, row, 1, NULL), out,
                      plan->columns);
    for (size_t j = 0; plan->table_in_bf16 && j < plan->columns; j++)
        out[j] = rf_bf16_to_f32(rf_f32_to_bf16(out[j]));
}
