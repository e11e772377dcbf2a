/* Answers: choose, commit, tell the caller, until there is a reason to end. Tokens are committed
 * one by one, so that each callback sees the session as it is after its token. */
#include "engine/generation.h"

#include <stdio.h>
#include <string.h>

#include "platform/clock.h"

enum { LONG_ANSWER = 256 }; /* tokens to expect of an answer without a limit */

static const struct rf_allocator *answer_allocator(const struct generation *g)
{
    return &g->session->engine->allocator;
}

/* Offset of the earliest stop text in the held text, which g->stopped gets; without one, the length
 * of the held text. */
static size_t find_stop(struct generation *g)
{
    size_t first = g->held.count;
    for (size_t s = 0; s < g->wanted.options.n_stop; s++) {
        const char *stop = g->wanted.options.stop[s];
        size_t length = strlen(stop);
        for (size_t at = 0; length && at + length <= g->held.count && at < first; at++)
            if (memcmp(g->held.data + at, stop, length) == 0) {
                first = at;
                g->stopped = stop;
            }
    }
    return first;
}

/* How many bytes at the end of the held text may be the beginning of a stop text. */
static size_t undecided(const struct generation *g)
{
    size_t most = 0;
    for (size_t s = 0; s < g->wanted.options.n_stop; s++) {
        const char *stop = g->wanted.options.stop[s];
        size_t length = strlen(stop);
        size_t tail = length && length - 1 < g->held.count ? length - 1 : g->held.count;
        for (; length && tail > most; tail--)
            if (memcmp(g->held.data + g->held.count - tail, stop, tail) == 0) most = tail;
    }
    return most;
}

/* Takes a token's bytes; afterwards the first *ready bytes of the held text are certain. `last`: no
 * more will come. */
static int hold_text(struct generation *g, struct rf_str bytes, int last, size_t *ready,
                     struct rf_error *error)
{
    char piece[RF_UTF8_STREAM_ROOM(64)];
    for (size_t at = 0; at < bytes.bytes; at += 64) {
        size_t n = bytes.bytes - at < 64 ? bytes.bytes - at : 64;
        size_t written = rf_utf8_stream_push(&g->characters, bytes.data + at, n, piece);
        int code = rf_bytes_append(answer_allocator(g), &g->held, piece, written, error);
        if (code) return code;
    }
    size_t left = last ? rf_utf8_stream_flush(&g->characters, piece) : 0;
    int code = rf_bytes_append(answer_allocator(g), &g->held, piece, left, error);
    if (code) return code;
    *ready = find_stop(g);
    if (!g->stopped && !last) *ready -= undecided(g);
    return 0;
}

static void drop_text(struct generation *g, size_t n)
{
    g->held.count -= n;
    if (g->held.count) memmove(g->held.data, g->held.data + n, g->held.count);
}

/* Tells the caller of a token (or of the end, token -1) and of the text that became certain. */
static int tell_token(struct generation *g, int32_t token, int32_t level, struct rf_str bytes,
                      int *stop, struct rf_error *error)
{
    size_t ready = 0;
    int code = hold_text(g, bytes, token < 0, &ready, error);
    if (code) return code;
    if (g->on_event && (token >= 0 || ready)) {
        riffle_event event = {
            .token = token, .level = level, .text = ready ? g->held.data : "", .text_bytes = ready};
        *stop = g->on_event(g->user, &event) != 0;
    }
    drop_text(g, ready);
    return 0;
}

void rf_generation_tell_logprobs(const struct rf_log_probs *found, int32_t token,
                                 riffle_on_logprobs on_logprobs, void *user)
{
    riffle_logprob top[RF_MAX_LOG_PROBS];
    for (int32_t k = 0; k < found->n; k++)
        top[k] = (riffle_logprob){found->top[k].token, found->top[k].logit};
    const riffle_logprobs told = {.chosen = {token, found->chosen}, .top = top, .n_top = found->n};
    on_logprobs(user, &told);
}

/* Tells the log-probabilities of token i of a round. */
static void tell_logprobs(const struct generation *g, int32_t i, int32_t token)
{
    if (g->log_probs)
        rf_generation_tell_logprobs(rf_cascade_log_probs(g->session->levels.cascade, i), token,
                                    g->on_logprobs, g->user);
}

