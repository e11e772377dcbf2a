/* Translates requests of ollama's interface. Its messages are those of a chat but for thoughts,
 * images, and calls without ids, which their results name by the function. */
#include "translate/ollama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "requests/accepted.h"
#include "requests/members.h"
#include "requests/prompts.h"
#include "translate/ollama_options.h"

static int is_absent(const json_t *body, const char *name)
{
    const json_t *value = member_get(body, name);
    return !value || accepted_is_off(value);
}

/* ---- messages ---- */

/* The conversation that is being translated. */
struct ollama_turns {
    json_t *messages; /* of the chat */
    json_t *open;     /* calls that have no result yet, as the chat has them */
    int n_calls;
    size_t index; /* of the message */
    struct refusal *refusal;
};

static int refuse_message(const struct ollama_turns *turns, const char *why)
{
    refuse(turns->refusal, 400, "invalid_value", "messages[%zu]%s", turns->index, why);
    return refuse_param(turns->refusal, "messages");
}

/* The role in small letters; NULL: it is no text. */
static json_t *role_of(const json_t *message)
{
    const char *given = rf_json_c_string(json_object_get(message, "role"));
    char role[64];
    size_t n = 0;
    if (!given || strlen(given) >= sizeof role) return NULL;
    for (; given[n]; n++)
        role[n] = (char)(given[n] >= 'A' && given[n] <= 'Z' ? given[n] - 'A' + 'a' : given[n]);
    return json_stringn(role, n);
}

/* A call of the chat; one without an id gets one, in letters and digits as some templates want. */
static json_t *call_of(struct ollama_turns *turns, const json_t *given)
{
    json_t *function = json_object_get(given, "function"), *id = json_object_get(given, "id"),
           *name = json_object_get(function, "name"),
           *arguments = json_object_get(function, "arguments");
    char made[16];
    snprintf(made, sizeof made, "call%05d", turns->n_calls++ % 100000);
    if (!rf_json_c_string(name) || (arguments && !rf_json_is_map(arguments))) return NULL;
    return json_pack("{s:o, s:s, s:{s:O, s:o}}", "id",
                     json_string_length(id) ? json_incref(id) : json_string(made), "type",
                     "function", "function", "name", name, "arguments",
                     arguments ? json_incref(arguments) : json_object());
}

static int turns_take_calls(struct ollama_turns *turns, const json_t *given, json_t *message)
{
    json_t *calls = json_array();
    for (size_t i = 0; i < json_array_size(given); i++) {
        json_t *call = call_of(turns, json_array_get(given, i));
        if (!call) {
            json_decref(calls);
            return refuse_message(turns, ".tool_calls has no functions with a name and arguments");
        }
        json_array_append(turns->open, call);
        json_array_append_new(calls, call);
    }
    return json_object_set_new(message, "tool_calls", calls) ? refuse_memory(turns->refusal) : 0;
}

static const json_t *name_of_call(const json_t *call)
{
    return json_object_get(json_object_get(call, "function"), "name");
}

/* A result belongs to the first open call with its id, else of its function, else to the first. */
static size_t call_of_result(const struct ollama_turns *turns, const json_t *id, const json_t *name)
{
    size_t n = json_array_size(turns->open), i = 0;
    if (!json_string_length(id) && !json_string_length(name)) return 0;
    for (; i < n; i++) {
        const json_t *call = json_array_get(turns->open, i);
        if (json_string_length(id) ? json_equal(json_object_get(call, "id"), id)
                                   : json_equal(name_of_call(call), name))
            return i;
    }
    return n;
}

static void turns_take_result(struct ollama_turns *turns, const json_t *given, json_t *message)
{
    json_t *id = json_object_get(given, "tool_call_id"),
           *name = json_object_get(given, "tool_name");
    if (!json_string_length(name)) name = json_object_get(given, "name");
    size_t at = call_of_result(turns, id, name);
    json_t *call = json_incref(json_array_get(turns->open, at));
    json_array_remove(turns->open, at);
    if (!json_string_length(id)) id = json_object_get(call, "id");
    if (!json_string_length(name)) name = (json_t *)name_of_call(call);
    if (json_string_length(id)) json_object_set(message, "tool_call_id", id);
    if (json_string_length(name)) json_object_set(message, "name", name);
    json_decref(call);
}

