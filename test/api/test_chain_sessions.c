/* Sessions with chains that are disturbed: cancelled within the passes of every level, and led
 * back, forked, saved, scored and read to in any order, beside a plain session that goes the same
 * way. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "api/answers.h"
#include "api/handles.h"
#include "cpu/cpu.h"

/* Sessions of the float model; from SETTING_16 on, of the quantised one with 16-bit activations. */
static const struct setting settings[] = {
    {.chain = "ngram", .gamma = 4},
    {.chain = "mxfp4", .gamma = 5},
    {.chain = "draft", .gamma = 3},
    {.chain = "ngram > mxfp4", .gamma = 0},
    {.chain = "ngram > draft > mxfp4", .gamma = 0},
    {.chain = "ngram > draft > mxfp4 > q4", .gamma = 4},
    {.chain = "draft > q4", .gamma = 15, .min_confidence = 0.4f},
    {.chain = "head", .gamma = 4},
    {.chain = "ngram > head > mxfp4", .gamma = 0},
    {.chain = "a8", .gamma = 5},
    {.chain = "ngram > a8", .gamma = 0},
    {.chain = "ngram > draft > a8", .gamma = 15, .min_confidence = 0.4f}};
enum { N_SETTINGS = sizeof settings / sizeof *settings, SETTING_16 = N_SETTINGS - 3 };

static riffle_model *open_model(int in_16)
{
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.chain = in_16 ? "ngram > draft > a8" : "ngram > head > draft > mxfp4 > q4";
    options.head = in_16 ? NULL : TINY_HEAD;
    options.activations = in_16 ? "16" : "auto";
    options.draft = in_16 ? TINY_MODEL : QUANTISED_MODEL;
    options.chat_template = "chatml";
    riffle_model *model;
    if (riffle_model_open(&model, in_16 ? QUANTISED_MODEL : TINY_MODEL, &options) < 0) {
        fprintf(stderr, "%s\n", riffle_last_error());
        exit(1);
    }
    return model;
}

static riffle_session *open_setting(riffle_model *model, int s, int32_t n_ctx, int32_t threads)
{
    struct setting setting = settings[s];
    setting.n_ctx = n_ctx;
    setting.threads = threads;
    return open_with(model, &setting);
}

/* ---- cancelling ---- */

/* The kernels of every level, but that the session is cancelled in a certain call of attention's.
 * Each layer of each pass has at least one for each head of keys. */
static struct {
    void (*real)(const struct rf_attention_args *args);
    riffle_session *session;
    atomic_int left; /* calls until then */
} saboteur;

static void sabotaged_attention(const struct rf_attention_args *args)
{
    if (atomic_fetch_sub(&saboteur.left, 1) == 1) riffle_cancel(saboteur.session);
    saboteur.real(args);
}

/* For sessions that are opened afterwards. */
static void sabotage(riffle_model *model)
{
    static struct rf_kernels kernels;
    struct cpu_backend *backend = (struct cpu_backend *)model->engine->backend;
    kernels = *backend->kernels;
    saboteur.real = kernels.attention_f16;
    kernels.attention_f16 = sabotaged_attention;
    backend->kernels = &kernels;
}

enum { WANTED = 24 };

/* Cancelled in each layer of each pass in turn: the session is at the token that was told last, and
 * goes on as if nothing had been. */
