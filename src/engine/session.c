/* Opening, forking and closing sessions, and the calls on a session that read text (session.h).
 * Writing text is generation.c's. */
#include "engine/session.h"

#include <stdio.h>
#include <string.h>

#include "engine/places.h"
#include "engine/queues.h"
#include "platform/clock.h"

uint64_t rf_session_kv_bytes(const struct rf_engine *engine, const struct rf_sequence_shape *shape)
{
    return engine->kind->kv_bytes(&engine->source->params, shape->kv, shape->n_ctx);
}

/* A full context is to leave half of what the weights leave. */
static int leaves_half(const struct rf_engine *engine, const struct rf_sequence_shape *shape)
{
    struct rf_place places[2];
    int n_places = rf_engine_places(engine, shape, places);
    for (int p = 0; p < n_places; p++) {
        uint64_t weights = places[p].weights + (p == 0 ? engine->cost.mapped_bytes : 0),
                 memory = places[p].memory;
        if (places[p].kv > (memory > weights ? (memory - weights) / 2 : 0)) return 0;
    }
    return 1;
}

/* The context that a model was trained on, as far as memory allows. */
static int32_t default_ctx(const struct rf_engine *engine, enum rf_kv_type kv)
{
    enum { LEAST = 8192, STEP = 1024 };
    struct rf_sequence_shape shape = {.n_ctx = engine->source->params.n_ctx_train, .kv = kv};
    if (shape.n_ctx > RIFFLE_DEFAULT_CTX) shape.n_ctx = RIFFLE_DEFAULT_CTX;
    while (shape.n_ctx > LEAST && !leaves_half(engine, &shape))
        shape.n_ctx = (shape.n_ctx - 1) / STEP * STEP;
    return shape.n_ctx;
}

int rf_session_shape(const struct rf_engine *engine, const riffle_session_options *options,
                     struct rf_sequence_shape *shape, struct rf_error *error)
{
    const struct rf_params *params = &engine->source->params;
    int code = rf_kv_type_find(options->kv ? options->kv : "f16", &shape->kv, error);
    if (code) return code;
    if (options->n_ctx < 0 || options->n_ctx > params->n_ctx_train)
        return rf_fail(error, RF_ERR_ARGUMENT, "n_ctx %d: the model was trained on %d tokens",
                       options->n_ctx, params->n_ctx_train);
    shape->n_ctx = options->n_ctx ? options->n_ctx : default_ctx(engine, shape->kv);
    struct rf_place places[2];
    int n_places = rf_engine_places(engine, shape, places);
    for (const struct rf_place *place = places; place < places + n_places; place++)
        if (place->kv > place->memory)
            return rf_fail(error, RF_ERR_MEMORY,
                           "n_ctx %d: such a context takes %.1f GB, %s has %.1f GB", shape->n_ctx,
                           (double)place->kv * 1e-9, place->name, (double)place->memory * 1e-9);
    return 0;
}

/* The session already has its queue. `from`: the session whose tokens the new one gets; NULL:
 * none. */
static int open_session_parts(struct rf_session *session, const struct rf_sequence_shape *shape,
                              const struct rf_session *from, const struct rf_chain *chain,
                              struct rf_error *error)
{
    const struct rf_engine *engine = session->engine;
    const struct rf_view_options options = {
        .precision = engine->precision,
        .kv = shape->kv,
        .max_rows = shape->n_ctx < RF_PROMPT_ROWS ? shape->n_ctx : RF_PROMPT_ROWS,
        .head = rf_levels_head(engine, chain),
        .cancel = &session->cancel};
    int code = 0;
    if (!session->borrows_view)
        code = rf_view_new(&session->view, engine->model, session->queue, &options, error);
    if (!code)
        code = from ? rf_sequence_fork(&session->sequence, from->sequence, session->view, error)
                    : rf_sequence_new(&session->sequence, session->view, shape, &engine->allocator,
                                      error);
    if (!code)
        code = rf_sampler_new(&session->sampler, engine->source->params.n_vocab,
                              engine->backend->first_above, &engine->allocator, error);
    if (!code)
        code = rf_levels_open(session, chain, session->borrows_view ? &from->levels : NULL, error);
    return code;
}

