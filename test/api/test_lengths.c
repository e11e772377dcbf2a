/* Answers and log-probabilities of a model that has other frequencies for long texts (longrope):
 * with drafts, in batches and in prompts' log-probabilities they are those of plain decoding, on
 * both sides of the border and over it. Its logits are compared with transformers' by
 * infer/test_architectures.c. */
#include <math.h>

#include "api/helpers.h"
#include "riffle_experimental.h"

enum { BORDER = 610, N_TEXT = 640, CTX = 1024, N_ANSWER = 40, N_VOCAB = 286, N_CASES = 4 };
static const char MODEL[] = "architectures/llama-longrope/model.gguf";

struct text {
    int32_t ids[N_TEXT], n;
    int32_t answer[N_ANSWER], n_answer;
    double logprobs[N_TEXT];
    int32_t n_told;
};

static riffle_session_options session_options(const char *chain, const char *kv)
{
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.chain = chain;
    options.kv = kv;
    options.n_ctx = CTX;
    return options;
}

/* Texts with repetitions, as drafts need them, shorter and longer than the border. */
static void make_texts(struct text texts[N_CASES])
{
    static const int32_t lengths[N_CASES] = {BORDER - 25, BORDER, BORDER + 20, 100};
    uint32_t state = 5;
    for (int c = 0; c < N_CASES; c++) {
        texts[c] = (struct text){.n = lengths[c]};
        for (int32_t i = 0; i < texts[c].n; i++) {
            state = state * 1664525u + 1013904223u;
            texts[c].ids[i] =
                i >= 40 && (i / 20) % 2 ? texts[c].ids[i - 40] : (int32_t)(state >> 16) % N_VOCAB;
        }
    }
}

/* Plain decoding, token by token. */
static void answer_plainly(riffle_model *model, struct text *text, const char *kv)
{
    riffle_session *session;
    const riffle_session_options options = session_options("none", kv);
    CHECK_OK(riffle_session_open(&session, model, &options));
    CHECK_OK(riffle_score(session, text->ids, (size_t)text->n, 1, text->logprobs));
    for (text->n_answer = 0; text->n_answer < N_ANSWER; text->n_answer++)
        CHECK_INT(riffle_step(session, text->answer + text->n_answer, 1), 1);
    riffle_session_close(session);
}

static int check_logits(void *user, size_t i, const float *logits, size_t n_logits)
{
    const struct text *text = user;
    double sum = 0, chosen = (double)logits[text->ids[i]];
    for (size_t v = 0; v < n_logits; v++) sum += exp((double)logits[v] - chosen);
    CHECK_MSG(fabs(-log(sum) - text->logprobs[i - 1]) < 1e-4,
              "token %d has %f by its logits, not %f", (int)i, -log(sum), text->logprobs[i - 1]);
    return 0;
}

/* Logits told in passes over some of the text are those of riffle_score. */
static void check_told(riffle_model *model, struct text *text, const char *kv)
{
    riffle_session *session;
    const riffle_session_options options = session_options("none", kv);
    CHECK_OK(riffle_session_open(&session, model, &options));
    CHECK_OK(riffle_score_logits(session, text->ids, (size_t)text->n, 1, check_logits, text));
    CHECK_INT(riffle_session_tokens(session, NULL), text->n);
    riffle_session_close(session);
}

static void check_drafted(riffle_model *model, const struct text *text, const char *kv)
{
    static const char *const chains[] = {"ngram", "ngram > mxfp4", "mxfp4"};
    for (size_t c = 0; c < sizeof chains / sizeof *chains; c++) {
        riffle_session *session;
        const riffle_session_options options = session_options(chains[c], kv);
        int32_t made[N_ANSWER + 32], n = 0;
        CHECK_OK(riffle_session_open(&session, model, &options));
        CHECK_OK(riffle_prefill(session, text->ids, (size_t)text->n));
        for (int64_t step = 1; step > 0 && n < N_ANSWER; n += (int32_t)step)
            step = riffle_step(session, made + n, 16);
        CHECK_MSG(n >= N_ANSWER && memcmp(made, text->answer, sizeof text->answer) == 0,
                  "kv %s, chain %s: another answer to %d tokens", kv, chains[c], text->n);
        riffle_session_close(session);
    }
}

