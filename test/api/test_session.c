/* Sessions: reading, generating, cancelling, going back, several at a time: the second and third
 * section of riffle.h. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "api/helpers.h"
#include "riffle_experimental.h"

static const char prompt_text[] = "Once upon a time, there was a little girl who had a red ball.";

static void wrong_calls_are_errors(riffle_model *model)
{
    riffle_session *session = open_session(model, 32, 1);
    struct tokens prompt = tokenize(model, prompt_text);
    int32_t out;
    float logit;
    double logprob;
    CHECK_INT(riffle_session_n_ctx(session), 32);
    CHECK_FAILS(riffle_prefill(NULL, prompt.ids, 1), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_prefill(session, NULL, 1), RIFFLE_ERR_ARGUMENT);
    static const int32_t outside[] = {512, -1};
    CHECK_FAILS(riffle_prefill(session, outside, 1), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_prefill(session, outside + 1, 1), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_chat_prefill(session, NULL, 1), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_rewind(session, -1), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_rewind(session, 1), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_fork(NULL, session), RIFFLE_ERR_ARGUMENT);
    /* Nothing was read yet, so there is nothing to go on from. */
    CHECK_FAILS(riffle_generate(session, NULL, NULL, NULL), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_step(session, &out, 1), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_logits(session, &logit, 512), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_score(session, prompt.ids, 2, 0, &logprob), RIFFLE_ERR_ARGUMENT);
    CHECK_OK(riffle_prefill(session, prompt.ids, 3));
    CHECK_FAILS(riffle_logits(session, &logit, 1), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_step(session, NULL, 1), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_step(session, &out, 0), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_state_save(session, NULL), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_state_load(session, NULL), RIFFLE_ERR_ARGUMENT);

    riffle_sampling sampling;
    riffle_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = -1;
    CHECK_FAILS(riffle_session_set_sampling(session, &sampling), RIFFLE_ERR_ARGUMENT);
    sampling.temperature = NAN;
    CHECK_FAILS(riffle_session_set_sampling(session, &sampling), RIFFLE_ERR_ARGUMENT);
    riffle_sampling_init(&sampling, sizeof sampling);
    sampling.top_p = 1.5f;
    CHECK_FAILS(riffle_session_set_sampling(session, &sampling), RIFFLE_ERR_ARGUMENT);
    CHECK_INT(riffle_session_tokens(session, NULL), 3);
    riffle_session_close(session);

    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.n_ctx = -1;
    CHECK_FAILS(riffle_session_open(&session, model, &options), RIFFLE_ERR_ARGUMENT);
    riffle_session_options_init(&options, sizeof options);
    options.kv = "f8";
    CHECK_FAILS(riffle_session_open(&session, model, &options), RIFFLE_ERR_ARGUMENT);
    CHECK(strstr(riffle_last_error(), "f8") != NULL);
    CHECK(session == NULL);
}

static void a_full_context_ends_the_answer(riffle_model *model)
{
    riffle_session *session = open_session(model, 32, 1);
    int32_t tokens[33];
    for (int i = 0; i < 33; i++) tokens[i] = 403;
    CHECK_FAILS(riffle_prefill(session, tokens, 33), RIFFLE_ERR_CONTEXT);
    CHECK(strstr(riffle_last_error(), "33") != NULL && strstr(riffle_last_error(), "32") != NULL);
    CHECK_INT(riffle_session_tokens(session, NULL), 0);
    CHECK_OK(riffle_prefill(session, tokens, 20));

    const char *sentence;
    struct tokens answer = generate(session, 0);
    CHECK(answer.count >= 12 &&
          answer.count <= 13); /* the last one needs no place, as it is never read */
    CHECK_INT(riffle_session_finish(session, &sentence), RIFFLE_FINISH_LENGTH);
    CHECK(strstr(sentence, "32") != NULL);
    CHECK(riffle_session_tokens(session, NULL) <= 32);
    CHECK_FAILS(riffle_step(session, tokens, 1), RIFFLE_ERR_CONTEXT);
    CHECK_FAILS(riffle_prefill(session, tokens, 1), RIFFLE_ERR_CONTEXT);
    CHECK_OK(riffle_rewind(session, 30));
    CHECK_INT(CHECK_OK(riffle_step(session, tokens, 1)), 1);
    riffle_session_close(session);
}

