/* The kind, the device and its queues. */
#include "infer/state_kept.h"
#include "support/plain.h"

/* ---- failures ---- */

static int32_t calls_left;
static int fail_code, has_failed;

void plain_fail_at(int32_t n, int code)
{
    calls_left = n;
    fail_code = code;
    has_failed = 0;
}

int plain_has_failed(void)
{
    return has_failed;
}

/* Counts a call that can fail. */
int plain_fails(const char *what, struct rf_error *error)
{
    if (calls_left == 0 || --calls_left > 0) return 0;
    has_failed = 1;
    return rf_fail(error, fail_code, "the plain device fails at %s", what);
}

/* ---- the device ---- */

const void *plain_device_address(const struct rf_backend *backend)
{
    return plain_memory_address(plain_memory_of(backend));
}

size_t plain_device_bytes(const struct rf_backend *backend)
{
    return plain_memory_taken(plain_memory_of(backend));
}

static void backend_free(struct rf_backend *backend)
{
    plain_memory_free(plain_memory_of(backend));
    rf_free(backend->allocator, backend);
}

static int queue_new(struct rf_queue **queue, struct rf_backend *backend,
                     const struct rf_queue_options *options, const struct rf_queue *like,
                     struct rf_error *error)
{
    (void)options, (void)like;
    *queue = NULL;
    int code = plain_fails("a queue", error);
    if (code) return code;
    struct plain_queue *made = rf_calloc(backend->allocator, 1, sizeof *made, "queue", error);
    if (!made) return RF_ERR_MEMORY;
    made->base.backend = backend;
    *queue = &made->base;
    return 0;
}

static void queue_free(struct rf_queue *queue)
{
    if (queue) rf_free(queue->backend->allocator, queue);
}

static void queue_info(const struct rf_queue *queue, struct rf_queue_info *info)
{
    (void)queue;
    *info = (struct rf_queue_info){.threads = 1, .places = 1};
}

static int queue_calibrate(struct rf_queue *queue, const struct rf_weights *weights,
                           struct rf_error *error)
{
    (void)queue, (void)weights;
    return plain_fails("measuring", error);
}

static int32_t view_threads(const struct rf_view *view, int32_t n_rows)
{
    (void)view, (void)n_rows;
    return 1;
}

/* ---- the kind ---- */

static uint64_t memory = UINT64_MAX;

void plain_set_memory(uint64_t bytes)
{
    memory = bytes;
}

static int refuses_models;

void plain_refuse_models(int refuses)
{
    refuses_models = refuses;
}

static int can_compute(const struct rf_params *params, struct rf_error *error)
{
    return refuses_models ? rf_fail(error, RF_ERR_UNSUPPORTED,
                                    "the plain device computes no %s now", params->arch_name)
                          : 0;
}

static const struct rf_backend_ops ops = {
    .free = backend_free,
    .queue_new = queue_new,
    .queue_free = queue_free,
    .queue_info = queue_info,
    .queue_calibrate = queue_calibrate,
    .weights_new = plain_weights_new,
    .weights_free = plain_weights_free,
    .cache_new = plain_cache_new,
    .cache_fork = plain_cache_fork,
    .cache_free = plain_cache_free,
    .cache_trim = plain_cache_trim,
    .cache_settle = plain_cache_settle,
    .cache_resume = plain_cache_resume,
    .cache_can_save = plain_cache_can_save,
    .cache_keep = plain_cache_keep,
    .cache_bytes = plain_cache_bytes,
    .cache_held = plain_cache_held,
    .cache_save = plain_cache_save,
    .cache_load = plain_cache_load,
    .view_new = plain_view_new,
    .view_free = plain_view_free,
    .submit = plain_submit,
    .sync = plain_sync,
    .logits = plain_logits,
    .tap = plain_tap,
    .view_threads = view_threads,
};

static int describe(const struct rf_backend_options *options, struct rf_device_info *info,
                    struct rf_error *error)
{
    (void)options, (void)error; /* it has no tiers */
    if (info)
        *info = (struct rf_device_info){.tier = "",
                                        .best_tier = "",
                                        .note = "",
                                        .memory_bytes = memory == UINT64_MAX ? 0 : memory};
    return 0;
}

static int open_kind(struct rf_backend **backend, const struct rf_backend_options *options,
                     const struct rf_allocator *allocator, struct rf_error *error)
{
    (void)options;
    *backend = NULL;
    struct plain_backend *made = rf_calloc(allocator, 1, sizeof *made, "backend", error);
    if (!made) return RF_ERR_MEMORY;
    made->base =
        (struct rf_backend){.ops = &ops, .allocator = allocator, .first_above = plain_first_above};
    int code = plain_memory_new(&made->memory, error);
    if (code) {
        rf_free(allocator, made);
        return code;
    }
    *backend = &made->base;
    return 0;
}

static uint64_t kv_bytes(const struct rf_params *params, enum rf_kv_type kv, int32_t n_ctx)
{
    (void)kv;
    uint64_t entry = (uint64_t)rf_most_head_kv(params) * 2 * (uint64_t)rf_most_head_dim(params),
             row = rf_n_states(params, params->n_layer) ? (uint64_t)rf_state_row(params) : 0;
    if (row && params->delta_values) row += (uint64_t)rf_state_matrices(params) + 1;
    return (uint64_t)n_ctx * (uint64_t)params->n_layer * (entry > row ? entry : row) *
               sizeof(float) +
           rf_states_bytes(params, n_ctx);
}

static int free_bytes(const struct rf_backend_options *options, uint64_t *bytes,
                      struct rf_error *error)
{
    (void)options;
    *bytes = memory;
    return plain_fails("its memory", error);
}

static uint64_t view_bytes(const struct rf_view_shape *shape)
{
    const struct rf_program *program = shape->program;
    uint64_t floats = 0;
    for (int32_t s = 0; s < program->n_slots; s++) {
        int32_t rows = s == RF_SLOT_LOGITS ? shape->max_logits : shape->max_rows;
        if (program->slots[s].by_expert) rows *= program->params->n_expert_used;
        floats += (uint64_t)rows * (uint64_t)program->slots[s].width;
    }
    return floats * sizeof(float);
}

const struct rf_backend_kind plain_backend_kind = {
    .name = "plain",
    .describe = describe,
    .open = open_kind,
    .can_compute = can_compute,
    .weight_bytes = plain_weight_bytes,
    .kv_bytes = kv_bytes,
    .free_bytes = free_bytes,
    .view_bytes = view_bytes,
};
