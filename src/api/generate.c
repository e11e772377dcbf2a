/* Generation: choose, commit, tell the caller, until there is a reason to end. */
#include <stdio.h>
#include <string.h>

#include "api/grammar.h"
#include "api/handles.h"
#include "infer/repetition.h"
#include "platform/clock.h"
#include "text/utf8_stream.h"

enum { LONG_ANSWER = 256 }; /* tokens to expect of an answer without a limit */

RF_API_OPTIONS(riffle_sampling, .temperature = 0.0f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f,
               .repeat_penalty = 1.0f, .repeat_last_n = 64)

static int set_sampling(riffle_session *session, const riffle_sampling *sampling)
{
    riffle_sampling chosen;
    int code = take_riffle_sampling(&chosen, sampling);
    if (code) return code;
    struct rf_sampling inner = {chosen.temperature, chosen.top_k,          chosen.top_p,
                                chosen.min_p,       chosen.repeat_penalty, chosen.repeat_last_n,
                                chosen.seed};
    struct rf_error error;
    code = rf_sampler_set(session->sampler, &inner, &error);
    if (code) return rf_api_fail(&error);
    rf_levels_set_sampling(&session->levels, session->sampler);
    return 0;
}

int riffle_session_set_sampling(riffle_session *session, const riffle_sampling *sampling)
{
    int code = rf_api_enter(session);
    return code ? code : (int)rf_api_leave(session, set_sampling(session, sampling));
}

RF_API_OPTIONS(riffle_generate_options, .max_tokens = 0)

/* Text that was generated but not yet given to the caller: unfinished characters, and what may be
 * the beginning of a stop text. */
struct output {
    riffle_session *session;
    const riffle_generate_options *options;
    riffle_on_event on_event; /* or NULL */
    void *user;
    const struct rf_allocator *allocator;
    struct rf_utf8_stream characters;
    struct rf_bytes held;
    int stopped;
    struct rf_repetition repetition;
};

/* Where the earliest stop text begins in the held text, or its length. */
static size_t find_stop(const struct output *output)
{
    size_t first = output->held.count;
    for (size_t s = 0; s < output->options->n_stop; s++) {
        const char *stop = output->options->stop[s];
        size_t length = strlen(stop);
        for (size_t at = 0; length && at + length <= output->held.count && at < first; at++)
            if (memcmp(output->held.data + at, stop, length) == 0) first = at;
    }
    return first;
}

/* How many bytes at the end of the held text may be the beginning of a stop text. */
static size_t undecided(const struct output *output)
{
    size_t most = 0;
    for (size_t s = 0; s < output->options->n_stop; s++) {
        const char *stop = output->options->stop[s];
        size_t length = strlen(stop);
        size_t tail = length && length - 1 < output->held.count ? length - 1 : output->held.count;
        for (; length && tail > most; tail--)
            if (memcmp(output->held.data + output->held.count - tail, stop, tail) == 0) most = tail;
    }
    return most;
}

/* Takes a token's bytes; afterwards the first *ready bytes of the held text are certain. `last`: no
 * more will come. */
static int output_push(struct output *output, struct rf_str bytes, int last, size_t *ready,
                       struct rf_error *error)
{
    char piece[RF_UTF8_STREAM_ROOM(64)];
    for (size_t at = 0; at < bytes.bytes; at += 64) {
        size_t n = bytes.bytes - at < 64 ? bytes.bytes - at : 64;
        size_t written = rf_utf8_stream_push(&output->characters, bytes.data + at, n, piece);
        int code = rf_bytes_append(output->allocator, &output->held, piece, written, error);
        if (code) return code;
    }
    size_t left = last ? rf_utf8_stream_flush(&output->characters, piece) : 0;
    int code = rf_bytes_append(output->allocator, &output->held, piece, left, error);
    if (code) return code;
    *ready = find_stop(output);
    if (*ready < output->held.count)
        output->stopped = 1;
    else if (!last)
        *ready -= undecided(output);
    return 0;
}

static void output_drop(struct output *output, size_t n)
{
    output->held.count -= n;
    if (output->held.count) memmove(output->held.data, output->held.data + n, output->held.count);
}

static void finish(riffle_session *session, riffle_finish why, const char *sentence)
{
    session->finish = why;
    snprintf(session->finish_sentence, sizeof session->finish_sentence, "%s", sentence);
}