static void stepping_equals_generating(riffle_model *model)
{
    riffle_session *session = open_session(model, 256, 2);
    struct tokens prompt = tokenize(model, prompt_text);
    CHECK_OK(riffle_prefill(session, prompt.ids, (size_t)prompt.count));
    struct tokens whole = generate(session, 40);
    CHECK_INT(whole.count, 40);
    CHECK_INT(riffle_session_finish(session, NULL), RIFFLE_FINISH_LENGTH);
    struct tokens held = session_tokens(session);
    CHECK_INT(held.count, prompt.count + 40);
    CHECK(memcmp(held.ids + prompt.count, whole.ids, 40 * sizeof *whole.ids) == 0);

    CHECK_OK(riffle_rewind(session, prompt.count));
    struct tokens stepped = {.count = 0};
    while (stepped.count < 40) {
        int64_t n = CHECK_OK(
            riffle_step(session, stepped.ids + stepped.count, (size_t)(40 - stepped.count)));
        CHECK(n >= 1 && n <= 40 - stepped.count);
        if (n < 1) break;
        stepped.count += (int32_t)n;
    }
    CHECK(same_tokens(&whole, &stepped));
    riffle_session_close(session);
}

/* Text that a callback gathers; `stop_after` calls with a token stop the answer. */
struct gathered {
    char text[4096];
    size_t bytes;
    int32_t n_tokens, stop_after, flushes;
};

static int gather(void *user, const riffle_event *event)
{
    struct gathered *g = user;
    if (g->bytes + event->text_bytes < sizeof g->text) {
        memcpy(g->text + g->bytes, event->text, event->text_bytes);
        g->bytes += event->text_bytes;
    }
    if (event->token < 0)
        g->flushes++;
    else
        g->n_tokens++;
    return g->n_tokens == g->stop_after;
}

static void the_text_is_that_of_the_tokens(riffle_model *model)
{
    riffle_session *session = open_session(model, 256, 1);
    struct tokens prompt = tokenize(model, prompt_text);
    CHECK_OK(riffle_prefill(session, prompt.ids, (size_t)prompt.count));
    riffle_generate_options options;
    riffle_generate_options_init(&options, sizeof options);
    options.max_tokens = 40;
    options.ignore_eos = 1;
    struct gathered all = {.bytes = 0};
    CHECK_INT(CHECK_OK(riffle_generate(session, &options, gather, &all)), 40);
    struct tokens held = session_tokens(session);
    char text[4096];
    int64_t before = CHECK_OK(riffle_detokenize(model, held.ids, (size_t)prompt.count, 0, NULL, 0));
    int64_t bytes =
        CHECK_OK(riffle_detokenize(model, held.ids, (size_t)held.count, 0, text, sizeof text));
    CHECK_MSG(bytes - before == (int64_t)all.bytes &&
                  memcmp(text + before, all.text, all.bytes) == 0,
              "streamed \"%.*s\", not \"%.*s\"", (int)all.bytes, all.text, (int)(bytes - before),
              text + before);

    /* A stop text, here from the middle of what comes, ends the answer before it. */
    char stop[8] = "";
    memcpy(stop, all.text + 30, 5);
    const char *const stops[] = {"nowhere to be found", stop};
    const char *at = strstr(all.text, stop);
    CHECK_OK(riffle_rewind(session, prompt.count));
    options.stop = stops;
    options.n_stop = 2;
    struct gathered part = {.bytes = 0};
    CHECK_OK(riffle_generate(session, &options, gather, &part));
    CHECK_INT(riffle_session_finish(session, NULL), RIFFLE_FINISH_STOP);
    CHECK_MSG(at && part.bytes == (size_t)(at - all.text) &&
                  memcmp(part.text, all.text, part.bytes) == 0,
              "stopped at \"%s\" with \"%.*s\"", stop, (int)part.bytes, part.text);
    riffle_session_close(session);
}

