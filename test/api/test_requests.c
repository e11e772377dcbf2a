/* Results of batches beside texts: log-probabilities, vectors, and the effect of biases of logits.
 * Each is compared with values computed from riffle_logits, and has the same bits with any chain
 * and company.
 *
 *     test_requests [EVERY]     only every so-manieth request, for slow devices */
#include <math.h>

#include "api/answers.h"
#include "api/handles.h"
#include "riffle_experimental.h"

enum { N_ASKED = 10, MOST_TOKENS = 24, N_TOP = 5, CTX = 512 };

struct told {
    riffle_logprob chosen, top[N_TOP];
    int32_t n_top;
};

struct asked {
    struct prompt prompt;
    riffle_sampling sampling;
    riffle_generate_options options;
    riffle_logit_bias bias[2];
    size_t n_bias;
    struct told told[MOST_TOKENS];
    int32_t tokens[MOST_TOKENS];
    int32_t n_told, n;
    int ended, code;
    float vector[256];
    int32_t width;
};

static void keep(struct told *told, const riffle_logprobs *logprobs)
{
    memset(told, 0, sizeof *told);
    told->chosen = logprobs->chosen;
    told->n_top = logprobs->n_top;
    for (int32_t i = 0; i < logprobs->n_top; i++) told->top[i] = logprobs->top[i];
}

static void on_logprobs(void *user, const riffle_logprobs *logprobs)
{
    struct asked *asked = user;
    CHECK_INT(asked->n_told, asked->n);
    CHECK(asked->n_told < MOST_TOKENS && logprobs->n_top <= N_TOP);
    keep(&asked->told[asked->n_told++], logprobs);
}

static int on_event(void *user, const riffle_event *event)
{
    struct asked *asked = user;
    if (event->token >= 0) {
        CHECK_INT(asked->n_told, asked->n + 1);
        CHECK_INT(asked->told[asked->n].chosen.token, event->token);
        asked->tokens[asked->n++] = event->token;
    }
    return 0;
}

static void on_embedding(void *user, const float *vector, int32_t n)
{
    struct asked *asked = user;
    asked->width = n;
    memcpy(asked->vector, vector, (size_t)n * sizeof *vector);
}

static void on_answer(void *user, const riffle_answer *answer)
{
    struct asked *asked = user;
    asked->ended++;
    asked->code = answer->code;
}

static riffle_batch *open_batch(riffle_model *model, const char *chain, int32_t answers)
{
    riffle_session_options session;
    riffle_batch_options options;
    riffle_session_options_init(&session, sizeof session);
    riffle_batch_options_init(&options, sizeof options);
    session.n_ctx = CTX;
    session.chain = chain;
    options.session = &session;
    options.answers = answers;
    riffle_batch *batch = NULL;
    CHECK_OK(riffle_batch_open(&batch, model, &options));
    if (!batch) exit(1);
    return batch;
}

static riffle_request request_of(struct asked *asked)
{
    riffle_request request;
    riffle_request_init(&request, sizeof request);
    request.prompt = asked->prompt.tokens;
    request.n_prompt = (size_t)asked->prompt.n;
    request.sampling = &asked->sampling;
    request.generate = &asked->options;
    request.logit_bias = asked->bias;
    request.n_logit_bias = asked->n_bias;
    request.on_logprobs = on_logprobs;
    request.top_logprobs = N_TOP;
    request.on_event = on_event;
    request.on_answer = on_answer;
    request.user = asked;
    asked->n = asked->n_told = asked->ended = asked->width = 0;
    return request;
}

static void finish_all(riffle_batch *batch)
{
    int32_t left, steps = 0;
    while ((left = riffle_batch_step(batch)) > 0 && ++steps < 100000) continue;
    CHECK_INT(left, 0);
}

/* The log-probabilities of a token's place, and of greedy answers the token, from the logits. */
static void check_place(const struct asked *asked, int32_t i, const float *logits, int32_t n_vocab)
{
    const struct told *told = &asked->told[i];
    double sum = 0.0;
    int32_t best = 0;
    for (int32_t t = 0; t < n_vocab; t++) {
        sum += exp((double)logits[t]);
        float biased = logits[t], most = logits[best];
        for (size_t b = 0; b < asked->n_bias; b++) {
            if (asked->bias[b].token == t) biased += asked->bias[b].bias;
            if (asked->bias[b].token == best) most += asked->bias[b].bias;
        }
        if (biased > most) best = t;
    }
    if (asked->sampling.temperature == 0.0f && !asked->options.grammar)
        CHECK_INT(asked->tokens[i], best);
    /* F32 logits up to some tens: their rounding, and the result's. */
    CHECK(fabs((double)told->chosen.logprob - ((double)logits[asked->tokens[i]] - log(sum))) <
          1e-4);
    CHECK_INT(told->n_top, N_TOP);
    for (int32_t k = 0; k < told->n_top; k++) {
        int32_t before = 0;
        float logit = logits[told->top[k].token];
        for (int32_t t = 0; t < n_vocab; t++)
            before += logits[t] > logit || (logits[t] == logit && t < told->top[k].token);
        CHECK_INT(before, k);
        CHECK(fabs((double)told->top[k].logprob - ((double)logit - log(sum))) < 1e-4);
    }
}

