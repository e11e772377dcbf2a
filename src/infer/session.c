#include "infer/session.h"

#include <string.h>

#include "platform/clock.h"

enum {
    MAX_ROWS = 256, /* of a block: enough that weights are read once for many rows */
    FEW_ROWS = 16   /* of a sharing session, and of a pass that can hold branches */
};

int rf_session_new(struct rf_session **session, const struct rf_model *model,
                   const struct rf_session_shape *shape, struct rf_error *error)
{
    const struct rf_allocator *allocator = model->allocator;
    *session = NULL;
    struct rf_session *made = rf_calloc(allocator, 1, sizeof *made, "session", error);
    if (!made) return RF_ERR_MEMORY;
    made->model = model;
    made->shape = *shape;
    made->tokens =
        rf_malloc(allocator, (size_t)shape->n_ctx, sizeof *made->tokens, "session", error);
    int32_t max_rows = shape->n_ctx < MAX_ROWS ? shape->n_ctx : MAX_ROWS;
    struct rf_context_shape context = {.params = &model->source->params,
                                       .n_ctx = shape->n_ctx,
                                       .max_rows = max_rows,
                                       .team = shape->team,
                                       .kv = shape->kv};
    int code = made->tokens ? 0 : RF_ERR_MEMORY;
    if (!code)
        code = model->backend->ops->context_new(&made->context, model->backend, &context, error);
    if (!code)
        code =
            rf_activations_new(&made->activations, made->context, model, max_rows,
                               max_rows < RF_SESSION_LOGITS ? max_rows : RF_SESSION_LOGITS, error);
    if (code) {
        rf_session_free(made);
        return code;
    }
    made->writer = made;
    made->stop = &made->cancel;
    *session = made;
    return 0;
}

int rf_session_new_sharing(struct rf_session **session, const struct rf_model *model,
                           struct rf_session *owner, struct rf_error *error)
{
    const struct rf_allocator *allocator = model->allocator;
    *session = NULL;
    struct rf_session *made = rf_calloc(allocator, 1, sizeof *made, "session", error);
    if (!made) return RF_ERR_MEMORY;
    made->model = model;
    made->shape = owner->shape;
    made->owner = owner;
    made->stop = &owner->cancel;
    made->context = owner->context;
    made->tokens =
        rf_malloc(allocator, (size_t)owner->shape.n_ctx, sizeof *made->tokens, "session", error);
    int32_t rows = owner->activations.max_rows < FEW_ROWS ? owner->activations.max_rows : FEW_ROWS;
    int code = made->tokens ? 0 : RF_ERR_MEMORY;
    if (!code)
        code = rf_activations_new(&made->activations, made->context, model, rows, rows, error);
    if (code) {
        rf_session_free(made);
        return code;
    }
    *session = made;
    return 0;
}

void rf_session_free(struct rf_session *session)
{
    if (!session) return;
    const struct rf_allocator *allocator = session->model->allocator;
    if (!session->owner) session->model->backend->ops->context_free(session->context);
    rf_free(allocator, session->tokens);
    rf_free(allocator, session);
}

int rf_session_commit(struct rf_session *session, int32_t token, struct rf_error *error)
{
    if (session->n_tokens == session->shape.n_ctx)
        return rf_fail(error, RF_ERR_CONTEXT, "the context of %d tokens is full",
                       session->shape.n_ctx);
    session->tokens[session->n_tokens++] = token;
    session->has_logits = 0;
    return 0;
}

int32_t rf_session_workers(const struct rf_session *session)
{
    const struct rf_backend *backend = session->model->backend;
    return backend->ops->workers(session->context, backend, 1);
}

void rf_session_rewind(struct rf_session *session, int32_t n)
{
    if (n == session->n_tokens) return;
    session->n_tokens = n;
    if (session->n_read > n) session->n_read = n;
    session->has_logits = 0;
}