static int on_event(void *user, const riffle_event *event)
{
    struct text *text = user;
    if (event->token >= 0 && text->n_answer < N_ANSWER)
        text->answer[text->n_answer++] = event->token;
    return 0;
}

static void on_prompt_logprobs(void *user, const riffle_logprobs *logprobs)
{
    struct text *text = user;
    CHECK(text->n_told < text->n - 1);
    CHECK_INT(logprobs->chosen.token, text->ids[text->n_told + 1]);
    text->logprobs[text->n_told++] = (double)logprobs->chosen.logprob;
}

static void add_text(riffle_batch *batch, struct text *text, int tells)
{
    riffle_request request;
    riffle_generate_options options;
    riffle_request_init(&request, sizeof request);
    riffle_generate_options_init(&options, sizeof options);
    options.max_tokens = N_ANSWER;
    request.prompt = text->ids;
    request.n_prompt = (size_t)text->n;
    request.generate = &options;
    request.on_event = on_event;
    request.on_prompt_logprobs = tells ? on_prompt_logprobs : NULL;
    request.user = text;
    text->n_answer = text->n_told = 0;
    CHECK_OK(riffle_batch_add(batch, &request));
}

/* All texts at once; then they begin as kept ones. With log-probabilities nothing is kept. */
static void check_batches(riffle_model *model, const struct text wanted[N_CASES], const char *kv,
                          const char *chain)
{
    static struct text got[N_CASES];
    const riffle_session_options session = session_options(chain, kv);
    riffle_batch_options options;
    riffle_batch_options_init(&options, sizeof options);
    options.session = &session;
    options.answers = N_CASES;
    riffle_batch *batch;
    CHECK_OK(riffle_batch_open(&batch, model, &options));
    for (int tells = 0; tells < 3; tells++) {
        int32_t left, steps = 0;
        memcpy(got, wanted, sizeof got);
        for (int c = 0; c < N_CASES; c++) add_text(batch, &got[c], tells == 1);
        while ((left = riffle_batch_step(batch)) > 0 && ++steps < 100000) continue;
        CHECK_INT(left, 0);
        for (int c = 0; c < N_CASES; c++) {
            int32_t n = got[c].n_answer; /* the answer may end by itself */
            CHECK_MSG(n > 0 && memcmp(got[c].answer, wanted[c].answer,
                                      (size_t)n * sizeof *got[c].answer) == 0,
                      "kv %s, chain %s: another answer to %d tokens in a batch", kv, chain,
                      got[c].n);
            if (tells != 1) continue;
            CHECK_INT(got[c].n_told, got[c].n - 1);
            for (int32_t i = 0; i < got[c].n_told; i++)
                CHECK_MSG(fabs(got[c].logprobs[i] - wanted[c].logprobs[i]) < 1e-4,
                          "kv %s: token %d of %d", kv, i + 1, got[c].n);
        }
    }
    riffle_batch_close(batch);
}

int main(void)
{
    static const char *const kvs[] = {"f16", "q8"};
    static struct text texts[N_CASES];
    riffle_model *model;
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.chain = "ngram > mxfp4";
    CHECK_OK(riffle_model_open(&model, MODEL, &options));
    for (size_t k = 0; k < sizeof kvs / sizeof *kvs; k++) {
        make_texts(texts);
        for (int c = 0; c < N_CASES; c++) answer_plainly(model, &texts[c], kvs[k]);
        for (int c = 0; c < N_CASES; c++) check_told(model, &texts[c], kvs[k]);
        for (int c = 0; c < N_CASES; c++) check_drafted(model, &texts[c], kvs[k]);
        check_batches(model, texts, kvs[k], "none");
        check_batches(model, texts, kvs[k], "ngram > mxfp4");
    }
    riffle_model_close(model);
    return check_result();
}
