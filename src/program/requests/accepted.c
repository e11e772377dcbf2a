/* The table of members. What a client asks for either happens or is refused by name; only what
 * cannot change an answer is ignored. Each endpoint checks its body first. */
#include "requests/accepted.h"

#include <string.h>

#include "base/json.h"

enum {
    CHAT = ACCEPTED_CHAT,
    COMPLETION = ACCEPTED_COMPLETION,
    EMBEDDING = ACCEPTED_EMBEDDING,
    TEXT = CHAT | COMPLETION,
    ALL = TEXT | EMBEDDING
};

/* Members in the order of their names. `acts`: where their readers take them, or where they change
 * no answer by their meaning. Elsewhere only `usual` is accepted, the value that asks for what
 * happens anyway (words, with blanks between them). */
static const struct member_rule {
    const char *name;
    int acts;
    const char *usual;
    const char *why; /* end of the sentence */
} rules[] = {
    {"add_generation_prompt", 0, "true", ": an answer is a message of its own"},
    {"audio", 0, NULL, ": answers are texts"},
    {"best_of", COMPLETION, "1", ""},
    {"cache_prompt", ALL, NULL, ""}, /* prompts are always kept, and answers the same */
    {"chat_template_kwargs", CHAT, NULL, ": it is for chats"},
    {"continue_final_message", 0, NULL, ": an answer is a message of its own"},
    {"dimensions", 0, NULL, ": vectors have the model's width"},
    {"echo", COMPLETION, NULL, ": it is for completions"},
    {"encoding_format", EMBEDDING, "float", ": it is for embeddings"},
    {"frequency_penalty", TEXT, NULL, ": nothing is generated"},
    {"function_call", 0, "auto none", "; tool_choice does the same"},
    {"functions", 0, NULL, "; tools does the same"},
    {"grammar", TEXT, NULL, ": nothing is generated"},
    {"guided_choice", TEXT, NULL, ": nothing is generated"},
    {"guided_decoding_backend", ALL, NULL, ""}, /* there is one */
    {"guided_grammar", TEXT, NULL, ": nothing is generated"},
    {"guided_json", TEXT, NULL, ": nothing is generated"},
    {"guided_json_object", TEXT, NULL, ": nothing is generated"},
    {"guided_regex", TEXT, NULL, ": nothing is generated"},
    {"guided_whitespace_pattern", 0, NULL, ": blanks of JSON are those of json_schema"},
    {"ignore_eos", TEXT, NULL, ": nothing is generated"},
    {"input", EMBEDDING, NULL, ": it is for embeddings"},
    {"json_schema", TEXT, NULL, ": nothing is generated"},
    {"logit_bias", TEXT, NULL, ": nothing is generated"},
    {"logprobs", TEXT, NULL, ": nothing is generated"},
    {"max_completion_tokens", TEXT, NULL, ": nothing is generated"},
    {"max_tokens", TEXT, NULL, ": nothing is generated"},
    {"messages", CHAT, NULL, ": it is for chats"},
    {"metadata", ALL, NULL, ""},
    {"min_p", TEXT, NULL, ": nothing is generated"},
    {"min_tokens", 0, NULL, ": the model ends its answer; ignore_eos has it go on"},
    {"modalities", 0, "text", ": answers are texts"},
    {"model", ALL, NULL, ""},
    {"n", TEXT, "1", ": nothing is generated"},
    {"parallel_tool_calls", CHAT, "true", ": it is for chats"},
    {"pooling", EMBEDDING, NULL, ": it is for embeddings"},
    {"prediction", ALL, NULL, ""}, /* it may only save time */
    {"presence_penalty", TEXT, NULL, ": nothing is generated"},
    {"prompt", COMPLETION, NULL, ": it is for completions"},
    {"prompt_cache_key", ALL, NULL, ""},
    {"prompt_cache_retention", ALL, NULL, ""},
    {"reasoning_effort", CHAT, NULL, ": it is for chats"},
    {"repeat_last_n", TEXT, NULL, ": nothing is generated"},
    {"repeat_penalty", TEXT, "1", ": nothing is generated"},
    {"repetition_penalty", TEXT, "1", ": nothing is generated"},
    {"response_format", TEXT, NULL, ": nothing is generated"},
    {"safety_identifier", ALL, NULL, ""},
    {"seed", TEXT, NULL, ": nothing is generated"},
    {"service_tier", 0, "auto default", ": there is one"},
    {"stop", TEXT, NULL, ": nothing is generated"},
    {"stop_token_ids", 0, NULL, ": stop has texts"},
    {"store", 0, NULL, ": nothing is stored"},
    {"stream", TEXT, NULL, ": vectors come as a whole"},
    {"stream_options", TEXT, NULL, ": vectors come as a whole"},
    {"structured_outputs", TEXT, NULL, ": nothing is generated"},
    {"suffix", COMPLETION, NULL, ": it is for completions"},
    {"temperature", TEXT, NULL, ": nothing is generated"},
    {"tool_choice", TEXT, "auto none", ": nothing is generated"},
    {"tools", TEXT, NULL, ": nothing is generated"},
    {"top_k", TEXT, NULL, ": nothing is generated"},
    {"top_logprobs", CHAT, NULL, ": it is for chats; completions have logprobs"},
    {"top_p", TEXT, "1", ": nothing is generated"},
    {"user", ALL, NULL, ""},
    {"verbosity", 0, "medium", ": the model decides"},
    {"web_search_options", 0, NULL, ": this server searches nothing"},
};

