/* Every allocation of a model and a session with many levels fails once, and may be the last that
 * fails: the call says so, all is released, and a session that was answering goes on with the same
 * text. */
#include "api/answers.h"
#include "api/changed_model.h"
#include "api/meter.h"

static char foreign[4096],
    chain[4300]; /* the path of a draft with another vocabulary, and a chain with it */

enum { WANTED = 20 };

/* A fixed gamma in place of the pace, so that the same is done, and allocated, each time. */
static const struct setting setting = {.gamma = 5, .n_ctx = 96, .threads = 1};

static int open_metered(riffle_model **model, struct meter *meter)
{
    riffle_allocator allocator = {.alloc = meter_alloc, .release = meter_release, .user = meter};
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.allocator = &allocator;
    options.threads = 1;
    options.chain = chain;
    options.draft = QUANTISED_MODEL;
    options.cache_folder = "/nonexistent/folder";
    return riffle_model_open(model, TINY_MODEL, &options);
}

static void opening_a_model(void)
{
    size_t n = 1;
    for (int done = 0; !done && n < 100000; n++) {
        struct meter meter = {.fail_at = n};
        riffle_model *model;
        int code = open_metered(&model, &meter);
        done = meter.calls < n;
        CHECK_MSG(code == (done ? 0 : RIFFLE_ERR_MEMORY) && !model == !done,
                  "open with failing allocation %zu gives %d: %s", n, code, riffle_last_error());
        riffle_model_close(model);
        check_all_released(&meter, n, "open");
    }
    CHECK(n > 60);
}

static int open_session_of(riffle_model *model, riffle_session **session)
{
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.gamma = setting.gamma;
    options.n_ctx = setting.n_ctx;
    options.threads = setting.threads;
    return riffle_session_open(session, model, &options);
}

static void opening_a_session(riffle_model *model, struct meter *meter)
{
    const struct meter idle = *meter;
    size_t n = 1;
    for (int done = 0; !done && n < 1000; n++) {
        riffle_session *session, *copy = NULL;
        meter->calls = 0;
        meter->fail_at = n;
        int code = open_session_of(model, &session);
        int opened = code == 0;
        if (opened) code = riffle_fork(&copy, session);
        done = meter->calls < n;
        CHECK_MSG(code == (done ? 0 : RIFFLE_ERR_MEMORY) && !copy == !done,
                  "failing allocation %zu gives %d: %s", n, code, riffle_last_error());
        CHECK(!session == !opened);
        riffle_session_close(copy);
        riffle_session_close(session);
        CHECK_MSG(meter->bytes_out == idle.bytes_out && meter->blocks_out == idle.blocks_out,
                  "a session with failing allocation %zu is not released", n);
    }
    CHECK(n > 60);
    meter->fail_at = 0;
}

static void answering(riffle_model *model, struct meter *meter, const struct prompt *prompt)
{
    static struct answer wanted, got;
    riffle_session *plain =
        open_with(model, &(struct setting){.chain = "none", .n_ctx = 96, .threads = 1});
    begin(plain, prompt);
    wanted = (struct answer){.n = 0};
    add_tokens(plain, WANTED, &wanted);
    riffle_session_close(plain);
    riffle_generate_options options;
    riffle_generate_options_init(&options, sizeof options);
    options.ignore_eos = 1;
    int failed = 0;
    for (size_t n = 1, done = 0; !done && n < 100000; n += n < 60 ? 1 : 17) {
        struct tokens told = {.count = 0};
        riffle_session *session = open_with(model, &setting);
        begin(session, prompt);
        meter->calls = 0;
        meter->fail_at = n;
        options.max_tokens = WANTED;
        int64_t code = riffle_generate(session, &options, collect_token, &told);
        done = meter->calls < n;
        meter->fail_at = 0;
        CHECK_MSG(code == (done ? WANTED : RIFFLE_ERR_MEMORY),
                  "failing allocation %zu gives %lld: %s", n, (long long)code, riffle_last_error());
        failed += !done;
        /* At most one token may be committed that the callback was not told of for want of memory.
         */
        const int32_t *held;
        got = (struct answer){.n = riffle_session_tokens(session, &held) - prompt->n};
        CHECK(got.n == told.count || got.n == told.count + !done);
        memcpy(got.tokens, held + prompt->n, (size_t)got.n * sizeof *held);
        if (got.n < WANTED) add_tokens(session, WANTED - got.n, &got);
        check_same_ids(&got, &wanted, "after an allocation failed");
        riffle_session_close(session);
    }
    CHECK(failed > 2); /* there is something that allocates */
}

int main(void)
{
    static struct file file;
    static struct prompt prompts[N_PROMPTS];
    temporary_path("foreign.gguf", foreign, sizeof foreign);
    snprintf(chain, sizeof chain, "ngram > %s > draft:mxfp4 > mxfp4 > q4", foreign);
    read_model(&file);
    change_places(&file);
    write_model(file.data, file.bytes, foreign);

    opening_a_model();
    struct meter meter = {0};
    riffle_model *model;
    if (CHECK_OK(open_metered(&model, &meter)) == 0) {
        make_prompts(model, prompts);
        opening_a_session(model, &meter);
        answering(model, &meter, &prompts[0]);
        riffle_model_close(model);
    }
    check_all_released(&meter, 0, "all");
    remove(foreign);
    return check_result();
}