static void a_callback_can_stop_at_every_token(riffle_model *model)
{
    riffle_session *session = open_session(model, 256, 2);
    struct tokens prompt = tokenize(model, prompt_text);
    CHECK_OK(riffle_prefill(session, prompt.ids, (size_t)prompt.count));
    struct tokens whole = generate(session, 24);
    riffle_generate_options options;
    riffle_generate_options_init(&options, sizeof options);
    options.max_tokens = 24;
    options.ignore_eos = 1;
    for (int32_t n = 1; n < 24; n++) {
        CHECK_OK(riffle_rewind(session, prompt.count));
        struct gathered part = {.stop_after = n};
        CHECK_INT(CHECK_OK(riffle_generate(session, &options, gather, &part)), n);
        CHECK_INT(riffle_session_finish(session, NULL), RIFFLE_FINISH_CANCELLED);
        CHECK_INT(riffle_session_tokens(session, NULL), prompt.count + n);
        /* The answer goes on as it would have without the stop. */
        struct tokens rest = generate(session, 24 - n);
        CHECK(rest.count == 24 - n &&
              memcmp(rest.ids, whole.ids + n, (size_t)rest.count * sizeof *rest.ids) == 0);
    }
    riffle_session_close(session);
}

/* Another thread cancels while the first token's callback waits for it. */
struct rendezvous {
    riffle_session *session;
    atomic_int token_came, cancelled;
    int32_t n_tokens;
};

static void *cancel_when_a_token_came(void *user)
{
    struct rendezvous *r = user;
    while (!atomic_load(&r->token_came)) sched_yield();
    riffle_cancel(r->session);
    atomic_store(&r->cancelled, 1);
    return NULL;
}

static int wait_for_cancel(void *user, const riffle_event *event)
{
    struct rendezvous *r = user;
    if (event->token >= 0) r->n_tokens++;
    atomic_store(&r->token_came, 1);
    while (!atomic_load(&r->cancelled)) sched_yield();
    return 0;
}

static void another_thread_can_cancel(riffle_model *model)
{
    riffle_session *session = open_session(model, 256, 2);
    struct tokens prompt = tokenize(model, prompt_text);
    CHECK_OK(riffle_prefill(session, prompt.ids, (size_t)prompt.count));
    struct rendezvous r = {.session = session};
    pthread_t thread;
    if (pthread_create(&thread, NULL, cancel_when_a_token_came, &r)) {
        CHECK_MSG(0, "no thread");
        return;
    }
    CHECK_INT(CHECK_OK(riffle_generate(session, NULL, wait_for_cancel, &r)), 1);
    pthread_join(thread, NULL);
    CHECK_INT(r.n_tokens, 1);
    CHECK_INT(riffle_session_finish(session, NULL), RIFFLE_FINISH_CANCELLED);
    CHECK_INT(riffle_session_tokens(session, NULL), prompt.count + 1);
    /* The request is used up, and one that comes while nothing runs is not kept. */
    riffle_cancel(session);
    CHECK_INT(generate(session, 3).count, 3);
    riffle_session_close(session);
}

static int cancel_after_first_report(void *user, const char *stage, uint64_t done, uint64_t total)
{
    (void)stage, (void)total;
    return done > 0 && ++*(int *)user > 0;
}

static void reading_can_be_cancelled(riffle_model *model)
{
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    int calls = 0;
    options.n_ctx = 2048;
    options.progress = cancel_after_first_report;
    options.progress_user = &calls;
    riffle_session *session;
    if (CHECK_OK(riffle_session_open(&session, model, &options)) < 0) return;
    static int32_t tokens[2000];
    for (int i = 0; i < 2000; i++) tokens[i] = i ? 260 + i % 200 : 1;
    CHECK_FAILS(riffle_prefill(session, tokens, 2000), RIFFLE_ERR_CANCELLED);
    CHECK(calls > 0);
    const int32_t *held;
    int32_t n = riffle_session_tokens(session, &held);
    CHECK(n >= 0 && n < 2000 && (n == 0 || memcmp(held, tokens, (size_t)n * sizeof *held) == 0));
    riffle_session_close(session);
}

