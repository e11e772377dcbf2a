/* Handles of sessions. Each call checks its arguments, enters, and leaves with the engine's result.
 */
#include "api/handles.h"
#include "engine/encoder.h"
#include "engine/state.h"

RF_API_OPTIONS(riffle_session_options, .kv = "f16")

int rf_api_cover_session(riffle_session **session, riffle_model *model, struct rf_session *inner)
{
    struct rf_error error;
    riffle_session *covered =
        rf_calloc(&model->engine->allocator, 1, sizeof *covered, "session", &error);
    if (!covered) {
        rf_session_close(inner);
        return rf_api_fail(&error);
    }
    covered->model = model;
    covered->inner = inner;
    *session = covered;
    return 0;
}

/* Leaves with the code of an engine's call. */
static int leave_session(const riffle_session *session, int code, const struct rf_error *error)
{
    return (int)rf_api_leave(session, code ? rf_api_fail(error) : 0);
}

int riffle_session_cost(const riffle_model *model, const riffle_session_options *options,
                        int32_t *n_ctx, uint64_t *kv_bytes)
{
    riffle_session_options chosen;
    struct rf_sequence_shape shape;
    struct rf_error error;
    if (!model) return rf_api_error(RIFFLE_ERR_ARGUMENT, "model is NULL");
    int code = rf_api_take_riffle_session_options(&chosen, options);
    if (code) return code;
    if (rf_session_shape(model->engine, &chosen, &shape, &error)) return rf_api_fail(&error);
    if (n_ctx) *n_ctx = shape.n_ctx;
    if (kv_bytes) *kv_bytes = rf_session_kv_bytes(model->engine, &shape);
    return 0;
}

int riffle_session_open(riffle_session **session, riffle_model *model,
                        const riffle_session_options *options)
{
    riffle_session_options chosen;
    struct rf_session *inner;
    struct rf_error error;
    if (session) *session = NULL;
    if (!session || !model)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", session ? "model" : "session");
    int code = rf_api_take_riffle_session_options(&chosen, options);
    if (!code) code = rf_api_check_process(model);
    if (code) return code;
    if (rf_engine_refuse_encoder(model->engine, &error)) return rf_api_fail(&error);
    if (rf_session_open(&inner, model->engine, &chosen, &error)) return rf_api_fail(&error);
    code = rf_api_cover_session(session, model, inner);
    return code ? code : riffle_session_set_sampling(*session, NULL); /* cannot fail */
}

void riffle_session_close(riffle_session *session)
{
    if (!session || rf_api_enter(session)) return;
    const struct rf_allocator *allocator = &session->model->engine->allocator;
    rf_session_close(session->inner);
    rf_free(allocator, session);
}

int riffle_fork(riffle_session **copy, const riffle_session *session)
{
    struct rf_session *inner;
    struct rf_error error;
    if (!copy) return rf_api_error(RIFFLE_ERR_ARGUMENT, "copy is NULL");
    *copy = NULL;
    int code = rf_api_enter(session);
    if (code) return code;
    if (rf_session_fork(&inner, session->inner, 0, &error))
        code = rf_api_fail(&error);
    else
        code = rf_api_cover_session(copy, session->model, inner);
    return (int)rf_api_leave(session, code);
}

int32_t riffle_session_tokens(const riffle_session *session, const int32_t **tokens)
{
    if (tokens) *tokens = session ? rf_sequence_tokens(session->inner->sequence) : NULL;
    return session ? rf_sequence_n_committed(session->inner->sequence) : 0;
}

int32_t riffle_session_n_ctx(const riffle_session *session)
{
    return session ? rf_sequence_n_ctx(session->inner->sequence) : 0;
}

int riffle_prefill(riffle_session *session, const int32_t *tokens, size_t n_tokens)
{
    struct rf_error error;
    int code = rf_api_enter(session);
    if (code) return code;
    if (!tokens && n_tokens)
        code = rf_fail(&error, RF_ERR_ARGUMENT, "tokens is NULL");
    else
        code = rf_session_prefill(session->inner, tokens, n_tokens, &error);
    return leave_session(session, code, &error);
}

