/* From a conversation to tokens. A session that already spells the beginning of the conversation
 * keeps its tokens, whichever they are; control tokens must be at the same places. */
#include "engine/conversation.h"

#include <string.h>

#include "model/reader.h"

static int render_messages(const struct rf_engine *engine, const struct rf_conversation *given,
                           int add_generation_prompt, const struct rf_jinja_stop *stop,
                           struct rf_rendered *rendered, struct rf_error *error)
{
    const riffle_message *messages = given->messages;
    if (!messages && given->n_messages) return rf_fail(error, RF_ERR_ARGUMENT, "messages is NULL");
    struct rf_chat_message *copy =
        rf_calloc(&engine->allocator, given->n_messages, sizeof *copy, "messages", error);
    if (!copy) return RF_ERR_MEMORY;
    int code = 0;
    for (size_t i = 0; !code && i < given->n_messages; i++) {
        if (!messages[i].role || !messages[i].content)
            code = rf_fail(error, RF_ERR_ARGUMENT, "message %zu: its %s is NULL", i,
                           messages[i].role ? "content" : "role");
        copy[i] = (struct rf_chat_message){messages[i].role, messages[i].content};
    }
    if (!code)
        code = rf_chat_render(engine->chat, copy, given->n_messages, add_generation_prompt, stop,
                              &engine->allocator, rendered, error);
    rf_free(&engine->allocator, copy);
    return code;
}

static int render_json(const struct rf_engine *engine, struct rf_str text,
                       int add_generation_prompt, const struct rf_jinja_stop *stop,
                       struct rf_rendered *rendered, struct rf_error *error)
{
    struct rf_reading reading = {.path = "the conversation", .error = error};
    struct rf_json *document = rf_json_parse(&reading, NULL, text);
    if (!document) return reading.code;
    int code = rf_chat_render_json(engine->chat, document, add_generation_prompt, stop,
                                   &engine->allocator, rendered, error);
    rf_json_free(document);
    return code;
}

int rf_conversation_render(const struct rf_engine *engine, const struct rf_conversation *given,
                           int add_generation_prompt, const struct rf_jinja_stop *stop,
                           struct rf_rendered *rendered, struct rf_error *error)
{
    if (!engine->chat) {
        *error = engine->chat_error;
        return error->code;
    }
    int code = given->json.data
                   ? render_json(engine, given->json, add_generation_prompt, stop, rendered, error)
                   : render_messages(engine, given, add_generation_prompt, stop, rendered, error);
    return code ? code : rf_source_check(engine->source, error);
}

/* A position in tokens and in the text that they spell. */
struct spelling {
    const struct rf_tokenizer *tokenizer;
    const int32_t *ids;
    size_t n, i;
    size_t at; /* bytes */
};

/* Skips a BOS that the tokenizer added, as it is not in the template's text. */
static struct spelling spelling_begin(const struct rf_tokenizer *tokenizer,
                                      const struct rf_rendered *rendered, const int32_t *ids,
                                      size_t n)
{
    struct spelling spelling = {.tokenizer = tokenizer, .ids = ids, .n = n};
    int32_t bos = rf_tokenizer_bos(tokenizer);
    if (n == 0 || bos < 0 || ids[0] != bos) return spelling;
    struct rf_str text = rf_token_text(tokenizer, bos, 1);
    if (text.bytes > rendered->text.count ||
        memcmp(rendered->text.data, text.data, text.bytes) != 0)
        spelling.i = 1;
    return spelling;
}

/* The bytes of the rendered text that all of the session's tokens spell; -1 if they spell something
 * else. */
static int64_t spelled(const struct rf_session *session, const struct rf_rendered *rendered)
{
    const int32_t *tokens = rf_sequence_tokens(session->sequence);
    struct spelling spelling = spelling_begin(session->engine->tokenizer, rendered, tokens,
                                              (size_t)rf_sequence_n_committed(session->sequence));
    for (; spelling.i < spelling.n; spelling.i++) {
        struct rf_str piece = rf_token_text(spelling.tokenizer, spelling.ids[spelling.i], 1);
        if (piece.bytes > rendered->text.count - spelling.at ||
            (piece.bytes &&
             memcmp(rendered->text.data + spelling.at, piece.data, piece.bytes) != 0))
            return -1;
        spelling.at += piece.bytes;
    }
    return (int64_t)spelling.at;
}

/* Advances past the next control token. Returns its id and sets *at to its position; -1 at the
 * end. */
static int32_t next_control(struct spelling *spelling, size_t *at)
{
    while (spelling->i < spelling->n) {
        int32_t id = spelling->ids[spelling->i++];
        size_t bytes = rf_token_text(spelling->tokenizer, id, 1).bytes;
        *at = spelling->at;
        spelling->at += bytes;
        if (bytes && rf_token_text(spelling->tokenizer, id, 0).bytes == 0) return id;
    }
    return -1;
}

/* 1 if session and conversation have the same control tokens at the same positions in the first
 * `known` bytes. Equal bytes are not enough: a user may have typed the name of a control token. */
static int same_controls(const struct rf_session *session, const struct rf_rendered *rendered,
                         const struct rf_tokens *conversation, size_t known)
{
    const struct rf_tokenizer *tokenizer = session->engine->tokenizer;
    struct spelling ours =
        spelling_begin(tokenizer, rendered, rf_sequence_tokens(session->sequence),
                       (size_t)rf_sequence_n_committed(session->sequence));
    struct spelling theirs =
        spelling_begin(tokenizer, rendered, conversation->ids, conversation->count);
    for (;;) {
        size_t our_place = 0, their_place = 0;
        int32_t our_id = next_control(&ours, &our_place),
                their_id = next_control(&theirs, &their_place);
        if (our_id < 0) return their_id < 0 || their_place >= known;
        if (our_id != their_id || our_place != their_place) return 0;
    }
}

