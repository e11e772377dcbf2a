#include <riffle_experimental.h>

#include <string.h>

#include "api/handles.h"
#include "model/reader.h"

int64_t riffle_tokenize(const riffle_model *model, const char *text, size_t text_bytes,
                        uint32_t flags, int32_t *tokens, size_t cap)
{
    if (!model || (!text && text_bytes) || (!tokens && cap))
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL",
                            !model                ? "model"
                            : !text && text_bytes ? "text"
                                                  : "tokens");
    struct rf_segment segment = {text, text_bytes, (flags & RIFFLE_TOKENIZE_SPECIAL) != 0};
    struct rf_tokens found = {0};
    struct rf_error error;
    int code = rf_tokenizer_encode(model->tokenizer, &segment, 1,
                                   flags & RIFFLE_TOKENIZE_BOS ? RF_ENCODE_BOS : 0,
                                   &model->allocator, &found, &error);
    size_t count = found.count;
    if (!code && count && cap)
        memcpy(tokens, found.ids, (count < cap ? count : cap) * sizeof *tokens);
    rf_tokens_free(&model->allocator, &found);
    if (!code) code = rf_source_check(model->source, &error);
    return code ? rf_api_fail(&error) : (int64_t)count;
}

int64_t riffle_detokenize(const riffle_model *model, const int32_t *tokens, size_t n_tokens,
                          uint32_t flags, char *text, size_t cap)
{
    if (!model || (!tokens && n_tokens) || (!text && cap))
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL",
                            !model                ? "model"
                            : !tokens && n_tokens ? "tokens"
                                                  : "text");
    size_t total = 0;
    for (size_t i = 0; i < n_tokens; i++) {
        if (tokens[i] < 0 || tokens[i] >= model->source->params.n_vocab)
            return rf_api_error(RIFFLE_ERR_ARGUMENT,
                                "token %d at index %zu is outside the vocabulary of %d", tokens[i],
                                i, model->source->params.n_vocab);
        struct rf_str piece =
            rf_token_text(model->tokenizer, tokens[i], (flags & RIFFLE_DETOKENIZE_SPECIAL) != 0);
        if (total == 0 && flags & RIFFLE_DETOKENIZE_START && piece.bytes && piece.data[0] == ' ' &&
            rf_tokenizer_strips_first_space(model->tokenizer)) {
            flags &= ~(uint32_t)RIFFLE_DETOKENIZE_START;
            piece.data++;
            piece.bytes--;
        }
        if (total < cap && piece.bytes)
            memcpy(text + total, piece.data, piece.bytes < cap - total ? piece.bytes : cap - total);
        total += piece.bytes;
    }
    struct rf_error error;
    return rf_source_check(model->source, &error) ? rf_api_fail(&error) : (int64_t)total;
}

/* A conversation as the caller gives it: messages, or a JSON text. */
struct conversation {
    const riffle_message *messages;
    size_t n_messages;
    struct rf_str json; /* data is NULL for messages */
};

static int render_messages(const riffle_model *model, const struct conversation *given,
                           int add_generation_prompt, struct rf_rendered *rendered,
                           struct rf_error *error)
{
    const riffle_message *messages = given->messages;
    if (!messages && given->n_messages) return rf_fail(error, RF_ERR_ARGUMENT, "messages is NULL");
    struct rf_chat_message *copy =
        rf_calloc(&model->allocator, given->n_messages, sizeof *copy, "messages", error);
    if (!copy) return RF_ERR_MEMORY;
    int code = 0;
    for (size_t i = 0; !code && i < given->n_messages; i++) {
        if (!messages[i].role || !messages[i].content)
            code = rf_fail(error, RF_ERR_ARGUMENT, "message %zu: its %s is NULL", i,
                           messages[i].role ? "content" : "role");
        copy[i] = (struct rf_chat_message){messages[i].role, messages[i].content};
    }
    if (!code)
        code = rf_chat_render(model->chat, copy, given->n_messages, add_generation_prompt,
                              &model->allocator, rendered, error);
    rf_free(&model->allocator, copy);
    return code;
}

static int render_json(const riffle_model *model, struct rf_str text, int add_generation_prompt,
                       struct rf_rendered *rendered, struct rf_error *error)
{
    struct rf_reading reading = {.path = "the conversation", .error = error};
    struct rf_json *document = rf_json_parse(&reading, NULL, text);
    if (!document) return reading.code;
    int code = rf_chat_render_json(model->chat, document, add_generation_prompt, &model->allocator,
                                   rendered, error);
    rf_json_free(document);
    return code;
}

/* Checks the caller's arguments and renders the conversation. */
static int render(const riffle_model *model, const struct conversation *given,
                  int add_generation_prompt, struct rf_rendered *rendered, struct rf_error *error)
{
    if (!model->chat) {
        *error = model->chat_error;
        return error->code;
    }
    int code = given->json.data
                   ? render_json(model, given->json, add_generation_prompt, rendered, error)
                   : render_messages(model, given, add_generation_prompt, rendered, error);
    return code ? code : rf_source_check(model->source, error);
}