int riffle_score(riffle_session *session, const int32_t *tokens, size_t n_tokens, size_t first,
                 double *logprobs)
{
    struct rf_error error;
    int code = rf_api_enter(session);
    if (code) return code;
    if (!tokens && n_tokens)
        code = rf_fail(&error, RF_ERR_ARGUMENT, "tokens is NULL");
    else
        code = rf_session_score(session->inner, tokens, n_tokens, first, logprobs, &error);
    return leave_session(session, code, &error);
}

int riffle_score_logits(riffle_session *session, const int32_t *tokens, size_t n_tokens,
                        size_t first, riffle_on_logits on_logits, void *user)
{
    struct rf_error error;
    int code = rf_api_enter(session);
    if (code) return code;
    if (!on_logits || (!tokens && n_tokens))
        code = rf_fail(&error, RF_ERR_ARGUMENT, "%s is NULL", on_logits ? "tokens" : "on_logits");
    else
        code = rf_session_score_logits(session->inner, tokens, n_tokens, first, on_logits, user,
                                       &error);
    return leave_session(session, code, &error);
}

int riffle_logits(riffle_session *session, float *logits, size_t n_logits)
{
    struct rf_error error;
    int code = rf_api_enter(session);
    if (code) return code;
    code = logits ? rf_session_logits(session->inner, logits, n_logits, &error)
                  : rf_fail(&error, RF_ERR_ARGUMENT, "logits is NULL");
    return leave_session(session, code, &error);
}

void riffle_cancel(riffle_session *session)
{
    if (session) rf_session_cancel(session->inner);
}

int riffle_rewind(riffle_session *session, int32_t n_tokens)
{
    struct rf_error error;
    int code = rf_api_enter(session);
    return code ? code
                : leave_session(session, rf_session_rewind(session->inner, n_tokens, &error),
                                &error);
}

int riffle_measure_pass(riffle_session *session, int32_t rows, int32_t context, int32_t repeats,
                        double *seconds)
{
    struct rf_error error;
    if (!seconds) return rf_api_error(RIFFLE_ERR_ARGUMENT, "seconds is NULL");
    int code = rf_api_enter(session);
    if (code) return code;
    code = rf_session_time_passes(session->inner, rows, context, repeats, seconds, &error);
    return leave_session(session, code, &error);
}

int riffle_state_save(const riffle_session *session, const char *path)
{
    struct rf_error error;
    int code = rf_api_enter(session);
    if (code) return code;
    code = path && path[0]
               ? rf_state_save(session->inner, path, 0, &error)
               : rf_fail(&error, RF_ERR_ARGUMENT, "path is %s", path ? "an empty text" : "NULL");
    return leave_session(session, code, &error);
}

int riffle_state_load(riffle_session *session, const char *path)
{
    struct rf_error error;
    int code = rf_api_enter(session);
    if (code) return code;
    code = path && path[0]
               ? rf_state_load(session->inner, path, &error)
               : rf_fail(&error, RF_ERR_ARGUMENT, "path is %s", path ? "an empty text" : "NULL");
    return leave_session(session, code, &error);
}

int riffle_session_get_stats(const riffle_session *session, riffle_stats *stats, size_t stats_size)
{
    if (!session || !stats)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", session ? "stats" : "session");
    riffle_stats found;
    rf_session_stats(session->inner, &found);
    rf_api_give(stats, stats_size, &found, sizeof found);
    return 0;
}

void riffle_session_reset_stats(riffle_session *session)
{
    if (session) rf_session_reset_stats(session->inner);
}

int32_t riffle_session_draft(const riffle_session *session, riffle_draft_row *rows, size_t cap)
{
    if (!session || (!rows && cap))
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", session ? "rows" : "session");
    return rf_session_draft(session->inner, rows, cap);
}
