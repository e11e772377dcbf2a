/* Sessions of models whose layers, some or all, have a window: texts that are longer go back, are
 * saved, forked and drafted as those of any model, and take less memory. */
#include "api/helpers.h"

enum { N_CTX = 2048, N = 1900, N_IDS = 288 };

static int32_t text[N_CTX];

static riffle_session *open_with(riffle_model *model, const char *chain, const char *kv)
{
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.n_ctx = N_CTX;
    options.threads = 2;
    options.chain = chain;
    options.kv = kv;
    riffle_session *session = NULL;
    CHECK_OK(riffle_session_open(&session, model, &options));
    if (!session) exit(1);
    return session;
}

/* The answer after the first n tokens, read in order by a session without drafts. */
static struct tokens plain_answer(riffle_model *model, const char *kv, int32_t n)
{
    riffle_session *session = open_with(model, "none", kv);
    CHECK_OK(riffle_prefill(session, text, (size_t)n));
    struct tokens answer = generate(session, 40);
    riffle_session_close(session);
    return answer;
}

static void check_answer(riffle_session *session, const struct tokens *wanted, const char *what)
{
    struct tokens answer = generate(session, 40);
    CHECK_MSG(same_tokens(&answer, wanted), "%s: another answer", what);
}

static void texts_go_back(riffle_model *model, const char *chain, const char *kv)
{
    static const int32_t places[] = {N - 20, 1200, 300};
    riffle_session *session = open_with(model, chain, kv), *fork;
    CHECK_OK(riffle_prefill(session, text, N));
    struct tokens wanted = plain_answer(model, kv, N);
    check_answer(session, &wanted, "a long text");
    CHECK_OK(riffle_rewind(session, N));
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        CHECK_OK(riffle_fork(&fork, session));
        CHECK_OK(riffle_rewind(fork, places[i]));
        wanted = plain_answer(model, kv, places[i]);
        check_answer(fork, &wanted, "a fork that went back");
        riffle_session_close(fork);
    }
    riffle_session_close(session);
}

/* The version is in the header behind the magic. */
static void files_of_old_versions_are_refused(riffle_session *session, const char *path)
{
    enum { VERSION_AT = 8 };
    uint32_t version = 6;
    FILE *file = fopen(path, "r+b");
    CHECK(file && fseek(file, VERSION_AT, SEEK_SET) == 0 &&
          fwrite(&version, sizeof version, 1, file) == 1);
    if (file) fclose(file);
    CHECK_FAILS(riffle_state_load(session, path), RIFFLE_ERR_UNSUPPORTED);
    CHECK(strstr(riffle_last_error(), "layers with a window are stored otherwise") != NULL);
}

static void texts_are_saved(riffle_model *model, const char *kv, const char *path)
{
    riffle_session *session = open_with(model, "none", kv), *other = open_with(model, "none", kv);
    CHECK_OK(riffle_prefill(session, text, N));
    CHECK_OK(riffle_state_save(session, path));
    struct tokens wanted = plain_answer(model, kv, N);
    CHECK_OK(riffle_state_load(other, path));
    check_answer(other, &wanted, "a saved text");
    CHECK_OK(riffle_rewind(other, N - 400));
    wanted = plain_answer(model, kv, N - 400);
    check_answer(other, &wanted, "a saved text that was cut");
    files_of_old_versions_are_refused(other, path);
    remove(path);
    riffle_session_close(session);
    riffle_session_close(other);
}

/* Layers with a window take of a long context what they keep. */
static void costs_are_smaller(riffle_model *model)
{
    riffle_model_info info;
    riffle_session_options options;
    int32_t n_ctx = 0;
    uint64_t bytes = 0;
    riffle_session_options_init(&options, sizeof options);
    CHECK_OK(riffle_model_get_info(model, &info, sizeof info));
    options.n_ctx = N_CTX;
    CHECK_OK(riffle_session_cost(model, &options, &n_ctx, &bytes));
    CHECK_INT(n_ctx, N_CTX);
    CHECK(bytes < (uint64_t)n_ctx * info.kv_bytes_per_token);
}

int main(void)
{
    char path[4096];
    riffle_model *model = NULL;
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.chain = "ngram > mxfp4:window > mxfp4:kv4 > mxfp4 > window > kv4";
    CHECK_OK(riffle_model_open(&model, TINY_MODEL, &options));
    if (!model) return 1;
    temporary_path("windows", path, sizeof path);
    for (int32_t i = 0; i < N_CTX; i++) text[i] = (i * 37 + i * i / 11) % N_IDS;
    costs_are_smaller(model);
    texts_go_back(model, "none", "f16");
    texts_go_back(model, "mxfp4:window > mxfp4", "f16");
    texts_go_back(model, "ngram > window", "f16");
    texts_go_back(model, "mxfp4:kv4", "q8");
    texts_are_saved(model, "f16", path);
    texts_are_saved(model, "q8", path);
    riffle_model_close(model);
    return check_result();
}
