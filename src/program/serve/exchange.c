/* A request between the batch, which calls back from the computing thread, and its reply. A request
 * has one or several choices; each is an answer of the batch. The callbacks for events and answers
 * take the server's lock. */
#define _POSIX_C_SOURCE 200809L
#include "serve/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "platform/clock.h"
#include "platform/memory.h"
#include "serve/log.h"
#include "serve/send.h"

static const struct rf_allocator *const allocator = &rf_system_allocator;

/* One of the answers of a request, or one of its vectors. */
struct choice {
    struct exchange *exchange;
    int32_t index;
    int64_t answer;                /* number in the batch; 0: the answer has ended, or not begun */
    struct rf_bytes text, thought; /* not sent yet */
    struct reply_tokens tokens;    /* not sent yet, where log-probabilities are wanted */
    size_t n_prompt;               /* tokens of the prompt that were added to them */
    json_t *calls;                 /* calls of tools not sent yet */
    int32_t n_calls;               /* calls that were sent */
    int64_t n_thought;             /* tokens of thoughts */
    struct thoughts thoughts;
    int divides;      /* the answer may begin with thoughts */
    const char *stop; /* the stop text that ended it, or NULL */
    struct tool_reader tools;
    int has_enough; /* the answer was ended because it has its calls */
    float *vector;
    int has_begun; /* a piece was sent */
    int32_t level; /* of the last token, as in riffle_event */
    riffle_finish finish;
    double last_token;
};

static const struct prompt *choice_prompt(const struct choice *choice)
{
    const struct question *question = &choice->exchange->question;
    return &question->prompts[choice->index / question->n];
}

static void choice_on_part(void *user, enum thought_part part, const char *text, size_t n);
static int choice_take_reply(struct choice *choice, const char *text, size_t bytes, int is_last);

/* An answer may begin with thoughts, unless a grammar limits it; the prompt may have opened them.
 */
static void choice_begin_thoughts(struct choice *choice)
{
    enum { TAIL = 64 };
    const struct answerer *of = &choice->exchange->served->answerer;
    const struct prompt *prompt = choice_prompt(choice);
    size_t tail = prompt->n < TAIL ? prompt->n : TAIL;
    char text[1024];
    int64_t bytes = riffle_detokenize(of->model, prompt->tokens + prompt->n - tail, tail,
                                      RIFFLE_DETOKENIZE_SPECIAL, text, sizeof text);
    if (bytes < 0 || bytes > (int64_t)sizeof text) bytes = 0;
    rf_thoughts_begin(&choice->thoughts, of->thoughts, text, (size_t)bytes, choice_on_part, choice);
    choice->divides = 1;
}

static int refuse_reply(struct refusal *refusal)
{
    return refuse(refusal, 400, "reply_too_long",
                  "the log-probabilities have more than %d MiB; ask for fewer prompts or "
                  "top_logprobs",
                  REPLY_BYTES >> 20);
}

/* Keeps to the limit of all log-probabilities of the reply. */
static void choice_check_tokens(struct choice *choice, size_t before, int code)
{
    struct exchange *exchange = choice->exchange;
    exchange->token_bytes += choice->tokens.total - before;
    if (exchange->refusal.status) return;
    if (code)
        refuse_memory(&exchange->refusal);
    else if (exchange->token_bytes > REPLY_BYTES && !exchange->question.streams)
        refuse_reply(&exchange->refusal);
}

/* Another token of the prompt; NULL: the first one. */
static void choice_add_prompt_token(struct choice *choice, const riffle_logprobs *logprobs)
{
    const struct exchange *exchange = choice->exchange;
    size_t before = choice->tokens.total;
    if (exchange->refusal.status) return;
    int code =
        reply_add_prompt_token(exchange->reply.form, &choice->tokens, exchange->served->model.model,
                               choice_prompt(choice)->tokens, ++choice->n_prompt, logprobs);
    choice_check_tokens(choice, before, code);
}