/* A word has letters, a number only digits, perhaps behind a space. */
static enum rf_token_class class_of_text(struct rf_str text)
{
    size_t digits = 0, spaces = text.bytes && text.data[0] == ' ';
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned char c = (unsigned char)text.data[i], lower = c | 0x20;
        if ((lower >= 'a' && lower <= 'z') || c >= 0x80) return RF_CLASS_WORD;
        digits += c >= '0' && c <= '9';
    }
    return digits && digits + spaces == text.bytes ? RF_CLASS_NUMBER : RF_CLASS_OTHER;
}

/* Follows the committed tokens, whoever drafted them, so that an answer ends at the same token with
 * any chain. Returns 1 when it only repeats itself. */
static int repeats_itself(struct generation *g, int32_t token, struct rf_str text)
{
    if (g->wanted.options.ignore_repetition) return 0;
    int32_t period = rf_repetition_push(&g->repetition, token, class_of_text(text));
    if (!period) return 0;
    char sentence[160];
    snprintf(sentence, sizeof sentence,
             "the answer only repeats the same %d token%s, so it was stopped; ignore_repetition "
             "lets it continue",
             period, period == 1 ? "" : "s");
    rf_session_finish(g->session, RIFFLE_FINISH_REPETITION, sentence);
    return 1;
}

/* Commits the tokens of a round one by one, so that each callback sees the session as it is after
 * its token. Returns 1 when there is a reason to end. */
static int commit_round(struct generation *g, const struct rf_yield *yield, int32_t n,
                        struct rf_error *error)
{
    struct rf_session *session = g->session;
    const struct rf_tokenizer *tokenizer = session->engine->tokenizer;
    int32_t target = session->levels.n_levels - 1;
    for (int32_t i = 0; i < n; i++) {
        int32_t token = yield[i].token;
        int stop = 0;
        if (!g->wanted.options.ignore_eos && rf_token_is_end(tokenizer, token)) {
            rf_session_finish(session, RIFFLE_FINISH_STOP, "");
            return 1;
        }
        if (rf_sequence_commit(session->sequence, error)) {
            rf_session_finish(session, RIFFLE_FINISH_LENGTH, error->text);
            return 1;
        }
        g->generated++;
        session->stats.generated_tokens++;
        struct rf_str text = rf_token_text(tokenizer, token, 0);
        tell_logprobs(g, i, token);
        int code = tell_token(g, token, target - yield[i].origin, text, &stop, error);
        if (code) return code;
        if (g->stopped || stop || atomic_load(&session->cancel)) {
            rf_session_finish(session, g->stopped ? RIFFLE_FINISH_STOP : RIFFLE_FINISH_CANCELLED,
                              "");
            return 1;
        }
        if (repeats_itself(g, token, text)) return 1;
    }
    return 0;
}

static int check_answer_options(const riffle_generate_options *options, struct rf_error *error)
{
    if (options->max_tokens < 0)
        return rf_fail(error, RF_ERR_ARGUMENT, "max_tokens %d is negative", options->max_tokens);
    if (options->n_stop && !options->stop) return rf_fail(error, RF_ERR_ARGUMENT, "stop is NULL");
    if (options->grammar && options->ignore_eos)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "ignore_eos with a grammar: an end-of-text token ends its text");
    for (size_t i = 0; i < options->n_stop; i++)
        if (!options->stop[i]) return rf_fail(error, RF_ERR_ARGUMENT, "stop text %zu is NULL", i);
    return 0;
}

int rf_generation_begin(struct generation *g, struct rf_session *session,
                        const struct rf_answer_options *wanted, riffle_on_event on_event,
                        void *user, struct rf_error *error)
{
    struct rf_cascade *cascade = session->levels.cascade;
    const riffle_generate_options *options = &wanted->options;
    *g = (struct generation){
        .session = session, .wanted = *wanted, .on_event = on_event, .user = user};
    int code = check_answer_options(&wanted->options, error);
    if (code) return code;
    atomic_store(&session->cancel, 0);
    rf_session_finish(session, RIFFLE_FINISH_NONE, "");
    if (wanted->grammar)
        code = rf_grammar_store_take(&g->matcher, wanted->grammar, session->engine, error);
    if (!code && g->matcher) code = rf_cascade_set_grammar(cascade, g->matcher, error);
    if (code) {
        rf_matcher_free(g->matcher);
        return code;
    }
    rf_session_set_answer(session, rf_sequence_n_committed(session->sequence));
    rf_repetition_begin(&g->repetition);
    rf_cascade_begin_answer(cascade, options->max_tokens ? options->max_tokens : LONG_ANSWER);
    return 0;
}

