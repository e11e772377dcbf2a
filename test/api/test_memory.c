/* Every allocation fails once: the call says so, everything is released, and the same call then
 * works. */
#include "api/meter.h"

static riffle_model_options metered(struct meter *meter, riffle_allocator *allocator)
{
    *allocator = (riffle_allocator){.alloc = meter_alloc, .release = meter_release, .user = meter};
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.allocator = allocator;
    options.chat_template = "chatml";
    options.weights = "stored";
    options.threads = 2;
    return options;
}

static void opening_a_model(const char *path)
{
    size_t n = 1;
    for (int done = 0; !done && n < 100000; n++) {
        struct meter meter = {.fail_at = n};
        riffle_allocator allocator;
        riffle_model_options options = metered(&meter, &allocator);
        riffle_model *model;
        int code = riffle_model_open(&model, path, &options);
        done = meter.calls < n;
        if (!done) {
            CHECK_MSG(code == RIFFLE_ERR_MEMORY && model == NULL,
                      "open with failing allocation %zu gives %d: %s", n, code,
                      riffle_last_error());
        } else {
            CHECK_OK(code);
        }
        riffle_model_close(model);
        check_all_released(&meter, n, "open");
    }
    CHECK(n > 20); /* the allocator is the one that is used */
}

/* Makes all calls of a session in one go, so that one sweep covers them. Returns the code of the
 * first call that failed, else 0. */
static int64_t work(riffle_model *model, struct tokens *tokens)
{
    static const riffle_message messages[] = {{"user", "Tell me about the red ball."}};
    static const char *const stops[] = {"qqq"};
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.n_ctx = 256;
    options.threads = 2;
    riffle_session *session, *copy = NULL;
    int64_t code = riffle_session_open(&session, model, &options);
    if (code < 0) return code;
    code = riffle_prefill(session, (const int32_t[]){1, 403, 407, 261, 378}, 5);
    if (code >= 0) code = riffle_chat_prefill(session, messages, 1);
    riffle_sampling sampling;
    riffle_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = 0.8f;
    sampling.repeat_penalty = 1.1f;
    if (code >= 0) code = riffle_session_set_sampling(session, &sampling);
    riffle_generate_options generation;
    riffle_generate_options_init(&generation, sizeof generation);
    generation.max_tokens = 6;
    generation.stop = stops;
    generation.n_stop = 1;
    tokens->count = 0;
    if (code >= 0) code = riffle_generate(session, &generation, collect_token, tokens);
    if (code >= 0) code = riffle_fork(&copy, session);
    if (code >= 0) code = riffle_step(copy, tokens->ids + tokens->count, 1);
    riffle_session_close(copy);
    riffle_session_close(session);
    return code < 0 ? code : 0;
}

static void working_with_a_session(const char *path)
{
    struct meter meter = {0};
    riffle_allocator allocator;
    riffle_model_options options = metered(&meter, &allocator);
    riffle_model *model;
    if (CHECK_OK(riffle_model_open(&model, path, &options)) < 0) return;
    struct meter idle = meter;
    struct tokens wanted, got;
    CHECK_OK(work(model, &wanted));
    CHECK(meter.bytes_out == idle.bytes_out && meter.blocks_out == idle.blocks_out);
    size_t calls = meter.calls - idle.calls;
    CHECK(calls > 3);
    for (size_t n = 1; n <= calls; n++) {
        meter.calls = 0;
        meter.fail_at = n;
        int64_t code = work(model, &got);
        /* How often drafts are tried goes by measured times: a run may end before allocation n. */
        int due = meter.calls < n ? RIFFLE_OK : RIFFLE_ERR_MEMORY;
        CHECK_MSG(code == due, "failing allocation %zu of %zu gives %lld: %s", n, meter.calls,
                  (long long)code, riffle_last_error());
        CHECK_MSG(meter.bytes_out == idle.bytes_out, "failing allocation %zu is not released", n);
    }
    meter.fail_at = 0;
    CHECK_OK(work(model, &got));
    CHECK(same_tokens(&wanted, &got));
    riffle_model_close(model);
    check_all_released(&meter, 0, "all");
}

/* A session whose call ran out of memory is where it was and goes on when there is memory again. */
static void a_failed_call_leaves_the_session(void)
{
    struct meter meter = {0};
    riffle_allocator allocator;
    riffle_model_options options = metered(&meter, &allocator);
    riffle_model *model;
    if (CHECK_OK(riffle_model_open(&model, TINY_MODEL, &options)) < 0) return;
    riffle_session *session = open_session(model, 256, 1);
    static const riffle_message messages[] = {{"user", "Tell me about the red ball."}};
    static const int32_t tokens[] = {1, 403, 407, 261, 378};
    CHECK_OK(riffle_prefill(session, tokens, 5));
    int failed = 0;
    for (size_t n = 1;; n++) {
        meter.calls = 0;
        meter.fail_at = n;
        int64_t code = riffle_chat_prefill(session, messages, 1);
        if (code >= 0) break;
        failed++;
        CHECK_INT(code, RIFFLE_ERR_MEMORY);
        const int32_t *held;
        CHECK_INT(riffle_session_tokens(session, &held), 5);
        CHECK(memcmp(held, tokens, sizeof tokens) == 0);
    }
    CHECK(failed > 0);
    CHECK(riffle_session_tokens(session, NULL) > 5);
    riffle_session_close(session);
    riffle_model_close(model);
    check_all_released(&meter, 0, "all");
}

int main(void)
{
    opening_a_model(TINY_MODEL);
    opening_a_model(QUANTISED_MODEL);
    working_with_a_session(TINY_MODEL);
    working_with_a_session(QUANTISED_MODEL);
    a_failed_call_leaves_the_session();
    return check_result();
}