/* The prompt's text comes first. */
static int choice_echo(struct choice *choice, struct refusal *refusal)
{
    const struct prompt *prompt = choice_prompt(choice);
    const riffle_model *model = choice->exchange->served->model.model;
    struct rf_error error;
    if (choice->exchange->question.wants_logprobs) choice_add_prompt_token(choice, NULL);
    int64_t n =
        riffle_detokenize(model, prompt->tokens, prompt->n, RIFFLE_DETOKENIZE_START, NULL, 0);
    if (n == 0) return 0;
    char *text = n > 0 ? malloc((size_t)n) : NULL;
    if (!text) return refuse_memory(refusal);
    riffle_detokenize(model, prompt->tokens, prompt->n, RIFFLE_DETOKENIZE_START, text, (size_t)n);
    json_t *valid = json_stringn(text, (size_t)n);
    int code = 0;
    if (!valid)
        code = refuse(refusal, 400, "invalid_value", "the prompt is not UTF-8, so it has no echo");
    else if (rf_bytes_append(allocator, &choice->text, text, (size_t)n, &error))
        code = refuse_memory(refusal);
    json_decref(valid);
    free(text);
    return code;
}

static int choice_begin_text(struct choice *choice)
{
    const struct question *question = &choice->exchange->question;
    if (question->opening &&
        choice_take_reply(choice, question->opening, strlen(question->opening), 0))
        return refuse_memory(&choice->exchange->refusal);
    if (question->has_thoughts) choice_begin_thoughts(choice);
    return question->echoes ? choice_echo(choice, &choice->exchange->refusal) : 0;
}

/* Refuses log-probabilities that are too long by the fewest bytes that they can have. */
static int exchange_check_size(const struct question *question, struct refusal *refusal)
{
    enum { TOKEN_BYTES = 24, TOP_BYTES = 12 };
    size_t tokens = 0;
    if (!question->wants_logprobs || !question->echoes || question->streams) return 0;
    for (int32_t i = 0; i < question->n_prompts; i++) tokens += question->prompts[i].n;
    size_t bytes =
        tokens * (size_t)question->n * (TOKEN_BYTES + TOP_BYTES * (size_t)question->top_logprobs);
    return bytes > REPLY_BYTES ? refuse_reply(refusal) : 0;
}

int exchange_begin(struct exchange *exchange)
{
    const struct question *question = &exchange->question;
    int32_t n = question->n_prompts * question->n;
    if (exchange_check_size(question, &exchange->refusal)) return -1;
    exchange->choices = calloc((size_t)n, sizeof *exchange->choices);
    if (!exchange->choices) return refuse_memory(&exchange->refusal);
    exchange->n_choices = n;
    for (int32_t i = 0; i < n; i++) {
        struct choice *choice = &exchange->choices[i];
        choice->exchange = exchange;
        choice->index = i;
        if (question->tools) choice->calls = json_array();
        rf_tool_reader_begin(&choice->tools, question->tool_form, question->tools);
        choice->tools.most = question->most_calls;
        if (choice_begin_text(choice)) return -1;
    }
    return 0;
}

void exchange_free(struct exchange *exchange)
{
    for (int32_t i = 0; i < exchange->n_choices; i++) {
        struct choice *choice = &exchange->choices[i];
        rf_bytes_free(allocator, &choice->text);
        rf_bytes_free(allocator, &choice->thought);
        rf_thoughts_free(&choice->thoughts);
        rf_tool_reader_free(&choice->tools);
        reply_tokens_free(&choice->tokens);
        json_decref(choice->calls);
        free(choice->vector);
    }
    free(exchange->choices);
    rf_bytes_free(allocator, &exchange->blocks.text);
    json_decref(exchange->blocks.items);
    question_free(&exchange->question);
    if (exchange->served) models_release(exchange->served);
    free(exchange->rest);
    free(exchange);
}

void exchange_release(struct exchange *exchange)
{
    struct server *server = exchange->server;
    struct exchange **at = &server->exchanges;
    while (*at != exchange) at = &(*at)->next;
    *at = exchange->next;
    if (exchange->state == EXCHANGE_ASKED)
        server->n_asked--;
    else
        server->n_waiting--;
    exchange->state = EXCHANGE_ANSWERED;
    if (exchange->is_gone) {
        exchange_free(exchange);
        return;
    }
    if (exchange->has_begun)
        http_stream_end(exchange->request);
    else if (exchange->refusal.status)
        send_refusal(exchange, &exchange->refusal);
}