static void check_by_hand(riffle_model *model, const struct asked *asked)
{
    enum { N_VOCAB = 512 };
    static float logits[N_VOCAB];
    riffle_session_options options;
    riffle_session *session;
    riffle_session_options_init(&options, sizeof options);
    options.chain = "none";
    options.n_ctx = CTX;
    CHECK_OK(riffle_session_open(&session, model, &options));
    begin(session, &asked->prompt);
    for (int32_t i = 0; i < asked->n; i++) {
        CHECK_OK(riffle_logits(session, logits, N_VOCAB));
        check_place(asked, i, logits, N_VOCAB);
        CHECK_OK(riffle_prefill(session, &asked->tokens[i], 1));
    }
    riffle_session_close(session);
}

static void make_asked(const riffle_model *model, riffle_grammar *grammar, struct asked *list)
{
    struct prompt prompts[N_PROMPTS];
    make_prompts(model, prompts);
    for (int i = 0; i < N_ASKED; i++) {
        struct asked *asked = &list[i];
        *asked = (struct asked){.prompt = prompts[i % N_PROMPTS]};
        riffle_sampling_init(&asked->sampling, sizeof asked->sampling);
        asked->sampling.temperature = i % 3 == 2 ? 0.9f : 0.0f;
        asked->sampling.seed = (uint64_t)i;
        riffle_generate_options_init(&asked->options, sizeof asked->options);
        asked->options.max_tokens = MOST_TOKENS - i;
        asked->options.ignore_eos = i != 5;
        if (i == 5) asked->options.grammar = grammar;
    }
}

/* Forbids the first token of each second answer, and prefers another one. */
static void add_biases(struct asked *list, int every)
{
    for (int i = 0; i < N_ASKED; i += 2 * every) {
        struct asked *asked = &list[i];
        if (asked->options.grammar) continue;
        asked->bias[0] = (riffle_logit_bias){asked->tokens[0], -100.0f};
        asked->bias[1] = (riffle_logit_bias){300 + i, 3.0f};
        asked->n_bias = 2;
    }
}

static void check_chains(riffle_model *model, struct asked *list, int every)
{
    static const char *const chains[] = {"none", "ngram", "ngram > mxfp4"};
    static struct asked first[N_ASKED];
    for (size_t c = 0; c < sizeof chains / sizeof *chains; c++) {
        riffle_batch *batch = open_batch(model, chains[c], c ? 8 : 1);
        for (int i = 0; i < N_ASKED; i += every) {
            riffle_request request = request_of(&list[i]);
            CHECK_OK(riffle_batch_add(batch, &request));
        }
        finish_all(batch);
        for (int i = 0; i < N_ASKED; i += every) {
            struct asked *asked = &list[i];
            CHECK_INT(asked->ended, 1);
            CHECK_INT(asked->code, 0);
            CHECK(asked->n > 0);
            CHECK_INT(asked->n, asked->n_told);
            if (c == 0) check_by_hand(model, asked);
            if (c == 0) first[i] = *asked;
            CHECK_INT(asked->n, first[i].n);
            CHECK(memcmp(asked->tokens, first[i].tokens,
                         sizeof *asked->tokens * (size_t)asked->n) == 0);
            CHECK(memcmp(asked->told, first[i].told, sizeof *asked->told * (size_t)asked->n) == 0);
        }
        riffle_batch_close(batch);
    }
}

/* A text whose tokens' log-probabilities are wanted. */
struct scored {
    struct told told[CTX];
    int32_t tokens[CTX], n, n_told, n_before; /* n_before: tokens of the prompt */
};

static void on_prompt_logprobs(void *user, const riffle_logprobs *logprobs)
{
    struct scored *scored = user;
    CHECK(scored->n_told < scored->n - 1);
    keep(&scored->told[scored->n_told++], logprobs);
}

