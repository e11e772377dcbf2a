#include <riffle_experimental.h>
#include <string.h>

#include "api/handles.h"
#include "platform/clock.h"
#include "platform/memory.h"
#include "speculate/successors.h"

RF_API_OPTIONS(riffle_session_options, .kv = "f16")

static uint64_t kv_bytes_of(const riffle_model *model, const struct rf_sequence_shape *shape)
{
    return model->kind->kv_bytes(&model->source->params, shape->kv, shape->n_ctx);
}

int rf_api_choose_kv(const char *name, enum rf_kv_type *kv, struct rf_error *error)
{
    static const char *const names[] = {
        [RF_KV_F16] = "f16", [RF_KV_BF16] = "bf16", [RF_KV_Q8] = "q8", [RF_KV_Q4] = "q4"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            *kv = (enum rf_kv_type)i;
            return 0;
        }
    return rf_fail(error, RF_ERR_ARGUMENT, "kv \"%s\": known are f16, bf16, q8 and q4", name);
}

/* A full context is to leave half of what the weights leave. */
static int leaves_half(const riffle_model *model, const struct rf_sequence_shape *shape)
{
    struct rf_api_place places[2];
    int n_places = rf_api_places(model, shape, places);
    for (int p = 0; p < n_places; p++) {
        uint64_t weights = places[p].weights + (p == 0 ? model->cost.mapped_bytes : 0),
                 memory = places[p].memory;
        if (places[p].kv > (memory > weights ? (memory - weights) / 2 : 0)) return 0;
    }
    return 1;
}

/* What a model was trained on, as far as memory allows. */
static int32_t default_ctx(const riffle_model *model, enum rf_kv_type kv)
{
    enum { LEAST = 8192, STEP = 1024 };
    struct rf_sequence_shape shape = {.n_ctx = model->source->params.n_ctx_train, .kv = kv};
    if (shape.n_ctx > RIFFLE_DEFAULT_CTX) shape.n_ctx = RIFFLE_DEFAULT_CTX;
    while (shape.n_ctx > LEAST && !leaves_half(model, &shape))
        shape.n_ctx = (shape.n_ctx - 1) / STEP * STEP;
    return shape.n_ctx;
}

static int choose_shape(const riffle_model *model, const riffle_session_options *options,
                        struct rf_sequence_shape *shape, struct rf_error *error)
{
    const struct rf_params *params = &model->source->params;
    int code = rf_api_choose_kv(options->kv ? options->kv : "f16", &shape->kv, error);
    if (code) return code;
    if (options->n_ctx < 0 || options->n_ctx > params->n_ctx_train)
        return rf_fail(error, RF_ERR_ARGUMENT, "n_ctx %d: the model was trained on %d tokens",
                       options->n_ctx, params->n_ctx_train);
    shape->n_ctx = options->n_ctx ? options->n_ctx : default_ctx(model, shape->kv);
    struct rf_api_place places[2];
    int n_places = rf_api_places(model, shape, places);
    for (const struct rf_api_place *place = places; place < places + n_places; place++)
        if (place->kv > place->memory)
            return rf_fail(error, RF_ERR_MEMORY,
                           "n_ctx %d: such a context takes %.1f GB, %s has %.1f GB", shape->n_ctx,
                           (double)place->kv * 1e-9, place->name, (double)place->memory * 1e-9);
    return 0;
}

/* The session already has its queue. `from`: the session whose tokens the new sequence gets; NULL:
 * none. */
static int open_parts(riffle_session *session, const struct rf_sequence_shape *shape,
                      struct rf_sequence *from, const struct rf_chain *chain,
                      struct rf_error *error)
{
    const riffle_model *model = session->model;
    const struct rf_view_options options = {
        .precision = model->precision,
        .kv = shape->kv,
        .max_rows = shape->n_ctx < RF_PROMPT_ROWS ? shape->n_ctx : RF_PROMPT_ROWS,
        .cancel = &session->cancel};
    int code = 0;
    if (!session->borrows_view)
        code = rf_view_new(&session->view, model->model, session->queue, &options, error);
    if (!code)
        code = from ? rf_sequence_fork(&session->sequence, from, session->view, error)
                    : rf_sequence_new(&session->sequence, session->view, shape, &model->allocator,
                                      error);
    if (!code)
        code = rf_sampler_new(&session->sampler, model->source->params.n_vocab,
                              model->backend->first_above, &model->allocator, error);
    if (!code) code = rf_levels_open(session, chain, error);
    return code;
}

