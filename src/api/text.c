/* Text to tokens and back, and conversations by the model's chat template. */
#include <string.h>

#include "api/handles.h"
#include "engine/conversation.h"
#include "text/tokens.h"

/* Copies as many of the found ids as the caller has room for. */
static void give_tokens(int32_t *tokens, size_t cap, const struct rf_tokens *found)
{
    size_t n = found->count < cap ? found->count : cap;
    if (n) memcpy(tokens, found->ids, n * sizeof *tokens);
}

int64_t riffle_tokenize(const riffle_model *model, const char *text, size_t text_bytes,
                        uint32_t flags, int32_t *tokens, size_t cap)
{
    if (!model || (!text && text_bytes) || (!tokens && cap))
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL",
                            !model                ? "model"
                            : !text && text_bytes ? "text"
                                                  : "tokens");
    const struct rf_engine *engine = model->engine;
    struct rf_segment segment = {text, text_bytes, (flags & RIFFLE_TOKENIZE_SPECIAL) != 0};
    struct rf_tokens found = {0};
    struct rf_error error;
    int code = rf_tokenizer_encode(engine->tokenizer, &segment, 1,
                                   flags & RIFFLE_TOKENIZE_BOS ? RF_ENCODE_BOS : 0,
                                   &engine->allocator, &found, &error);
    size_t count = found.count;
    if (!code) give_tokens(tokens, cap, &found);
    rf_tokens_free(&engine->allocator, &found);
    if (!code) code = rf_source_check(engine->source, &error);
    return code ? rf_api_fail(&error) : (int64_t)count;
}

/* Appends a query and its end, and a document; each text's end comes behind it. Files of
 * SentencePiece were trained with two ends between the texts, as RoBERTa was. */
static int encode_pair(const struct rf_engine *engine, const struct rf_segment pair[2], size_t most,
                       struct rf_tokens *found, struct rf_error *error)
{
    const struct rf_allocator *allocator = &engine->allocator;
    int32_t sep = rf_tokenizer_sep(engine->tokenizer);
    struct rf_token_writer out = {allocator, found, error, 0};
    out.code =
        rf_tokenizer_encode(engine->tokenizer, &pair[0], 1, RF_ENCODE_BOS, allocator, found, error);
    if (!out.code && engine->source->vocab.kind == RF_VOCAB_SENTENCEPIECE)
        rf_tokens_append(&out, &sep, 1);
    size_t query = found->count;
    if (!out.code)
        out.code = rf_tokenizer_encode(engine->tokenizer, &pair[1], 1, 0, allocator, found, error);
    if (!out.code && most && query + 1 > most)
        return rf_fail(error, RF_ERR_CONTEXT,
                       "the query has %zu tokens, which leave nothing of %zu for a document", query,
                       most);
    if (!out.code && most && found->count + 1 > most) found->count = most - 1;
    if (!out.code) rf_tokens_append(&out, &sep, 1);
    return out.code;
}

int64_t riffle_pair_tokenize(const riffle_model *model, const char *query, size_t query_bytes,
                             const char *document, size_t document_bytes, size_t most,
                             int32_t *tokens, size_t cap)
{
    if (!model || (!query && query_bytes) || (!document && document_bytes) || (!tokens && cap))
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL",
                            !model                        ? "model"
                            : !query && query_bytes       ? "query"
                            : !document && document_bytes ? "document"
                                                          : "tokens");
    const struct rf_engine *engine = model->engine;
    const struct rf_segment pair[2] = {{query, query_bytes, 0}, {document, document_bytes, 0}};
    struct rf_tokens found = {0};
    struct rf_error error;
    if (engine->source->pooling != RF_POOLING_RANK)
        return rf_api_error(RIFFLE_ERR_UNSUPPORTED, "%s is no reranker", engine->source->name);
    int code = encode_pair(engine, pair, most, &found, &error);
    size_t count = found.count;
    if (!code) give_tokens(tokens, cap, &found);
    rf_tokens_free(&engine->allocator, &found);
    if (!code) code = rf_source_check(engine->source, &error);
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
    const struct rf_engine *engine = model->engine;
    size_t total = 0;
    for (size_t i = 0; i < n_tokens; i++) {
        if (tokens[i] < 0 || tokens[i] >= engine->source->params.n_vocab)
            return rf_api_error(RIFFLE_ERR_ARGUMENT,
                                "token %d at index %zu is outside the vocabulary of %d", tokens[i],
                                i, engine->source->params.n_vocab);
        struct rf_str piece =
            rf_token_text(engine->tokenizer, tokens[i], (flags & RIFFLE_DETOKENIZE_SPECIAL) != 0);
        if (total == 0 && flags & RIFFLE_DETOKENIZE_START && piece.bytes && piece.data[0] == ' ' &&
            rf_tokenizer_strips_first_space(engine->tokenizer)) {
            flags &= ~(uint32_t)RIFFLE_DETOKENIZE_START;
            piece.data++;
            piece.bytes--;
        }
        if (total < cap && piece.bytes)
            memcpy(text + total, piece.data, piece.bytes < cap - total ? piece.bytes : cap - total);
        total += piece.bytes;
    }
    struct rf_error error;
    return rf_source_check(engine->source, &error) ? rf_api_fail(&error) : (int64_t)total;
}