static void going_back_gives_the_same_bits(riffle_model *model)
{
    enum { N_VOCAB = 512 };
    static float fresh[N_VOCAB], again[N_VOCAB];
    riffle_session *session = open_session(model, 256, 2), *other = open_session(model, 256, 1);
    struct tokens prompt = tokenize(model, prompt_text);
    CHECK_OK(riffle_prefill(session, prompt.ids, (size_t)prompt.count));
    CHECK_OK(riffle_logits(session, fresh, N_VOCAB));
    generate(session, 10);
    CHECK_OK(riffle_rewind(session, prompt.count));
    CHECK_OK(riffle_logits(session, again, N_VOCAB));
    CHECK(memcmp(fresh, again, sizeof fresh) == 0);
    CHECK_OK(riffle_rewind(session, 0));
    CHECK_INT(riffle_session_tokens(session, NULL), 0);
    CHECK_OK(riffle_prefill(session, prompt.ids, (size_t)prompt.count));
    CHECK_OK(riffle_logits(session, again, N_VOCAB));
    CHECK(memcmp(fresh, again, sizeof fresh) == 0);
    CHECK_OK(riffle_prefill(other, prompt.ids, (size_t)prompt.count));
    CHECK_OK(riffle_logits(other, again, N_VOCAB));
    CHECK(memcmp(fresh, again, sizeof fresh) == 0);
    riffle_session_close(session);
    riffle_session_close(other);
}

static void a_fork_lives_alone(riffle_model *model)
{
    riffle_session *session = open_session(model, 256, 1), *copy;
    struct tokens prompt = tokenize(model, prompt_text);
    CHECK_OK(riffle_prefill(session, prompt.ids, (size_t)prompt.count));
    generate(session, 5);
    if (CHECK_OK(riffle_fork(&copy, session)) < 0) return;
    struct tokens ours = generate(session, 20);
    struct tokens theirs = generate(copy, 20);
    CHECK(ours.count == 20 && same_tokens(&ours, &theirs));
    CHECK_OK(riffle_rewind(session, 2));
    generate(session, 8);
    struct tokens held = session_tokens(copy);
    CHECK(held.count == prompt.count + 25 &&
          memcmp(held.ids + prompt.count + 5, ours.ids, 20 * 4) == 0);
    riffle_session_close(session);
    CHECK_INT(generate(copy, 4).count, 4);
    riffle_session_close(copy);
}

struct reader {
    riffle_model *model;
    struct tokens answer;
};

static void *read_and_answer(void *user)
{
    struct reader *reader = user;
    riffle_session *session = open_session(reader->model, 256, 2);
    struct tokens prompt = tokenize(reader->model, prompt_text);
    if (riffle_prefill(session, prompt.ids, (size_t)prompt.count) == 0) {
        riffle_generate_options options;
        riffle_generate_options_init(&options, sizeof options);
        options.max_tokens = 30;
        riffle_generate(session, &options, collect_token, &reader->answer);
    }
    riffle_session_close(session);
    return NULL;
}

/* Sessions of one model run at the same time in threads of the host's. */
static void threads_share_a_model(riffle_model *model)
{
    struct reader readers[3];
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        readers[i] = (struct reader){.model = model};
        if (i > 0 && pthread_create(&threads[i], NULL, read_and_answer, &readers[i])) exit(1);
    }
    read_and_answer(&readers[0]);
    for (int i = 1; i < 3; i++) {
        pthread_join(threads[i], NULL);
        CHECK(readers[i].answer.count > 0 && same_tokens(&readers[0].answer, &readers[i].answer));
    }
}

struct fork {
    riffle_session *session;
    int32_t token; /* the token that it goes on with */
    struct tokens answer;
};

static void *go_on(void *user)
{
    struct fork *fork = user;
    riffle_generate_options options;
    riffle_generate_options_init(&options, sizeof options);
    options.max_tokens = 40;
    fork->answer.count = 0;
    if (riffle_prefill(fork->session, &fork->token, 1) == 0)
        riffle_generate(fork->session, &options, collect_token, &fork->answer);
    return NULL;
}

/* Forks share threads and memory with their origin; in threads of the host's they answer as alone.
 */