static void score(riffle_batch *batch, struct scored *scored)
{
    riffle_request request;
    riffle_generate_options options;
    riffle_request_init(&request, sizeof request);
    riffle_generate_options_init(&options, sizeof options);
    options.max_tokens = 1;
    request.prompt = scored->tokens;
    request.n_prompt = (size_t)scored->n;
    request.generate = &options;
    request.top_logprobs = N_TOP;
    request.on_prompt_logprobs = on_prompt_logprobs;
    request.user = scored;
    scored->n_told = 0;
    CHECK_OK(riffle_batch_add(batch, &request));
}

/* Log-probabilities of the prompt are the ones of riffle_score. For the answer that follows it they
 * are, to the bit, the ones told when it was made. */
static void check_scored(riffle_model *model, const struct scored *scored,
                         const struct asked *asked)
{
    static double wanted[CTX];
    riffle_session_options options;
    riffle_session *session;
    riffle_session_options_init(&options, sizeof options);
    options.chain = "none";
    options.n_ctx = CTX;
    CHECK_OK(riffle_session_open(&session, model, &options));
    CHECK_OK(riffle_score(session, scored->tokens, (size_t)scored->n, 1, wanted));
    CHECK_INT(scored->n_told, scored->n - 1);
    for (int32_t i = 0; i < scored->n_told; i++) {
        CHECK_INT(scored->told[i].chosen.token, scored->tokens[i + 1]);
        CHECK_INT(scored->told[i].n_top, N_TOP);
        CHECK(fabs((double)scored->told[i].chosen.logprob - wanted[i]) < 1e-4);
    }
    CHECK(memcmp(scored->told + scored->n_before - 1, asked->told,
                 sizeof *asked->told * (size_t)asked->n) == 0);
    riffle_session_close(session);
}

/* Texts of prompts with their answers, also twice, so that the second begins as a kept one, and
 * beside answers. */
static void check_prompts(riffle_model *model, struct asked *list, int every)
{
    static const char *const chains[] = {"none", "ngram > mxfp4"};
    static struct scored scored[N_ASKED];
    static struct asked beside;
    for (size_t c = 0; c < sizeof chains / sizeof *chains; c++) {
        riffle_batch *batch = open_batch(model, chains[c], c ? 8 : 1);
        for (int i = 0; i < N_ASKED; i += every) {
            const struct asked *asked = &list[i];
            scored[i].n_before = asked->prompt.n;
            scored[i].n = asked->prompt.n + asked->n;
            memcpy(scored[i].tokens, asked->prompt.tokens,
                   sizeof *asked->tokens * (size_t)asked->prompt.n);
            memcpy(scored[i].tokens + asked->prompt.n, asked->tokens,
                   sizeof *asked->tokens * (size_t)asked->n);
            score(batch, &scored[i]);
        }
        beside = list[0];
        riffle_request request = request_of(&beside);
        CHECK_OK(riffle_batch_add(batch, &request));
        finish_all(batch);
        CHECK(beside.n == list[0].n &&
              memcmp(beside.told, list[0].told, sizeof *beside.told * (size_t)beside.n) == 0);
        for (int i = 0; i < N_ASKED; i += every) check_scored(model, &scored[i], &list[i]);
        score(batch, &scored[0]);
        finish_all(batch);
        check_scored(model, &scored[0], &list[0]);
        riffle_batch_close(batch);
    }
}

static void embed(riffle_batch *batch, struct asked *asked, riffle_pooling pooling)
{
    riffle_request request = request_of(asked);
    request.on_logprobs = NULL;
    request.on_embedding = on_embedding;
    request.pooling = pooling;
    CHECK_OK(riffle_batch_add(batch, &request));
}

/* The last row's vector, times the output head, is the logits up to a factor. */
static void check_last_row(riffle_model *model, const struct asked *asked)
{
    enum { N_VOCAB = 512, WIDTH = 64 };
    static float head[N_VOCAB * WIDTH], logits[N_VOCAB];
    const struct rf_tensor *tensor = rf_source_tensor(model->engine->source, "output.weight");
    if (!tensor) tensor = rf_source_tensor(model->engine->source, "token_embd.weight");
    rf_dequantize_f32(tensor->dtype, tensor->data, head, N_VOCAB * WIDTH);
    riffle_session *session;
    CHECK_OK(riffle_session_open(&session, model, NULL));
    begin(session, &asked->prompt);
    CHECK_OK(riffle_logits(session, logits, N_VOCAB));
    riffle_session_close(session);
    double ab = 0.0, aa = 0.0, bb = 0.0;
    for (int t = 0; t < N_VOCAB; t++) {
        double a = (double)logits[t], b = 0.0;
        for (int i = 0; i < WIDTH; i++) b += (double)head[t * WIDTH + i] * (double)asked->vector[i];
        ab += a * b;
        aa += a * a;
        bb += b * b;
    }
    CHECK(ab / sqrt(aa * bb) > 0.9999); /* the head computes in BF16 */
}