/* Sends an event and frees it. A failure becomes the refusal. */
static void exchange_put_event(struct exchange *exchange, char *event)
{
    if (!event) refuse_memory(&exchange->refusal);
    if (event && !exchange->is_gone) {
        if (!exchange->has_begun) send_stream(exchange);
        http_stream_add(exchange->request, event, strlen(event));
        exchange->has_begun = 1;
    }
    free(event);
}

/* ---- what an answer says ---- */

static struct reply_part choice_part(const struct choice *choice, const char *finish)
{
    return (struct reply_part){.index = choice->index,
                               .text = choice->text.data,
                               .bytes = choice->text.count,
                               .thought = choice->thought.data,
                               .thought_bytes = choice->thought.count,
                               .finish = finish,
                               .stop = choice->stop,
                               .tokens = choice->exchange->question.wants_logprobs ? &choice->tokens
                                                                                   : NULL,
                               .calls = choice->calls,
                               .n_calls = choice->n_calls,
                               .vector = choice->vector,
                               .width = choice->exchange->width,
                               .level = choice->level};
}

/* The reply's text, and the calls in it, that are known with this piece. */
static int choice_take_reply(struct choice *choice, const char *text, size_t bytes, int is_last)
{
    struct rf_error error;
    if (choice->calls)
        return rf_tool_reader_push(&choice->tools, text, bytes, is_last, &choice->text,
                                   choice->calls, &error);
    return bytes ? rf_bytes_append(allocator, &choice->text, text, bytes, &error) : 0;
}

/* Takes thoughts and the reply; markers are dropped. */
static void choice_on_part(void *user, enum thought_part part, const char *text, size_t n)
{
    struct choice *choice = user;
    struct rf_error error;
    int code = part == PART_REPLY ? choice_take_reply(choice, text, n, 0)
               : part == PART_THOUGHT
                   ? rf_bytes_append(allocator, &choice->thought, text, n, &error)
                   : 0;
    if (code) refuse_memory(&choice->exchange->refusal);
}

static int choice_take_text(struct choice *choice, const char *text, size_t n)
{
    struct rf_error error;
    return choice->divides ? rf_thoughts_push(&choice->thoughts, text, n, &error)
                           : choice_take_reply(choice, text, n, 0);
}

static int choice_end_text(struct choice *choice)
{
    if (choice->divides) rf_thoughts_end(&choice->thoughts);
    return choice_take_reply(choice, NULL, 0, 1);
}

/* Takes a token's text. The text of a control token counts only if it marks a thought or a call. */
static int choice_take_token(struct choice *choice, const riffle_event *event)
{
    char control[THOUGHTS_CONTROL];
    if (event->text_bytes) return choice_take_text(choice, event->text, event->text_bytes);
    if (event->token < 0 || (!choice->divides && !choice->calls)) return 0;
    rf_thoughts_control(choice->exchange->served->model.model, event->token, control);
    int is_wanted =
        control[0] && ((choice->divides && rf_thoughts_want(&choice->thoughts, control)) ||
                       (choice->calls && rf_tool_reader_wants(&choice->tools, control)));
    return is_wanted ? choice_take_text(choice, control, strlen(control)) : 0;
}

/* 1 if there is something to send. */
static int choice_has_part(const struct choice *choice)
{
    return choice->text.count || choice->thought.count || json_array_size(choice->calls);
}

static void choice_send_opening(struct choice *choice)
{
    const struct reply *reply = &choice->exchange->reply;
    struct reply_part opening = {.index = choice->index, .is_opening = 1};
    if (choice->has_begun || !reply->form->has_opening) return;
    exchange_put_event(choice->exchange, reply_piece(reply, &opening));
}

static void choice_send_part(struct choice *choice, const char *finish)
{
    struct reply_part part = choice_part(choice, finish);
    choice_send_opening(choice);
    exchange_put_event(choice->exchange, reply_piece(&choice->exchange->reply, &part));
    choice->has_begun = 1;
    choice->text.count = choice->thought.count = 0;
    choice->n_calls += (int32_t)json_array_size(choice->calls);
    json_array_clear(choice->calls);
    reply_tokens_clear(&choice->tokens);
}

static void choice_count_time(struct choice *choice)
{
    struct metrics *metrics = &choice->exchange->served->of->metrics;
    double now = rf_clock_seconds();
    if (choice->last_token > 0.0) histogram_add(&metrics->between_tokens, now - choice->last_token);
    choice->last_token = now;
}

