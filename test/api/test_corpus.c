#define _GNU_SOURCE
/* Corpora through the interface: building one, drafting from it, and what is refused. Answers are
 * those of plain decoding. */
#include <stdlib.h>
#include <unistd.h>

#include "riffle_experimental.h"
#include "support/check.h"

enum { LONG = 120, N_TEXTS = 3 };

static char path[] = "/tmp/riffle-test-corpus-XXXXXX";
static const char *const beginnings[N_TEXTS] = {"Once upon a time, there was a", "One day, Lily",
                                                "The little dog saw"};

static riffle_model *open_model(const char *corpus, const char *chain, uint32_t flags)
{
    riffle_model_options options;
    riffle_model *model;
    riffle_model_options_init(&options, sizeof options);
    options.corpus = corpus;
    options.chain = chain;
    options.flags = flags;
    options.threads = 1;
    if (riffle_model_open(&model, "stories260K.gguf", &options)) CHECK(!model);
    return model;
}

static riffle_session *open_session(riffle_model *model, const char *chain, int32_t gamma)
{
    riffle_session_options options;
    riffle_session *session;
    riffle_session_options_init(&options, sizeof options);
    options.threads = 1;
    options.chain = chain;
    options.gamma = gamma;
    int code = riffle_session_open(&session, model, &options);
    CHECK_MSG(code == 0, "%s: %s", chain, riffle_last_error());
    return session;
}

/* Goes on from a beginning, greedily for the seed 0. */
static void answer(riffle_model *model, riffle_session *session, const char *beginning,
                   uint64_t seed, int32_t tokens[LONG])
{
    riffle_sampling sampling;
    riffle_generate_options options;
    const int32_t *all;
    riffle_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = seed ? 0.7f : 0.0f;
    sampling.seed = seed;
    riffle_generate_options_init(&options, sizeof options);
    options.max_tokens = LONG;
    options.ignore_eos = options.ignore_repetition = 1;
    int64_t n =
        riffle_tokenize(model, beginning, strlen(beginning), RIFFLE_TOKENIZE_BOS, tokens, LONG);
    CHECK(n > 0);
    CHECK_INT(riffle_rewind(session, 0), 0);
    CHECK_INT(riffle_session_set_sampling(session, &sampling), 0);
    CHECK_INT(riffle_prefill(session, tokens, (size_t)n), 0);
    CHECK_INT(riffle_generate(session, &options, NULL, NULL), LONG);
    CHECK_INT(riffle_session_tokens(session, &all), (int32_t)n + LONG);
    memcpy(tokens, all + n, LONG * sizeof *tokens);
}

/* Builds a corpus of what the model writes itself: `texts` get its greedy answers. */
static void build_from_answers(riffle_model *model, int32_t plain[N_TEXTS][LONG])
{
    static char text[N_TEXTS][8192];
    riffle_text texts[N_TEXTS];
    riffle_corpus_options options;
    riffle_corpus_info info;
    riffle_session *session = open_session(model, "none", 0);
    for (int i = 0; i < N_TEXTS; i++) {
        answer(model, session, beginnings[i], 0, plain[i]);
        size_t begin = (size_t)snprintf(text[i], sizeof text[i], "%s", beginnings[i]);
        int64_t n =
            riffle_detokenize(model, plain[i], LONG, 0, text[i] + begin, sizeof text[i] - begin);
        CHECK(n > 0 && n < (int64_t)sizeof text[i] / 2);
        texts[i] = (riffle_text){text[i], begin + (size_t)n};
    }
    riffle_session_close(session);
    riffle_corpus_options_init(&options, sizeof options);
    options.keep = 0.5f;
    CHECK_INT(riffle_corpus_build(model, path, texts, N_TEXTS, &options, &info, sizeof info), 0);
    CHECK(info.kept_tokens > 0 && info.kept_tokens < info.tokens);
    CHECK_INT(riffle_corpus_build(model, path, texts, N_TEXTS, NULL, &info, sizeof info), 0);
    CHECK(info.kept_tokens == info.tokens && info.bytes > 4 * info.tokens);
}