/* Tells the caller of a token (or of the end, token -1) and of the text that became certain. */
static int tell(struct output *output, int32_t token, int32_t level, struct rf_str bytes, int *stop,
                struct rf_error *error)
{
    size_t ready = 0;
    int code = output_push(output, bytes, token < 0, &ready, error);
    if (code) return code;
    if (output->on_event && (token >= 0 || ready)) {
        riffle_event event = {.token = token,
                              .level = level,
                              .text = ready ? output->held.data : "",
                              .text_bytes = ready};
        *stop = output->on_event(output->user, &event) != 0;
    }
    output_drop(output, ready);
    return 0;
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
static int repeats(struct output *output, int32_t token, struct rf_str text)
{
    if (output->options->ignore_repetition) return 0;
    int32_t period = rf_repetition_push(&output->repetition, token, class_of(text));
    if (!period) return 0;
    char sentence[160];
    snprintf(sentence, sizeof sentence,
             "the answer only repeats the same %d token%s, so it was stopped; ignore_repetition "
             "lets it continue",
             period, period == 1 ? "" : "s");
    finish(output->session, RIFFLE_FINISH_REPETITION, sentence);
    return 1;
}

/* Commits the tokens of a round one by one, so that each callback sees the session as it is after
 * its token. Returns 1 when there is a reason to end. */
static int commit(struct output *output, const struct rf_yield *yield, int32_t n,
                  int64_t *generated, struct rf_error *error)
{
    riffle_session *session = output->session;
    const struct rf_tokenizer *tokenizer = session->model->tokenizer;
    int32_t target = session->levels.n_levels - 1;
    for (int32_t i = 0; i < n; i++) {
        int32_t token = yield[i].token;
        int stop = 0;
        if (!output->options->ignore_eos && rf_token_is_end(tokenizer, token)) {
            finish(session, RIFFLE_FINISH_STOP, "");
            return 1;
        }
        if (rf_sequence_commit(session->sequence, error)) {
            finish(session, RIFFLE_FINISH_LENGTH, error->text);
            return 1;
        }
        ++*generated;
        session->stats.generated_tokens++;
        struct rf_str text = rf_token_text(tokenizer, token, 0);
        int code = tell(output, token, target - yield[i].origin, text, &stop, error);
        if (code) return code;
        if (output->stopped || stop || atomic_load(&session->cancel)) {
            finish(session, output->stopped ? RIFFLE_FINISH_STOP : RIFFLE_FINISH_CANCELLED, "");
            return 1;
        }
        if (repeats(output, token, text)) return 1;
    }
    return 0;
}

/* Takes back what a round drafted beyond the committed tokens. */
static void drop_ahead(riffle_session *session)
{
    rf_sequence_rewind(session->sequence, rf_sequence_n_committed(session->sequence));
}

/* The loop; returns the number of tokens committed, or a code. */
static int64_t generate(struct output *output, struct rf_error *error)
{
    riffle_session *session = output->session;
    int32_t max_tokens = output->options->max_tokens;
    struct rf_yield yield[RF_MAX_DRAFT + 1];
    int64_t generated = 0;
    for (int ended = 0; !ended;) {
        int64_t left = max_tokens ? max_tokens - generated : RF_MAX_DRAFT + 1;
        if (left <= 0) {
            finish(session, RIFFLE_FINISH_LENGTH, "");
            break;
        }
        int32_t n =
            rf_cascade_round(session->levels.cascade,
                             left > RF_MAX_DRAFT ? RF_MAX_DRAFT + 1 : (int32_t)left, yield, error);
        if (n == RF_ERR_CANCELLED) {
            finish(session, RIFFLE_FINISH_CANCELLED, "");
            break;
        }
        if (n < 0) return n;
        if (n == 0) { /* the grammar's text is complete */
            finish(session, RIFFLE_FINISH_STOP, "");
            break;
        }
        ended = commit(output, yield, n, &generated, error);
        drop_ahead(session);
        if (ended < 0) return ended;
    }
    int ignored, code = 0;
    if (!output->stopped) code = tell(output, -1, 0, (struct rf_str){"", 0}, &ignored, error);
    return code ? code : generated;
}

/* The same with the options' grammar, which begins anew. */
static int64_t generate_by_grammar(struct output *output, struct rf_error *error)
{
    riffle_session *session = output->session;
    struct rf_cascade *cascade = session->levels.cascade;
    riffle_grammar *grammar = output->options->grammar;
    struct rf_matcher *matcher;
    if (!grammar) return generate(output, error);
    int64_t result = rf_api_take_matcher(&matcher, grammar, session->model, error);
    if (!result) result = rf_cascade_set_grammar(cascade, matcher, error);
    if (!result) result = generate(output, error);
    rf_cascade_set_grammar(cascade, NULL, error);
    if (result < 0)
        rf_matcher_free(matcher);
    else
        rf_api_return_matcher(matcher, grammar);
    return result;
}

static int64_t answer(riffle_session *session, const riffle_generate_options *options,
                      riffle_on_event on_event, void *user)
{
    riffle_generate_options chosen;
    int code = take_riffle_generate_options(&chosen, options);
    if (code) return code;
    if (chosen.max_tokens < 0)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "max_tokens %d is negative", chosen.max_tokens);
    if (chosen.n_stop && !chosen.stop) return rf_api_error(RIFFLE_ERR_ARGUMENT, "stop is NULL");
    if (chosen.grammar && chosen.ignore_eos)
        return rf_api_error(RIFFLE_ERR_ARGUMENT,
                            "ignore_eos with a grammar: an end-of-text token ends its text");
    for (size_t i = 0; i < chosen.n_stop; i++)
        if (!chosen.stop[i]) return rf_api_error(RIFFLE_ERR_ARGUMENT, "stop text %zu is NULL", i);

    struct output output = {.session = session,
                            .options = &chosen,
                            .on_event = on_event,
                            .user = user,
                            .allocator = &session->model->allocator};
    struct rf_error error;
    double start = rf_clock_seconds();
    atomic_store(&session->cancel, 0);
    finish(session, RIFFLE_FINISH_NONE, "");
    rf_repetition_begin(&output.repetition);
    rf_pace_begin(&session->levels.cascade->pace,
                  chosen.max_tokens ? chosen.max_tokens : LONG_ANSWER);
    int64_t generated = generate_by_grammar(&output, &error);
    session->stats.decode_seconds += rf_clock_seconds() - start;
    rf_bytes_free(output.allocator, &output.held);
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
    struct rf_yield yield[RF_MAX_DRAFT + 1];
    int32_t most = cap > RF_MAX_DRAFT ? RF_MAX_DRAFT + 1 : (int32_t)cap, committed = 0;
    int32_t n = rf_cascade_round(session->levels.cascade, most, yield, &error);
    while (committed < n && !rf_sequence_commit(session->sequence, &error)) committed++;
    drop_ahead(session);
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
