/* Translates ollama's options, formats and thoughts. An option that would change the answer acts or
 * is refused; those of loading and of speed are left out. */
#include "translate/ollama_options.h"

#include <string.h>

#include "base/json.h"
#include "requests/accepted.h"
#include "requests/members.h"
#include "translate/turns.h"

static int refuse_think(struct refusal *refusal, const char *why)
{
    refuse(refusal, 400, "unsupported_parameter", "think is not supported: %s", why);
    return refuse_param(refusal, "think");
}

/* ---- options ---- */

/* -1 and -2: until the model ends its answer, or the context is full; 0 is no limit, too. */
static int add_num_predict(json_t *to, const json_t *options, struct refusal *refusal)
{
    int32_t most = -1;
    if (member_int(options, "num_predict", -2, INT32_MAX, &most, refusal)) return -1;
    return json_object_set_new(to, "max_tokens", json_integer(most > 0 ? most : -1))
               ? refuse_memory(refusal)
               : 0;
}

/* -1 is ollama's word for a random seed. */
static int is_random_seed(const json_t *seed)
{
    int64_t number;
    return rf_json_to_int64(seed, &number) && number == -1;
}

int ollama_options_check(const json_t *body, struct refusal *refusal)
{
    const json_t *options = member_get(body, "options");
    if (options && !rf_json_is_map(options)) return refuse_value(refusal, "options", "an object");
    if (accepted_check_in(options, "options", ACCEPTED_OLLAMA_OPTIONS, refusal)) return -1;
    if (!json_is_false(json_object_get(options, "penalize_newline"))) return 0;
    refuse(refusal, 400, "unsupported_parameter",
           "options.penalize_newline is not supported: penalties cover all tokens");
    return refuse_param(refusal, "options");
}

static int add_options(json_t *to, const json_t *options, struct refusal *refusal)
{
    static const char *const same[] = {"temperature",
                                       "top_k",
                                       "top_p",
                                       "min_p",
                                       "stop",
                                       "repeat_penalty",
                                       "presence_penalty",
                                       "frequency_penalty",
                                       "repeat_last_n",
                                       "seed"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        json_t *value = (json_t *)member_get(options, same[i]);
        if (!value || (strcmp(same[i], "seed") == 0 && is_random_seed(value))) continue;
        json_object_set(to, same[i], value);
    }
    return add_num_predict(to, options, refusal);
}

int ollama_options_context(const json_t *body, int32_t *n_ctx, struct refusal *refusal)
{
    int32_t wanted = 0;
    const json_t *options = member_get(body, "options");
    if (member_int(options, "num_ctx", 0, INT32_MAX, &wanted, refusal)) return -1;
    if (*n_ctx && wanted > *n_ctx) {
        refuse(refusal, 400, "unsupported_parameter",
               "options.num_ctx is %d, and the server has a context of %d tokens; its option --ctx "
               "gives another",
               wanted, *n_ctx);
        return refuse_param(refusal, "options");
    }
    if (wanted) *n_ctx = wanted;
    return 0;
}

/* ---- the rest ---- */

static int add_format(json_t *to, const json_t *body, struct refusal *refusal)
{
    json_t *format = (json_t *)member_get(body, "format"), *made;
    if (!format || (json_is_string(format) && !json_string_length(format))) return 0;
    if (turns_is_word(format, "json"))
        made = json_pack("{s:s}", "type", "json_object");
    else if (rf_json_is_map(format))
        made = json_pack("{s:s, s:{s:s, s:O}}", "type", "json_schema", "json_schema", "name",
                         "format", "schema", format);
    else
        return refuse_value(refusal, "format", "\"json\" or a schema");
    return json_object_set_new(to, "response_format", made) ? refuse_memory(refusal) : 0;
}

int ollama_options_add(json_t *to, const json_t *body, struct refusal *refusal)
{
    int streams = 1;
    if (member_flag(body, "stream", &streams, refusal)) return -1;
    json_object_set_new(to, "stream", json_boolean(streams));
    if (ollama_options_check(body, refusal)) return -1;
    if (add_options(to, member_get(body, "options"), refusal)) return -1;
    return add_format(to, body, refusal);
}

int ollama_options_add_think(json_t *chat, const json_t *body, const struct answerer *of,
                             struct refusal *refusal)
{
    json_t *think = (json_t *)member_get(body, "think");
    int is_always = of->thinking == THINKS_ALWAYS || of->has_effort;
    if (!think) return 0;
    if (json_is_string(think)) {
        if (!of->has_effort)
            return refuse_think(refusal, "the model's chat template has no levels of thinking");
        return json_object_set(chat, "reasoning_effort", think) ? refuse_memory(refusal) : 0;
    }
    if (!json_is_boolean(think)) return refuse_value(refusal, "think", "true, false or a level");
    if (of->thinking == THINKS_AS_ASKED) {
        json_t *more = json_pack("{s:O}", "enable_thinking", think);
        return json_object_set_new(chat, "chat_template_kwargs", more) ? refuse_memory(refusal) : 0;
    }
    if (json_is_true(think) && !is_always)
        return refuse_think(refusal, "the model's chat template does not support thinking");
    if (json_is_false(think) && is_always)
        return refuse_think(refusal, "the model's chat template cannot turn thoughts off");
    return 0;
}
