/* POST /tokenize: the tokens of a text, or of a conversation, as vLLM's and llama.cpp's servers
 * tell them. Nothing is computed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "requests/accepted.h"
#include "requests/members.h"
#include "requests/prompts.h"
#include "serve/endpoint.h"

extern const struct endpoint endpoint_chat_completions;

/* ---- the tokens ---- */

/* Options of a request beside the tokens' numbers. */
struct token_wish {
    int has_texts;  /* vLLM: a list of texts, too */
    int has_pieces; /* llama.cpp: objects in place of numbers */
};

/* Refuses the members of the other kind of body. */
static int refuse_others(const json_t *body, const char *const names[], size_t n,
                         const char *beside, struct refusal *refusal)
{
    for (size_t i = 0; i < n; i++) {
        const json_t *value = member_get(body, names[i]);
        if (!value || accepted_is_off(value)) continue;
        refuse(refusal, 400, "unsupported_parameter", "%s is not supported beside %s", names[i],
               beside);
        return refuse_param(refusal, names[i]);
    }
    return 0;
}

/* A text's tokens. Both servers' names say whether the model's BOS token comes first. */
static int tokenize_text(const json_t *body, const char *name, int is_added,
                         const struct answerer *of, struct prompt *prompt, struct refusal *refusal)
{
    static const char *const others[] = {"tools", "chat_template_kwargs", "tokens",
                                         "add_generation_prompt"};
    const json_t *text = member_get(body, name);
    int parses = 1;
    if (!json_is_string(text)) return refuse_value(refusal, name, "a text");
    if (refuse_others(body, others, sizeof others / sizeof *others, name, refusal)) return -1;
    if (member_flag(body, "add_special", &is_added, refusal)) return -1;
    if (member_flag(body, "add_special_tokens", &is_added, refusal)) return -1;
    if (member_flag(body, "parse_special", &parses, refusal)) return -1;
    unsigned flags = (is_added ? (unsigned)RIFFLE_TOKENIZE_BOS : 0u) |
                     (parses ? (unsigned)RIFFLE_TOKENIZE_SPECIAL : 0u);
    return prompt_add_text(prompt, of->model, json_string_value(text), json_string_length(text),
                           flags, refusal);
}

/* Templates read a variable of this name. */
static void leave_answer_out(json_t *chat)
{
    json_t *given = json_object_get(chat, "chat_template_kwargs");
    if (given && !json_is_object(given)) return; /* it is refused */
    json_t *more = given ? json_copy(given) : json_object();
    json_object_set_new(more, "add_generation_prompt", json_false());
    json_object_set_new(chat, "chat_template_kwargs", more);
}

/* The tokens of the prompt that a chat with the same members has. They are moved. */
static int tokenize_chat(const json_t *body, const struct answerer *of, struct prompt *prompt,
                         struct refusal *refusal)
{
    static const char *const same[] = {"messages", "tools", "chat_template_kwargs"};
    static const char *const others[] = {"add_special", "add_special_tokens", "parse_special",
                                         "tokens"};
    struct question question = {.sampling = *of->sampling};
    int begins_answer = 1;
    if (refuse_others(body, others, sizeof others / sizeof *others, "messages", refusal)) return -1;
    if (member_flag(body, "add_generation_prompt", &begins_answer, refusal)) return -1;
    json_t *chat = json_object();
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (member_get(body, same[i]))
            json_object_set(chat, same[i], (json_t *)member_get(body, same[i]));
    if (!begins_answer) leave_answer_out(chat);
    int code = endpoint_chat_completions.take(chat, of, &question, refusal);
    if (!code) {
        *prompt = question.prompts[0];
        question.prompts[0].tokens = NULL;
    }
    question_free(&question);
    json_decref(chat);
    return code;
}

static int tokenize_body(const json_t *body, const struct answerer *of, struct prompt *prompt,
                         struct refusal *refusal)
{
    int has_text = member_get(body, "prompt") != NULL,
        has_content = member_get(body, "content") != NULL,
        has_messages = member_get(body, "messages") != NULL;
    if (has_text + has_content + has_messages != 1)
        return refuse_value(refusal, "the body", "one with prompt, content or messages alone");
    return has_messages ? tokenize_chat(body, of, prompt, refusal)
           : has_text   ? tokenize_text(body, "prompt", 1, of, prompt, refusal)
                        : tokenize_text(body, "content", 0, of, prompt, refusal);
}

/* ---- the reply ---- */

/* A token's bytes: a text, or where that is no UTF-8 a list of numbers. */
static void write_piece(struct rf_writer *out, const riffle_model *model, int32_t token)
{
    char text[256];
    int64_t n = riffle_detokenize(model, &token, 1, RIFFLE_DETOKENIZE_SPECIAL, text, sizeof text);
    size_t bytes = n > 0 && n <= (int64_t)sizeof text ? (size_t)n : 0;
    if (rf_utf8_valid_prefix(text, bytes) == bytes)
        reply_write_token_text(out, model, token);
    else
        reply_write_token_bytes(out, model, token);
}

static void write_token(struct rf_writer *out, const riffle_model *model, int32_t token,
                        int has_piece)
{
    char number[32];
    snprintf(number, sizeof number, has_piece ? "{\"id\":%d,\"piece\":" : "%d", token);
    rf_write_text(out, number);
    if (!has_piece) return;
    write_piece(out, model, token);
    rf_write_text(out, "}");
}

/* Cut where it is too long to be sent: then it is refused. */
static char *write_tokens(const struct answerer *of, const struct prompt *prompt,
                          const struct token_wish *wish)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&bytes, &error);
    char counts[96];
    snprintf(counts, sizeof counts, "{\"count\":%zu,\"max_model_len\":%d,\"tokens\":[", prompt->n,
             of->n_ctx);
    rf_write_text(&out, counts);
    for (size_t i = 0; i < prompt->n && bytes.count <= REPLY_BYTES; i++) {
        if (i) rf_write_text(&out, ",");
        write_token(&out, of->model, prompt->tokens[i], wish->has_pieces);
    }
    rf_write_text(&out, wish->has_texts ? "],\"token_strs\":[" : "],\"token_strs\":null}");
    for (size_t i = 0; wish->has_texts && i < prompt->n && bytes.count <= REPLY_BYTES; i++) {
        if (i) rf_write_text(&out, ",");
        reply_write_token_text(&out, of->model, prompt->tokens[i]);
    }
    if (wish->has_texts) rf_write_text(&out, "]}");
    return reply_take(&bytes, &out);
}

static int tokenize_take(const json_t *body, const struct answerer *of, struct question *question,
                         struct refusal *refusal)
{
    struct prompt prompt = {.tokens = NULL};
    struct token_wish wish = {0};
    if (accepted_check(body, ACCEPTED_TOKENS, refusal)) return -1;
    if (member_flag(body, "return_token_strs", &wish.has_texts, refusal)) return -1;
    if (member_flag(body, "with_pieces", &wish.has_pieces, refusal)) return -1;
    int code = tokenize_body(body, of, &prompt, refusal);
    if (!code) code = prompts_need_none(question, write_tokens(of, &prompt, &wish), refusal);
    free(prompt.tokens);
    return code;
}

static const struct reply_form tokenize_form = {.whole = reply_known};

const struct endpoint endpoint_tokenize = {"POST", "/tokenize", .most_body = ENDPOINT_BODY,
                                           .take = tokenize_take, .form = &tokenize_form};