/* The chain that was asked for; NULL in *chosen is the model's. */
static int choose_chain(const riffle_session_options *options, struct rf_chain *chain,
                        const struct rf_chain **chosen, struct rf_error *error)
{
    *chosen = NULL;
    if (options->gamma < 0 || options->gamma > RF_MAX_DRAFT)
        return rf_fail(error, RF_ERR_ARGUMENT, "gamma %d: not between 1 and %d (0: by measurement)",
                       options->gamma, RF_MAX_DRAFT);
    if (!(options->min_confidence >= 0.0f && options->min_confidence <= 1.0f))
        return rf_fail(error, RF_ERR_ARGUMENT, "min_confidence %g is not between 0 and 1",
                       (double)options->min_confidence);
    if (!options->chain) return 0;
    int code = rf_chain_parse(chain, options->chain, error);
    if (!code && chain->choice == RF_CHAIN_LEVELS) *chosen = chain;
    return code;
}

static void close_session(riffle_session *session)
{
    rf_levels_close(&session->levels, &session->model->allocator);
    rf_sampler_free(session->sampler);
    rf_sequence_free(session->sequence);
    if (!session->borrows_view) rf_view_free(session->view);
    rf_api_return_queue(session->model, session->queue);
    rf_free(&session->model->allocator, session);
}

int riffle_session_cost(const riffle_model *model, const riffle_session_options *options,
                        int32_t *n_ctx, uint64_t *kv_bytes)
{
    riffle_session_options chosen;
    struct rf_sequence_shape shape;
    struct rf_error error;
    if (!model) return rf_api_error(RIFFLE_ERR_ARGUMENT, "model is NULL");
    int code = take_riffle_session_options(&chosen, options);
    if (code) return code;
    if (choose_shape(model, &chosen, &shape, &error)) return rf_api_fail(&error);
    if (n_ctx) *n_ctx = shape.n_ctx;
    if (kv_bytes) *kv_bytes = kv_bytes_of(model, &shape);
    return 0;
}

int riffle_session_open(riffle_session **session, riffle_model *model,
                        const riffle_session_options *options)
{
    riffle_session_options chosen;
    if (session) *session = NULL;
    if (!session || !model)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", session ? "model" : "session");
    int code = take_riffle_session_options(&chosen, options);
    if (code) return code;
    if (!model->model)
        return rf_api_error(RIFFLE_ERR_ARGUMENT,
                            "the model was opened with RIFFLE_OPEN_HEADER: it has no weights");
    code = rf_api_check_process(model);
    if (code) return code;
    struct rf_sequence_shape shape;
    struct rf_chain asked;
    const struct rf_chain *chain;
    struct rf_error error;
    code = choose_shape(model, &chosen, &shape, &error);
    if (!code) code = choose_chain(&chosen, &asked, &chain, &error);
    if (code) return rf_api_fail(&error);
    riffle_session *opened = rf_calloc(&model->allocator, 1, sizeof *opened, "session", &error);
    if (!opened) return rf_api_fail(&error);
    opened->model = model;
    opened->progress = chosen.progress;
    opened->progress_user = chosen.progress_user;
    code = rf_api_take_queue(&opened->queue, model, chosen.cores, chosen.threads, &error);
    if (!code) code = open_parts(opened, &shape, NULL, chain, &error);
    if (!code) code = rf_levels_load_pace(opened, &error);
    if (code) {
        close_session(opened);
        return rf_api_fail(&error);
    }
    opened->levels.cascade->gamma = chosen.gamma;
    opened->levels.cascade->min_confidence = chosen.min_confidence;
    *session = opened;
    return riffle_session_set_sampling(opened, NULL); /* the defaults: it cannot fail */
}

void riffle_session_close(riffle_session *session)
{
    if (session && rf_api_enter(session) == 0) close_session(session);
}

int32_t riffle_session_tokens(const riffle_session *session, const int32_t **tokens)
{
    if (tokens) *tokens = session ? rf_sequence_tokens(session->sequence) : NULL;
    return session ? rf_sequence_n_committed(session->sequence) : 0;
}

int32_t riffle_session_n_ctx(const riffle_session *session)
{
    return session ? rf_sequence_n_ctx(session->sequence) : 0;
}

static int report_read(void *user, int32_t done, int32_t total)
{
    riffle_session *session = user;
    return session->progress(session->progress_user, "prefill", (uint64_t)done, (uint64_t)total);
}

