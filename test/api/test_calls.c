/* The calls that are allowed inside callbacks, from several threads and after fork(); and options
 * of later versions. */
#include <sys/wait.h>
#include <unistd.h>

#include "api/helpers.h"
#include "riffle_experimental.h"

#if defined(__has_feature)
#    if __has_feature(thread_sanitizer)
#        define NO_THREADS_AFTER_FORK
#    endif
#elif defined(__SANITIZE_THREAD__)
#    define NO_THREADS_AFTER_FORK
#endif

/* The first byte of `reserved` and the last, in each structure that has it. */
#define CHECK_RESERVED(name, call)                                          \
    do {                                                                    \
        for (int last = 0; last < 2; last++) {                              \
            name options;                                                   \
            name##_init(&options, sizeof options);                          \
            unsigned char *bytes = (unsigned char *)options.reserved;       \
            bytes[last ? sizeof options.reserved - 1 : 0] = 1;              \
            CHECK_FAILS(call, RIFFLE_ERR_ARGUMENT);                         \
            CHECK(strstr(riffle_last_error(), #name ": reserved") != NULL); \
            options.struct_size = offsetof(name, reserved);                 \
            options.reserved[0] = 1;                                        \
            options.reserved[sizeof options.reserved / 8 - 1] = 1;          \
            check_reserved_is_cut(#name, call);                             \
        }                                                                   \
    } while (0)

/* A structure that ends before `reserved` has none. */
static void check_reserved_is_cut(const char *name, int64_t result)
{
    CHECK_MSG(result != RIFFLE_ERR_ARGUMENT || !strstr(riffle_last_error(), "reserved"),
              "%s: bytes after struct_size were read: %s", name, riffle_last_error());
}

static void unknown_options_are_errors(riffle_model *model)
{
    riffle_session *session = open_session(model, 64, 1), *other = NULL;
    riffle_model *header = NULL;
    CHECK_RESERVED(riffle_model_options, riffle_model_open(&header, "no such file", &options));
    CHECK_RESERVED(riffle_session_options,
                   (options.n_ctx = -1, riffle_session_open(&other, model, &options)));
    CHECK_RESERVED(riffle_sampling, riffle_session_set_sampling(session, &options));
    CHECK_RESERVED(riffle_generate_options, riffle_generate(session, &options, NULL, NULL));
    CHECK_RESERVED(riffle_quantize_options, riffle_quantize("no", "file", "q4", &options));
    CHECK_RESERVED(riffle_cores_options, riffle_cores(&options, NULL, 0, NULL, NULL));
    riffle_session_close(session);
}

/* A later version has more fields than this one knows. Zero is their default. */
static void longer_structures_are_accepted(riffle_model *model)
{
    riffle_session *session = open_session(model, 64, 1);
    struct {
        riffle_sampling known;
        uint64_t later[2];
    } sampling;
    riffle_sampling_init(&sampling.known, sizeof sampling);
    CHECK_INT(sampling.known.struct_size, sizeof sampling);
    CHECK_OK(riffle_session_set_sampling(session, &sampling.known));
    sampling.later[1] = 1;
    CHECK_FAILS(riffle_session_set_sampling(session, &sampling.known), RIFFLE_ERR_ARGUMENT);
    riffle_session_close(session);
}

struct inside {
    riffle_model *model;
    riffle_session *session;
    int32_t calls;
};

/* Every call on a session that a callback may not make. */
static void check_calls_are_refused(const struct inside *in)
{
    riffle_session *session = in->session, *copy;
    riffle_message question = {"user", "Why?"};
    int32_t token = 1;
    float logits[512];
    double number[1];
    CHECK_FAILS(riffle_prefill(session, &token, 1), RIFFLE_ERR_ARGUMENT);
    CHECK(strstr(riffle_last_error(), "in use") != NULL);
    CHECK_FAILS(riffle_chat_prefill(session, &question, 1), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_session_set_sampling(session, NULL), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_generate(session, NULL, NULL, NULL), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_rewind(session, 0), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_step(session, &token, 1), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_logits(session, logits, 512), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_score(session, &token, 1, 0, number), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_fork(&copy, session), RIFFLE_ERR_ARGUMENT);
    CHECK(copy == NULL);
    CHECK_FAILS(riffle_state_save(session, "state"), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_state_load(session, "state"), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_measure_pass(session, 1, 1, 1, number), RIFFLE_ERR_ARGUMENT);
    riffle_session_close(session);
}

/* Queries, calls on the model and on other sessions are allowed. */
static void check_calls_are_allowed(const struct inside *in)
{
    riffle_stats stats;
    CHECK_INT(riffle_session_n_ctx(in->session), 600);
    CHECK_INT(riffle_session_finish(in->session, NULL), RIFFLE_FINISH_NONE);
    CHECK_OK(riffle_session_get_stats(in->session, &stats, sizeof stats));
    struct tokens prompt = tokenize(in->model, "Once upon");
    riffle_session *other = open_session(in->model, 64, 1);
    CHECK_OK(riffle_prefill(other, prompt.ids, (size_t)prompt.count));
    CHECK_INT(generate(other, 3).count, 3);
    riffle_session_close(other);
}

static int call_from_event(void *user, const riffle_event *event)
{
    struct inside *in = user;
    const int32_t *tokens;
    int32_t n = riffle_session_tokens(in->session, &tokens);
    if (event->token >= 0) CHECK_INT(tokens[n - 1], event->token);
    check_calls_are_refused(in);
    if (in->calls++ == 0) check_calls_are_allowed(in);
    return 0;
}

static int call_from_progress(void *user, const char *stage, uint64_t done, uint64_t total)
{
    struct inside *in = user;
    CHECK(strcmp(stage, "prefill") == 0 && done <= total);
    check_calls_are_refused(in);
    if (in->calls++ == 0) check_calls_are_allowed(in);
    return 0;
}

static void callbacks_cannot_change_their_session(riffle_model *model)
{
    struct inside in = {.model = model};
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.n_ctx = 600;
    options.progress = call_from_progress;
    options.progress_user = &in;
    if (CHECK_OK(riffle_session_open(&in.session, model, &options)) < 0) return;
    int32_t tokens[580];
    for (int i = 0; i < 580; i++) tokens[i] = i ? 260 + i % 200 : 1;
    CHECK_OK(riffle_prefill(in.session, tokens, 580));
    CHECK(in.calls > 0);
    CHECK_INT(riffle_session_tokens(in.session, NULL), 580);

    in.calls = 0;
    riffle_generate_options generate;
    riffle_generate_options_init(&generate, sizeof generate);
    generate.max_tokens = 4;
    generate.ignore_eos = 1;
    CHECK_INT(CHECK_OK(riffle_generate(in.session, &generate, call_from_event, &in)), 4);
    CHECK(in.calls >= 4);
    CHECK_INT(riffle_session_tokens(in.session, NULL), 584);
    CHECK_OK(riffle_rewind(in.session, 0));
    riffle_session_close(in.session);
}

/* In a child: 0, or the line of the check that failed. */
static int in_a_child(riffle_model *model, riffle_session *session)
{
#define WANT(condition)                    \
    do {                                   \
        if (!(condition)) return __LINE__; \
    } while (0)
    riffle_session *other;
    int32_t token = 1, ids[16];
    WANT(riffle_prefill(session, &token, 1) == RIFFLE_ERR_SYSTEM);
    WANT(strstr(riffle_last_error(), "fork()") != NULL);
    WANT(riffle_rewind(session, 0) == RIFFLE_ERR_SYSTEM);
    WANT(riffle_fork(&other, session) == RIFFLE_ERR_SYSTEM && other == NULL);
    WANT(riffle_session_open(&other, model, NULL) == RIFFLE_ERR_SYSTEM && other == NULL);
    WANT(riffle_tokenize(model, "Once", 4, 0, ids, 16) > 0);
    WANT(riffle_session_tokens(session, NULL) == 1);
    riffle_session_close(session);
    riffle_model_close(model);
#ifndef NO_THREADS_AFTER_FORK
    riffle_model *own = open_tiny_model();
    other = open_session(own, 64, 2);
    WANT(riffle_prefill(other, &token, 1) == 0);
    WANT(riffle_step(other, ids, 16) > 0);
    riffle_session_close(other);
    riffle_model_close(own);
#endif
    return 0;
#undef WANT
}

static void a_child_has_to_open_its_own_model(riffle_model *model)
{
    riffle_session *session = open_session(model, 64, 2);
    int32_t token = 1;
    CHECK_OK(riffle_prefill(session, &token, 1));
    pid_t child = fork();
    if (child == 0) {
        int line = in_a_child(model, session);
        if (line) fprintf(stderr, "child: line %d: %s\n", line, riffle_last_error());
        _exit(line != 0);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
    CHECK_INT(generate(session, 3).count, 3);
    riffle_session_close(session);
}

int main(void)
{
    riffle_model *model = open_tiny_model();
    unknown_options_are_errors(model);
    longer_structures_are_accepted(model);
    callbacks_cannot_change_their_session(model);
    a_child_has_to_open_its_own_model(model);
    riffle_model_close(model);
    return check_result();
}
