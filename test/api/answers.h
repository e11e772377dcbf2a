/* Answers of a session, taken in any way that the interface offers, so that chains can be compared
 * with plain decoding. */
#ifndef RF_TEST_API_ANSWERS_H
#define RF_TEST_API_ANSWERS_H

#include "api/helpers.h"

enum { ANSWER_TOKENS = 640, ANSWER_BYTES = 8192, N_PROMPTS = 7, LONGEST_PROMPT = 448 };

struct prompt {
    int32_t tokens[LONGEST_PROMPT];
    int32_t n;
};

struct answer {
    int32_t tokens[ANSWER_TOKENS];
    int32_t n;
    char text[ANSWER_BYTES];
    size_t bytes;
    riffle_finish finish;
    char sentence[256];
};

static inline uint32_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state >> 32);
}

/* Stories, a line that is repeated, words in no order, one token, tokens in no order. */
static inline void make_prompts(const riffle_model *model, struct prompt prompts[N_PROMPTS])
{
    static const char *const texts[] = {
        "Once upon a time, there was a little girl who had a red ball.",
        ("One day, Tom and Lily went to the park. Tom said, \"I want to swing.\" Lily said, \"I "
         "want to swing too.\""),
        "The big dog was sad. He did not have a friend.\n\nThe big dog was"};
    static const char *const words[] = {"tree", "happy", "the", "car", "and", "9",
                                        "!",    "blue",  "sky", "x",   "\n",  "run"};
    static char text[4096];
    uint64_t random = 20260101;
    for (int p = 0; p < N_PROMPTS; p++) {
        text[0] = 0;
        if (p < 3) snprintf(text, sizeof text, "%s", texts[p]);
        for (int i = 0; p == 3 && i < 50; i++) strcat(text, "The cat sat. ");
        for (int i = 0; p == 4 && i < 30; i++) {
            strcat(text, words[next_random(&random) % (sizeof words / sizeof *words)]);
            strcat(text, " ");
        }
        int64_t n = riffle_tokenize(model, text, strlen(text), RIFFLE_TOKENIZE_BOS,
                                    prompts[p].tokens, LONGEST_PROMPT);
        CHECK_MSG(n > 0 && n <= LONGEST_PROMPT, "prompt %d has %lld tokens", p, (long long)n);
        prompts[p].n = (int32_t)n;
    }
    /* 5 is one token: that of an empty text. */
    prompts[6].n = 40;
    for (int i = 0; i < 40; i++) prompts[6].tokens[i] = (int32_t)(next_random(&random) % 512);
}

/* The options that differ between sessions of one model. */
struct setting {
    const char *chain;
    int32_t gamma;
    float min_confidence;
    int32_t n_ctx, threads;
};

/* A test cannot go on without its session. */
static inline riffle_session *open_with(riffle_model *model, const struct setting *setting)
{
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.chain = setting->chain;
    options.gamma = setting->gamma;
    options.min_confidence = setting->min_confidence;
    options.n_ctx = setting->n_ctx;
    options.threads = setting->threads;
    riffle_session *session;
    if (riffle_session_open(&session, model, &options) < 0) {
        fprintf(stderr, "%s: %s\n", setting->chain ? setting->chain : "the model's chain",
                riffle_last_error());
        exit(1);
    }
    return session;
}

static inline void begin(riffle_session *session, const struct prompt *prompt)
{
    CHECK_OK(riffle_rewind(session, 0));
    CHECK_OK(riffle_prefill(session, prompt->tokens, (size_t)prompt->n));
}

struct listener {
    riffle_session *session;
    struct answer *answer;
    int32_t n_before, stop_after;
    int is_alone; /* every callback finds the session just behind its token */
};

static inline int listen(void *user, const riffle_event *event)
{
    struct listener *listener = user;
    struct answer *answer = listener->answer;
    if (answer->bytes + event->text_bytes <= sizeof answer->text) {
        memcpy(answer->text + answer->bytes, event->text, event->text_bytes);
        answer->bytes += event->text_bytes;
    }
    if (event->token < 0 || answer->n == ANSWER_TOKENS) return 0;
    answer->tokens[answer->n++] = event->token;
    const int32_t *held;
    int32_t told = answer->n - listener->n_before;
    int32_t n_held = riffle_session_tokens(listener->session, &held);
    listener->is_alone &= n_held >= told && held[n_held - 1] == event->token &&
                          memcmp(held + n_held - told, answer->tokens + listener->n_before,
                                 (size_t)told * sizeof *held) == 0;
    return told == listener->stop_after;
}