/* Checks the arguments that all calls with tokens have. The count must fit an int32_t. */
static int check_tokens(const riffle_session *session, const int32_t *tokens, size_t n_tokens)
{
    if (!tokens && n_tokens) return rf_api_error(RIFFLE_ERR_ARGUMENT, "tokens is NULL");
    int32_t n_ctx = rf_sequence_n_ctx(session->sequence);
    int32_t n = rf_sequence_n_committed(session->sequence);
    if (n_tokens > (size_t)(n_ctx - n))
        return rf_api_error(RIFFLE_ERR_CONTEXT,
                            "%zu tokens do not fit the context: n_ctx is %d, of which %d are taken",
                            n_tokens, n_ctx, n);
    return 0;
}

int rf_api_prefill(riffle_session *session, const int32_t *tokens, size_t n_tokens)
{
    int code = check_tokens(session, tokens, n_tokens);
    if (code) return code;
    struct rf_error error;
    double start = rf_clock_seconds();
    int32_t before = rf_sequence_n_committed(session->sequence);
    atomic_store(&session->cancel, 0);
    code = rf_sequence_prefill(session->sequence, session->view, tokens, (int32_t)n_tokens,
                               session->progress ? report_read : NULL, session, &error);
    int32_t read = rf_sequence_n_committed(session->sequence) - before;
    double seconds = rf_clock_seconds() - start;
    session->stats.prefill_tokens += (uint64_t)(read > 0 ? read : 0);
    session->stats.prefill_seconds += seconds;
    if (!code) rf_pace_read(&session->levels.cascade->pace, read, seconds);
    return code ? rf_api_fail(&error) : 0;
}

int riffle_prefill(riffle_session *session, const int32_t *tokens, size_t n_tokens)
{
    int code = rf_api_enter(session);
    return code ? code : (int)rf_api_leave(session, rf_api_prefill(session, tokens, n_tokens));
}

static int score(riffle_session *session, const int32_t *tokens, size_t n_tokens, size_t first,
                 double *logprobs)
{
    int code = check_tokens(session, tokens, n_tokens);
    if (code) return code;
    if (first > n_tokens)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "first %zu: there are %zu tokens", first,
                            n_tokens);
    if (!logprobs && first < n_tokens) return rf_api_error(RIFFLE_ERR_ARGUMENT, "logprobs is NULL");
    struct rf_error error;
    atomic_store(&session->cancel, 0);
    code = rf_sequence_score(session->sequence, session->view, tokens, (int32_t)n_tokens,
                             (int32_t)first, logprobs, &error);
    return code ? rf_api_fail(&error) : 0;
}

int riffle_score(riffle_session *session, const int32_t *tokens, size_t n_tokens, size_t first,
                 double *logprobs)
{
    int code = rf_api_enter(session);
    return code ? code
                : (int)rf_api_leave(session, score(session, tokens, n_tokens, first, logprobs));
}

static int read_logits(riffle_session *session, float *logits, size_t n_logits)
{
    if (!logits) return rf_api_error(RIFFLE_ERR_ARGUMENT, "logits is NULL");
    size_t n_vocab = (size_t)session->model->source->params.n_vocab;
    if (n_logits != n_vocab)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "room for %zu logits: the vocabulary has %zu",
                            n_logits, n_vocab);
    struct rf_error error;
    atomic_store(&session->cancel, 0);
    const float *found;
    int code = rf_sequence_answer(session->sequence, session->view, &found, &error);
    if (code) return rf_api_fail(&error);
    memcpy(logits, found, n_vocab * sizeof *logits);
    return 0;
}

int riffle_logits(riffle_session *session, float *logits, size_t n_logits)
{
    int code = rf_api_enter(session);
    return code ? code : (int)rf_api_leave(session, read_logits(session, logits, n_logits));
}

void riffle_cancel(riffle_session *session)
{
    if (session) atomic_store(&session->cancel, 1);
}

static int rewind_to(riffle_session *session, int32_t n_tokens)
{
    if (n_tokens < 0 || n_tokens > rf_sequence_n_committed(session->sequence))
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "cannot rewind to %d of %d tokens", n_tokens,
                            rf_sequence_n_committed(session->sequence));
    rf_sequence_rewind(session->sequence, n_tokens);
    return 0;
}

int riffle_rewind(riffle_session *session, int32_t n_tokens)
{
    int code = rf_api_enter(session);
    return code ? code : (int)rf_api_leave(session, rewind_to(session, n_tokens));
}