/* One pass over the next n tokens that have not been read, committed ones or drafts behind them. */
static int branched_pass(struct rf_session *session, int32_t n, const int32_t *parents,
                         struct rf_pass *pass)
{
    pass->model = session->model;
    pass->context = session->context;
    pass->activations = &session->activations;
    pass->tokens = session->tokens + session->n_read;
    pass->rows = (struct rf_rows){n, session->n_read, parents};
    pass->cancel = session->stop;
    (session->owner ? session->owner : session)->writer = session;
    int code = rf_forward(pass);
    if (code) return code;
    session->n_read += n;
    session->passes++;
    return 0;
}

static int pass_over(struct rf_session *session, int32_t n, struct rf_pass *pass)
{
    return branched_pass(session, n, NULL, pass);
}

/* Reads all committed tokens that have not been read, with the logits of the last one. */
static int read_rest(struct rf_session *session, rf_read_progress progress, void *user)
{
    int32_t start = session->n_read, total = session->n_tokens - start;
    while (session->n_read < session->n_tokens) {
        int32_t left = session->n_tokens - session->n_read;
        int32_t n = left < session->activations.max_rows ? left : session->activations.max_rows;
        struct rf_pass pass = {.logits_first = n - 1, .n_logits = n == left};
        int code = pass_over(session, n, &pass);
        if (code) return code;
        if (progress && progress(user, session->n_read - start, total) &&
            session->n_read < session->n_tokens)
            return RF_ERR_CANCELLED;
    }
    session->has_logits = 1;
    return 0;
}

/* Appends tokens after checking them; nothing is appended on failure. */
static int append(struct rf_session *session, const int32_t *tokens, int32_t n,
                  struct rf_error *error)
{
    int32_t n_vocab = session->model->source->params.n_vocab;
    if (n > session->shape.n_ctx - session->n_tokens)
        return rf_fail(error, RF_ERR_CONTEXT,
                       "%d tokens do not fit: the context holds %d, of which %d are taken", n,
                       session->shape.n_ctx, session->n_tokens);
    for (int32_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= n_vocab)
            return rf_fail(error, RF_ERR_ARGUMENT,
                           "token %d at index %d is outside the vocabulary of %d", tokens[i], i,
                           n_vocab);
    if (n) memcpy(session->tokens + session->n_tokens, tokens, (size_t)n * sizeof *tokens);
    session->n_tokens += n;
    if (n) session->has_logits = 0;
    return 0;
}

/* After a cancelled read: what was read stays, but never less than what was committed before. */
static int cancelled(struct rf_session *session, int32_t n_before, struct rf_error *error)
{
    session->n_tokens = session->n_read > n_before ? session->n_read : n_before;
    return rf_fail(error, RF_ERR_CANCELLED, "cancelled after %d tokens", session->n_tokens);
}

int rf_session_read(struct rf_session *session, const int32_t *tokens, int32_t n,
                    rf_read_progress progress, void *user, struct rf_error *error)
{
    int32_t n_before = session->n_tokens;
    int code = append(session, tokens, n, error);
    if (code) return code;
    if (session->n_tokens == session->n_read) return 0;
    return read_rest(session, progress, user) ? cancelled(session, n_before, error) : 0;
}

int rf_session_score(struct rf_session *session, const int32_t *tokens, int32_t n, int32_t first,
                     double *logprobs, struct rf_error *error)
{
    int32_t n_before = session->n_tokens;
    if (first < 0 || first > n || (first == 0 && n_before == 0 && n > 0))
        return rf_fail(error, RF_ERR_ARGUMENT, "first %d: a token can be scored only after another",
                       first);
    if (first == 0 && n_before > 0 && session->n_read == n_before) {
        /* The row before the first token must be in the pass: read it again, to the same bits. */
        session->n_read--;
        session->has_logits = 0;
    }
    int code = append(session, tokens, n, error);
    if (code) return code;
    /* Row i predicts token i + 1: the rows wanted begin before the first scored token and end
     * before the last. */
    int32_t from = n_before + first - 1, to = session->n_tokens - 1;
    while (session->n_read < session->n_tokens) {
        int32_t start = session->n_read, left = session->n_tokens - start;
        int32_t rows = left < session->activations.max_rows ? left : session->activations.max_rows;
        int32_t low = from > start ? from : start, high = to < start + rows ? to : start + rows;
        struct rf_pass pass = {.logits_first = low - start,
                               .n_logits = high > low ? high - low : 0};
        pass.targets = session->tokens + low + 1;
        pass.logprobs = logprobs + (low - from);
        if (pass_over(session, rows, &pass)) return cancelled(session, n_before, error);
    }
    return 0;
}