static void check_vectors(riffle_model *model, struct asked *list)
{
    riffle_batch *alone = open_batch(model, "none", 4), *busy = open_batch(model, "none", 4);
    struct asked *asked = &list[4], *beside = &list[1], again;
    asked->prompt.n = 300; /* more than a pass has rows */
    for (int i = 0; i < 300; i++) asked->prompt.tokens[i] = 300 + i * i % 211;
    for (int pooling = RIFFLE_POOL_MEAN; pooling <= RIFFLE_POOL_LAST; pooling++) {
        embed(alone, asked, pooling);
        finish_all(alone);
        CHECK_INT(asked->ended, 1);
        CHECK_INT(asked->code, 0);
        CHECK_INT(asked->width, 64);
        double squares = 0.0;
        for (int i = 0; i < asked->width; i++)
            squares += (double)asked->vector[i] * (double)asked->vector[i];
        CHECK(fabs(squares - 1.0) < 1e-5);
        if (pooling == RIFFLE_POOL_LAST) check_last_row(model, asked);
        again = *asked;
        riffle_request request = request_of(beside);
        CHECK_OK(riffle_batch_add(busy, &request));
        CHECK_OK(riffle_batch_step(busy));
        embed(busy, &again, pooling);
        finish_all(busy);
        CHECK_INT(beside->ended + again.ended, 2);
        CHECK(memcmp(again.vector, asked->vector, sizeof again.vector) == 0);
    }
    riffle_batch_close(alone);
    /* One is cancelled, one has a token that does not exist, one is still read at the end. */
    embed(busy, asked, RIFFLE_POOL_MEAN);
    riffle_request request = request_of(beside);
    request.on_embedding = on_embedding;
    int64_t id = CHECK_OK(riffle_batch_add(busy, &request));
    CHECK_OK(riffle_batch_cancel(busy, id));
    again.prompt.tokens[7] = 1 << 20;
    embed(busy, &again, RIFFLE_POOL_MEAN);
    finish_all(busy);
    CHECK_INT(asked->width + beside->width, 64);
    CHECK_INT(beside->ended, 1);
    CHECK_INT(again.code, RIFFLE_ERR_ARGUMENT);
    embed(busy, asked, RIFFLE_POOL_MEAN);
    CHECK_OK(riffle_batch_step(busy));
    riffle_batch_close(busy);
}

static void check_refusals(riffle_model *model, struct asked *asked)
{
    riffle_batch *batch = open_batch(model, "none", 2);
    riffle_request request = request_of(asked);
    riffle_logit_bias bias = {512, 1.0f};
    request.logit_bias = &bias;
    request.n_logit_bias = 1;
    CHECK_FAILS(riffle_batch_add(batch, &request), RIFFLE_ERR_ARGUMENT);
    bias = (riffle_logit_bias){5, 101.0f};
    CHECK_FAILS(riffle_batch_add(batch, &request), RIFFLE_ERR_ARGUMENT);
    bias.bias = NAN;
    CHECK_FAILS(riffle_batch_add(batch, &request), RIFFLE_ERR_ARGUMENT);
    request.logit_bias = NULL;
    CHECK_FAILS(riffle_batch_add(batch, &request), RIFFLE_ERR_ARGUMENT);
    request.n_logit_bias = 0;
    request.top_logprobs = RIFFLE_MOST_LOGPROBS + 1;
    CHECK_OK(riffle_batch_add(batch, &request));
    finish_all(batch);
    CHECK_INT(asked->code, RIFFLE_ERR_ARGUMENT);
    riffle_batch_close(batch);
}

int main(int argc, char **argv)
{
    static struct asked list[N_ASKED];
    static const char text[] = "root ::= (\"the cat sat\" | [a-z ]{4}) \" on\" \".\"";
    int every = argc > 1 ? atoi(argv[1]) : 1;
    riffle_model_options options;
    riffle_model *model;
    riffle_grammar *grammar;
    riffle_model_options_init(&options, sizeof options);
    options.chain = "ngram > mxfp4";
    CHECK_OK(riffle_model_open(&model, TINY_MODEL, &options));
    CHECK_OK(riffle_grammar_new(&grammar, model, RIFFLE_GRAMMAR_GBNF, text, strlen(text)));
    make_asked(model, grammar, list);
    check_chains(model, list, every);
    check_prompts(model, list, every);
    add_biases(list, every);
    check_chains(model, list, every);
    check_vectors(model, list);
    check_refusals(model, &list[0]);
    riffle_grammar_free(grammar);
    riffle_model_close(model);
    return check_result();
}