/* Members of Anthropic's reference. */
static const struct member_rule message_rules[] = {
    {"cache_control", ACCEPTED_MESSAGES, NULL, ""}, /* prompts are always kept */
    {"container", 0, NULL, ": this server runs no code"},
    {"context_management", ACCEPTED_MESSAGES, NULL, ""},
    {"diagnostics", ACCEPTED_MESSAGES, NULL, ""},
    {"inference_geo", ACCEPTED_MESSAGES, NULL, ""}, /* here */
    {"max_tokens", ACCEPTED_MESSAGES, NULL, ""},
    {"mcp_servers", 0, NULL, ": this server calls no others"},
    {"messages", ACCEPTED_MESSAGES, NULL, ""},
    {"metadata", ACCEPTED_MESSAGES, NULL, ""},
    {"model", ACCEPTED_MESSAGES, NULL, ""},
    {"output_config", ACCEPTED_MESSAGES, NULL, ""},
    {"seed", ACCEPTED_MESSAGES, NULL, ""},
    {"service_tier", 0, "auto standard_only", ": there is one"},
    {"speed", 0, "standard", ": there is one"},
    {"stop_sequences", ACCEPTED_MESSAGES, NULL, ""},
    {"stream", ACCEPTED_MESSAGES, NULL, ""},
    {"system", ACCEPTED_MESSAGES, NULL, ""},
    {"temperature", ACCEPTED_MESSAGES, NULL, ""},
    {"thinking", ACCEPTED_MESSAGES, NULL, ""},
    {"tool_choice", ACCEPTED_MESSAGES, NULL, ""},
    {"tools", ACCEPTED_MESSAGES, NULL, ""},
    {"top_k", ACCEPTED_MESSAGES, NULL, ""},
    {"top_p", ACCEPTED_MESSAGES, NULL, ""},
    {"user_profile_id", ACCEPTED_MESSAGES, NULL, ""},
    {"workspace_id", ACCEPTED_MESSAGES, NULL, ""},
};

/* Members of OpenAI's reference of responses. */
static const struct member_rule response_rules[] = {
    {"background", 0, NULL, ": answers are not kept"},
    {"client_metadata", ACCEPTED_RESPONSES, NULL, ""},
    {"context_management", 0, NULL, ": conversations are not edited"},
    {"conversation", 0, NULL, ": nothing is stored; input has the whole conversation"},
    {"include", ACCEPTED_RESPONSES, NULL, ""},
    {"input", ACCEPTED_RESPONSES, NULL, ""},
    {"instructions", ACCEPTED_RESPONSES, NULL, ""},
    {"max_output_tokens", ACCEPTED_RESPONSES, NULL, ""},
    {"max_tool_calls", ACCEPTED_RESPONSES, NULL, ""}, /* of tools of the server */
    {"metadata", ACCEPTED_RESPONSES, NULL, ""},
    {"model", ACCEPTED_RESPONSES, NULL, ""},
    {"parallel_tool_calls", ACCEPTED_RESPONSES, NULL, ""},
    {"previous_response_id", 0, NULL, ": nothing is stored; input has the whole conversation"},
    {"prompt", 0, NULL, ": nothing is stored"},
    {"prompt_cache_key", ACCEPTED_RESPONSES, NULL, ""},
    {"prompt_cache_options", ACCEPTED_RESPONSES, NULL, ""},
    {"prompt_cache_retention", ACCEPTED_RESPONSES, NULL, ""},
    {"reasoning", ACCEPTED_RESPONSES, NULL, ""},
    {"safety_identifier", ACCEPTED_RESPONSES, NULL, ""},
    {"seed", ACCEPTED_RESPONSES, NULL, ""},
    {"service_tier", 0, "auto default", ": there is one"},
    {"store", ACCEPTED_RESPONSES, NULL, ""},
    {"stream", ACCEPTED_RESPONSES, NULL, ""},
    {"stream_options", ACCEPTED_RESPONSES, NULL, ""},
    {"temperature", ACCEPTED_RESPONSES, NULL, ""},
    {"text", ACCEPTED_RESPONSES, NULL, ""},
    {"tool_choice", ACCEPTED_RESPONSES, NULL, ""},
    {"tools", ACCEPTED_RESPONSES, NULL, ""},
    {"top_logprobs", 0, NULL, "; chats have logprobs"},
    {"top_p", ACCEPTED_RESPONSES, NULL, ""},
    {"truncation", 0, "auto disabled", ""}, /* what is too long is refused either way */
    {"user", ACCEPTED_RESPONSES, NULL, ""},
};