static void forks_run_side_by_side(riffle_model *model)
{
    enum { N = 3 };
    riffle_session *session = open_session(model, 512, 2);
    struct tokens prompt = tokenize(model, prompt_text);
    CHECK_OK(riffle_prefill(session, prompt.ids, (size_t)prompt.count));
    struct fork alone[N], together[N];
    pthread_t threads[N];
    for (int i = 0; i < N; i++) {
        alone[i] = (struct fork){.token = 300 + i};
        if (CHECK_OK(riffle_fork(&alone[i].session, session)) < 0) return;
        go_on(&alone[i]);
        riffle_session_close(alone[i].session);
        together[i] = (struct fork){.token = 300 + i};
        if (CHECK_OK(riffle_fork(&together[i].session, session)) < 0) return;
    }
    for (int i = 0; i < N; i++)
        if (pthread_create(&threads[i], NULL, go_on, &together[i])) exit(1);
    riffle_session_close(session);
    for (int i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        CHECK(alone[i].answer.count > 0 && same_tokens(&alone[i].answer, &together[i].answer));
        riffle_session_close(together[i].session);
    }
}

static struct tokens sampled(riffle_session *session, int32_t from, uint64_t seed)
{
    riffle_sampling sampling;
    riffle_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = 1.0f;
    sampling.seed = seed;
    CHECK_OK(riffle_session_set_sampling(session, &sampling));
    CHECK_OK(riffle_rewind(session, from));
    return generate(session, 64);
}

static void a_seed_repeats_its_text(riffle_model *model)
{
    riffle_session *session = open_session(model, 256, 1);
    struct tokens prompt = tokenize(model, prompt_text);
    CHECK_OK(riffle_prefill(session, prompt.ids, (size_t)prompt.count));
    struct tokens greedy = generate(session, 64);
    struct tokens first = sampled(session, prompt.count, 7),
                  second = sampled(session, prompt.count, 7);
    struct tokens other = sampled(session, prompt.count, 8);
    CHECK(same_tokens(&first, &second));
    CHECK(!same_tokens(&first, &other) && !same_tokens(&first, &greedy));
    CHECK_OK(riffle_session_set_sampling(session, NULL));
    CHECK_OK(riffle_rewind(session, prompt.count));
    struct tokens greedy_again = generate(session, 64);
    CHECK(same_tokens(&greedy, &greedy_again));
    riffle_session_close(session);
}

/* log p of each token from scoring equals that from the logits before it, up to the rounding of
 * another path. */
static void scores_agree_with_logits(riffle_model *model)
{
    enum { N_VOCAB = 512 };
    static float logits[N_VOCAB];
    riffle_session *session = open_session(model, 256, 1);
    struct tokens prompt = tokenize(model, prompt_text);
    double logprobs[MAX_TOKENS];
    CHECK_OK(riffle_score(session, prompt.ids, (size_t)prompt.count, 1, logprobs));
    CHECK_INT(riffle_session_tokens(session, NULL), prompt.count);
    CHECK_OK(riffle_rewind(session, 0));
    for (int32_t i = 0; i + 1 < prompt.count; i++) {
        CHECK_OK(riffle_prefill(session, prompt.ids + i, 1));
        CHECK_OK(riffle_logits(session, logits, N_VOCAB));
        double largest = logits[0], sum = 0;
        for (int v = 1; v < N_VOCAB; v++) largest = logits[v] > largest ? logits[v] : largest;
        for (int v = 0; v < N_VOCAB; v++) sum += exp(logits[v] - largest);
        double wanted = logits[prompt.ids[i + 1]] - largest - log(sum);
        CHECK_MSG(fabs(logprobs[i] - wanted) < 0.02, "token %d scores %f, not %f", i + 1,
                  logprobs[i], wanted);
    }
    riffle_session_close(session);
}

/* A second turn reads what is new; saying the same again reads at most the one token whose logits
 * are wanted. */