const float *rf_session_logits(struct rf_session *session, struct rf_error *error)
{
    if (session->n_tokens == 0) {
        rf_fail(error, RF_ERR_ARGUMENT, "a session without tokens has no logits");
        return NULL;
    }
    if (!session->has_logits) {
        /* After a rewind the last token's logits are gone, but its row can be read again, to the
         * same bits. */
        if (session->n_read == session->n_tokens) session->n_read--;
        if (read_rest(session, NULL, NULL)) {
            rf_fail(error, RF_ERR_CANCELLED, "cancelled after %d tokens", session->n_tokens);
            return NULL;
        }
    }
    return session->model->backend->ops->row(session->activations.logits, 0);
}

/* ---- verification ---- */

/* How many of the committed tokens have keys and values that this session can use. */
static int32_t usable(const struct rf_session *session)
{
    const struct rf_session *owner = session->owner;
    if (!owner || owner->writer == session) {
        int32_t least = owner && owner->n_read > session->n_read ? owner->n_read : session->n_read;
        return least < session->n_tokens ? least : session->n_tokens;
    }
    return owner->n_read < session->n_tokens ? owner->n_read : session->n_tokens;
}

static int32_t shared_prefix(const struct rf_session *session, const int32_t *tokens, int32_t n)
{
    int32_t most = n < session->n_tokens ? n : session->n_tokens, same = 0;
    while (same < most && session->tokens[same] == tokens[same]) same++;
    return same;
}

int rf_session_follow(struct rf_session *session, const int32_t *tokens, int32_t n,
                      struct rf_error *error)
{
    int32_t same = shared_prefix(session, tokens, n);
    rf_session_rewind(session, same);
    return append(session, tokens + same, n - same, error);
}

int32_t rf_session_unread(struct rf_session *session, const int32_t *tokens, int32_t n)
{
    int32_t same = shared_prefix(session, tokens, n), read = usable(session);
    if (session->owner) {
        /* The owner's text is the one that is followed: what it has read is there for all. */
        int32_t owned = session->owner->n_read < n ? session->owner->n_read : n;
        int32_t own = session->owner->writer == session
                          ? (session->n_read < same ? session->n_read : same)
                          : 0;
        read = own > owned ? own : owned;
    } else if (read > same) {
        read = same;
    }
    if (read < n) return n - read;
    return session->has_logits && session->n_tokens == n ? 0 : 1;
}