int rf_generation_want_logprobs(struct generation *g, riffle_on_logprobs on_logprobs, int32_t top,
                                struct rf_error *error)
{
    if (top < 0 || top > RF_MAX_LOG_PROBS)
        return rf_fail(error, RF_ERR_ARGUMENT, "top_logprobs %d: not between 0 and %d", top,
                       RF_MAX_LOG_PROBS);
    g->log_probs = rf_calloc(answer_allocator(g), RF_DRAFT_ROWS + 1, sizeof *g->log_probs,
                             "log-probabilities", error);
    if (!g->log_probs) return RF_ERR_MEMORY;
    g->on_logprobs = on_logprobs;
    rf_cascade_want_log_probs(g->session->levels.cascade, g->log_probs, top);
    return 0;
}

int32_t rf_generation_room(const struct generation *g)
{
    int64_t most =
        g->wanted.options.max_tokens ? g->wanted.options.max_tokens - g->generated : INT32_MAX;
    return most > RF_MAX_DRAFT ? RF_MAX_DRAFT + 1 : (int32_t)most;
}

int rf_generation_take(struct generation *g, const struct rf_yield *yield, int32_t n,
                       struct rf_error *error)
{
    if (n == RF_ERR_CANCELLED) {
        rf_session_finish(g->session, RIFFLE_FINISH_CANCELLED, "");
        return 1;
    }
    if (n < 0) return n;
    if (n == 0) { /* the grammar's text is complete */
        rf_session_finish(g->session, RIFFLE_FINISH_STOP, "");
        return 1;
    }
    int ended = commit_round(g, yield, n, error);
    rf_cascade_drop(g->session->levels.cascade);
    if (ended == 0 && rf_generation_room(g) == 0) {
        rf_session_finish(g->session, RIFFLE_FINISH_LENGTH, "");
        return 1;
    }
    return ended;
}

int64_t rf_generation_end(struct generation *g, int code, struct rf_error *error)
{
    int ignored;
    if (code >= 0)
        code = g->stopped ? 0 : tell_token(g, -1, 0, (struct rf_str){"", 0}, &ignored, error);
    if (g->matcher) {
        struct rf_error none;
        rf_cascade_set_grammar(g->session->levels.cascade, NULL, &none);
        if (code < 0)
            rf_matcher_free(g->matcher);
        else
            rf_grammar_store_return(g->matcher, g->wanted.grammar);
    }
    rf_cascade_want_log_probs(g->session->levels.cascade, NULL, 0);
    rf_free(answer_allocator(g), g->log_probs);
    rf_bytes_free(answer_allocator(g), &g->held);
    return code < 0 ? code : g->generated;
}

int64_t rf_session_generate(struct rf_session *session, const struct rf_answer_options *wanted,
                            riffle_on_event on_event, void *user, struct rf_error *error)
{
    struct generation g;
    struct rf_yield yield[RF_MAX_DRAFT + 1];
    double start = rf_clock_seconds();
    int code = rf_generation_begin(&g, session, wanted, on_event, user, error);
    if (code) return code;
    while (!code) {
        int32_t n = rf_cascade_round(session->levels.cascade, rf_generation_room(&g), yield, error);
        code = rf_generation_take(&g, yield, n, error);
    }
    int64_t generated = rf_generation_end(&g, code, error);
    session->stats.decode_seconds += rf_clock_seconds() - start;
    return generated;
}

int64_t rf_session_step(struct rf_session *session, int32_t *tokens, size_t cap,
                        struct rf_error *error)
{
    double start = rf_clock_seconds();
    atomic_store(&session->cancel, 0);
    rf_session_set_answer(session, 0);
    struct rf_yield yield[RF_MAX_DRAFT + 1];
    int32_t most = cap > RF_MAX_DRAFT ? RF_MAX_DRAFT + 1 : (int32_t)cap, committed = 0;
    int32_t n = rf_cascade_round(session->levels.cascade, most, yield, error);
    while (committed < n && !rf_sequence_commit(session->sequence, error)) committed++;
    rf_cascade_drop(session->levels.cascade);
    if (n > 0) n = committed ? committed : error->code;
    session->stats.decode_seconds += rf_clock_seconds() - start;
    for (int32_t i = 0; i < n; i++) tokens[i] = yield[i].token;
    session->stats.generated_tokens += (uint64_t)(n > 0 ? n : 0);
    return n;
}