/* The chain that was asked for; NULL in *chosen is the model's. */
static int choose_session_chain(const riffle_session_options *options, struct rf_chain *chain,
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

void rf_session_close(struct rf_session *session)
{
    rf_levels_close(&session->levels, &session->engine->allocator);
    rf_sampler_free(session->sampler);
    rf_sequence_free(session->sequence);
    if (!session->borrows_view) rf_view_free(session->view);
    rf_engine_return_queue(session->engine, session->queue);
    rf_free(&session->engine->allocator, session);
}

int rf_session_open(struct rf_session **session, struct rf_engine *engine,
                    const riffle_session_options *options, struct rf_error *error)
{
    struct rf_sequence_shape shape;
    struct rf_chain asked;
    const struct rf_chain *chain;
    *session = NULL;
    if (!engine->model)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "the model was opened with RIFFLE_OPEN_HEADER: it has no weights");
    int code = rf_session_shape(engine, options, &shape, error);
    if (!code) code = choose_session_chain(options, &asked, &chain, error);
    if (code) return code;
    struct rf_session *opened = rf_calloc(&engine->allocator, 1, sizeof *opened, "session", error);
    if (!opened) return RF_ERR_MEMORY;
    opened->engine = engine;
    opened->progress = options->progress;
    opened->progress_user = options->progress_user;
    code = rf_engine_take_queue(&opened->queue, engine, options->cores, options->threads, error);
    if (!code) code = open_session_parts(opened, &shape, NULL, chain, error);
    if (!code) code = rf_levels_load_pace(opened, error);
    if (code) {
        rf_session_close(opened);
        return code;
    }
    rf_cascade_set_gamma(opened->levels.cascade, options->gamma, options->min_confidence);
    *session = opened;
    return 0;
}

static int report_read(void *user, int32_t done, int32_t total)
{
    struct rf_session *session = user;
    return session->progress(session->progress_user, "prefill", (uint64_t)done, (uint64_t)total);
}

/* Checks that tokens fit the context. */
static int check_fits(const struct rf_session *session, size_t n_tokens, struct rf_error *error)
{
    int32_t n_ctx = rf_sequence_n_ctx(session->sequence);
    int32_t n = rf_sequence_n_committed(session->sequence);
    if (n_tokens > (size_t)(n_ctx - n))
        return rf_fail(error, RF_ERR_CONTEXT,
                       "%zu tokens do not fit the context: n_ctx is %d, of which %d are taken",
                       n_tokens, n_ctx, n);
    return 0;
}

int rf_session_prefill(struct rf_session *session, const int32_t *tokens, size_t n_tokens,
                       struct rf_error *error)
{
    int code = check_fits(session, n_tokens, error);
    if (code) return code;
    double start = rf_clock_seconds();
    int32_t before = rf_sequence_n_committed(session->sequence);
    atomic_store(&session->cancel, 0);
    code = rf_sequence_prefill(session->sequence, session->view, tokens, (int32_t)n_tokens,
                               session->progress ? report_read : NULL, session, error);
    int32_t read = rf_sequence_n_committed(session->sequence) - before;
    double seconds = rf_clock_seconds() - start;
    session->stats.prefill_tokens += (uint64_t)(read > 0 ? read : 0);
    session->stats.prefill_seconds += seconds;
    if (!code) rf_cascade_learn_reading(session->levels.cascade, read, seconds);
    return code;
}

int rf_session_score(struct rf_session *session, const int32_t *tokens, size_t n_tokens,
                     size_t first, double *logprobs, struct rf_error *error)
{
    int code = check_fits(session, n_tokens, error);
    if (code) return code;
    if (first > n_tokens)
        return rf_fail(error, RF_ERR_ARGUMENT, "first %zu: there are %zu tokens", first, n_tokens);
    if (!logprobs && first < n_tokens) return rf_fail(error, RF_ERR_ARGUMENT, "logprobs is NULL");
    atomic_store(&session->cancel, 0);
    return rf_sequence_score(session->sequence, session->view, tokens, (int32_t)n_tokens,
                             (int32_t)first, logprobs, error);
}

/* Reads the rows that precede the next n tokens of the text, [n_text, n_text + n), as drafts: their
 * logits are in memory together. `i`: the index of the first for on_logits. */
static int tell_logits(struct rf_session *session, int32_t n_text, int32_t n, size_t i,
                       riffle_on_logits on_logits, void *user, struct rf_error *error)
{
    struct rf_sequence *sequence = session->sequence;
    const struct rf_backend_ops *ops = session->view->backend->ops;
    size_t n_vocab = (size_t)session->engine->source->params.n_vocab;
    struct rf_ask ask = {.sequence = sequence,
                         .n_text = n_text,
                         .draft = rf_sequence_tokens(sequence) + n_text,
                         .n_draft = n - 1};
    int32_t path[RF_TREE_ROWS];
    int code = rf_read(session->view, &ask, 1, &(struct rf_read_options){0}, NULL, error);
    for (int32_t j = 0; !code && j < n; j++) {
        const float *logits;
        path[j] = j;
        code = ops->logits(session->view, ask.first + j, &logits, error);
        if (!code && on_logits(user, i + (size_t)j, logits, n_vocab))
            code = rf_fail(error, RF_ERR_CANCELLED, "cancelled");
    }
    return code ? code : rf_sequence_accept(sequence, session->view, n_text, path, n - 1, error);
}