static void passes_are_cancelled(riffle_model *model, const struct prompt *prompt, int first,
                                 int end)
{
    static struct answer wanted, got;
    const int calls = model->engine->source->params.n_head_kv; /* calls for a layer, at least */
    riffle_session *session = open_with(model, &(struct setting){.chain = "none", .threads = 1});
    begin(session, prompt);
    wanted = (struct answer){.n = 0};
    add_tokens(session, WANTED, &wanted);
    riffle_session_close(session);
    for (int s = first; s < end; s++) {
        session = open_setting(model, s, 0, s == 4 ? 2 : 1);
        saboteur.session = session;
        int cancelled_once = 1;
        for (int k = 1; cancelled_once; k += calls * (s == 4 ? 19 : IS_SANITIZED ? 5 : 1)) {
            begin(session, prompt);
            got = (struct answer){.n = 0};
            saboteur.left = k;
            add_tokens(session, WANTED, &got);
            cancelled_once = saboteur.left <= 0;
            saboteur.left = 0;
            CHECK(got.finish == RIFFLE_FINISH_CANCELLED ? cancelled_once : got.n == WANTED);
            CHECK_INT(riffle_session_tokens(session, NULL), prompt->n + got.n);
            if (got.n < WANTED) add_tokens(session, WANTED - got.n, &got);
            got.finish = wanted.finish; /* the last token may be what was cancelled */
            check_same_answer(&got, &wanted, settings[s].chain);
        }
        /* A step that is cancelled has done nothing. */
        begin(session, prompt);
        got = (struct answer){.n = 0};
        for (int k = 0; got.n < WANTED && k < 2000; k++) {
            saboteur.left = 1 + calls * (k * 37 % 400); /* some rounds have time to finish */
            int32_t before = riffle_session_tokens(session, NULL);
            int64_t n = riffle_step(session, got.tokens + got.n, (size_t)(WANTED - got.n));
            if (n == RIFFLE_ERR_CANCELLED)
                CHECK_INT(riffle_session_tokens(session, NULL), before);
            else if (CHECK_OK(n) > 0)
                got.n += (int32_t)n;
            else
                break;
        }
        saboteur.left = 0;
        check_same_ids(&got, &wanted, settings[s].chain);
        /* So has a look at the logits. */
        saboteur.left = 2 * calls;
        static float logits[512];
        CHECK_FAILS(riffle_logits(session, logits, 512), RIFFLE_ERR_CANCELLED);
        CHECK_INT(riffle_session_tokens(session, NULL), prompt->n + WANTED);
        saboteur.left = 0;
        CHECK_OK(riffle_logits(session, logits, 512));
        riffle_session_close(session);
    }
}

struct canceller {
    riffle_session *session;
    atomic_int done;
};

/* Cancels a hundred times, at moments that nobody chose. */
static void *cancel_often(void *user)
{
    struct canceller *canceller = user;
    uint64_t random = 7;
    for (int i = 0; i < 100 && !atomic_load(&canceller->done); i++) {
        for (uint32_t n = next_random(&random) % 200; n > 0; n--) sched_yield();
        riffle_cancel(canceller->session);
    }
    return NULL;
}

static void another_thread_cancels(riffle_model *model, const struct prompt *prompt, int first,
                                   int end)
{
    enum { LONG = 300 };
    static struct answer wanted, got;
    riffle_session *session = open_with(model, &(struct setting){.chain = "none", .threads = 1});
    begin(session, prompt);
    wanted = (struct answer){.n = 0};
    add_tokens(session, LONG, &wanted);
    riffle_session_close(session);
    for (int s = first; s < end; s++) {
        session = open_setting(model, s, 0, 1);
        begin(session, prompt);
        struct canceller canceller = {.session = session};
        pthread_t thread;
        if (pthread_create(&thread, NULL, cancel_often, &canceller)) exit(1);
        got = (struct answer){.n = 0};
        while (got.n < LONG) {
            add_tokens(session, LONG - got.n, &got);
            CHECK(got.finish == (got.n < LONG ? RIFFLE_FINISH_CANCELLED : got.finish));
        }
        atomic_store(&canceller.done, 1);
        pthread_join(thread, NULL);
        got.finish = wanted.finish; /* the last token may have been cancelled, too */
        check_same_answer(&got, &wanted, settings[s].chain);
        riffle_session_close(session);
    }
}

/* ---- in any order ---- */

enum { N_CTX = 160, VOCAB = 512 };

/* Two sessions that are asked for the same, and of which only one drafts. */
struct pair {
    riffle_session *plain, *drafting;
    const char *what;
    int step;
};

static void check_alike(const struct pair *pair)
{
    const int32_t *a, *b;
    int32_t n = riffle_session_tokens(pair->plain, &a),
            n_drafting = riffle_session_tokens(pair->drafting, &b);
    CHECK_MSG(n == n_drafting && (n == 0 || memcmp(a, b, (size_t)n * sizeof *a) == 0),
              "%s, step %d: the sessions differ: %d and %d tokens", pair->what, pair->step, n,
              n_drafting);
}

