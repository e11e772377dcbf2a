/* Answers of batches are those of sessions alone: with any others beside them, whenever they come
 * and go, with seeds, grammars, stop texts, drafts and beginnings that were kept.
 *
 *     test_batch [EVERY]     only one of EVERY combinations, for slow devices */
#include "api/answers.h"
#include "api/handles.h"
#include "engine/batch_pass.h"
#include "engine/session.h"
#include "riffle_experimental.h"

enum { N_CASES = 24, MOST_TOKENS = 48, CTX = 512 };

static const char *const stops[] = {"dog", " the"};
static const char *const grammar_text = "root ::= word (\" \" word)* \".\"\nword ::= [a-z]{1,6}";

/* A request, what it gives alone, and what a batch made of it. */
struct request {
    struct prompt prompt;
    riffle_sampling sampling;
    riffle_generate_options options;
    struct answer alone, got;
    int32_t stop_after; /* the callback ends it after so many tokens; 0: never */
    int64_t id;
    int ended, code;
    int32_t kept_tokens;
    uint64_t drafted;
};

static int on_event(void *user, const riffle_event *event)
{
    struct request *request = user;
    struct answer *got = &request->got;
    memcpy(got->text + got->bytes, event->text, event->text_bytes);
    got->bytes += event->text_bytes;
    if (event->token >= 0) got->tokens[got->n++] = event->token;
    return got->n == request->stop_after;
}

static void on_answer(void *user, const riffle_answer *answer)
{
    struct request *request = user;
    CHECK_INT(request->ended, 0);
    request->ended = 1;
    request->code = answer->code;
    request->got.finish = answer->finish;
    snprintf(request->got.sentence, sizeof request->got.sentence, "%s", answer->sentence);
    CHECK_INT(answer->id, request->id);
    CHECK_INT(answer->generated_tokens, answer->code ? 0 : request->got.n);
    CHECK_INT(answer->prompt_tokens, request->prompt.n);
    CHECK(answer->kept_tokens <= answer->prompt_tokens);
    CHECK(answer->accepted <= answer->drafted);
    request->kept_tokens = answer->kept_tokens;
    request->drafted = answer->drafted;
}

/* Requests of all kinds; each third prompt continues or repeats another's. */
static void make_requests(const riffle_model *model, riffle_grammar *grammar,
                          struct request *requests)
{
    struct prompt prompts[N_PROMPTS];
    make_prompts(model, prompts);
    for (int i = 0; i < N_CASES; i++) {
        struct request *request = &requests[i];
        *request = (struct request){.prompt = prompts[i % N_PROMPTS]};
        if (i % 3 == 2 && request->prompt.n + 5 < LONGEST_PROMPT)
            for (int k = 0; k < 5; k++)
                request->prompt.tokens[request->prompt.n++] = 300 + (i * 7 + k * 3) % 200;
        riffle_sampling_init(&request->sampling, sizeof request->sampling);
        request->sampling.temperature = i % 2 ? 0.9f : 0.0f;
        request->sampling.seed = (uint64_t)i;
        request->sampling.repeat_penalty = i % 5 == 4 ? 1.2f : 1.0f;
        request->sampling.frequency_penalty = i % 5 == 3 ? 0.6f : 0.0f;
        request->sampling.presence_penalty = i % 7 == 3 ? -0.5f : 0.0f;
        riffle_generate_options_init(&request->options, sizeof request->options);
        request->options.max_tokens = 1 + (i * 11) % MOST_TOKENS;
        if (i % 4 == 3) request->options.grammar = grammar;
        if (i % 4 == 1) request->options.stop = stops;
        if (i % 4 == 1) request->options.n_stop = 2;
        request->options.ignore_eos = i % 4 == 2;
    }
}

static void answer_alone(riffle_session *session, struct request *request)
{
    CHECK_OK(riffle_session_set_sampling(session, &request->sampling));
    begin(session, &request->prompt);
    request->alone.n = 0;
    add_generated(session, &request->options, request->stop_after, &request->alone);
}

static void ask(riffle_batch *batch, struct request *request)
{
    riffle_request asked;
    riffle_request_init(&asked, sizeof asked);
    asked.prompt = request->prompt.tokens;
    asked.n_prompt = (size_t)request->prompt.n;
    asked.sampling = &request->sampling;
    asked.generate = &request->options;
    asked.on_event = on_event;
    asked.on_answer = on_answer;
    asked.user = request;
    memset(&request->got, 0, sizeof request->got);
    request->ended = 0;
    request->id = CHECK_OK(riffle_batch_add(batch, &asked));
}

static riffle_batch *open_batch(riffle_model *model, const char *chain, const char *kv,
                                int32_t answers, uint64_t kept_bytes, int32_t gamma)
{
    riffle_session_options session;
    riffle_batch_options options;
    riffle_session_options_init(&session, sizeof session);
    riffle_batch_options_init(&options, sizeof options);
    session.n_ctx = CTX;
    session.threads = 2;
    session.chain = chain;
    session.gamma = gamma;
    session.kv = kv;
    options.session = &session;
    options.answers = answers;
    options.kept_bytes = kept_bytes;
    riffle_batch *batch = NULL;
    CHECK_OK(riffle_batch_open(&batch, model, &options));
    if (!batch) exit(1);
    return batch;
}