static int choice_on_event(void *user, const riffle_event *event)
{
    struct choice *choice = user;
    struct exchange *exchange = choice->exchange;
    struct server *server = exchange->server;
    rf_lock_take(&server->lock);
    if (event->token >= 0) {
        choice_count_time(choice);
        choice->level = event->level;
    }
    if (!exchange->question.only_echoes && choice_take_token(choice, event))
        refuse_memory(&exchange->refusal);
    choice->n_thought += event->token >= 0 && rf_thoughts_go_on(&choice->thoughts);
    if (exchange->question.streams && choice_has_part(choice)) choice_send_part(choice, NULL);
    choice->has_enough = choice->tools.most && choice->tools.n_calls >= choice->tools.most;
    int is_over = exchange->is_gone || exchange->refusal.status || choice->has_enough;
    rf_lock_release(&server->lock);
    return is_over;
}

static void choice_on_logprobs(void *user, const riffle_logprobs *logprobs)
{
    struct choice *choice = user;
    const struct exchange *exchange = choice->exchange;
    size_t before = choice->tokens.total;
    if (exchange->question.only_echoes || exchange->refusal.status) return;
    int code = reply_add_token(exchange->reply.form, &choice->tokens, exchange->served->model.model,
                               logprobs);
    choice_check_tokens(choice, before, code);
}

static void choice_on_prompt_logprobs(void *user, const riffle_logprobs *logprobs)
{
    choice_add_prompt_token(user, logprobs);
}

static void choice_on_embedding(void *user, const float *vector, int32_t n)
{
    struct choice *choice = user;
    choice->vector = malloc((size_t)n * sizeof *vector);
    if (choice->vector) memcpy(choice->vector, vector, (size_t)n * sizeof *vector);
    choice->exchange->width = n;
}

/* ---- how it ends ---- */

static void choice_judge(struct choice *choice, const riffle_answer *answer)
{
    struct refusal *refusal = &choice->exchange->refusal;
    int code = answer->code;
    if (refusal->status) return;
    if (code < 0)
        refuse(refusal,
               code == RIFFLE_ERR_ARGUMENT  ? 400
               : code == RIFFLE_ERR_CONTEXT ? 400
               : code == RIFFLE_ERR_MEMORY  ? 503
                                            : 500,
               NULL, "%s", answer->sentence);
    else if (answer->finish == RIFFLE_FINISH_CANCELLED && !choice->has_enough)
        refuse(refusal, 503, "stopped", "the server was stopped within the answer");
    else if (choice_end_text(choice))
        refuse_memory(refusal);
    else if (choice->exchange->question.wants_vector && !choice->vector)
        refuse_memory(refusal);
}

static const char *choice_finish(const struct choice *choice)
{
    return choice->tools.n_calls ? "tool_calls" : reply_finish(choice->finish);
}

static void exchange_send_whole(struct exchange *exchange)
{
    struct reply_part *parts = calloc((size_t)exchange->n_choices, sizeof *parts);
    for (int32_t i = 0; parts && i < exchange->n_choices; i++)
        parts[i] = choice_part(&exchange->choices[i], choice_finish(&exchange->choices[i]));
    char *text = parts ? exchange->reply.form->whole(&exchange->reply, parts, exchange->n_choices,
                                                     &exchange->usage)
                       : NULL;
    free(parts);
    if (!text)
        refuse_memory(&exchange->refusal);
    else if (!exchange->is_gone)
        send_text(exchange, 200, json_media, text);
    else
        free(text);
}

/* All choices have ended. */
static void exchange_finish(struct exchange *exchange)
{
    const struct question *question = &exchange->question;
    if (exchange->refusal.status && exchange->has_begun) {
        exchange_put_event(
            exchange, reply_refusal(exchange->reply.form, &exchange->refusal, &exchange->reply));
    } else if (!exchange->refusal.status && question->streams) {
        exchange_put_event(exchange, reply_end(&exchange->reply, &exchange->usage));
    } else if (!exchange->refusal.status) {
        exchange_send_whole(exchange);
    }
    exchange_release(exchange);
}

