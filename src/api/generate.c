/* Generation: choose, commit, tell the caller, until there is a reason to end. */
#include <stdio.h>
#include <string.h>

#include "api/generation.h"
#include "api/grammar.h"
#include "platform/clock.h"

enum { LONG_ANSWER = 256 }; /* tokens to expect of an answer without a limit */

RF_API_OPTIONS(riffle_sampling, .temperature = 0.0f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f,
               .repeat_penalty = 1.0f, .repeat_last_n = 64)

int rf_api_take_sampling(riffle_sampling *ours, const riffle_sampling *given)
{
    return take_riffle_sampling(ours, given);
}

int rf_api_set_sampling(riffle_session *session, const riffle_sampling *sampling)
{
    riffle_sampling chosen;
    int code = take_riffle_sampling(&chosen, sampling);
    if (code) return code;
    struct rf_sampling inner = {.temperature = chosen.temperature,
                                .top_k = chosen.top_k,
                                .top_p = chosen.top_p,
                                .min_p = chosen.min_p,
                                .repeat_penalty = chosen.repeat_penalty,
                                .repeat_last_n = chosen.repeat_last_n,
                                .seed = chosen.seed,
                                .frequency_penalty = chosen.frequency_penalty,
                                .presence_penalty = chosen.presence_penalty};
    struct rf_error error;
    code = rf_sampler_set(session->sampler, &inner, &error);
    if (code) return rf_api_fail(&error);
    rf_levels_set_sampling(&session->levels, session->sampler);
    return 0;
}