/* Without `gamma` measured times decide how often a source is asked, so nothing is counted. */
static void check_chain(riffle_model *model, const char *chain, int32_t gamma,
                        int32_t plain[N_TEXTS][LONG])
{
    riffle_session *without = open_session(model, "none", 0);
    riffle_session *session = open_session(model, chain, gamma);
    int32_t tokens[LONG], drawn[LONG];
    riffle_stats stats = {.n_levels = 0};
    for (int i = 0; session && i < N_TEXTS; i++) {
        answer(model, session, beginnings[i], 0, tokens);
        CHECK(memcmp(tokens, plain[i], sizeof tokens) == 0);
        answer(model, without, beginnings[i], 5, drawn);
        answer(model, session, beginnings[i], 5, tokens);
        CHECK(memcmp(tokens, drawn, sizeof tokens) == 0);
    }
    CHECK_INT(riffle_session_get_stats(session, &stats, sizeof stats), 0);
    for (int32_t l = 0; gamma && l < stats.n_levels; l++)
        if (strcmp(stats.levels[l].name, "corpus") == 0)
            CHECK_MSG(stats.levels[l].accepted > LONG / 4, "%s: kept %d", chain,
                      (int)stats.levels[l].accepted);
    riffle_session_close(session);
    riffle_session_close(without);
}

static int stop(void *user, const char *stage, uint64_t done, uint64_t total)
{
    const char *at = user;
    CHECK(done <= total);
    return strcmp(stage, at) == 0;
}

static void check_refused(riffle_model *model)
{
    static const riffle_text text = {"One day a cat sat.", 18}, none = {"", 0};
    static char stages[][12] = {"tokenizing", "scoring", "sorting"};
    riffle_corpus_options options;
    riffle_corpus_options_init(&options, sizeof options);
    CHECK_INT(riffle_corpus_build(NULL, path, &text, 1, NULL, NULL, 0), RIFFLE_ERR_ARGUMENT);
    CHECK_INT(riffle_corpus_build(model, NULL, &text, 1, NULL, NULL, 0), RIFFLE_ERR_ARGUMENT);
    CHECK_INT(riffle_corpus_build(model, path, NULL, 0, NULL, NULL, 0), RIFFLE_ERR_ARGUMENT);
    CHECK_INT(riffle_corpus_build(model, path, &none, 1, NULL, NULL, 0), RIFFLE_ERR_ARGUMENT);
    for (int i = 0; i < 3; i++) {
        options.keep = 0.5f;
        options.progress = stop;
        options.progress_user = stages[i];
        CHECK_INT(riffle_corpus_build(model, path, &text, 1, &options, NULL, 0),
                  RIFFLE_ERR_CANCELLED);
    }
    options.progress = NULL;
    options.keep = 0.0f;
    CHECK_INT(riffle_corpus_build(model, path, &text, 1, &options, NULL, 0), RIFFLE_ERR_ARGUMENT);
    CHECK(strstr(riffle_last_error(), "keep"));
    CHECK_INT(riffle_corpus_build(model, "/nonexistent/folder/file", &text, 1, NULL, NULL, 0),
              RIFFLE_ERR_IO);

    /* Without weights a corpus of everything can be built, and no other. */
    riffle_model *header = open_model(NULL, "none", RIFFLE_OPEN_HEADER);
    CHECK_INT(riffle_corpus_build(header, path, &text, 1, NULL, NULL, 0), 0);
    options.keep = 0.5f;
    CHECK(riffle_corpus_build(header, path, &text, 1, &options, NULL, 0) < 0);
    riffle_model_close(header);

    CHECK(!open_model(NULL, "corpus", RIFFLE_OPEN_HEADER));
    CHECK(strstr(riffle_last_error(), "corpus"));
    CHECK(!open_model("stories260K.gguf", "auto", RIFFLE_OPEN_HEADER));
    CHECK(strstr(riffle_last_error(), "not a corpus"));
    CHECK(!open_model("/nonexistent/file", "auto", RIFFLE_OPEN_HEADER));
    riffle_model *with = open_model(path, "auto", RIFFLE_OPEN_HEADER);
    riffle_model_info info;
    CHECK_INT(riffle_model_get_info(with, &info, sizeof info), 0);
    CHECK(strstr(info.chain, "ngram > corpus > ") == info.chain);
    riffle_model_close(with);
}

int main(void)
{
    static int32_t plain[N_TEXTS][LONG];
    int file = mkstemp(path);
    CHECK(file >= 0);
    close(file);
    riffle_model *model = open_model(NULL, "none", 0);
    CHECK(model != NULL);
    if (model) build_from_answers(model, plain);
    riffle_model_close(model);
    model = open_model(path, "ngram > corpus > mxfp4", 0);
    CHECK(model != NULL);
    static const char *const chains[] = {"corpus", "ngram > corpus", "ngram > corpus > mxfp4"};
    for (int c = 0; model && c < 3; c++)
        for (int32_t gamma = 0; gamma <= 6; gamma += 6) check_chain(model, chains[c], gamma, plain);
    if (model) check_refused(model);
    riffle_model_close(model);
    remove(path);
    return check_result();
}