/* Tokens of the rendered text from byte `from` on. */
static int encode_from(const struct rf_engine *engine, const struct rf_rendered *rendered,
                       size_t from, unsigned flags, struct rf_tokens *tokens,
                       struct rf_error *error)
{
    size_t first = 0, start = 0;
    while (first < rendered->n_segments && start + rendered->segments[first].bytes <= from)
        start += rendered->segments[first++].bytes;
    if (first == rendered->n_segments) return 0;
    struct rf_segment whole = rendered->segments[first];
    rendered->segments[first].text += from - start;
    rendered->segments[first].bytes -= from - start;
    int code =
        rf_tokenizer_encode(engine->tokenizer, rendered->segments + first,
                            rendered->n_segments - first, flags, &engine->allocator, tokens, error);
    rendered->segments[first] = whole;
    return code;
}

int rf_conversation_tokenize(const struct rf_engine *engine, const struct rf_conversation *given,
                             struct rf_tokens *tokens, struct rf_error *error)
{
    struct rf_rendered rendered = {0};
    int code = rf_conversation_render(engine, given, 1, NULL, &rendered, error);
    if (!code) code = encode_from(engine, &rendered, 0, RF_ENCODE_BOS, tokens, error);
    rf_rendered_free(&engine->allocator, &rendered);
    return code;
}

/* Finds the tokens to append after the first *keep tokens of the session. If the session spells the
 * beginning of the conversation, with whatever tokens, it keeps them all; else it keeps the longest
 * common prefix of the tokens. */
static int plan_prefill(const struct rf_session *session, const struct rf_rendered *rendered,
                        struct rf_tokens *tokens, int32_t *keep, size_t *first,
                        struct rf_error *error)
{
    const int32_t *held = rf_sequence_tokens(session->sequence);
    int32_t n_held = rf_sequence_n_committed(session->sequence);
    int code = encode_from(session->engine, rendered, 0, RF_ENCODE_BOS, tokens, error);
    if (code) return code;
    int64_t known = n_held ? spelled(session, rendered) : -1;
    *first = 0;
    if (known >= 0 && (size_t)known < rendered->text.count &&
        same_controls(session, rendered, tokens, (size_t)known)) {
        *keep = n_held;
        tokens->count = 0;
        return encode_from(session->engine, rendered, (size_t)known, RF_ENCODE_CONTINUE, tokens,
                           error);
    }
    while (*first < tokens->count && *first < (size_t)n_held && tokens->ids[*first] == held[*first])
        (*first)++;
    *keep = (int32_t)*first;
    return 0;
}

static int is_cancelled(void *user)
{
    const struct rf_session *session = user;
    return atomic_load(&session->cancel);
}

/* Puts the tokens in the place of those that the session has after the first `keep`. On failure it
 * has these again, unread; but a cancelled call keeps what was read. */
static int replace_end(struct rf_session *session, int32_t keep, const int32_t *tokens, size_t n,
                       struct rf_error *error)
{
    const struct rf_allocator *allocator = &session->engine->allocator;
    struct rf_sequence *sequence = session->sequence;
    int32_t n_dropped = rf_sequence_n_committed(sequence) - keep;
    int32_t *dropped =
        rf_malloc(allocator, (size_t)n_dropped, sizeof *dropped, "conversation", error);
    if (!dropped) return RF_ERR_MEMORY;
    if (n_dropped)
        memcpy(dropped, rf_sequence_tokens(sequence) + keep, (size_t)n_dropped * sizeof *dropped);
    rf_sequence_rewind(sequence, keep);
    int code = rf_session_prefill(session, tokens, n, error);
    struct rf_error none;
    if (code && code != RF_ERR_CANCELLED) rf_sequence_append(sequence, dropped, n_dropped, &none);
    rf_free(allocator, dropped);
    return code;
}

int64_t rf_conversation_prefill(struct rf_session *session, const struct rf_conversation *given,
                                struct rf_error *error)
{
    const struct rf_engine *engine = session->engine;
    struct rf_rendered rendered = {0};
    int32_t keep = 0, n_ctx = rf_sequence_n_ctx(session->sequence);
    struct rf_tokens tokens = {.limit = (size_t)n_ctx};
    size_t first = 0;
    const struct rf_jinja_stop stop = {is_cancelled, session};
    atomic_store(&session->cancel, 0);
    int code = rf_conversation_render(engine, given, 1, &stop, &rendered, error);
    if (!code) code = plan_prefill(session, &rendered, &tokens, &keep, &first, error);
    size_t n = tokens.count - first;
    if (code == RF_ERR_CONTEXT)
        code = rf_fail(error, code, "the conversation has more than %d tokens, n_ctx is %d", n_ctx,
                       n_ctx);
    if (!code && (size_t)keep + n > (size_t)n_ctx)
        code = rf_fail(error, RF_ERR_CONTEXT, "the conversation has %zu tokens, n_ctx is %d",
                       (size_t)keep + n, n_ctx);
    if (!code) code = replace_end(session, keep, tokens.ids + first, n, error);
    rf_tokens_free(&engine->allocator, &tokens);
    rf_rendered_free(&engine->allocator, &rendered);
    return code ? code : (int64_t)n;
}