int rf_session_score_logits(struct rf_session *session, const int32_t *tokens, size_t n_tokens,
                            size_t first, riffle_on_logits on_logits, void *user,
                            struct rf_error *error)
{
    int32_t n_before = rf_sequence_n_committed(session->sequence);
    int code = check_fits(session, n_tokens, error);
    if (code) return code;
    if (first > n_tokens || (first == 0 && n_before == 0 && n_tokens > 0))
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "first %zu: there are %zu tokens, and each follows another", first,
                       n_tokens);
    atomic_store(&session->cancel, 0);
    code = rf_sequence_append(session->sequence, tokens, (int32_t)n_tokens, error);
    if (code) return code;
    for (size_t i = first; !code && i < n_tokens;) {
        int32_t n_text = n_before + (int32_t)i, most = session->view->shape.max_logits,
                room = rf_sequence_room(session->sequence, n_text) + 1,
                left = (int32_t)(n_tokens - i);
        if (most > room) most = room;
        if (most > left) most = left;
        code = tell_logits(session, n_text, most, i, on_logits, user, error);
        i += (size_t)most;
    }
    if (code) rf_sequence_rewind(session->sequence, n_before);
    return code;
}

int rf_session_logits(struct rf_session *session, float *logits, size_t n_logits,
                      struct rf_error *error)
{
    size_t n_vocab = (size_t)session->engine->source->params.n_vocab;
    if (n_logits != n_vocab)
        return rf_fail(error, RF_ERR_ARGUMENT, "room for %zu logits: the vocabulary has %zu",
                       n_logits, n_vocab);
    atomic_store(&session->cancel, 0);
    const float *found;
    int code = rf_sequence_answer(session->sequence, session->view, &found, error);
    if (!code) memcpy(logits, found, n_vocab * sizeof *logits);
    return code;
}

int rf_session_rewind(struct rf_session *session, int32_t n_tokens, struct rf_error *error)
{
    if (n_tokens < 0 || n_tokens > rf_sequence_n_committed(session->sequence))
        return rf_fail(error, RF_ERR_ARGUMENT, "cannot rewind to %d of %d tokens", n_tokens,
                       rf_sequence_n_committed(session->sequence));
    rf_sequence_rewind(session->sequence, n_tokens);
    return 0;
}

void rf_session_cancel(struct rf_session *session)
{
    atomic_store(&session->cancel, 1);
}

int rf_session_time_passes(struct rf_session *session, int32_t rows, int32_t context,
                           int32_t repeats, double *seconds, struct rf_error *error)
{
    atomic_store(&session->cancel, 0);
    return rf_sequence_time_passes(session->sequence, session->view, rows, context, repeats,
                                   seconds, error);
}

int rf_session_fork(struct rf_session **copy, const struct rf_session *session, int lend,
                    struct rf_error *error)
{
    const struct levels *levels = &session->levels;
    const struct rf_sequence_shape shape = {.n_ctx = rf_sequence_n_ctx(session->sequence),
                                            .kv = session->view->shape.kv};
    *copy = NULL;
    struct rf_session *forked =
        rf_calloc(&session->engine->allocator, 1, sizeof *forked, "session", error);
    if (!forked) return RF_ERR_MEMORY;
    forked->engine = session->engine;
    forked->progress = session->progress;
    forked->progress_user = session->progress_user;
    forked->queue = session->queue;
    atomic_fetch_add(&session->queue->holders, 1);
    forked->borrows_view = lend;
    if (lend) forked->view = session->view;
    int code = open_session_parts(forked, &shape, session, &levels->chain, error);
    if (code) {
        rf_session_close(forked);
        return code;
    }
    rf_sampler_copy(forked->sampler, session->sampler);
    rf_levels_set_sampling(&forked->levels, session->sampler);
    rf_cascade_copy_settings(forked->levels.cascade, levels->cascade);
    rf_cascade_copy_pace(forked->levels.cascade, levels->cascade);
    rf_levels_copy(&forked->levels, levels);
    *copy = forked;
    return 0;
}

/* ---- settings ---- */

int rf_session_set_sampling(struct rf_session *session, const riffle_sampling *sampling,
                            struct rf_error *error)
{
    const struct rf_sampling inner = {.temperature = sampling->temperature,
                                      .top_k = sampling->top_k,
                                      .top_p = sampling->top_p,
                                      .min_p = sampling->min_p,
                                      .repeat_penalty = sampling->repeat_penalty,
                                      .repeat_last_n = sampling->repeat_last_n,
                                      .seed = sampling->seed,
                                      .frequency_penalty = sampling->frequency_penalty,
                                      .presence_penalty = sampling->presence_penalty};
    int code = rf_sampler_set(session->sampler, &inner, error);
    if (code) return code;
    rf_levels_set_sampling(&session->levels, session->sampler);
    return 0;
}