static void finish_all(riffle_batch *batch)
{
    int32_t left, steps = 0;
    while ((left = riffle_batch_step(batch)) > 0 && ++steps < 100000) continue;
    CHECK_INT(left, 0);
}

/* Requests come at random times; of some the callback or a cancellation ends the answer. */
static void check_batch(riffle_model *model, struct request *requests, const char *chain,
                        const char *kv, int32_t answers, uint64_t kept_bytes, uint64_t random)
{
    riffle_batch *batch =
        open_batch(model, chain, kv, answers, kept_bytes, (int32_t)(random % 2) * 4);
    char what[96];
    int cancelled[N_CASES] = {0};
    for (int i = 0; i < N_CASES; i++) {
        ask(batch, &requests[(i * 7) % N_CASES]);
        if (next_random(&random) % 2) continue;
        for (uint32_t k = next_random(&random) % 6; k > 0; k--) CHECK_OK(riffle_batch_step(batch));
        int victim = (int)(next_random(&random) % N_CASES);
        if (next_random(&random) % 4 == 0 && requests[victim].id && !requests[victim].ended) {
            CHECK_OK(riffle_batch_cancel(batch, requests[victim].id));
            cancelled[victim] = 1;
        }
    }
    finish_all(batch);
    for (int i = 0; i < N_CASES; i++) {
        struct request *request = &requests[i];
        snprintf(what, sizeof what, "%s, %s, %d answers, request %d", chain, kv, answers, i);
        CHECK_INT(request->ended, 1);
        CHECK_INT(request->code, 0);
        if (cancelled[i]) {
            struct answer part = request->alone;
            CHECK_INT(request->got.finish, RIFFLE_FINISH_CANCELLED);
            CHECK(request->got.n <= part.n);
            part.n = request->got.n;
            check_same_ids(&request->got, &part, what);
        } else {
            check_same_answer(&request->got, &request->alone, what);
        }
        request->id = 0;
    }
    riffle_batch_stats stats;
    CHECK_OK(riffle_batch_get_stats(batch, &stats, sizeof stats));
    CHECK_INT(stats.waiting + stats.reading + stats.generating, 0);
    CHECK(stats.kept_bytes <= kept_bytes);
    CHECK(stats.passes > 0 && stats.rows > stats.passes);
    riffle_batch_close(batch);
}

static void answer_all_alone(riffle_model *model, struct request *requests, const char *kv)
{
    riffle_session_options options;
    riffle_session *session;
    riffle_session_options_init(&options, sizeof options);
    options.chain = "none";
    options.n_ctx = CTX;
    options.kv = kv;
    CHECK_OK(riffle_session_open(&session, model, &options));
    for (int i = 0; i < N_CASES; i++) {
        memset(&requests[i].alone, 0, sizeof requests[i].alone);
        requests[i].stop_after = i % 6 == 5 ? 3 : 0;
        answer_alone(session, &requests[i]);
    }
    riffle_session_close(session);
}

/* A prompt that begins as an earlier text reads only what is new, also beside its donor. */
static void check_kept(riffle_model *model, struct request *requests)
{
    riffle_batch *batch = open_batch(model, "none", "f16", 4, 1 << 24, 0);
    struct request *first = &requests[3], *second = &requests[4], *other = &requests[5];
    first->prompt.n = second->prompt.n = 300;
    for (int i = 0; i < 300; i++)
        first->prompt.tokens[i] = second->prompt.tokens[i] = 300 + i * i % 211;
    second->prompt.tokens[280]++;
    *other = *first;
    ask(batch, first);
    ask(batch, second); /* waits until the first has read what both have in common */
    finish_all(batch);
    CHECK_INT(first->kept_tokens, 0);
    CHECK(second->kept_tokens >= 280 - 16 && second->kept_tokens <= 280);
    ask(batch, other);
    finish_all(batch);
    CHECK(other->kept_tokens >= 299);
    check_same_answer(&other->got, &first->got, "a kept text");
    riffle_batch_close(batch);
    /* Nothing is kept where nothing may be. */
    batch = open_batch(model, "none", "f16", 4, 1, 0);
    ask(batch, first);
    finish_all(batch);
    ask(batch, other);
    finish_all(batch);
    CHECK_INT(other->kept_tokens, 0);
    riffle_batch_close(batch);
}

/* Positions of the text whose features the session's head has. */
static int32_t n_features(const struct rf_session *session)
{
    const struct rf_head_level *level = rf_levels_head_level(&session->levels);
    const struct rf_params *params = &rf_head_level_head(level)->file->source->params;
    size_t bytes = (size_t)rf_head_level_bytes(level, rf_sequence_n_read(session->sequence));
    return (int32_t)((bytes - 16) / ((size_t)params->n_embd * sizeof(float)));
}

