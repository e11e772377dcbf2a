/* Vectors of texts in one call: a batch that lives as long as the call. */
#include <string.h>

#include "api/handles.h"
#include "engine/batch.h"

/* A text that waits for its vector. */
struct waiting {
    float *to; /* [width] */
    int code;
    char sentence[256];
};

static void on_embedding(void *user, const float *vector, int32_t n)
{
    const struct waiting *waiting = user;
    memcpy(waiting->to, vector, (size_t)n * sizeof *vector);
}

static void on_answer(void *user, const riffle_answer *answer)
{
    struct waiting *waiting = user;
    size_t n = strlen(answer->sentence);
    if (n >= sizeof waiting->sentence) n = sizeof waiting->sentence - 1;
    waiting->code = answer->code < 0 ? answer->code : 0;
    memcpy(waiting->sentence, answer->sentence, n);
    waiting->sentence[n] = 0;
}

static int add_text(struct rf_engine_batch *batch, const struct rf_engine *engine,
                    const riffle_text *text, struct waiting *waiting, struct rf_error *error)
{
    const struct rf_segment segment = {text->data, text->bytes, 0};
    struct rf_tokens tokens = {0};
    struct rf_batch_request request = {.request = {.on_embedding = on_embedding,
                                                   .pooling = RIFFLE_POOL_MODEL,
                                                   .on_answer = on_answer,
                                                   .user = waiting}};
    int code = rf_tokenizer_encode(engine->tokenizer, &segment, 1, RF_ENCODE_BOS,
                                   &engine->allocator, &tokens, error);
    request.request.prompt = tokens.ids;
    request.request.n_prompt = tokens.count;
    int64_t id = code ? code : rf_engine_batch_add(batch, &request, error);
    rf_tokens_free(&engine->allocator, &tokens);
    return id < 0 ? (int)id : 0;
}

/* Reads a few texts at a time, so that their tokens take little memory. */
static int read_texts(struct rf_engine_batch *batch, const struct rf_engine *engine,
                      const riffle_text *texts, size_t n, float *vectors, size_t width,
                      struct rf_error *error)
{
    enum { TOGETHER = 64 };
    struct waiting waiting[TOGETHER];
    int code = 0;
    for (size_t at = 0; !code && at < n; at += TOGETHER) {
        size_t some = n - at < TOGETHER ? n - at : TOGETHER;
        for (size_t i = 0; !code && i < some; i++) {
            waiting[i] = (struct waiting){.to = vectors + (at + i) * width};
            code = add_text(batch, engine, &texts[at + i], &waiting[i], error);
            if (code) code = rf_fail(error, code, "text %zu: %.400s", at + i, error->text);
        }
        while (!code && rf_engine_batch_step(batch) > 0) continue;
        for (size_t i = 0; !code && i < some; i++)
            if (waiting[i].code)
                code = rf_fail(error, waiting[i].code, "text %zu: %s", at + i, waiting[i].sentence);
    }
    return code;
}

int64_t riffle_embed(riffle_model *model, const riffle_text *texts, size_t n_texts, float *vectors,
                     size_t n_values)
{
    riffle_batch_options options;
    riffle_session_options session;
    struct rf_engine_batch *batch;
    struct rf_error error;
    if (!model || (!texts && n_texts) || (!vectors && n_values))
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL",
                            !model              ? "model"
                            : !texts && n_texts ? "texts"
                                                : "vectors");
    int code = rf_api_check_process(model);
    const struct rf_engine *engine = model->engine;
    size_t width = (size_t)engine->source->params.n_embd;
    if (code) return code;
    if (engine->source->pooling == RF_POOLING_RANK)
        return rf_api_error(RIFFLE_ERR_UNSUPPORTED,
                            "%s is a reranker: it gives scores of pairs of texts, no vectors",
                            engine->source->name);
    if (n_texts == 0 || n_values / width < n_texts) return (int64_t)width;
    riffle_batch_options_init(&options, sizeof options);
    riffle_session_options_init(&session, sizeof session);
    if (rf_engine_batch_open(&batch, model->engine, &options, &session, &error))
        return rf_api_fail(&error);
    code = read_texts(batch, engine, texts, n_texts, vectors, width, &error);
    rf_engine_batch_close(batch);
    return code ? rf_api_fail(&error) : (int64_t)width;
}