static void a_chat_reads_only_what_is_new(riffle_model *model)
{
    riffle_session *session = open_session(model, 1024, 2);
    riffle_message messages[3] = {{"user", "Tell me a story about a cat."}};
    int64_t first = CHECK_OK(riffle_chat_prefill(session, messages, 1));
    CHECK_INT(riffle_session_tokens(session, NULL), first);
    CHECK(CHECK_OK(riffle_chat_prefill(session, messages, 1)) <= 1);

    struct gathered answer = {.stop_after = 12};
    CHECK_OK(riffle_generate(session, NULL, gather, &answer));
    answer.text[answer.bytes] = '\0';
    struct tokens before = session_tokens(session);
    messages[1] = (riffle_message){"assistant", answer.text};
    messages[2] = (riffle_message){"user", "And then?"};
    int64_t read = CHECK_OK(riffle_chat_prefill(session, messages, 3));
    struct tokens after = session_tokens(session);
    int32_t kept = 0;
    while (kept < before.count && kept < after.count && before.ids[kept] == after.ids[kept]) kept++;
    CHECK(kept >= first);
    CHECK_INT(read, after.count - kept);

    /* Another conversation: what it shares with this one stays, and the session ends up where a
     * fresh one would. */
    messages[0].content = "Tell me a story about a dog.";
    CHECK_OK(riffle_chat_prefill(session, messages, 1));
    riffle_session *fresh = open_session(model, 1024, 2);
    CHECK_OK(riffle_chat_prefill(fresh, messages, 1));
    struct tokens one = session_tokens(session), two = session_tokens(fresh);
    CHECK(same_tokens(&one, &two));
    one = generate(session, 16);
    two = generate(fresh, 16);
    CHECK(same_tokens(&one, &two));
    riffle_session_close(session);
    riffle_session_close(fresh);
}

static void statistics_count(riffle_model *model)
{
    riffle_session *session = open_session(model, 256, 2);
    struct tokens prompt = tokenize(model, prompt_text);
    CHECK_OK(riffle_prefill(session, prompt.ids, (size_t)prompt.count));
    generate(session, 10);
    riffle_stats stats;
    CHECK_OK(riffle_session_get_stats(session, &stats, sizeof stats));
    CHECK_INT(stats.prefill_tokens, prompt.count);
    CHECK_INT(stats.generated_tokens, 10);
    int has_head = strstr(TINY_MODEL, "delta") != NULL, last = 2 + has_head; /* in its file */
    CHECK_INT(stats.n_levels, last + 1);
    CHECK_STR(stats.chain, has_head ? "ngram > head > q4 > target" : "ngram > q4 > target");
    CHECK_STR(stats.levels[0].name, "ngram");
    CHECK_STR(stats.levels[last].name, "target");
    CHECK(stats.levels[last].passes > 0 && stats.levels[last].passes <= 10);
    CHECK(stats.threads >= 1 && stats.threads <= 2);
    CHECK(stats.prefill_seconds > 0 && stats.decode_seconds > 0);
    double seconds = 0;
    CHECK_OK(riffle_measure_pass(session, 2, 100, 1, &seconds));
    CHECK(seconds > 0);
    CHECK_INT(riffle_session_tokens(session, NULL), prompt.count + 10);
    riffle_session_reset_stats(session);
    CHECK_OK(riffle_session_get_stats(session, &stats, sizeof stats));
    CHECK_INT(stats.prefill_tokens, 0);
    CHECK_INT(stats.generated_tokens, 0);
    CHECK_INT(stats.levels[2].passes, 0);
    riffle_session_close(session);
}

int main(void)
{
    riffle_model *model = open_tiny_model();
    wrong_calls_are_errors(model);
    a_full_context_ends_the_answer(model);
    stepping_equals_generating(model);
    the_text_is_that_of_the_tokens(model);
    a_callback_can_stop_at_every_token(model);
    another_thread_can_cancel(model);
    reading_can_be_cancelled(model);
    going_back_gives_the_same_bits(model);
    a_fork_lives_alone(model);
    threads_share_a_model(model);
    forks_run_side_by_side(model);
    a_seed_repeats_its_text(model);
    scores_agree_with_logits(model);
    a_chat_reads_only_what_is_new(model);
    statistics_count(model);
    riffle_model_close(model);
    return check_result();
}