/* A prompt counts once, with the first of its answers. */
static void choice_count_tokens(struct choice *choice, const riffle_answer *answer)
{
    struct reply_usage *usage = &choice->exchange->usage;
    if (choice->index % choice->exchange->question.n == 0) {
        usage->prompt += answer->prompt_tokens;
        usage->kept += answer->kept_tokens;
    }
    if (!choice->exchange->question.only_echoes) usage->generated += answer->generated_tokens;
    usage->thought += choice->n_thought;
    reply_count_seconds(usage, answer);
    usage->drafted += (int64_t)answer->drafted;
    usage->accepted += (int64_t)answer->accepted;
}

/* The question's own text, as the batch's lives no longer than its answer. */
static const char *choice_stop(const struct choice *choice, const char *stop)
{
    const struct question *question = &choice->exchange->question;
    for (size_t i = 0; stop && i < question->generate.n_stop; i++)
        if (strcmp(question->stops[i], stop) == 0) return question->stops[i];
    return NULL;
}

static void choice_on_answer(void *user, const riffle_answer *answer)
{
    struct choice *choice = user;
    struct exchange *exchange = choice->exchange;
    struct server *server = exchange->server;
    riffle_answer told = *answer;
    rf_lock_take(&server->lock);
    choice->answer = 0;
    choice->finish = answer->finish;
    choice->stop = choice_stop(choice, answer->stop);
    choice_judge(choice, answer);
    if (choice->has_enough && told.finish == RIFFLE_FINISH_CANCELLED)
        told.finish = RIFFLE_FINISH_STOP;
    choice_count_tokens(choice, answer);
    metrics_answer(&exchange->served->of->metrics, &told);
    log_answer(&told, exchange->served->answerer.name);
    if (exchange->question.streams && !exchange->refusal.status)
        choice_send_part(choice, choice_finish(choice));
    if (--exchange->n_left == 0) exchange_finish(exchange);
    rf_lock_release(&server->lock);
}

/* ---- asking ---- */

static riffle_request choice_request(struct choice *choice)
{
    struct question *question = &choice->exchange->question;
    const struct prompt *prompt = choice_prompt(choice);
    riffle_request request;
    riffle_request_init(&request, sizeof request);
    request.prompt = prompt->tokens;
    request.n_prompt = prompt->n;
    request.sampling = &question->sampling;
    request.generate = &question->generate;
    request.logit_bias = question->bias;
    request.n_logit_bias = question->n_bias;
    if (question->wants_logprobs) request.on_logprobs = choice_on_logprobs;
    if (question->wants_logprobs && question->echoes)
        request.on_prompt_logprobs = choice_on_prompt_logprobs;
    request.top_logprobs = question->top_logprobs;
    if (question->wants_vector) request.on_embedding = choice_on_embedding;
    request.pooling = question->pooling;
    request.on_event = choice_on_event;
    request.on_answer = choice_on_answer;
    request.user = choice;
    return request;
}

void exchange_ask(struct exchange *exchange)
{
    struct server *server = exchange->server;
    uint64_t seed = exchange->question.sampling.seed;
    exchange->state = EXCHANGE_ASKED;
    server->n_waiting--;
    server->n_asked++;
    for (int32_t i = 0; i < exchange->n_choices; i++) {
        struct choice *choice = &exchange->choices[i];
        exchange->question.sampling.seed = seed + (uint64_t)(i % exchange->question.n);
        riffle_request request = choice_request(choice);
        int64_t answer = riffle_batch_add(exchange->served->batch, &request);
        if (answer < 0) {
            refuse_last(&exchange->refusal, answer);
            exchange_cancel(exchange);
            break;
        }
        choice->answer = answer;
        exchange->n_left++;
    }
    if (exchange->n_left == 0) exchange_finish(exchange);
}

void exchange_tell_count(struct exchange *exchange)
{
    for (int32_t i = 0; i < exchange->question.n_prompts; i++)
        exchange->usage.prompt += (int64_t)exchange->question.prompts[i].n;
    exchange_finish(exchange);
}

void exchange_cancel(struct exchange *exchange)
{
    for (int32_t i = 0; i < exchange->n_choices; i++)
        if (exchange->choices[i].answer)
            riffle_batch_cancel(exchange->served->batch, exchange->choices[i].answer);
}
