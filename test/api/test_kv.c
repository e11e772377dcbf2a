/* Sessions whose KV cache quantises: what they cost, that chains write what plain decoding writes,
 * with drafts that read the cache in 4 bits as well, and that texts can be cut, forked, saved and
 * loaded. */
#include "api/answers.h"

enum { PROMPT = 300, CONTEXT = 512, WRITTEN = 150 };

static riffle_session *open_kv(riffle_model *model, const char *kv, const char *chain,
                               int32_t gamma)
{
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.kv = kv;
    options.chain = chain;
    options.gamma = gamma;
    options.n_ctx = CONTEXT;
    options.threads = 2;
    riffle_session *session = NULL;
    CHECK_OK(riffle_session_open(&session, model, &options));
    if (!session) exit(1);
    return session;
}

/* Drafts of a chain can read a window of the text, or the device refuses such a chain with a
 * sentence. Only the processor must not. */
static int can_run(riffle_model *model, const char *kv, const char *chain)
{
    riffle_model_info info;
    riffle_session_options options;
    riffle_session *session = NULL;
    riffle_session_options_init(&options, sizeof options);
    options.kv = kv;
    options.chain = chain;
    options.n_ctx = CONTEXT;
    CHECK_OK(riffle_model_get_info(model, &info, sizeof info));
    if (strcmp(info.device, "cpu") == 0 || !strstr(chain, "window")) return 1;
    int code = riffle_session_open(&session, model, &options);
    riffle_session_close(session);
    if (!code) return 1;
    CHECK_INT(code, RIFFLE_ERR_UNSUPPORTED);
    CHECK(strstr(riffle_last_error(), "drafts that read a window") != NULL);
    return 0;
}

static struct prompt prompt;

static struct answer answer_of(riffle_session *session, int32_t n)
{
    static struct answer answer;
    answer = (struct answer){.n = 0};
    add_tokens(session, n, &answer);
    return answer;
}

static int same_answer(const struct answer *a, const struct answer *b)
{
    return a->n == b->n && memcmp(a->tokens, b->tokens, (size_t)a->n * sizeof *a->tokens) == 0;
}

static void chains_change_nothing(riffle_model *model, const char *kv)
{
    static const char *const chains[] = {"kv4",
                                         "mxfp4:kv4",
                                         "ngram > stored:kv4",
                                         "stored",
                                         "mxfp4",
                                         "ngram > mxfp4:kv4 > kv4",
                                         "mxfp4:window > mxfp4:kv4"};
    riffle_session *plain = open_kv(model, kv, "none", 0);
    begin(plain, &prompt);
    struct answer wanted = answer_of(plain, WRITTEN);
    CHECK_INT(wanted.n, WRITTEN);
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
        for (int32_t gamma = 0; gamma <= 15 && can_run(model, kv, chains[i]); gamma += 5) {
            if (IS_SANITIZED && (gamma / 5 + (int32_t)i) % 4) continue; /* one length a chain */
            riffle_session *session = open_kv(model, kv, chains[i], gamma);
            begin(session, &prompt);
            struct answer got = answer_of(session, WRITTEN);
            CHECK_MSG(same_answer(&got, &wanted), "kv %s, chain %s, gamma %d: other tokens", kv,
                      chains[i], gamma);
            uint64_t accepted = 0;
            if (gamma) CHECK(count_drafted(session, &accepted) > 0);
            riffle_session_close(session);
        }
    riffle_session_close(plain);
}

static void texts_go_on(riffle_model *model, const char *kv)
{
    char path[4096];
    temporary_path("kv-state", path, sizeof path);
    riffle_session *session = open_kv(model, kv, "none", 0), *copy,
                   *other = open_kv(model, kv, "none", 0), *half = open_kv(model, "f16", "none", 0);
    begin(session, &prompt);
    struct answer wanted = answer_of(session, WRITTEN), got;
    CHECK_OK(riffle_rewind(session, PROMPT)); /* into what was quantised since */
    got = answer_of(session, WRITTEN);
    CHECK(same_answer(&got, &wanted));
    CHECK_OK(riffle_rewind(session, PROMPT));
    CHECK_OK(riffle_fork(&copy, session));
    got = answer_of(copy, WRITTEN);
    CHECK(same_answer(&got, &wanted));
    riffle_session_close(copy);
    CHECK_OK(riffle_state_save(session, path));
    CHECK_OK(riffle_state_load(other, path));
    got = answer_of(other, WRITTEN);
    CHECK(same_answer(&got, &wanted));
    CHECK(riffle_state_load(half, path) == RIFFLE_ERR_ARGUMENT);
    CHECK(strstr(riffle_last_error(), "KV") != NULL);
    unlink(path);
    riffle_session_close(session);
    riffle_session_close(other);
    riffle_session_close(half);
}

static uint64_t cost_of(riffle_model *model, const char *kv)
{
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.kv = kv;
    options.n_ctx = CONTEXT;
    uint64_t bytes = 0;
    CHECK_OK(riffle_session_cost(model, &options, NULL, &bytes));
    return bytes;
}

static void what_is_wrong_is_named(riffle_model *model)
{
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    riffle_session *session;
    options.kv = "q5";
    CHECK_INT(riffle_session_open(&session, model, &options), RIFFLE_ERR_ARGUMENT);
    CHECK(strstr(riffle_last_error(), "known are f16, bf16, q8 and q4") != NULL);
    options.kv = "f16";
    options.chain = "mxfp4:kv4";
    CHECK_INT(riffle_session_open(&session, model, &options), RIFFLE_ERR_ARGUMENT);
    CHECK(strstr(riffle_last_error(), "the level mxfp4:kv4 reads a KV cache") != NULL);
}

int main(void)
{
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.chain = "ngram > mxfp4:window > mxfp4:kv4 > mxfp4 > stored:kv4 > stored > kv4";
    riffle_model *model;
    if (CHECK_OK(riffle_model_open(&model, TINY_MODEL, &options)) < 0) return check_result();
    uint64_t random = 20260102;
    prompt.n = PROMPT;
    for (int i = 0; i < PROMPT; i++) prompt.tokens[i] = (int32_t)(next_random(&random) % 512);
    const char *const kinds[] = {"q8", "q4"};
    for (int k = 0; k < 2; k++) {
        chains_change_nothing(model, kinds[k]);
        texts_go_on(model, kinds[k]);
    }
    CHECK(cost_of(model, "bf16") == cost_of(model, "f16"));
    CHECK(cost_of(model, "q4") < cost_of(model, "q8"));
    what_is_wrong_is_named(model);
    riffle_model_close(model);
    return check_result();
}
