/* Helpers for tests of the public interface: a tiny model, a prompt, and a greedy answer as a list
 * of tokens. */
#ifndef RF_TEST_API_HELPERS_H
#define RF_TEST_API_HELPERS_H

#include <stdlib.h>
#include <unistd.h>

#include "riffle.h"
#include "support/check.h"

/* Some tests are built for another model, too (CMakeLists.txt). */
#ifndef TINY_MODEL
#    define TINY_MODEL "stories260K.gguf"
#endif
#define QUANTISED_MODEL "stories260K-q.gguf"
#define CHECK_OK(call) check_ok((call), #call, __LINE__)
/* The call fails with `code` and a sentence. */
#define CHECK_FAILS(call, code) check_fails((call), (code), #call, __LINE__)

static inline int64_t check_ok(int64_t result, const char *call, int line)
{
    CHECK_MSG(result >= 0, "line %d: %s: %s", line, call, riffle_last_error());
    return result;
}

static inline void check_fails(int64_t result, int code, const char *call, int line)
{
    CHECK_MSG(result == code, "line %d: %s gives %lld, not %d", line, call, (long long)result,
              code);
    CHECK_MSG(riffle_last_error()[0] != '\0', "line %d: %s fails without a sentence", line, call);
}

/* A test cannot go on without its model. */
static inline riffle_model *open_tiny_model(void)
{
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.chat_template = "chatml";
    riffle_model *model;
    if (riffle_model_open(&model, TINY_MODEL, &options) < 0) {
        fprintf(stderr, "%s\n", riffle_last_error());
        exit(1);
    }
    return model;
}

static inline riffle_session *open_session(riffle_model *model, int32_t n_ctx, int32_t threads)
{
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.n_ctx = n_ctx;
    options.threads = threads;
    riffle_session *session;
    if (riffle_session_open(&session, model, &options) < 0) {
        fprintf(stderr, "%s\n", riffle_last_error());
        exit(1);
    }
    return session;
}

/* A random draft head of stories260K.gguf. */
#define TINY_HEAD "heads/chosen.gguf"

/* A draft head of the model: that one, or the model's own file that has one. NULL on two devices,
 * which have none, and for other models. */
static inline const char *head_if_any(void)
{
    riffle_model_options options;
    riffle_model *model;
    riffle_session *session = NULL;
    riffle_model_options_init(&options, sizeof options);
    options.chain = "head";
    options.head = TINY_HEAD;
    int is_open = riffle_model_open(&model, TINY_MODEL, &options) == 0;
    if (!is_open && strstr(riffle_last_error(), "a head of another target")) {
        options.head = TINY_MODEL;
        is_open = riffle_model_open(&model, TINY_MODEL, &options) == 0;
        if (!is_open && strstr(riffle_last_error(), "is not a draft head")) return NULL;
    }
    if (!is_open) {
        fprintf(stderr, "%s\n", riffle_last_error());
        exit(1);
    }
    int code = riffle_session_open(&session, model, NULL);
    CHECK_MSG(code == 0 || code == RIFFLE_ERR_UNSUPPORTED, "%s", riffle_last_error());
    riffle_session_close(session);
    riffle_model_close(model);
    return code ? NULL : options.head;
}

enum { MAX_TOKENS = 512 };

struct tokens {
    int32_t ids[MAX_TOKENS];
    int32_t count;
};

static inline struct tokens tokenize(const riffle_model *model, const char *text)
{
    struct tokens tokens;
    tokens.count = (int32_t)riffle_tokenize(model, text, strlen(text), RIFFLE_TOKENIZE_BOS,
                                            tokens.ids, MAX_TOKENS);
    if (tokens.count < 0 || tokens.count > MAX_TOKENS) {
        fprintf(stderr, "cannot tokenize: %s\n", riffle_last_error());
        exit(1);
    }
    return tokens;
}

static inline int same_tokens(const struct tokens *a, const struct tokens *b)
{
    return a->count == b->count && memcmp(a->ids, b->ids, (size_t)a->count * sizeof *a->ids) == 0;
}

static inline struct tokens session_tokens(const riffle_session *session)
{
    struct tokens tokens;
    const int32_t *ids = NULL;
    tokens.count = riffle_session_tokens(session, &ids);
    if (tokens.count < 0 || tokens.count > MAX_TOKENS) exit(1);
    if (tokens.count > 0) memcpy(tokens.ids, ids, (size_t)tokens.count * sizeof *ids);
    return tokens;
}

static inline int collect_token(void *user, const riffle_event *event)
{
    struct tokens *tokens = user;
    if (event->token >= 0 && tokens->count < MAX_TOKENS)
        tokens->ids[tokens->count++] = event->token;
    return 0;
}

/* Up to n tokens from where the session is. */
static inline struct tokens generate(riffle_session *session, int32_t n)
{
    riffle_generate_options options;
    riffle_generate_options_init(&options, sizeof options);
    options.max_tokens = n;
    options.ignore_eos = 1;
    struct tokens tokens = {.count = 0};
    CHECK_INT(CHECK_OK(riffle_generate(session, &options, collect_token, &tokens)), tokens.count);
    return tokens;
}

/* A path for a file of this process: tests run side by side in one folder. */
static inline void temporary_path(const char *name, char *path, size_t cap)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, cap, "%s/riffle-test-%ld-%s", folder ? folder : "/tmp", (long)getpid(), name);
}

#endif
