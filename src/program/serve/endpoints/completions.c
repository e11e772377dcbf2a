/* POST /v1/completions: the continuation of a text, or the text for a gap in it. A gap needs a
 * model with tokens for it. */
#include <stdio.h>
#include <string.h>

#include "requests/accepted.h"
#include "requests/limits.h"
#include "requests/members.h"
#include "requests/prompts.h"
#include "requests/tool_choice.h"
#include "serve/endpoint.h"
#include "serve/endpoints/completions.h"

enum { COMPLETION_TOKENS = 16 }; /* default of OpenAI's reference */

/* ---- the question ---- */

static int completion_take_logprobs(const json_t *body, struct question *question,
                                    struct refusal *refusal)
{
    const json_t *given = member_get(body, "logprobs");
    question->wants_logprobs = given && !json_is_false(given);
    return question->wants_logprobs ? member_int(body, "logprobs", 0, RIFFLE_MOST_LOGPROBS,
                                                 &question->top_logprobs, refusal)
                                    : 0;
}

/* The tokens of models that were trained to fill a gap; what comes before it, what comes behind it,
 * and the answer follow them. */
static const struct gap_tokens {
    const char *before, *behind, *answer;
} gap_tokens[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}, /* Qwen 2.5 Coder, CodeGemma */
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},       /* StarCoder, Granite */
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},       /* SantaCoder */
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"}, /* DeepSeek Coder */
};

static int is_single_token(const riffle_model *model, const char *text)
{
    return riffle_tokenize(model, text, strlen(text), RIFFLE_TOKENIZE_SPECIAL, NULL, 0) == 1;
}

static const struct gap_tokens *gap_tokens_of(const riffle_model *model)
{
    for (size_t i = 0; i < sizeof gap_tokens / sizeof *gap_tokens; i++)
        if (is_single_token(model, gap_tokens[i].before) &&
            is_single_token(model, gap_tokens[i].behind) &&
            is_single_token(model, gap_tokens[i].answer))
            return &gap_tokens[i];
    return NULL;
}

int completions_fill_gaps(const riffle_model *model)
{
    return gap_tokens_of(model) != NULL;
}

static int add_special(struct prompt *prompt, const riffle_model *model, const char *text,
                       struct refusal *refusal)
{
    return prompt_add_text(prompt, model, text, strlen(text), RIFFLE_TOKENIZE_SPECIAL, refusal);
}

/* A prompt of a text before the gap and one behind it. */
static int completion_take_gap(const json_t *before, const json_t *behind,
                               const riffle_model *model, struct question *question,
                               struct refusal *refusal)
{
    const struct gap_tokens *tokens = gap_tokens_of(model);
    if (!json_is_string(before) || !json_is_string(behind))
        return refuse(refusal, 400, "invalid_value", "prompt and suffix are not a text each");
    if (question->echoes)
        return refuse(refusal, 400, "unsupported_parameter", "echo is beside a suffix");
    if (!tokens)
        return refuse(refusal, 400, "unsupported_parameter",
                      "suffix: the model has no tokens for filling a gap");
    if (prompts_make(question, 1, refusal)) return -1;
    struct prompt *prompt = question->prompts;
    if (prompt_add_text(prompt, model, "", 0, RIFFLE_TOKENIZE_BOS, refusal)) return -1;
    if (add_special(prompt, model, tokens->before, refusal)) return -1;
    if (prompt_add_text(prompt, model, json_string_value(before), json_string_length(before), 0,
                        refusal))
        return -1;
    if (add_special(prompt, model, tokens->behind, refusal)) return -1;
    if (prompt_add_text(prompt, model, json_string_value(behind), json_string_length(behind), 0,
                        refusal))
        return -1;
    return add_special(prompt, model, tokens->answer, refusal);
}

static int completion_take_prompt(const json_t *body, const riffle_model *model,
                                  struct question *question, struct refusal *refusal)
{
    const json_t *suffix = member_get(body, "suffix");
    if (member_flag(body, "echo", &question->echoes, refusal)) return -1;
    if (question->generate.max_tokens == 0) {
        if (!question->echoes)
            return refuse(refusal, 400, "invalid_value", "max_tokens is 0, without echo");
        question->only_echoes = question->generate.max_tokens = 1;
    }
    return suffix && !(json_is_string(suffix) && !json_string_length(suffix))
               ? completion_take_gap(member_get(body, "prompt"), suffix, model, question, refusal)
               : prompts_take(body, "prompt", model, question, refusal);
}