/* Members about tokens, of vLLM's and llama.cpp's servers. */
static const struct member_rule token_rules[] = {
    {"add_generation_prompt", ACCEPTED_TOKENS, NULL, ""},
    {"add_special", ACCEPTED_TOKENS, NULL, ""},
    {"add_special_tokens", ACCEPTED_TOKENS, NULL, ""},
    {"chat_template_kwargs", ACCEPTED_TOKENS, NULL, ""},
    {"content", ACCEPTED_TOKENS, NULL, ""},
    {"messages", ACCEPTED_TOKENS, NULL, ""},
    {"model", ACCEPTED_TOKENS, NULL, ""},
    {"parse_special", ACCEPTED_TOKENS, NULL, ""},
    {"prompt", ACCEPTED_TOKENS, NULL, ""},
    {"return_token_strs", ACCEPTED_TOKENS, NULL, ""},
    {"tokens", ACCEPTED_TOKENS, NULL, ""},
    {"tools", ACCEPTED_TOKENS, NULL, ""},
    {"with_pieces", ACCEPTED_TOKENS, NULL, ""},
};

enum {
    OLLAMA_CHAT = ACCEPTED_OLLAMA_CHAT,
    OLLAMA_GENERATE = ACCEPTED_OLLAMA_GENERATE,
    OLLAMA_EMBED = ACCEPTED_OLLAMA_EMBED,
    OLLAMA_MODEL = ACCEPTED_OLLAMA_MODEL,
    OLLAMA_TEXT = OLLAMA_CHAT | OLLAMA_GENERATE,
    OLLAMA_ASK = OLLAMA_TEXT | OLLAMA_EMBED,
    OLLAMA_ALL = OLLAMA_ASK | OLLAMA_MODEL
};

/* Members of ollama's reference. */
static const struct member_rule ollama_rules[] = {
    {"context", 0, NULL, "; /api/chat takes the whole conversation"},
    {"dimensions", 0, NULL, ": vectors have the model's width"},
    {"format", OLLAMA_TEXT, NULL, ": nothing is generated"},
    {"images", 0, NULL, ": the model reads texts"},
    {"input", OLLAMA_EMBED, NULL, ": it is for vectors"},
    {"insecure", OLLAMA_MODEL, NULL, ""}, /* nothing is fetched */
    {"keep_alive", OLLAMA_ASK, NULL, ""}, /* the model stays */
    {"logprobs", OLLAMA_TEXT, NULL, ": nothing is generated"},
    {"messages", OLLAMA_CHAT, NULL, ": it is for chats"},
    {"model", OLLAMA_ALL, NULL, ""},
    {"name", OLLAMA_MODEL, NULL, "; model names it"},
    {"options", OLLAMA_ASK, NULL, ""},
    {"prompt", OLLAMA_GENERATE | OLLAMA_EMBED, NULL, ""},
    {"raw", OLLAMA_GENERATE, NULL, ": it is for /api/generate"},
    {"shift", 0, NULL, ": an answer ends where the context is full"},
    {"stream", OLLAMA_TEXT | OLLAMA_MODEL, NULL, ": vectors come as a whole"},
    {"suffix", OLLAMA_GENERATE, NULL, ": it is for /api/generate"},
    {"system", OLLAMA_GENERATE, NULL, ": it is for /api/generate"},
    {"template", 0, NULL, ": the model has its own; raw takes a text that is formatted already"},
    {"think", OLLAMA_TEXT, NULL, ": nothing is generated"},
    {"tools", OLLAMA_CHAT, NULL, ": they are for chats"},
    {"top_logprobs", OLLAMA_TEXT, NULL, ": nothing is generated"},
    {"truncate", OLLAMA_ASK, NULL, ""}, /* what is too long is refused either way */
    {"verbose", OLLAMA_MODEL, NULL, ""},
};

