/* POST /v1/completions: the continuation of a text, or the text for a gap in it. A gap needs a
 * model with tokens for it. */
#include <string.h>

#include "requests/members.h"
#include "requests/prompts.h"
#include "requests/tool_choice.h"
#include "serve/endpoint.h"

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
    if (question_take_answer(body, 0, question, refusal)) return -1;
    if (completion_take_logprobs(body, question, refusal)) return -1;
    if (question_take_bias(body, question, refusal)) return -1;
    if (tool_choice_take(body, of, 0, question, refusal)) return -1;
    if (completion_take_prompt(body, of->model, question, refusal)) return -1;
    return question_take_format(body, question, refusal);
}

/* ---- the reply ---- */

static json_t *completion_say(const struct reply_part *part, int is_piece)
{
    (void)is_piece;
    return json_pack("{s:o}", "text", reply_text(part->text, part->bytes));
}

/* Lists beside each other. */
static json_t *completion_logprobs(const struct reply_part *part)
{
    json_t *texts = json_array(), *numbers = json_array(), *tops = json_array(),
           *offsets = json_array();
    size_t offset = part->offset;
    for (size_t i = 0; i < json_array_size(part->tokens); i++) {
        const json_t *entry = json_array_get(part->tokens, i),
                     *likely = json_object_get(entry, "top_logprobs");
        json_t *top = json_is_null(likely) ? json_null() : json_object();
        for (size_t k = 0; k < json_array_size(likely); k++) {
            const json_t *one = json_array_get(likely, k);
            const char *name = json_string_value(json_object_get(one, "token"));
            if (!json_object_get(top, name))
                json_object_set(top, name, json_object_get(one, "logprob"));
        }
        json_array_append(texts, json_object_get(entry, "token"));
        json_array_append(numbers, json_object_get(entry, "logprob"));
        json_array_append_new(tops, top);
        json_array_append_new(offsets, json_integer((json_int_t)offset));
        offset += reply_token_characters(entry);
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", texts, "token_logprobs", numbers,
                     "top_logprobs", tops, "text_offset", offsets);
}

static const struct reply_form completion_form = {.whole = reply_whole,
                                                  .id = "cmpl",
                                                  .object = "text_completion",
                                                  .piece_object = "text_completion",
                                                  .say = completion_say,
                                                  .logprobs = completion_logprobs};

const struct endpoint endpoint_completions = {"POST", "/v1/completions", .most_body = ENDPOINT_BODY,
                                              .take = completion_take, .form = &completion_form};