/* ---- conversations ---- */

static int64_t chat_format(const riffle_model *model, const struct rf_conversation *given,
                           int add_generation_prompt, char *text, size_t cap)
{
    if (!model || (!text && cap))
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", model ? "text" : "model");
    struct rf_rendered rendered = {0};
    struct rf_error error;
    int code = rf_conversation_render(model->engine, given, add_generation_prompt, NULL, &rendered,
                                      &error);
    size_t bytes = rendered.text.count;
    if (!code && bytes && cap) memcpy(text, rendered.text.data, bytes < cap ? bytes : cap);
    rf_rendered_free(&model->engine->allocator, &rendered);
    return code ? rf_api_fail(&error) : (int64_t)bytes;
}

static int64_t chat_tokenize(const riffle_model *model, const struct rf_conversation *given,
                             int32_t *tokens, size_t cap)
{
    if (!model || (!tokens && cap))
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", model ? "tokens" : "model");
    struct rf_tokens found = {0};
    struct rf_error error;
    int code = rf_conversation_tokenize(model->engine, given, &found, &error);
    size_t count = found.count;
    if (!code) give_tokens(tokens, cap, &found);
    rf_tokens_free(&model->engine->allocator, &found);
    return code ? rf_api_fail(&error) : (int64_t)count;
}

static int64_t chat_prefill(riffle_session *session, const struct rf_conversation *given)
{
    struct rf_error error;
    int code = rf_api_enter(session);
    if (code) return code;
    int64_t n = rf_conversation_prefill(session->inner, given, &error);
    return rf_api_leave(session, n < 0 ? rf_api_fail(&error) : n);
}

static int json_is_null(void)
{
    return rf_api_error(RIFFLE_ERR_ARGUMENT, "json is NULL");
}

int64_t riffle_chat_format(const riffle_model *model, const riffle_message *messages,
                           size_t n_messages, int add_generation_prompt, char *text, size_t cap)
{
    const struct rf_conversation given = {.messages = messages, .n_messages = n_messages};
    return chat_format(model, &given, add_generation_prompt, text, cap);
}

int64_t riffle_chat_format_json(const riffle_model *model, const char *json, size_t json_bytes,
                                int add_generation_prompt, char *text, size_t cap)
{
    const struct rf_conversation given = {.json = {json, json_bytes}};
    return json ? chat_format(model, &given, add_generation_prompt, text, cap) : json_is_null();
}

int64_t riffle_chat_tokenize(const riffle_model *model, const riffle_message *messages,
                             size_t n_messages, int32_t *tokens, size_t cap)
{
    const struct rf_conversation given = {.messages = messages, .n_messages = n_messages};
    return chat_tokenize(model, &given, tokens, cap);
}

int64_t riffle_chat_tokenize_json(const riffle_model *model, const char *json, size_t json_bytes,
                                  int32_t *tokens, size_t cap)
{
    const struct rf_conversation given = {.json = {json, json_bytes}};
    return json ? chat_tokenize(model, &given, tokens, cap) : json_is_null();
}

int64_t riffle_chat_prefill(riffle_session *session, const riffle_message *messages,
                            size_t n_messages)
{
    const struct rf_conversation given = {.messages = messages, .n_messages = n_messages};
    return chat_prefill(session, &given);
}

int64_t riffle_chat_prefill_json(riffle_session *session, const char *json, size_t json_bytes)
{
    const struct rf_conversation given = {.json = {json, json_bytes}};
    return json ? chat_prefill(session, &given) : json_is_null();
}