static int completion_take(const json_t *body, const struct answerer *of, struct question *question,
                           struct refusal *refusal)
{
    question->generate.max_tokens = COMPLETION_TOKENS;
    if (accepted_check(body, ACCEPTED_COMPLETION, refusal)) return -1;
    if (question_take_answer(body, 0, question, refusal)) return -1;
    if (completion_take_logprobs(body, question, refusal)) return -1;
    if (question_take_bias(body, question, refusal)) return -1;
    if (tool_choice_take(body, of, 0, question, refusal)) return -1;
    if (completion_take_prompt(body, of->model, question, refusal)) return -1;
    return limits_take(body, question, refusal);
}

/* ---- the reply ---- */

static json_t *completion_say(const struct reply_part *part, int is_piece)
{
    (void)is_piece;
    return json_pack("{s:o}", "text", reply_text(part->text, part->bytes));
}

/* Lists beside each other, in the order of this text. */
static const char *const list_names[REPLY_LISTS] = {"tokens", "token_logprobs", "top_logprobs",
                                                    "text_offset"};

/* {"token": logprob, ...}; of tokens with the same text, the likeliest. */
static void completion_write_top(struct rf_writer *out, const riffle_model *model,
                                 const riffle_logprobs *logprobs)
{
    size_t begins[RIFFLE_MOST_LOGPROBS], ends[RIFFLE_MOST_LOGPROBS];
    int n = 0;
    rf_write_text(out, "{");
    for (int32_t i = 0; i < logprobs->n_top && !out->code; i++) {
        size_t before = out->bytes->count;
        int is_known = 0;
        if (n) rf_write_text(out, ",");
        begins[n] = out->bytes->count;
        reply_write_token_text(out, model, logprobs->top[i].token);
        ends[n] = out->bytes->count;
        for (int k = 0; k < n; k++)
            is_known |= ends[k] - begins[k] == ends[n] - begins[n] &&
                        memcmp(out->bytes->data + begins[k], out->bytes->data + begins[n],
                               ends[n] - begins[n]) == 0;
        if (is_known) {
            out->bytes->count = before;
            continue;
        }
        n++;
        rf_write_text(out, ":");
        reply_write_logprob(out, logprobs->top[i].logprob);
    }
    rf_write_text(out, "}");
}

static int completion_add_token(struct reply_tokens *tokens, const riffle_model *model,
                                const riffle_logprobs *logprobs, int has_logprob)
{
    struct rf_error error;
    struct rf_writer out[REPLY_LISTS];
    char offset[24];
    int code = 0;
    for (int i = 0; i < REPLY_LISTS; i++) {
        out[i] = reply_writer(&tokens->lists[i], &error);
        if (tokens->n) rf_write_text(&out[i], ",");
    }
    reply_write_token_text(&out[0], model, logprobs->chosen.token);
    if (has_logprob) {
        reply_write_logprob(&out[1], logprobs->chosen.logprob);
        completion_write_top(&out[2], model, logprobs);
    } else {
        rf_write_text(&out[1], "null");
        rf_write_text(&out[2], "null");
    }
    snprintf(offset, sizeof offset, "%zu", tokens->offset);
    rf_write_text(&out[3], offset);
    for (int i = 0; i < REPLY_LISTS; i++) code = code ? code : out[i].code;
    return code;
}

static void completion_write_tokens(struct rf_writer *out, const struct reply_tokens *tokens)
{
    for (int i = 0; i < REPLY_LISTS; i++) {
        rf_write_text(out, i ? ",\"" : "{\"");
        rf_write_text(out, list_names[i]);
        rf_write_text(out, "\":[");
        rf_write(out, tokens->lists[i].data, tokens->lists[i].count);
        rf_write_text(out, "]");
    }
    rf_write_text(out, "}");
}

static const struct reply_form completion_form = {.whole = reply_whole,
                                                  .id = "cmpl",
                                                  .object = "text_completion",
                                                  .piece_object = "text_completion",
                                                  .say = completion_say,
                                                  .add_token = completion_add_token,
                                                  .write_tokens = completion_write_tokens};

const struct endpoint endpoint_completions = {"POST", "/v1/completions", .most_body = ENDPOINT_BODY,
                                              .take = completion_take, .form = &completion_form};