static int64_t chat_format(const riffle_model *model, const struct conversation *given,
                           int add_generation_prompt, char *text, size_t cap)
{
    if (!model || (!text && cap))
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", model ? "text" : "model");
    struct rf_rendered rendered = {0};
    struct rf_error error;
    int code = render(model, given, add_generation_prompt, &rendered, &error);
    size_t bytes = rendered.text.count;
    if (!code && bytes && cap) memcpy(text, rendered.text.data, bytes < cap ? bytes : cap);
    rf_rendered_free(&model->allocator, &rendered);
    return code ? rf_api_fail(&error) : (int64_t)bytes;
}

int64_t riffle_chat_format(const riffle_model *model, const riffle_message *messages,
                           size_t n_messages, int add_generation_prompt, char *text, size_t cap)
{
    struct conversation given = {.messages = messages, .n_messages = n_messages};
    return chat_format(model, &given, add_generation_prompt, text, cap);
}

int64_t riffle_chat_format_json(const riffle_model *model, const char *json, size_t json_bytes,
                                int add_generation_prompt, char *text, size_t cap)
{
    if (!json) return rf_api_error(RIFFLE_ERR_ARGUMENT, "json is NULL");
    struct conversation given = {.json = {json, json_bytes}};
    return chat_format(model, &given, add_generation_prompt, text, cap);
}

/* A position in tokens and in the text that they spell. */
struct walk {
    const struct rf_tokenizer *tokenizer;
    const int32_t *ids;
    size_t n, i;
    size_t at; /* bytes */
};

/* Skips a BOS that the tokenizer added, as it is not in the template's text. */
static struct walk walk_begin(const struct rf_tokenizer *tokenizer,
                              const struct rf_rendered *rendered, const int32_t *ids, size_t n)
{
    struct walk walk = {.tokenizer = tokenizer, .ids = ids, .n = n};
    int32_t bos = rf_tokenizer_bos(tokenizer);
    if (n == 0 || bos < 0 || ids[0] != bos) return walk;
    struct rf_str text = rf_token_text(tokenizer, bos, 1);
    if (text.bytes > rendered->text.count ||
        memcmp(rendered->text.data, text.data, text.bytes) != 0)
        walk.i = 1;
    return walk;
}

/* The bytes of the rendered text that all of the session's tokens spell; -1 if they spell something
 * else. */
static int64_t spelled(const riffle_session *session, const struct rf_rendered *rendered)
{
    const int32_t *tokens = rf_sequence_tokens(session->sequence);
    struct walk walk = walk_begin(session->model->tokenizer, rendered, tokens,
                                  (size_t)rf_sequence_n_committed(session->sequence));
    for (; walk.i < walk.n; walk.i++) {
        struct rf_str piece = rf_token_text(walk.tokenizer, walk.ids[walk.i], 1);
        if (piece.bytes > rendered->text.count - walk.at ||
            (piece.bytes && memcmp(rendered->text.data + walk.at, piece.data, piece.bytes) != 0))
            return -1;
        walk.at += piece.bytes;
    }
    return (int64_t)walk.at;
}

/* Advances past the next control token. Returns its id and sets *at to its position; -1 at the
 * end. */
static int32_t next_control(struct walk *walk, size_t *at)
{
    while (walk->i < walk->n) {
        int32_t id = walk->ids[walk->i++];
        size_t bytes = rf_token_text(walk->tokenizer, id, 1).bytes;
        *at = walk->at;
        walk->at += bytes;
        if (bytes && rf_token_text(walk->tokenizer, id, 0).bytes == 0) return id;
    }
    return -1;
}

/* 1 if session and conversation have the same control tokens at the same positions in the first
 * `known` bytes. Equal bytes are not enough: a user may have typed the name of a control token. */
static int same_controls(const riffle_session *session, const struct rf_rendered *rendered,
                         const struct rf_tokens *conversation, size_t known)
{
    const struct rf_tokenizer *tokenizer = session->model->tokenizer;
    struct walk ours = walk_begin(tokenizer, rendered, rf_sequence_tokens(session->sequence),
                                  (size_t)rf_sequence_n_committed(session->sequence));
    struct walk theirs = walk_begin(tokenizer, rendered, conversation->ids, conversation->count);
    for (;;) {
        size_t our_place = 0, their_place = 0;
        int32_t our_id = next_control(&ours, &our_place),
                their_id = next_control(&theirs, &their_place);
        if (our_id < 0) return their_id < 0 || their_place >= known;
        if (our_id != their_id || our_place != their_place) return 0;
    }
}