/* riffle_generate from where the session is; adds to the answer. stop_after: tokens after which the
 * callback stops it. */
static inline int64_t add_generated(riffle_session *session, const riffle_generate_options *options,
                                    int32_t stop_after, struct answer *answer)
{
    struct listener listener = {.session = session,
                                .answer = answer,
                                .n_before = answer->n,
                                .stop_after = stop_after,
                                .is_alone = 1};
    const char *sentence;
    int32_t n_before = riffle_session_tokens(session, NULL);
    int64_t n = CHECK_OK(riffle_generate(session, options, listen, &listener));
    answer->finish = riffle_session_finish(session, &sentence);
    snprintf(answer->sentence, sizeof answer->sentence, "%s", sentence);
    CHECK_INT(n, answer->n - listener.n_before);
    CHECK_INT(riffle_session_tokens(session, NULL), n_before + n);
    CHECK(listener.is_alone);
    return n;
}

/* Up to `max` tokens (0: no limit), whatever they are. */
static inline int64_t add_tokens(riffle_session *session, int32_t max, struct answer *answer)
{
    riffle_generate_options options;
    riffle_generate_options_init(&options, sizeof options);
    options.max_tokens = max;
    options.ignore_eos = 1;
    return add_generated(session, &options, 0, answer);
}

/* riffle_step to exactly `max` tokens or the end of the context, with caps that are taken in turn.
 */
static inline void add_steps(riffle_session *session, const size_t *caps, size_t n_caps,
                             int32_t max, struct answer *answer)
{
    int32_t end = answer->n + max;
    for (size_t i = 0; answer->n < end; i++) {
        size_t cap = caps[i % n_caps], left = (size_t)(end - answer->n);
        int64_t n = riffle_step(session, answer->tokens + answer->n, cap < left ? cap : left);
        if (n == RIFFLE_ERR_CONTEXT) return;
        CHECK_OK(n);
        CHECK(n >= 1 && n <= (int64_t)(cap < left ? cap : left));
        if (n < 1) return;
        answer->n += (int32_t)n;
    }
}

static inline void check_same_ids(const struct answer *got, const struct answer *wanted,
                                  const char *what)
{
    int32_t at = 0;
    while (at < got->n && at < wanted->n && got->tokens[at] == wanted->tokens[at]) at++;
    CHECK_MSG(at == got->n && at == wanted->n,
              "%s: %d tokens, not %d; the first that differs is %d", what, got->n, wanted->n, at);
}

static inline void check_same_answer(const struct answer *got, const struct answer *wanted,
                                     const char *what)
{
    check_same_ids(got, wanted, what);
    CHECK_MSG(got->bytes == wanted->bytes && memcmp(got->text, wanted->text, got->bytes) == 0,
              "%s: the text is \"%.*s\", not \"%.*s\"", what, (int)got->bytes, got->text,
              (int)wanted->bytes, wanted->text);
    CHECK_MSG(got->finish == wanted->finish, "%s: finish %d, not %d", what, (int)got->finish,
              (int)wanted->finish);
    CHECK_MSG(strcmp(got->sentence, wanted->sentence) == 0, "%s: \"%s\", not \"%s\"", what,
              got->sentence, wanted->sentence);
}

/* Counts the tokens that all levels but the target drafted, and the accepted ones. */
static inline uint64_t count_drafted(const riffle_session *session, uint64_t *accepted)
{
    riffle_stats stats;
    uint64_t drafted = 0;
    *accepted = 0;
    CHECK_OK(riffle_session_get_stats(session, &stats, sizeof stats));
    for (int32_t l = 0; l < stats.n_levels; l++) {
        drafted += stats.levels[l].drafted;
        *accepted += stats.levels[l].accepted;
        CHECK(stats.levels[l].accepted <= stats.levels[l].drafted);
    }
    return drafted;
}

#endif
