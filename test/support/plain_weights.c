/* The plain backend's weights: every tensor's values in F32, as the plan says that the model
 * computes with them. They never pass through panels, so that the tests have a second way to the
 * same values. plain_backend.c lists these functions. */
#include <string.h>

#include "microkernels/kernels.h"
#include "platform/cpu.h"
#include "support/plain.h"

/* The rows of a tensor one behind the other, in `gathered` where the file has them scattered. */
static const void *rows_of(const struct rf_tensor *tensor, uint8_t *gathered)
{
    size_t bytes = rf_dtype_bytes(tensor->dtype, (size_t)tensor->ne[0]),
           n = (size_t)rf_tensor_elements(tensor) / (size_t)tensor->ne[0];
    if (!tensor->scattered) return tensor->data;
    for (size_t r = 0; r < n; r++) {
        uint8_t *to = gathered + r * bytes;
        const void *row = rf_tensor_rows(tensor, r, 1, to);
        if (row != to) memcpy(to, row, bytes);
    }
    return gathered;
}

/* The values of a tensor as the model computes with them, [rows][columns] in host memory. `cast`:
 * room for the tensor after a cast, and behind it before. */
static void read_values(const struct rf_weight_plan *plan, float *values, uint8_t *cast)
{
    const struct rf_tensor *tensor = plan->tensor;
    size_t n = (size_t)rf_tensor_elements(tensor);
    const void *data = rows_of(tensor, cast + n * sizeof *values);
    if (plan->dtype != tensor->dtype) {
        rf_cast_rows(rf_kernels(RF_TIER_SCALAR), plan->target, tensor->dtype, data, plan->dtype,
                     cast, n / plan->columns, plan->columns);
        data = cast;
    }
    rf_dequantize_f32(plan->dtype, data, values, n);
    int in_bf16 =
        plan->is_matrix ? plan->format == RF_FORMAT_BF16 && !plan->is_split : plan->table_in_bf16;
    for (size_t i = 0; in_bf16 && i < n; i++) values[i] = round_bf16(values[i]);
}

static int load_tensor(struct rf_backend *backend, const struct rf_weight_plan *plan,
                       struct rf_weight *weight, struct rf_error *error)
{
    size_t n = (size_t)rf_tensor_elements(plan->tensor);
    weight->columns = plan->columns;
    weight->rows = plan->n_experts * plan->rows;
    weight->is_split = plan->is_split;
    weight->is_quantised = plan->is_matrix && plan->format != RF_FORMAT_BF16;
    weight->has_whole_rows = rf_is_row_format(plan->format);
    float *values = rf_malloc(backend->allocator, n, 3 * sizeof *values, "weights", error);
    if (!values) return RF_ERR_MEMORY;
    read_values(plan, values, (uint8_t *)(values + n));
    begin_work(backend);
    weight->values = plain_memory_take(plain_memory_of(backend), n, "weights", error);
    if (weight->values && !plan->is_matrix)
        memcpy(weight->values, values, n * sizeof *values);
    else if (weight->values)
        for (size_t i = 0; i < n; i++)
            weight->values[i % weight->columns * weight->rows + i / weight->columns] = values[i];
    end_work(backend);
    rf_free(backend->allocator, values);
    return weight->values ? 0 : RF_ERR_MEMORY;
}

void plain_weights_free(struct rf_weights *base)
{
    if (!base) return;
    struct plain_weights *weights = (struct plain_weights *)base;
    struct rf_backend *backend = base->backend;
    begin_work(backend);
    for (int32_t i = 0; weights->tensors && i < weights->n; i++)
        plain_memory_give(plain_memory_of(backend), weights->tensors[i].values);
    end_work(backend);
    rf_free(backend->allocator, weights->tensors);
    rf_free(backend->allocator, weights);
}

int plain_weights_new(struct rf_weights **weights, struct rf_queue *queue,
                      const struct rf_weight_plan *plans, int32_t n_plans,
                      rf_load_progress progress, void *user, struct rf_error *error)
{
    struct rf_backend *backend = queue->backend;
    uint64_t done = 0, total = 0;
    *weights = NULL;
    int code = plain_fails("weights", error);
    if (code) return code;
    struct plain_weights *made = rf_calloc(backend->allocator, 1, sizeof *made, "weights", error);
    if (!made) return RF_ERR_MEMORY;
    made->base.backend = backend;
    made->n = n_plans;
    made->tensors =
        rf_calloc(backend->allocator, (size_t)n_plans, sizeof *made->tensors, "weights", error);
    if (!made->tensors) code = RF_ERR_MEMORY;
    for (int32_t i = 0; i < n_plans; i++) total += plans[i].tensor->bytes;
    for (int32_t i = 0; !code && i < n_plans; i++) {
        if (progress && progress(user, done, total))
            code = rf_fail(error, RF_ERR_CANCELLED, "loading was cancelled");
        else
            code = load_tensor(backend, &plans[i], &made->tensors[i], error);
        *plans[i].weight = &made->tensors[i];
        done += plans[i].tensor->bytes;
    }
    if (code) {
        plain_weights_free(&made->base);
        return code;
    }
    *weights = &made->base;
    return 0;
}

struct rf_weight_bytes plain_weight_bytes(const struct rf_weight_plan *plan)
{
    uint64_t bytes = rf_tensor_elements(plan->tensor) * sizeof(float);
    return (struct rf_weight_bytes){.pass = plan->role == RF_WEIGHT_TABLE ? 0 : bytes,
                                    .resident = bytes};
}