/* Tokens of the rendered text from byte `from` on. */
static int encode_from(const riffle_model *model, const struct rf_rendered *rendered, size_t from,
                       unsigned flags, struct rf_tokens *tokens, struct rf_error *error)
{
    size_t first = 0, start = 0;
    while (first < rendered->n_segments && start + rendered->segments[first].bytes <= from)
        start += rendered->segments[first++].bytes;
    if (first == rendered->n_segments) return 0;
    struct rf_segment whole = rendered->segments[first];
    rendered->segments[first].text += from - start;
    rendered->segments[first].bytes -= from - start;
    int code =
        rf_tokenizer_encode(model->tokenizer, rendered->segments + first,
                            rendered->n_segments - first, flags, &model->allocator, tokens, error);
    rendered->segments[first] = whole;
    return code;
}

static int64_t chat_tokenize(const riffle_model *model, const struct conversation *given,
                             int32_t *tokens, size_t cap)
{
    if (!model || (!tokens && cap))
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", model ? "tokens" : "model");
    struct rf_rendered rendered = {0};
    struct rf_tokens found = {0};
    struct rf_error error;
    int code = render(model, given, 1, &rendered, &error);
    if (!code) code = encode_from(model, &rendered, 0, RF_ENCODE_BOS, &found, &error);
    size_t count = found.count;
    if (!code && count && cap)
        memcpy(tokens, found.ids, (count < cap ? count : cap) * sizeof *tokens);
    rf_tokens_free(&model->allocator, &found);
    rf_rendered_free(&model->allocator, &rendered);
    return code ? rf_api_fail(&error) : (int64_t)count;
}

int64_t riffle_chat_tokenize(const riffle_model *model, const riffle_message *messages,
                             size_t n_messages, int32_t *tokens, size_t cap)
{
    struct conversation given = {.messages = messages, .n_messages = n_messages};
    return chat_tokenize(model, &given, tokens, cap);
}

int64_t riffle_chat_tokenize_json(const riffle_model *model, const char *json, size_t json_bytes,
                                  int32_t *tokens, size_t cap)
{
    if (!json) return rf_api_error(RIFFLE_ERR_ARGUMENT, "json is NULL");
    struct conversation given = {.json = {json, json_bytes}};
    return chat_tokenize(model, &given, tokens, cap);
}

/* Finds the tokens to append after the first *keep tokens of the session. If the session spells the
 * beginning of the conversation, with whatever tokens, it keeps them all; else it keeps the longest
 * common prefix of the tokens. */
static int plan(const riffle_session *session, const struct rf_rendered *rendered,
                struct rf_tokens *tokens, int32_t *keep, size_t *first, struct rf_error *error)
{
    const int32_t *held = rf_sequence_tokens(session->sequence);
    int32_t n_held = rf_sequence_n_committed(session->sequence);
    int code = encode_from(session->model, rendered, 0, RF_ENCODE_BOS, tokens, error);
    if (code) return code;
    int64_t known = n_held ? spelled(session, rendered) : -1;
    *first = 0;
    if (known >= 0 && (size_t)known < rendered->text.count &&
        same_controls(session, rendered, tokens, (size_t)known)) {
        *keep = n_held;
        tokens->count = 0;
        return encode_from(session->model, rendered, (size_t)known, RF_ENCODE_CONTINUE, tokens,
                           error);
    }
    while (*first < tokens->count && *first < (size_t)n_held && tokens->ids[*first] == held[*first])
        (*first)++;
    *keep = (int32_t)*first;
    return 0;
}

static int64_t chat_prefill(riffle_session *session, const struct conversation *given)
{
    const riffle_model *model = session->model;
    struct rf_rendered rendered = {0};
    struct rf_tokens tokens = {0};
    struct rf_error error;
    int32_t keep = 0;
    size_t first = 0;
    int code = render(model, given, 1, &rendered, &error);
    if (!code) code = plan(session, &rendered, &tokens, &keep, &first, &error);
    size_t n = tokens.count - first;
    int32_t n_ctx = rf_sequence_n_ctx(session->sequence);
    if (!code && (size_t)keep + n > (size_t)n_ctx)
        code = rf_fail(&error, RF_ERR_CONTEXT, "the conversation has %zu tokens, n_ctx is %d",
                       (size_t)keep + n, n_ctx);
    if (code) {
        code = rf_api_fail(&error);
    } else {
        rf_sequence_rewind(session->sequence, keep);
        code = rf_api_prefill(session, tokens.ids + first, n);
    }
    rf_tokens_free(&model->allocator, &tokens);
    rf_rendered_free(&model->allocator, &rendered);
    return code ? code : (int64_t)n;
}

int64_t riffle_chat_prefill(riffle_session *session, const riffle_message *messages,
                            size_t n_messages)
{
    struct conversation given = {.messages = messages, .n_messages = n_messages};
    int code = rf_api_enter(session);
    return code ? code : rf_api_leave(session, chat_prefill(session, &given));
}

int64_t riffle_chat_prefill_json(riffle_session *session, const char *json, size_t json_bytes)
{
    if (!json) return rf_api_error(RIFFLE_ERR_ARGUMENT, "json is NULL");
    struct conversation given = {.json = {json, json_bytes}};
    int code = rf_api_enter(session);
    return code ? code : rf_api_leave(session, chat_prefill(session, &given));
}