static int turns_take_message(struct ollama_turns *turns, const json_t *given)
{
    json_t *role = role_of(given), *content = (json_t *)member_get(given, "content"),
           *thinking = (json_t *)member_get(given, "thinking"),
           *calls = (json_t *)member_get(given, "tool_calls");
    json_t *message = json_pack("{s:o*, s:o}", "role", role, "content",
                                content ? json_incref(content) : json_string(""));
    if (!message) return refuse_memory(turns->refusal);
    json_array_append_new(turns->messages, message);
    if (!role) return refuse_message(turns, ".role is no text");
    if (content && !json_is_string(content)) return refuse_message(turns, ".content is no text");
    if (!is_absent(given, "images"))
        return refuse_message(turns, ".images is not supported: the model reads texts");
    if (thinking && !json_is_string(thinking)) return refuse_message(turns, ".thinking is no text");
    if (json_string_length(thinking)) json_object_set(message, "reasoning_content", thinking);
    if (strcmp(json_string_value(role), "tool") == 0) turns_take_result(turns, given, message);
    if (calls && !json_is_array(calls)) return refuse_message(turns, ".tool_calls is no array");
    return json_array_size(calls) ? turns_take_calls(turns, calls, message) : 0;
}

static int add_messages(json_t *chat, const json_t *body, const struct answerer *of,
                        struct refusal *refusal)
{
    const json_t *given = member_get(body, "messages");
    size_t n = json_array_size(given);
    struct ollama_turns turns = {
        .messages = json_array(), .open = json_array(), .refusal = refusal};
    int code = 0;
    if (json_object_set_new(chat, "messages", turns.messages) || !turns.open)
        code = refuse_memory(refusal);
    if (!code && !n) code = refuse_value(refusal, "messages", "an array of messages");
    if (!code && of->n_ctx && n > (size_t)of->n_ctx)
        code = refuse(refusal, 400, "context_length_exceeded",
                      "the conversation has %zu messages, n_ctx is %d", n, of->n_ctx);
    for (; !code && turns.index < n; turns.index++)
        code = turns_take_message(&turns, json_array_get(given, turns.index));
    json_decref(turns.open);
    return code;
}

/* ---- bodies ---- */

/* Takes `to`. */
static json_t *made_or_refused(json_t *to, int code)
{
    if (!code) return to;
    json_decref(to);
    return NULL;
}

static void copy_member(json_t *to, const json_t *body, const char *name)
{
    json_t *value = (json_t *)member_get(body, name);
    if (value) json_object_set(to, name, value);
}

json_t *ollama_to_chat(const json_t *body, const struct answerer *of, struct refusal *refusal)
{
    json_t *chat = json_object();
    int code = chat ? accepted_check(body, ACCEPTED_OLLAMA_CHAT, refusal) : refuse_memory(refusal);
    if (!code) code = ollama_options_add(chat, body, refusal);
    if (!code) code = ollama_options_add_think(chat, body, of, refusal);
    if (!code) code = add_messages(chat, body, of, refusal);
    if (code) return made_or_refused(chat, code);
    copy_member(chat, body, "tools");
    copy_member(chat, body, "logprobs");
    copy_member(chat, body, "top_logprobs");
    return chat;
}

/* The tokens of a text that is formatted already. The text may name the BOS token itself. */
static int add_raw_prompt(json_t *to, const json_t *text, const struct answerer *of,
                          struct refusal *refusal)
{
    riffle_model_info info = {.bos_token = -1};
    struct prompt prompt = {.most = of->n_ctx};
    json_t *tokens = json_array();
    riffle_model_get_info(of->model, &info, sizeof info);
    int code =
        prompt_add_text(&prompt, of->model, json_string_value(text), json_string_length(text),
                        RIFFLE_TOKENIZE_BOS | RIFFLE_TOKENIZE_SPECIAL, refusal);
    int is_double = !code && info.adds_bos && prompt.n > 1 && prompt.tokens[0] == info.bos_token &&
                    prompt.tokens[1] == info.bos_token;
    for (size_t i = (size_t)is_double; !code && i < prompt.n; i++)
        if (json_array_append_new(tokens, json_integer(prompt.tokens[i])))
            code = refuse_memory(refusal);
    free(prompt.tokens);
    if (!code) return json_object_set_new(to, "prompt", tokens) ? refuse_memory(refusal) : 0;
    json_decref(tokens);
    return code;
}