/* A text that begins with one that was kept, or with one under way, has its features from the
 * beginning, so the head drafts at once as if the text had been read. */
static void check_kept_features(riffle_model *model, struct request *requests)
{
    riffle_batch *batch = open_batch(model, "head", "f16", 4, 1 << 24, 5);
    struct request *first = &requests[3], *others = &requests[4];
    ask(batch, first);
    for (int i = 0; i < 2; i++) { /* one beside the first, then one behind it */
        others[i] = *first;
        others[i].prompt.tokens[280] = 300 + i;
        others[i].options.max_tokens = MOST_TOKENS;
        ask(batch, &others[i]);
        struct member **members = batch->inner->members, *member = NULL;
        while (!others[i].got.n && CHECK_OK(riffle_batch_step(batch)) > 0) continue;
        for (size_t m = 0; m < batch->inner->n_members; m++)
            if (members[m]->id == others[i].id) member = members[m];
        CHECK(member && member->n_kept >= 264);
        if (member)
            CHECK_INT(n_features(member->session), rf_sequence_n_read(member->session->sequence));
        finish_all(batch);
        CHECK(others[i].drafted > 0);
    }
    riffle_batch_close(batch);
}

static void check_refusals(riffle_model *model, struct request *request)
{
    riffle_batch *batch = open_batch(model, "none", "f16", 2, 0, 0);
    riffle_batch_options options;
    riffle_request asked;
    riffle_batch *none;
    riffle_batch_options_init(&options, sizeof options);
    options.answers = 33;
    CHECK_FAILS(riffle_batch_open(&none, model, &options), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_batch_open(NULL, model, NULL), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_batch_step(NULL), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_batch_cancel(batch, 7), RIFFLE_ERR_ARGUMENT);
    riffle_request_init(&asked, sizeof asked);
    CHECK_FAILS(riffle_batch_add(batch, &asked), RIFFLE_ERR_ARGUMENT);
    asked.prompt = request->prompt.tokens;
    asked.n_prompt = CTX + 1;
    CHECK_FAILS(riffle_batch_add(batch, &asked), RIFFLE_ERR_CONTEXT);
    /* An error that only shows when the answer begins is told by on_answer, and harms no other
     * answer. */
    struct request bad = *request, fine = *request;
    bad.prompt.tokens[0] = 1 << 20;
    ask(batch, &bad);
    ask(batch, &fine);
    bad.sampling.temperature = -1.0f;
    bad.prompt.tokens[0] = fine.prompt.tokens[0];
    finish_all(batch);
    CHECK_INT(bad.code, RIFFLE_ERR_ARGUMENT);
    CHECK(bad.got.sentence[0] != '\0');
    ask(batch, &bad);
    finish_all(batch);
    CHECK_INT(bad.code, RIFFLE_ERR_ARGUMENT);
    check_same_answer(&fine.got, &request->alone, "beside a bad request");
    ask(batch, &fine); /* the batch is closed over it */
    CHECK_OK(riffle_batch_step(batch));
    riffle_batch_close(batch);
    riffle_batch_close(NULL);
    CHECK_INT(fine.ended, 0);
}

int main(int argc, char **argv)
{
    static struct request requests[N_CASES];
    static const char *const with_head[] = {"none", "ngram > head", "ngram > head > mxfp4"},
                             *const without[] = {"none", "ngram", "ngram > mxfp4"};
    const char *head = head_if_any(), *const *chains = head ? with_head : without;
    static const int32_t answers[] = {1, 3, 8, 32};
    int every = argc > 1 ? atoi(argv[1]) : 1, n = 0;
    riffle_model_options options;
    riffle_model *model;
    riffle_grammar *grammar;
    riffle_model_options_init(&options, sizeof options);
    options.chain = chains[2];
    options.head = head;
    CHECK_OK(riffle_model_open(&model, TINY_MODEL, &options));
    CHECK_OK(riffle_grammar_new(&grammar, model, RIFFLE_GRAMMAR_GBNF, grammar_text,
                                strlen(grammar_text)));
    make_requests(model, grammar, requests);
    for (int q8 = 0; q8 < (every > 1 ? 1 : 2); q8++) { /* slow devices do not quantise */
        const char *kv = q8 ? "q8" : "f16";
        answer_all_alone(model, requests, kv);
        for (size_t c = 0; c < sizeof without / sizeof *without; c++)
            for (size_t a = 0; a < sizeof answers / sizeof *answers; a++)
                if (n++ % every == 0)
                    check_batch(model, requests, chains[c], kv, answers[a],
                                a % 2 ? UINT64_C(1) << 17 : UINT64_C(1) << 26,
                                (uint64_t)(1000 + n));
    }
    check_refusals(model, &requests[2]);
    check_kept(model, requests);
    if (head) check_kept_features(model, requests);
    riffle_grammar_free(grammar);
    riffle_model_close(model);
    return check_result();
}
