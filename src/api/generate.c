/* Calls that write text: sampling, whole answers and rounds. */
#include "api/handles.h"

RF_API_OPTIONS(riffle_sampling, .temperature = 0.0f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f,
               .repeat_penalty = 1.0f, .repeat_last_n = 64)
RF_API_OPTIONS(riffle_generate_options, .max_tokens = 0)

int riffle_session_set_sampling(riffle_session *session, const riffle_sampling *sampling)
{
    riffle_sampling chosen;
    struct rf_error error;
    int code = rf_api_enter(session);
    if (code) return code;
    code = rf_api_take_riffle_sampling(&chosen, sampling);
    if (!code && rf_session_set_sampling(session->inner, &chosen, &error))
        code = rf_api_fail(&error);
    return (int)rf_api_leave(session, code);
}

int rf_api_take_answer_options(struct rf_answer_options *ours, const riffle_generate_options *given)
{
    int code = rf_api_take_riffle_generate_options(&ours->options, given);
    ours->grammar = !code && ours->options.grammar ? ours->options.grammar->store : NULL;
    return code;
}

int64_t riffle_generate(riffle_session *session, const riffle_generate_options *options,
                        riffle_on_event on_event, void *user)
{
    struct rf_answer_options wanted;
    struct rf_error error;
    int code = rf_api_enter(session);
    if (code) return code;
    code = rf_api_take_answer_options(&wanted, options);
    if (code) return rf_api_leave(session, code);
    int64_t n = rf_session_generate(session->inner, &wanted, on_event, user, &error);
    return rf_api_leave(session, n < 0 ? rf_api_fail(&error) : n);
}

riffle_finish riffle_session_finish(const riffle_session *session, const char **sentence)
{
    if (sentence) *sentence = session ? session->inner->finish_sentence : "";
    return session ? session->inner->finish : RIFFLE_FINISH_NONE;
}

int64_t riffle_step(riffle_session *session, int32_t *tokens, size_t cap)
{
    struct rf_error error;
    int code = rf_api_enter(session);
    if (code) return code;
    int64_t n = tokens && cap ? rf_session_step(session->inner, tokens, cap, &error)
                              : rf_fail(&error, RF_ERR_ARGUMENT, "there is no room for tokens");
    return rf_api_leave(session, n < 0 ? rf_api_fail(&error) : n);
}
