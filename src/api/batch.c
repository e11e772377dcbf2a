/* Handles of batches: each call checks its arguments, enters, and calls the engine's batch. */
#include "api/handles.h"

RF_API_OPTIONS(riffle_batch_options, .answers = 0)
RF_API_OPTIONS(riffle_request, .n_prompt = 0)

int riffle_batch_open(riffle_batch **batch, riffle_model *model,
                      const riffle_batch_options *options)
{
    riffle_batch_options chosen;
    riffle_session_options session;
    struct rf_error error;
    if (batch) *batch = NULL;
    if (!batch || !model)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", batch ? "model" : "batch");
    int code = rf_api_take_riffle_batch_options(&chosen, options);
    if (!code) code = rf_api_take_riffle_session_options(&session, chosen.session);
    if (!code) code = rf_api_check_process(model);
    if (code) return code;
    const struct rf_allocator *allocator = &model->engine->allocator;
    riffle_batch *opened = rf_calloc(allocator, 1, sizeof *opened, "batch", &error);
    if (!opened) return rf_api_fail(&error);
    opened->model = model;
    if (rf_engine_batch_open(&opened->inner, model->engine, &chosen, &session, &error)) {
        rf_free(allocator, opened);
        return rf_api_fail(&error);
    }
    *batch = opened;
    return 0;
}

void riffle_batch_close(riffle_batch *batch)
{
    if (!batch || rf_api_enter_batch(batch)) return;
    const struct rf_allocator *allocator = &batch->model->engine->allocator;
    rf_engine_batch_close(batch->inner);
    rf_free(allocator, batch);
}

static int64_t add_request(riffle_batch *batch, const riffle_request *request)
{
    struct rf_batch_request chosen;
    struct rf_error error;
    int code = rf_api_take_riffle_request(&chosen.request, request);
    if (!code) code = rf_api_take_answer_options(&chosen.wanted, chosen.request.generate);
    if (!code) code = rf_api_take_riffle_sampling(&chosen.sampling, chosen.request.sampling);
    if (code) return code;
    int64_t id = rf_engine_batch_add(batch->inner, &chosen, &error);
    return id < 0 ? rf_api_fail(&error) : id;
}

int64_t riffle_batch_add(riffle_batch *batch, const riffle_request *request)
{
    int code = rf_api_enter_batch(batch);
    return code ? code : rf_api_leave_batch(batch, add_request(batch, request));
}

int riffle_batch_cancel(riffle_batch *batch, int64_t id)
{
    struct rf_error error;
    int code = rf_api_enter_batch(batch);
    if (code) return code;
    code = rf_engine_batch_cancel(batch->inner, id, &error);
    return (int)rf_api_leave_batch(batch, code ? rf_api_fail(&error) : 0);
}

int32_t riffle_batch_step(riffle_batch *batch)
{
    int code = rf_api_enter_batch(batch);
    if (code) return code;
    return (int32_t)rf_api_leave_batch(batch, rf_engine_batch_step(batch->inner));
}

int32_t riffle_batch_store(riffle_batch *batch)
{
    int code = rf_api_enter_batch(batch);
    if (code) return code;
    return (int32_t)rf_api_leave_batch(batch, rf_engine_batch_store(batch->inner));
}

int riffle_batch_get_stats(const riffle_batch *batch, riffle_batch_stats *stats, size_t stats_size)
{
    riffle_batch_stats found;
    if (!batch || !stats)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", batch ? "stats" : "batch");
    rf_engine_batch_stats(batch->inner, &found);
    rf_api_give(stats, stats_size, &found, sizeof found);
    return 0;
}