int rf_session_check_bias(const struct rf_session *session, const riffle_logit_bias *bias, size_t n,
                          struct rf_error *error)
{
    int32_t n_vocab = session->engine->source->params.n_vocab;
    if (!bias && n) return rf_fail(error, RF_ERR_ARGUMENT, "logit_bias is NULL");
    for (size_t i = 0; i < n; i++) {
        if (bias[i].token < 0 || bias[i].token >= n_vocab)
            return rf_fail(error, RF_ERR_ARGUMENT,
                           "logit_bias: token %d is outside the vocabulary of %d", bias[i].token,
                           n_vocab);
        if (!(bias[i].bias >= -RIFFLE_MOST_BIAS && bias[i].bias <= RIFFLE_MOST_BIAS))
            return rf_fail(error, RF_ERR_ARGUMENT, "logit_bias of token %d: not between -%d and %d",
                           bias[i].token, RIFFLE_MOST_BIAS, RIFFLE_MOST_BIAS);
    }
    return 0;
}

void rf_session_set_bias(struct rf_session *session, const struct rf_bias *bias, int32_t n)
{
    rf_sampler_set_bias(session->sampler, bias, n);
    rf_levels_set_sampling(&session->levels, session->sampler);
}

void rf_session_set_answer(struct rf_session *session, int32_t first)
{
    rf_sampler_set_answer(session->sampler, first);
    rf_levels_set_sampling(&session->levels, session->sampler);
}

void rf_session_finish(struct rf_session *session, riffle_finish why, const char *sentence)
{
    session->finish = why;
    snprintf(session->finish_sentence, sizeof session->finish_sentence, "%s", sentence);
}

/* ---- what became of it ---- */

void rf_session_stats(const struct rf_session *session, riffle_stats *stats)
{
    const struct rf_backend_ops *ops = session->engine->backend->ops;
    struct rf_queue_info queue;
    *stats = session->stats;
    stats->n_levels = session->levels.n_levels;
    ops->queue_info(session->queue, &queue);
    stats->threads = queue.threads;
    rf_chain_format(&session->levels.chain, stats->chain, sizeof stats->chain);
    for (int32_t l = 0; l < stats->n_levels; l++) {
        const struct rf_cascade_stats *from = rf_cascade_stats(session->levels.cascade, l);
        riffle_level_stats *to = &stats->levels[l];
        rf_chain_level_name(&session->levels.chain.levels[l], to->name, sizeof to->name);
        to->passes = from->passes;
        to->drafted = from->drafted;
        to->accepted = from->accepted;
        to->seconds = from->seconds;
        const struct part *part = &session->levels.parts[l];
        const struct rf_view *view = l + 1 == stats->n_levels ? session->view
                                     : part->passes           ? rf_head_passes_view(part->passes)
                                                              : part->view;
        if (view) stats->level_threads[l] = ops->view_threads(view, 1);
        memcpy(to->judged_at, from->judged_at, sizeof to->judged_at);
        memcpy(to->accepted_at, from->accepted_at, sizeof to->accepted_at);
    }
    /* The target's passes include those that read the prompt. */
    riffle_level_stats *target = &stats->levels[stats->n_levels - 1];
    target->passes = session->view->passes - session->first_pass;
    target->seconds += session->stats.prefill_seconds;
}

void rf_session_reset_stats(struct rf_session *session)
{
    session->stats = (riffle_stats){0};
    session->first_pass = session->view->passes;
    rf_cascade_reset_stats(session->levels.cascade);
}

_Static_assert((int)RIFFLE_DRAFT_ROWS == (int)RF_DRAFT_ROWS, "a round's rows");

int32_t rf_session_draft(const struct rf_session *session, riffle_draft_row *rows, size_t cap)
{
    const int32_t *path;
    int32_t n_path;
    const struct rf_draft *draft = rf_cascade_judged(session->levels.cascade, &path, &n_path);
    int32_t n = (size_t)draft->n < cap ? draft->n : (int32_t)cap;
    for (int32_t i = 0; i < n; i++) {
        const struct rf_proposal *by = &draft->by[i]; /* rows of a grammar: by the target */
        rows[i] = (riffle_draft_row){
            .token = draft->tokens[i],
            .parent = draft->parents[i],
            .level = by->proposer >= 0 ? by->proposer : by->origin,
            .confidence = draft->confidence[i],
        };
    }
    for (int32_t k = 0; k < n_path; k++)
        if (path[k] < n) rows[path[k]].kept = 1;
    return draft->n;
}