int rf_api_fork(riffle_session **copy, const riffle_session *session, int lend,
                struct rf_error *error)
{
    const struct levels *levels = &session->levels;
    const struct rf_sequence_shape shape = {.n_ctx = rf_sequence_n_ctx(session->sequence),
                                            .kv = session->view->shape.kv};
    riffle_session *forked =
        rf_calloc(&session->model->allocator, 1, sizeof *forked, "session", error);
    if (!forked) return RF_ERR_MEMORY;
    forked->model = session->model;
    forked->progress = session->progress;
    forked->progress_user = session->progress_user;
    forked->queue = session->queue;
    atomic_fetch_add(&session->queue->holders, 1);
    forked->borrows_view = lend;
    if (lend) forked->view = session->view;
    int code = open_parts(forked, &shape, session->sequence, &levels->chain, error);
    if (code) {
        close_session(forked);
        return code;
    }
    rf_sampler_copy(forked->sampler, session->sampler);
    rf_levels_set_sampling(&forked->levels, session->sampler);
    forked->levels.cascade->gamma = levels->cascade->gamma;
    forked->levels.cascade->min_confidence = levels->cascade->min_confidence;
    forked->levels.cascade->pace = levels->cascade->pace;
    const struct rf_successors *dictionary = rf_levels_dictionary(levels);
    if (dictionary) rf_successors_copy(rf_levels_dictionary(&forked->levels), dictionary);
    *copy = forked;
    return 0;
}

static int fork_session(riffle_session **copy, const riffle_session *session)
{
    struct rf_error error;
    return rf_api_fork(copy, session, 0, &error) ? rf_api_fail(&error) : 0;
}

int riffle_fork(riffle_session **copy, const riffle_session *session)
{
    if (!copy) return rf_api_error(RIFFLE_ERR_ARGUMENT, "copy is NULL");
    *copy = NULL;
    int code = rf_api_enter(session);
    return code ? code : (int)rf_api_leave(session, fork_session(copy, session));
}

int riffle_session_get_stats(const riffle_session *session, riffle_stats *stats, size_t stats_size)
{
    if (!session || !stats)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", session ? "stats" : "session");
    riffle_stats found = session->stats;
    found.n_levels = session->levels.n_levels;
    const struct rf_backend_ops *ops = session->model->backend->ops;
    const struct rf_cascade *cascade = session->levels.cascade;
    struct rf_queue_info queue;
    ops->queue_info(session->queue, &queue);
    found.threads = queue.threads;
    rf_chain_format(&session->levels.chain, found.chain, sizeof found.chain);
    for (int32_t l = 0; l < found.n_levels; l++) {
        const struct rf_cascade_stats *from = &cascade->stats[l];
        riffle_level_stats *to = &found.levels[l];
        rf_chain_level_name(&session->levels.chain.levels[l], to->name, sizeof to->name);
        to->passes = from->passes;
        to->drafted = from->drafted;
        to->accepted = from->accepted;
        to->seconds = from->seconds;
        const struct rf_view *view =
            l + 1 < found.n_levels ? session->levels.parts[l].view : session->view;
        if (view) found.level_threads[l] = ops->view_threads(view, 1);
        memcpy(to->judged_at, from->judged_at, sizeof to->judged_at);
        memcpy(to->accepted_at, from->accepted_at, sizeof to->accepted_at);
    }
    /* The target's passes include those that read the prompt. */
    riffle_level_stats *target = &found.levels[found.n_levels - 1];
    target->passes = session->view->passes - session->first_pass;
    target->seconds += session->stats.prefill_seconds;
    rf_api_give(stats, stats_size, &found, sizeof found);
    return 0;
}

_Static_assert((int)RIFFLE_DRAFT_ROWS == (int)RF_DRAFT_ROWS, "a round's rows");

int32_t riffle_session_draft(const riffle_session *session, riffle_draft_row *rows, size_t cap)
{
    if (!session || (!rows && cap))
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", session ? "rows" : "session");
    const struct rf_cascade *cascade = session->levels.cascade;
    const struct rf_draft *draft = &cascade->judged;
    int32_t n = (size_t)draft->n < cap ? draft->n : (int32_t)cap;
    for (int32_t i = 0; i < n; i++) {
        const struct rf_proposal *by = &draft->by[i]; /* of a grammar's rows: by the target */
        rows[i] = (riffle_draft_row){
            .token = draft->tokens[i],
            .parent = draft->parents[i],
            .level = by->proposer >= 0 ? by->proposer : by->origin,
            .confidence = draft->confidence[i],
        };
    }
    for (int32_t k = 0; k < cascade->n_path; k++)
        if (cascade->path[k] < n) rows[cascade->path[k]].kept = 1;
    return draft->n;
}

void riffle_session_reset_stats(riffle_session *session)
{
    if (!session) return;
    session->stats = (riffle_stats){0};
    session->first_pass = session->view->passes;
    memset(session->levels.cascade->stats, 0, sizeof session->levels.cascade->stats);
}
