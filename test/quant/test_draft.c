/* A model loaded in a form of four bits gives, bit for bit, the logits of a model whose file holds
 * the cast. */
#include <stdlib.h>

#include "platform/memory.h"
#include "quant/cast.h"
#include "support/check.h"
#include "support/engine.h"
#include "support/synthetic.h"

enum { N_TOKENS = 20, MAX_TENSORS = 64 };

static void logits_of(const struct rf_source *source, enum rf_weight_form form, int tier,
                      int threads, float *logits)
{
    const struct rf_view_options view = {.max_rows = N_TOKENS};
    struct engine engine;
    engine_open(&engine, source, form, tier, threads, N_TOKENS, &view);
    int32_t tokens[N_TOKENS];
    for (int32_t i = 0; i < N_TOKENS; i++) tokens[i] = i * 7 % source->params.n_vocab;
    const struct rf_rows rows = {.tokens = tokens, .n = N_TOKENS};
    CHECK_INT(engine_read(&engine, rows, 0, N_TOKENS), 0);
    size_t n_vocab = (size_t)source->params.n_vocab;
    for (int32_t i = 0; i < N_TOKENS; i++)
        memcpy(logits + (size_t)i * n_vocab, engine_logits(&engine, i), n_vocab * sizeof *logits);
    engine_close(&engine);
}

/* Casts all matrices but the table of embeddings; what is to be freed goes to `owned`. */
static void cast_matrices(struct rf_source *source, enum rf_cast_target target, void **owned)
{
    const struct rf_kernels *kernels = rf_kernels(0);
    for (int32_t i = 0; i < source->n_tensors; i++) {
        struct rf_tensor *tensor = &source->tensors[i];
        enum rf_dtype to = rf_cast_type(target, tensor->dtype, tensor->ne[0]);
        owned[i] = NULL;
        if (tensor->n_dims < 2 || to == tensor->dtype ||
            strcmp(tensor->name, "token_embd.weight") == 0)
            continue;
        size_t n = (size_t)(tensor->ne[0] * tensor->ne[1]);
        tensor->bytes = n / rf_dtype_info(to)->block_elems * rf_dtype_info(to)->block_bytes;
        owned[i] = malloc(tensor->bytes);
        if (!owned[i]) exit(1);
        rf_cast_rows(kernels, target, tensor->dtype, tensor->data, to, owned[i],
                     (size_t)tensor->ne[1], (size_t)tensor->ne[0]);
        tensor->data = owned[i];
        tensor->dtype = to;
    }
}

static void check_form(const struct rf_params *params, const enum rf_dtype *types, size_t n_types,
                       enum rf_weight_form form, enum rf_cast_target target)
{
    struct rf_source *source = synthetic_new(params, types, n_types),
                     *cast = synthetic_new(params, types, n_types);
    void *owned[MAX_TENSORS];
    size_t n = N_TOKENS * (size_t)params->n_vocab;
    float *got = calloc(n, sizeof *got), *wanted = calloc(n, sizeof *wanted),
          *plain = calloc(n, sizeof *plain);
    if (!source || !cast || !got || !wanted || !plain || source->n_tensors > MAX_TENSORS) exit(1);
    cast_matrices(cast, target, owned);
    int best = rf_kernels_best_tier();
    logits_of(cast, RF_WEIGHTS_STORED, best, 1, wanted);
    for (int threads = 1; threads <= 3; threads++) {
        logits_of(source, form, best, threads, got);
        CHECK(memcmp(got, wanted, n * sizeof *got) == 0);
    }
    logits_of(cast, RF_WEIGHTS_STORED, 0, 1, wanted);
    logits_of(source, form, 0, 2, got);
    CHECK(memcmp(got, wanted, n * sizeof *got) == 0);
    logits_of(source, RF_WEIGHTS_BF16, 0, 1, plain);
    int casts = 0;
    for (int32_t i = 0; i < source->n_tensors; i++) casts += owned[i] != NULL;
    CHECK((memcmp(got, plain, n * sizeof *got) != 0) == (casts > 0));

    /* The memory is known before: the panels of the cast. */
    struct rf_weight_cost cost, stored;
    struct rf_error error;
    CHECK_INT(
        rf_weight_cost(source, form, &rf_cpu_backend_kind, &rf_system_allocator, &cost, &error), 0);
    CHECK_INT(rf_weight_cost(cast, RF_WEIGHTS_STORED, &rf_cpu_backend_kind, &rf_system_allocator,
                             &stored, &error),
              0);
    CHECK_INT(cost.form, form);
    CHECK_INT(cost.pass_bytes, stored.pass_bytes);
    CHECK_INT(cost.resident_bytes, stored.resident_bytes);
    CHECK_INT(cost.n_params, stored.n_params);

    for (int32_t i = 0; i < cast->n_tensors; i++) free(owned[i]);
    free(got);
    free(wanted);
    free(plain);
    synthetic_free(source);
    synthetic_free(cast);
}

/* ---- memory ---- */

struct meter {
    size_t calls, fail_at, blocks_out;
};

static void *meter_alloc(void *user, size_t bytes)
{
    struct meter *meter = user;
    if (++meter->calls == meter->fail_at) return NULL;
    void *memory = rf_system_allocator.alloc(NULL, bytes);
    if (memory) meter->blocks_out++;
    return memory;
}

static void meter_release(void *user, void *memory, size_t bytes)
{
    struct meter *meter = user;
    meter->blocks_out -= memory != NULL;
    if (memory) rf_system_allocator.release(NULL, memory, bytes);
}

static int stop_at_once(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    return done <= total;
}