static void read_tokens(struct pair *pair, uint64_t *random)
{
    static const char *const texts[] = {" The cat sat on the mat.", "\nOnce upon a time",
                                        " and then the dog ran away."};
    int32_t tokens[64], n = (int32_t)(next_random(random) % 12);
    if (n < 3) {
        riffle_model *model = pair->plain->model;
        n = (int32_t)CHECK_OK(riffle_tokenize(model, texts[n], strlen(texts[n]), 0, tokens, 64));
    } else {
        for (int32_t i = 0; i < n; i++) tokens[i] = (int32_t)(next_random(random) % VOCAB);
    }
    int code = riffle_prefill(pair->plain, tokens, (size_t)n);
    CHECK_INT(riffle_prefill(pair->drafting, tokens, (size_t)n), code);
    CHECK(code == 0 || code == RIFFLE_ERR_CONTEXT);
}

static void generate_some(struct pair *pair, uint64_t *random)
{
    static struct answer wanted, got;
    wanted = got = (struct answer){.n = 0};
    riffle_generate_options options;
    riffle_generate_options_init(&options, sizeof options);
    static const char *const stops[] = {" the", "."};
    options.max_tokens = (int32_t)(next_random(random) % 20);
    options.ignore_eos = (int32_t)(next_random(random) % 2);
    options.stop = stops;
    options.n_stop = next_random(random) % 4 == 0 ? 2 : 0;
    int32_t stop_after = next_random(random) % 3 == 0 ? 1 + (int32_t)(next_random(random) % 6) : 0;
    add_generated(pair->plain, &options, stop_after, &wanted);
    add_generated(pair->drafting, &options, stop_after, &got);
    check_same_answer(&got, &wanted, pair->what);
}

static void step_some(struct pair *pair, uint64_t *random)
{
    size_t one = 1, caps[] = {1 + next_random(random) % 20, 3};
    static struct answer wanted, got;
    wanted = got = (struct answer){.n = 0};
    int32_t n = 1 + (int32_t)(next_random(random) % 12);
    add_steps(pair->plain, &one, 1, n, &wanted);
    add_steps(pair->drafting, caps, 2, n, &got);
    check_same_ids(&got, &wanted, pair->what);
}

static void rewind_both(struct pair *pair, uint64_t *random)
{
    int32_t n = riffle_session_tokens(pair->plain, NULL),
            to = n - (int32_t)(next_random(random) % 24);
    if (next_random(random) % 8 == 0) to = (int32_t)(next_random(random) % (uint32_t)(n + 1));
    if (to < 1) to = 1;
    CHECK_OK(riffle_rewind(pair->plain, to));
    CHECK_OK(riffle_rewind(pair->drafting, to));
}

static void compare_logits(const struct pair *pair)
{
    static float wanted[VOCAB], got[VOCAB];
    CHECK_OK(riffle_logits(pair->plain, wanted, VOCAB));
    CHECK_OK(riffle_logits(pair->drafting, got, VOCAB));
    CHECK_MSG(memcmp(got, wanted, sizeof got) == 0, "%s, step %d: the logits differ", pair->what,
              pair->step);
}

static void compare_scores(const struct pair *pair, uint64_t *random)
{
    int32_t tokens[8];
    double wanted[8], got[8];
    size_t n = 1 + next_random(random) % 8, first = next_random(random) % 2;
    for (size_t i = 0; i < n; i++) tokens[i] = (int32_t)(next_random(random) % VOCAB);
    int code = riffle_score(pair->plain, tokens, n, first, wanted);
    CHECK_INT(riffle_score(pair->drafting, tokens, n, first, got), code);
    if (code == 0)
        CHECK_MSG(memcmp(got, wanted, (n - first) * sizeof *got) == 0,
                  "%s, step %d: the scores differ", pair->what, pair->step);
}

/* The copies go on, the first ones end. */
static void fork_both(struct pair *pair)
{
    riffle_session *plain, *drafting;
    if (CHECK_OK(riffle_fork(&plain, pair->plain)) < 0 ||
        CHECK_OK(riffle_fork(&drafting, pair->drafting)) < 0)
        exit(1);
    riffle_session_close(pair->plain);
    riffle_session_close(pair->drafting);
    pair->plain = plain;
    pair->drafting = drafting;
}

