#include <string.h>

#include "microkernels/kernels.h"
#include "platform/cpu.h"
#include "quant/cast.h"
#include "support/plain.h"

static enum rf_cast_target target_of(enum rf_weight_form form)
{
    return form == RF_WEIGHTS_MXFP4 ? RF_TARGET_MXFP4
           : form == RF_WEIGHTS_Q4  ? RF_TARGET_Q4
                                    : RF_TARGET_BF16;
}

/* The type whose values a matrix has. */
static enum rf_dtype type_in_form(enum rf_dtype dtype, enum rf_weight_form form, int64_t k)
{
    return form == RF_WEIGHTS_STORED ? dtype : rf_cast_type(target_of(form), dtype, k);
}

static int is_quantised(enum rf_dtype dtype)
{
    return rf_dtype_info(dtype)->block_elems > 1;
}

static int is_matrix_role(enum rf_weight_role role)
{
    return role != RF_WEIGHT_VECTOR && role != RF_WEIGHT_TABLE;
}

/* The values of a tensor as the model computes with them, [rows][columns] in host memory. */
static int read_values(const struct rf_weight_request *request, float *values, uint8_t *cast)
{
    const struct rf_tensor *tensor = request->tensor;
    enum rf_dtype from = tensor->dtype, to = from;
    const void *data = tensor->data;
    size_t n = (size_t)rf_tensor_elements(tensor);
    int is_matrix = is_matrix_role(request->role);
    if (is_matrix) to = type_in_form(from, request->form, tensor->ne[0]);
    if (to != from) {
        rf_cast_values(rf_kernels(RF_TIER_SCALAR), target_of(request->form), from, data, to, cast,
                       n);
        data = cast;
    }
    rf_dequantize_f32(to, data, values, n);
    /* Beside casts, the rows of tables are BF16 where the file has floats. */
    int table_in_bf16 = request->form == RF_WEIGHTS_BF16 ||
                        (request->form != RF_WEIGHTS_STORED && !is_quantised(from));
    int in_bf16 = is_matrix ? !is_quantised(to) : request->role == RF_WEIGHT_TABLE && table_in_bf16;
    for (size_t i = 0; in_bf16 && i < n; i++) values[i] = round_bf16(values[i]);
    return is_matrix && is_quantised(to);
}

static int load_tensor(struct rf_backend *backend, const struct rf_weight_request *request,
                       struct rf_weight *weight, struct rf_error *error)
{
    size_t n = (size_t)rf_tensor_elements(request->tensor);
    weight->columns = (size_t)request->tensor->ne[0];
    weight->rows = n / weight->columns;
    float *values = rf_malloc(backend->allocator, n, 2 * sizeof *values, "weights", error);
    if (!values) return RF_ERR_MEMORY;
    weight->is_quantised = read_values(request, values, (uint8_t *)(values + n));
    begin_work(backend);
    weight->values = plain_memory_take(plain_memory_of(backend), n, "weights", error);
    if (weight->values && !is_matrix_role(request->role))
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
                      const struct rf_weight_request *requests, int32_t n_requests,
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
    made->n = n_requests;
    made->tensors =
        rf_calloc(backend->allocator, (size_t)n_requests, sizeof *made->tensors, "weights", error);
    if (!made->tensors) code = RF_ERR_MEMORY;
    for (int32_t i = 0; i < n_requests; i++) total += requests[i].tensor->bytes;
    for (int32_t i = 0; !code && i < n_requests; i++) {
        if (progress && progress(user, done, total))
            code = rf_fail(error, RF_ERR_CANCELLED, "loading was cancelled");
        else
            code = load_tensor(backend, &requests[i], &made->tensors[i], error);
        *requests[i].weight = &made->tensors[i];
        done += requests[i].tensor->bytes;
    }
    if (code) {
        plain_weights_free(&made->base);
        return code;
    }
    *weights = &made->base;
    return 0;
}

struct rf_weight_bytes plain_weight_bytes(const struct rf_weight_request *request)
{
    uint64_t bytes = rf_tensor_elements(request->tensor) * sizeof(float);
    return (struct rf_weight_bytes){.pass = request->role == RF_WEIGHT_TABLE ? 0 : bytes,
                                    .resident = bytes};
}

const char *plain_weight_format(enum rf_dtype dtype, enum rf_weight_form form)
{
    enum rf_dtype type = type_in_form(dtype, form, 256);
    return rf_dtype_info(is_quantised(type) ? type : RF_BF16)->name;
}