int rf_api_check_bias(const riffle_session *session, const riffle_logit_bias *bias, size_t n,
                      struct rf_error *error)
{
    int32_t n_vocab = session->model->source->params.n_vocab;
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

void rf_api_set_bias(riffle_session *session, const struct rf_bias *bias, int32_t n)
{
    rf_sampler_set_bias(session->sampler, bias, n);
    rf_levels_set_sampling(&session->levels, session->sampler);
}

/* What follows is an answer whose first token has this position. */
static void set_answer(riffle_session *session, int32_t first)
{
    rf_sampler_set_answer(session->sampler, first);
    rf_levels_set_sampling(&session->levels, session->sampler);
}

int riffle_session_set_sampling(riffle_session *session, const riffle_sampling *sampling)
{
    int code = rf_api_enter(session);
    return code ? code : (int)rf_api_leave(session, rf_api_set_sampling(session, sampling));
}

RF_API_OPTIONS(riffle_generate_options, .max_tokens = 0)

static const struct rf_allocator *allocator_of(const struct generation *g)
{
    return &g->session->model->allocator;
}

/* Where the earliest stop text begins in the held text, or its length. */
static size_t find_stop(const struct generation *g)
{
    size_t first = g->held.count;
    for (size_t s = 0; s < g->options.n_stop; s++) {
        const char *stop = g->options.stop[s];
        size_t length = strlen(stop);
        for (size_t at = 0; length && at + length <= g->held.count && at < first; at++)
            if (memcmp(g->held.data + at, stop, length) == 0) first = at;
    }
    return first;
}

/* How many bytes at the end of the held text may be the beginning of a stop text. */
static size_t undecided(const struct generation *g)
{
    size_t most = 0;
    for (size_t s = 0; s < g->options.n_stop; s++) {
        const char *stop = g->options.stop[s];
        size_t length = strlen(stop);
        size_t tail = length && length - 1 < g->held.count ? length - 1 : g->held.count;
        for (; length && tail > most; tail--)
            if (memcmp(g->held.data + g->held.count - tail, stop, tail) == 0) most = tail;
    }
    return most;
}

/* Takes a token's bytes; afterwards the first *ready bytes of the held text are certain. `last`: no
 * more will come. */
static int push_text(struct generation *g, struct rf_str bytes, int last, size_t *ready,
                     struct rf_error *error)
{
    char piece[RF_UTF8_STREAM_ROOM(64)];
    for (size_t at = 0; at < bytes.bytes; at += 64) {
        size_t n = bytes.bytes - at < 64 ? bytes.bytes - at : 64;
        size_t written = rf_utf8_stream_push(&g->characters, bytes.data + at, n, piece);
        int code = rf_bytes_append(allocator_of(g), &g->held, piece, written, error);
        if (code) return code;
    }
    size_t left = last ? rf_utf8_stream_flush(&g->characters, piece) : 0;
    int code = rf_bytes_append(allocator_of(g), &g->held, piece, left, error);
    if (code) return code;
    *ready = find_stop(g);
    if (*ready < g->held.count)
        g->stopped = 1;
    else if (!last)
        *ready -= undecided(g);
    return 0;
}

static void drop_text(struct generation *g, size_t n)
{
    g->held.count -= n;
    if (g->held.count) memmove(g->held.data, g->held.data + n, g->held.count);
}

static void finish(riffle_session *session, riffle_finish why, const char *sentence)
{
    session->finish = why;
    snprintf(session->finish_sentence, sizeof session->finish_sentence, "%s", sentence);
}

/* Tells the caller of a token (or of the end, token -1) and of the text that became certain. */
static int tell(struct generation *g, int32_t token, int32_t level, struct rf_str bytes, int *stop,
                struct rf_error *error)
{
    size_t ready = 0;
    int code = push_text(g, bytes, token < 0, &ready, error);
    if (code) return code;
    if (g->on_event && (token >= 0 || ready)) {
        riffle_event event = {
            .token = token, .level = level, .text = ready ? g->held.data : "", .text_bytes = ready};
        *stop = g->on_event(g->user, &event) != 0;
    }
    drop_text(g, ready);
    return 0;
}

void rf_api_tell_logprobs(const struct rf_log_probs *found, int32_t token,
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
        rf_api_tell_logprobs(rf_cascade_log_probs(g->session->levels.cascade, i), token,
                             g->on_logprobs, g->user);
}

/* A word has letters, a number only digits, perhaps behind a space. */
static enum rf_token_class class_of(struct rf_str text)
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
static int repeats(struct generation *g, int32_t token, struct rf_str text)
{
    if (g->options.ignore_repetition) return 0;
    int32_t period = rf_repetition_push(&g->repetition, token, class_of(text));
    if (!period) return 0;
    char sentence[160];
    snprintf(sentence, sizeof sentence,
             "the answer only repeats the same %d token%s, so it was stopped; ignore_repetition "
             "lets it continue",
             period, period == 1 ? "" : "s");
    finish(g->session, RIFFLE_FINISH_REPETITION, sentence);
    return 1;
}

/* Commits the tokens of a round one by one, so that each callback sees the session as it is after
 * its token. Returns 1 when there is a reason to end. */
static int commit(struct generation *g, const struct rf_yield *yield, int32_t n,
                  struct rf_error *error)
{
    riffle_session *session = g->session;
    const struct rf_tokenizer *tokenizer = session->model->tokenizer;
    int32_t target = session->levels.n_levels - 1;
    for (int32_t i = 0; i < n; i++) {
        int32_t token = yield[i].token;
        int stop = 0;
        if (!g->options.ignore_eos && rf_token_is_end(tokenizer, token)) {
            finish(session, RIFFLE_FINISH_STOP, "");
            return 1;
        }
        if (rf_sequence_commit(session->sequence, error)) {
            finish(session, RIFFLE_FINISH_LENGTH, error->text);
            return 1;
        }
        g->generated++;
        session->stats.generated_tokens++;
        struct rf_str text = rf_token_text(tokenizer, token, 0);
        tell_logprobs(g, i, token);
        int code = tell(g, token, target - yield[i].origin, text, &stop, error);
        if (code) return code;
        if (g->stopped || stop || atomic_load(&session->cancel)) {
            finish(session, g->stopped ? RIFFLE_FINISH_STOP : RIFFLE_FINISH_CANCELLED, "");
            return 1;
        }
        if (repeats(g, token, text)) return 1;
    }
    return 0;
}

static int check_options(const riffle_generate_options *options, struct rf_error *error)
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

int rf_generation_begin(struct generation *g, riffle_session *session,
                        const riffle_generate_options *options, riffle_on_event on_event,
                        void *user, struct rf_error *error)
{
    struct rf_cascade *cascade = session->levels.cascade;
    *g = (struct generation){
        .session = session, .options = *options, .on_event = on_event, .user = user};
    int code = check_options(options, error);
    if (code) return code;
    atomic_store(&session->cancel, 0);
    finish(session, RIFFLE_FINISH_NONE, "");
    if (options->grammar)
        code = rf_api_take_matcher(&g->matcher, options->grammar, session->model, error);
    if (!code && g->matcher) code = rf_cascade_set_grammar(cascade, g->matcher, error);
    if (code) {
        rf_matcher_free(g->matcher);
        return code;
    }
    set_answer(session, rf_sequence_n_committed(session->sequence));
    rf_repetition_begin(&g->repetition);
    rf_pace_begin(&cascade->pace, options->max_tokens ? options->max_tokens : LONG_ANSWER);
    return 0;
}

int rf_generation_want_logprobs(struct generation *g, riffle_on_logprobs on_logprobs, int32_t top,
                                struct rf_error *error)
{
    struct rf_cascade *cascade = g->session->levels.cascade;
    if (top < 0 || top > RF_MAX_LOG_PROBS)
        return rf_fail(error, RF_ERR_ARGUMENT, "top_logprobs %d: not between 0 and %d", top,
                       RF_MAX_LOG_PROBS);
    g->log_probs = rf_calloc(allocator_of(g), RF_DRAFT_ROWS + 1, sizeof *g->log_probs,
                             "log-probabilities", error);
    if (!g->log_probs) return RF_ERR_MEMORY;
    g->on_logprobs = on_logprobs;
    cascade->log_probs = g->log_probs;
    cascade->n_top = top;
    return 0;
}

int32_t rf_generation_room(const struct generation *g)
{
    int64_t most = g->options.max_tokens ? g->options.max_tokens - g->generated : INT32_MAX;
    return most > RF_MAX_DRAFT ? RF_MAX_DRAFT + 1 : (int32_t)most;
}

int rf_generation_take(struct generation *g, const struct rf_yield *yield, int32_t n,
                       struct rf_error *error)
{
    if (n == RF_ERR_CANCELLED) {
        finish(g->session, RIFFLE_FINISH_CANCELLED, "");
        return 1;
    }
    if (n < 0) return n;
    if (n == 0) { /* the grammar's text is complete */
        finish(g->session, RIFFLE_FINISH_STOP, "");
        return 1;
    }
    int ended = commit(g, yield, n, error);
    rf_cascade_drop(g->session->levels.cascade);
    if (ended == 0 && rf_generation_room(g) == 0) {
        finish(g->session, RIFFLE_FINISH_LENGTH, "");
        return 1;
    }
    return ended;
}

int64_t rf_generation_end(struct generation *g, int code, struct rf_error *error)
{
    int ignored;
    if (code >= 0) code = g->stopped ? 0 : tell(g, -1, 0, (struct rf_str){"", 0}, &ignored, error);
    if (g->matcher) {
        struct rf_error none;
        rf_cascade_set_grammar(g->session->levels.cascade, NULL, &none);
        if (code < 0)
            rf_matcher_free(g->matcher);
        else
            rf_api_return_matcher(g->matcher, g->options.grammar);
    }
    g->session->levels.cascade->log_probs = NULL;
    rf_free(allocator_of(g), g->log_probs);
    rf_bytes_free(allocator_of(g), &g->held);
    return code < 0 ? code : g->generated;
}

int rf_api_take_generation(riffle_generate_options *ours, const riffle_generate_options *given)
{
    return take_riffle_generate_options(ours, given);
}

static int64_t answer(riffle_session *session, const riffle_generate_options *options,
                      riffle_on_event on_event, void *user)
{
    riffle_generate_options chosen;
    struct generation g;
    struct rf_yield yield[RF_MAX_DRAFT + 1];
    struct rf_error error;
    int code = rf_api_take_generation(&chosen, options);
    if (code) return code;
    double start = rf_clock_seconds();
    if (rf_generation_begin(&g, session, &chosen, on_event, user, &error))
        return rf_api_fail(&error);
    while (!code) {
        int32_t n =
            rf_cascade_round(session->levels.cascade, rf_generation_room(&g), yield, &error);
        code = rf_generation_take(&g, yield, n, &error);
    }
    int64_t generated = rf_generation_end(&g, code, &error);
    session->stats.decode_seconds += rf_clock_seconds() - start;
    return generated < 0 ? rf_api_fail(&error) : generated;
}

int64_t riffle_generate(riffle_session *session, const riffle_generate_options *options,
                        riffle_on_event on_event, void *user)
{
    int code = rf_api_enter(session);
    return code ? code : rf_api_leave(session, answer(session, options, on_event, user));
}

riffle_finish riffle_session_finish(const riffle_session *session, const char **sentence)
{
    if (sentence) *sentence = session ? session->finish_sentence : "";
    return session ? session->finish : RIFFLE_FINISH_NONE;
}

static int64_t step(riffle_session *session, int32_t *tokens, size_t cap)
{
    if (!tokens || !cap) return rf_api_error(RIFFLE_ERR_ARGUMENT, "there is no room for tokens");
    struct rf_error error;
    double start = rf_clock_seconds();
    atomic_store(&session->cancel, 0);
    set_answer(session, 0);
    struct rf_yield yield[RF_MAX_DRAFT + 1];
    int32_t most = cap > RF_MAX_DRAFT ? RF_MAX_DRAFT + 1 : (int32_t)cap, committed = 0;
    int32_t n = rf_cascade_round(session->levels.cascade, most, yield, &error);
    while (committed < n && !rf_sequence_commit(session->sequence, &error)) committed++;
    rf_cascade_drop(session->levels.cascade);
    if (n > 0) n = committed ? committed : error.code;
    session->stats.decode_seconds += rf_clock_seconds() - start;
    if (n < 0) return rf_api_fail(&error);
    for (int32_t i = 0; i < n; i++) tokens[i] = yield[i].token;
    session->stats.generated_tokens += (uint64_t)n;
    return n;
}

int64_t riffle_step(riffle_session *session, int32_t *tokens, size_t cap)
{
    int code = rf_api_enter(session);
    return code ? code : rf_api_leave(session, step(session, tokens, cap));
}