/* Members of ollama's "options". Those of loading and of speed change no answer. */
static const struct member_rule option_rules[] = {
    {"draft_num_predict", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"f16_kv", 0, "true", ": --kv of the server has the precision"},
    {"frequency_penalty", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"low_vram", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"main_gpu", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"min_p", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"mirostat", 0, NULL, ": top_k, top_p and min_p choose"},
    {"mirostat_eta", ACCEPTED_OLLAMA_OPTIONS, NULL, ""}, /* of mirostat */
    {"mirostat_tau", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"num_batch", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"num_ctx", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"num_gpu", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"num_keep", ACCEPTED_OLLAMA_OPTIONS, NULL, ""}, /* of a shifted context, which there is not */
    {"num_predict", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"num_thread", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"numa", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"penalize_newline", 0, "true", ""},
    {"presence_penalty", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"repeat_last_n", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"repeat_penalty", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"seed", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"stop", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"temperature", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"tfs_z", 0, "1", ""},
    {"top_k", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"top_p", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"typical_p", 0, "1", ""},
    {"use_mlock", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
    {"use_mmap", ACCEPTED_OLLAMA_OPTIONS, NULL, ""},
};

int accepted_is_off(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) ||
           (rf_json_is_any_number(value) && rf_json_to_double(value) == 0.0) ||
           (json_is_string(value) && !json_string_length(value)) ||
           (json_is_array(value) && !json_array_size(value)) ||
           (rf_json_is_map(value) && !json_object_size(value));
}

static int is_word_of(const char *word, const char *words)
{
    size_t n = strlen(word);
    for (const char *at = words; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (length == n && memcmp(at, word, n) == 0) return 1;
        at += length;
    }
    return 0;
}

/* 1 if the value, or each of an array, is one of the usual ones. */
static int is_usual(const json_t *value, const char *usual)
{
    if (!usual) return 0;
    if (json_is_string(value))
        return rf_json_c_string(value) && is_word_of(json_string_value(value), usual);
    if (json_is_true(value)) return is_word_of("true", usual);
    if (rf_json_is_any_number(value))
        return rf_json_to_double(value) == 1.0 && is_word_of("1", usual);
    size_t n = json_is_array(value) ? json_array_size(value) : 0, i = 0;
    while (i < n && json_is_string(json_array_get(value, i)) &&
           is_usual(json_array_get(value, i), usual))
        i++;
    return n > 0 && i == n;
}

/* Members of Jina's and Cohere's references of rerankers. */
static const struct member_rule rerank_rules[] = {
    {"documents", ACCEPTED_RERANK, NULL, ""},
    {"max_tokens_per_doc", 0, NULL, ": documents are cut to what the model reads"},
    {"model", ACCEPTED_RERANK, NULL, ""},
    {"query", ACCEPTED_RERANK, NULL, ""},
    {"rank_fields", 0, "text", ": documents are texts"},
    {"return_documents", ACCEPTED_RERANK, NULL, ""},
    {"top_n", ACCEPTED_RERANK, NULL, ""},
    {"user", ACCEPTED_RERANK, NULL, ""},
};

/* The tables; `of` has the endpoints whose bodies they are for. */
static const struct {
    int of;
    const struct member_rule *rules;
    size_t n;
} tables[] = {{ALL, rules, sizeof rules / sizeof *rules},
              {ACCEPTED_MESSAGES, message_rules, sizeof message_rules / sizeof *rules},
              {ACCEPTED_RESPONSES, response_rules, sizeof response_rules / sizeof *rules},
              {ACCEPTED_TOKENS, token_rules, sizeof token_rules / sizeof *rules},
              {ACCEPTED_RERANK, rerank_rules, sizeof rerank_rules / sizeof *rules},
              {OLLAMA_ALL, ollama_rules, sizeof ollama_rules / sizeof *rules},
              {ACCEPTED_OLLAMA_OPTIONS, option_rules, sizeof option_rules / sizeof *rules}};

static const struct member_rule *find_rule(const char *name, enum accepted_by endpoint)
{
    size_t table = 0;
    while (!(tables[table].of & (int)endpoint)) table++;
    for (size_t i = 0; i < tables[table].n; i++)
        if (strcmp(tables[table].rules[i].name, name) == 0) return &tables[table].rules[i];
    return NULL;
}

int accepted_check_in(const json_t *object, const char *path, enum accepted_by endpoint,
                      struct refusal *refusal)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value)
    {
        const struct member_rule *rule = find_rule(name, endpoint);
        if (accepted_is_off(value) || (rule && (rule->acts & (int)endpoint))) continue;
        if (rule && is_usual(value, rule->usual)) continue;
        refuse(refusal, 400, "unsupported_parameter", "%s%s%.100s is not supported%s", path,
               *path ? "." : "", name, rule ? rule->why : ": there is no such member");
        return refuse_param(refusal, *path ? path : name);
    }
    return 0;
}

int accepted_check(const json_t *body, enum accepted_by endpoint, struct refusal *refusal)
{
    return accepted_check_in(body, "", endpoint, refusal);
}