static void free_all(struct rf_model *model, struct rf_queue *queue, struct rf_backend *backend)
{
    rf_model_free(model);
    if (queue) backend->ops->queue_free(queue);
    if (backend) backend->ops->free(backend);
}

/* Every allocation of a load fails once; then it is cancelled. */
static void failing_loads_keep_nothing(const struct rf_params *params, const enum rf_dtype *types,
                                       size_t n_types)
{
    static const struct rf_queue_options two = {.threads = 2};
    struct rf_source *source = synthetic_new(params, types, n_types);
    if (!source) exit(1);
    size_t n = 1;
    for (int done = 0; !done; n++) {
        struct meter meter = {.fail_at = n};
        const struct rf_allocator allocator = {meter_alloc, meter_release, &meter};
        struct rf_error error;
        struct rf_backend *backend;
        struct rf_queue *queue = NULL;
        struct rf_model *model = NULL;
        int code = rf_cpu_backend_new(&backend, 0, &allocator, &error);
        if (!code) code = backend->ops->queue_new(&queue, backend, &two, NULL, &error);
        if (!code)
            code = rf_model_load(&model, source, queue, RF_WEIGHTS_MXFP4, NULL, NULL, &error);
        done = meter.calls < n;
        CHECK_INT(code, done ? 0 : RF_ERR_MEMORY);
        CHECK((model != NULL) == done);
        free_all(model, queue, backend);
        CHECK_INT(meter.blocks_out, 0);
    }
    CHECK(n > 5);

    struct meter meter = {0};
    const struct rf_allocator allocator = {meter_alloc, meter_release, &meter};
    struct rf_error error;
    struct rf_backend *backend;
    struct rf_queue *queue;
    struct rf_model *model;
    CHECK_INT(rf_cpu_backend_new(&backend, 0, &allocator, &error), 0);
    CHECK_INT(backend->ops->queue_new(&queue, backend, &two, NULL, &error), 0);
    size_t before = meter.blocks_out;
    CHECK_INT(rf_model_load(&model, source, queue, RF_WEIGHTS_Q4, stop_at_once, NULL, &error),
              RF_ERR_CANCELLED);
    CHECK(model == NULL);
    CHECK_INT(meter.blocks_out, before);
    free_all(model, queue, backend);
    CHECK_INT(meter.blocks_out, 0);
    synthetic_free(source);
}

/* A matrix whose rows are no whole groups is refused by name, and nothing is left. */
static void other_rows_are_refused(const struct rf_params *params, const enum rf_dtype *types)
{
    struct rf_source *source = synthetic_new(params, types, 1);
    struct rf_weight_cost cost;
    struct rf_error error;
    struct engine engine;
    const struct rf_view_options view = {.max_rows = 1};
    engine_open(&engine, source, RF_WEIGHTS_STORED, 0, 1, 1, &view);
    struct rf_model *model;
    CHECK_INT(rf_weight_cost(source, RF_WEIGHTS_W4, &rf_cpu_backend_kind, &rf_system_allocator,
                             &cost, &error),
              RF_ERR_UNSUPPORTED);
    CHECK_MSG(strstr(error.text, "weight have 192") != NULL, "%s", error.text);
    CHECK_INT(rf_model_load(&model, source, engine.queue, RF_WEIGHTS_W4, NULL, NULL, &error),
              RF_ERR_UNSUPPORTED);
    CHECK(model == NULL);
    engine_close(&engine);
    synthetic_free(source);
}

int main(void)
{
    static const enum rf_dtype floats[] = {RF_BF16},
                               mixed[] = {RF_BF16, RF_Q8_0, RF_Q5_1, RF_F32, RF_Q4_0, RF_F16},
                               large[] = {RF_BF16, RF_Q6_K, RF_Q4_K, RF_BF16, RF_Q5_K, RF_Q8_0};
    struct rf_params params = synthetic_qwen2();
    params.n_embd = 96;
    params.n_head = 8;
    params.n_ff = 256;
    params.tied_output = 0;
    check_form(&params, floats, 1, RF_WEIGHTS_MXFP4, RF_TARGET_MXFP4);
    check_form(&params, floats, 1, RF_WEIGHTS_Q4, RF_TARGET_Q4);
    check_form(&params, mixed, 6, RF_WEIGHTS_MXFP4, RF_TARGET_MXFP4);
    check_form(&params, mixed, 6, RF_WEIGHTS_Q4, RF_TARGET_Q4);
    params.n_embd = 128;
    params.head_dim = params.rope_dim = 16;
    check_form(&params, floats, 1, RF_WEIGHTS_W4, RF_TARGET_W4A8_G128);
    check_form(&params, mixed, 6, RF_WEIGHTS_W4, RF_TARGET_W4A8_G128);
    params.n_embd = 192;
    other_rows_are_refused(&params, floats);
    params.n_embd = 256;
    params.head_dim = params.rope_dim = 32;
    check_form(&params, large, 6, RF_WEIGHTS_MXFP4, RF_TARGET_MXFP4);
    check_form(&params, large, 6, RF_WEIGHTS_Q4, RF_TARGET_Q4);
    check_form(&params, large, 6, RF_WEIGHTS_W4, RF_TARGET_W4A8_G128);
    params.n_embd = 40; /* rows of 40 values stay BF16 */
    params.n_ff = 72;
    params.head_dim = params.rope_dim = 10;
    check_form(&params, floats, 1, RF_WEIGHTS_MXFP4, RF_TARGET_MXFP4);
    params.n_embd = 64;
    failing_loads_keep_nothing(&params, floats, 1);
    return check_result();
}