int rf_session_verify(struct rf_session *session, const int32_t *draft, const int32_t *parents,
                      int32_t n_draft, void (*prepared)(void *user, int32_t rows), void *user,
                      struct rf_error *error)
{
    int32_t n_committed = session->n_tokens, most = session->activations.max_rows;
    if (n_committed == 0)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "a session without tokens has nothing to go on from");
    if (n_draft < 0 || n_draft >= session->activations.max_logits)
        return rf_fail(error, RF_ERR_ARGUMENT, "%d draft rows: not between 0 and %d", n_draft,
                       session->activations.max_logits - 1);
    if (n_draft > session->shape.n_ctx - n_committed)
        return rf_fail(error, RF_ERR_CONTEXT,
                       "%d draft tokens do not fit: the context holds %d, of which %d are taken",
                       n_draft, session->shape.n_ctx, n_committed);
    session->n_read = usable(session);
    if (session->n_read == n_committed) session->n_read--;
    session->has_logits = 0;
    struct rf_session *owner = session->owner;
    if (owner && owner->n_read > session->n_read) {
        /* The owner's last row is about to be overwritten: it reads that again. */
        owner->n_read = session->n_read;
        owner->has_logits = 0;
    }
    if (most > FEW_ROWS) most = FEW_ROWS;
    /* What does not go into the last pass: all but one row of a text that is long. */
    if (n_committed - session->n_read + n_draft > most) {
        while (n_committed - session->n_read > 1) {
            int32_t left = n_committed - session->n_read - 1;
            struct rf_pass block = {0};
            if (pass_over(session,
                          left < session->activations.max_rows ? left
                                                               : session->activations.max_rows,
                          &block))
                return rf_fail(error, RF_ERR_CANCELLED, "cancelled after %d tokens", n_committed);
        }
    }
    int32_t unread = n_committed - session->n_read, rows = unread + n_draft, branches[FEW_ROWS];
    if (n_draft) memcpy(session->tokens + n_committed, draft, (size_t)n_draft * sizeof *draft);
    for (int32_t i = 0; parents && i < rows; i++)
        branches[i] = i < unread                ? i - 1
                      : parents[i - unread] < 0 ? unread - 1
                                                : unread + parents[i - unread];
    if (prepared) prepared(user, rows);
    struct rf_pass pass = {.logits_first = unread - 1, .n_logits = n_draft + 1};
    int code = branched_pass(session, rows, parents ? branches : NULL, &pass);
    session->n_read = code ? session->n_read : n_committed;
    if (code) return rf_fail(error, RF_ERR_CANCELLED, "cancelled after %d tokens", n_committed);
    session->has_logits = 1;
    return 0;
}

const float *rf_session_row(const struct rf_session *session, int32_t i)
{
    return session->model->backend->ops->row(session->activations.logits, i);
}

void rf_session_keep(struct rf_session *session, const int32_t *path, int32_t n)
{
    if (n == 0) return;
    session->model->backend->ops->kv_keep(session->context, session->n_read, path, n);
    for (int32_t i = 0; i < n; i++)
        session->tokens[session->n_tokens + i] = session->tokens[session->n_tokens + path[i]];
    session->n_tokens += n;
    session->n_read += n;
    session->has_logits = 0;
}

int rf_session_time_passes(struct rf_session *session, int32_t n_rows, int32_t context,
                           int32_t repeats, double *seconds, struct rf_error *error)
{
    int32_t n_before = session->n_tokens, filler[MAX_ROWS] = {0};
    if (n_rows < 1 || n_rows > session->activations.max_rows)
        return rf_fail(error, RF_ERR_ARGUMENT, "rows %d: not between 1 and %d", n_rows,
                       session->activations.max_rows);
    if (repeats < 1) return rf_fail(error, RF_ERR_ARGUMENT, "repeats %d: not positive", repeats);
    if (context < n_before || context > session->shape.n_ctx - n_rows)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "context %d: not between the %d tokens of the session and %d", context,
                       n_before, session->shape.n_ctx - n_rows);
    int code = 0;
    while (!code && session->n_tokens < context) {
        int32_t left = context - session->n_tokens;
        code =
            rf_session_read(session, filler, left < MAX_ROWS ? left : MAX_ROWS, NULL, NULL, error);
    }
    if (!code && session->n_read < session->n_tokens && read_rest(session, NULL, NULL))
        code = cancelled(session, n_before, error);
    for (int32_t i = 0; !code && i < repeats; i++) {
        code = append(session, filler, n_rows, error);
        double start = rf_clock_seconds();
        struct rf_pass pass = {.n_logits = n_rows <= session->activations.max_logits ? n_rows : 1,
                               .logits_first =
                                   n_rows <= session->activations.max_logits ? 0 : n_rows - 1};
        if (!code && pass_over(session, n_rows, &pass)) code = cancelled(session, n_before, error);
        seconds[i] = rf_clock_seconds() - start;
        if (!code) rf_session_rewind(session, context);
    }
    if (session->n_tokens > n_before) rf_session_rewind(session, n_before);
    session->has_logits = 0;
    return code;
}