/* Each session is saved; then both go elsewhere, and on from the other's file. */
static void save_and_load(struct pair *pair, uint64_t *random, const char *const paths[2])
{
    CHECK_OK(riffle_state_save(pair->plain, paths[0]));
    CHECK_OK(riffle_state_save(pair->drafting, paths[1]));
    if (next_random(random) % 2) generate_some(pair, random);
    CHECK_OK(riffle_state_load(pair->plain, paths[1]));
    CHECK_OK(riffle_state_load(pair->drafting, paths[0]));
}

static void sample_otherwise(struct pair *pair, uint64_t *random)
{
    riffle_sampling sampling;
    riffle_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = next_random(random) % 2 ? 0.9f : 0.0f;
    sampling.repeat_penalty = next_random(random) % 2 ? 1.2f : 1.0f;
    sampling.seed = next_random(random);
    CHECK_OK(riffle_session_set_sampling(pair->plain, &sampling));
    CHECK_OK(riffle_session_set_sampling(pair->drafting, &sampling));
}

static void chat_with_both(struct pair *pair, uint64_t *random)
{
    static const riffle_message messages[] = {
        {"user", "Hi."}, {"assistant", "The ball."}, {"user", "Why?"}};
    size_t n = 1 + next_random(random) % 3;
    int64_t read = riffle_chat_prefill(pair->plain, messages, n);
    CHECK_INT(riffle_chat_prefill(pair->drafting, messages, n), read);
    CHECK(read >= 0 || read == RIFFLE_ERR_CONTEXT);
}

static void sessions_go_the_same_way(riffle_model *model, int s)
{
    enum { STEPS = IS_SANITIZED ? 200 : 800 };
    char paths[2][4096];
    temporary_path("plain-state", paths[0], sizeof paths[0]);
    temporary_path("drafting-state", paths[1], sizeof paths[1]);
    const char *const both[] = {paths[0], paths[1]};
    uint64_t random = 88172645463325252u + (uint64_t)s;
    struct pair pair = {
        .plain = open_with(model, &(struct setting){.chain = "none", .n_ctx = N_CTX, .threads = 1}),
        .drafting = open_setting(model, s, N_CTX, 1),
        .what = settings[s].chain};
    int32_t bos = 1;
    CHECK_OK(riffle_prefill(pair.plain, &bos, 1));
    CHECK_OK(riffle_prefill(pair.drafting, &bos, 1));
    for (; pair.step < STEPS; pair.step++) {
        switch (next_random(&random) % 16) {
        case 0:
        case 1:
        case 2: read_tokens(&pair, &random); break;
        case 3:
        case 4:
        case 5:
        case 6: generate_some(&pair, &random); break;
        case 7: step_some(&pair, &random); break;
        case 8:
        case 9:
        case 10: rewind_both(&pair, &random); break;
        case 11: compare_logits(&pair); break;
        case 12: compare_scores(&pair, &random); break;
        case 13: fork_both(&pair); break;
        case 14:
            next_random(&random) % 2 ? save_and_load(&pair, &random, both)
                                     : chat_with_both(&pair, &random);
            break;
        default: sample_otherwise(&pair, &random); break;
        }
        check_alike(&pair);
    }
    riffle_session_close(pair.plain);
    riffle_session_close(pair.drafting);
    remove(paths[0]);
    remove(paths[1]);
}

int main(void)
{
    static struct prompt prompts[N_PROMPTS];
    for (int in_16 = 0; in_16 < 2; in_16++) {
        int first = in_16 ? SETTING_16 : 0, end = in_16 ? N_SETTINGS : SETTING_16;
        riffle_model *model = open_model(in_16);
        make_prompts(model, prompts);
        for (int s = first; s < end; s++) sessions_go_the_same_way(model, s);
        another_thread_cancels(model, &prompts[0], first, end);
        sabotage(model);
        passes_are_cancelled(model, &prompts[1], first, end);
        riffle_model_close(model);
    }
    return check_result();
}