static int add_completion(json_t *to, const json_t *body, const struct answerer *of, int is_raw,
                          struct refusal *refusal)
{
    json_t *prompt = (json_t *)member_get(body, "prompt"), *top;
    int has_suffix = !is_absent(body, "suffix"), wants = 0;
    if (!is_absent(body, "system"))
        return refuse(refusal, 400, "invalid_value", "system is beside raw or suffix");
    if (!is_absent(body, "think"))
        return refuse(refusal, 400, "invalid_value", "think is beside raw or suffix");
    if (is_raw && has_suffix) return refuse(refusal, 400, "invalid_value", "suffix is beside raw");
    if (member_flag(body, "logprobs", &wants, refusal)) return -1;
    top = (json_t *)member_get(body, "top_logprobs");
    if (!wants && !is_absent(body, "top_logprobs"))
        return refuse(refusal, 400, "invalid_value", "top_logprobs is without logprobs");
    if (wants) json_object_set_new(to, "logprobs", top ? json_incref(top) : json_integer(0));
    if (is_raw) return add_raw_prompt(to, prompt, of, refusal);
    copy_member(to, body, "suffix");
    return json_object_set_new(to, "prompt", prompt ? json_incref(prompt) : json_string(""))
               ? refuse_memory(refusal)
               : 0;
}

/* A chat of a system's and a user's message. */
static int add_prompt(json_t *chat, const json_t *body, const struct answerer *of,
                      struct refusal *refusal)
{
    json_t *prompt = (json_t *)member_get(body, "prompt"),
           *system = (json_t *)member_get(body, "system"), *messages = json_array();
    if (json_object_set_new(chat, "messages", messages)) return refuse_memory(refusal);
    if (system && !json_is_string(system)) return refuse_value(refusal, "system", "a text");
    if (json_string_length(system))
        json_array_append_new(messages,
                              json_pack("{s:s, s:O}", "role", "system", "content", system));
    json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "user", "content", prompt));
    copy_member(chat, body, "logprobs");
    copy_member(chat, body, "top_logprobs");
    return ollama_options_add_think(chat, body, of, refusal);
}

json_t *ollama_generate_to(const json_t *body, const struct answerer *of,
                           enum ollama_target *target, struct refusal *refusal)
{
    json_t *to = json_object();
    const json_t *prompt = member_get(body, "prompt");
    int is_raw = 0;
    int code =
        to ? accepted_check(body, ACCEPTED_OLLAMA_GENERATE, refusal) : refuse_memory(refusal);
    if (!code) code = member_flag(body, "raw", &is_raw, refusal);
    if (!code && prompt && !json_is_string(prompt))
        code = refuse_value(refusal, "prompt", "a text");
    if (!code) code = ollama_options_add(to, body, refusal);
    *target = is_raw || !is_absent(body, "suffix") ? OLLAMA_TO_COMPLETION : OLLAMA_TO_CHAT;
    if (!code)
        code = *target == OLLAMA_TO_CHAT ? add_prompt(to, body, of, refusal)
                                         : add_completion(to, body, of, is_raw, refusal);
    return made_or_refused(to, code);
}

json_t *ollama_to_embedding(const json_t *body, const char *name, struct refusal *refusal)
{
    const char *other = strcmp(name, "input") == 0 ? "prompt" : "input";
    json_t *to = json_object(), *unused = json_object();
    int code = to && unused ? accepted_check(body, ACCEPTED_OLLAMA_EMBED, refusal)
                            : refuse_memory(refusal);
    if (!code && !is_absent(body, other)) {
        refuse(refusal, 400, "unsupported_parameter", "%s is not supported; %s has the text", other,
               name);
        code = refuse_param(refusal, other);
    }
    if (!code) code = ollama_options_add(unused, body, refusal); /* only checks them */
    if (!code) json_object_set(to, "input", (json_t *)member_get(body, name));
    json_decref(unused);
    return made_or_refused(to, code);
}

int ollama_only_loads(const json_t *body, const char *name)
{
    return is_absent(body, name) && is_absent(body, "suffix");
}
