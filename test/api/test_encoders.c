/* Encoders against transformers' vectors and scores (scripts/make_encoder_models.py and
 * make_window_encoders.py): from both
 * containers, alone and beside others; answers are refused. */
#include <math.h>
#include <riffle_experimental.h>
#include <stdio.h>
#include <string.h>

#include "support/check.h"

enum { MOST_CASES = 16, MOST_TOKENS = 640, MOST_WIDTH = 32 };

/* A text, what transformers makes of it, and what a batch does. */
struct text {
    int32_t tokens[MOST_TOKENS];
    float wanted[MOST_WIDTH], got[MOST_WIDTH];
    int n_tokens, width, got_width, ended, code;
    char sentence[256];
};

static int read_case(FILE *file, struct text *text)
{
    *text = (struct text){0};
    if (fscanf(file, "%d", &text->n_tokens) != 1) return 0;
    CHECK(text->n_tokens > 0 && text->n_tokens <= MOST_TOKENS);
    for (int i = 0; i < text->n_tokens; i++) CHECK_INT(fscanf(file, "%d", &text->tokens[i]), 1);
    CHECK_INT(fscanf(file, "%d", &text->width), 1);
    CHECK(text->width > 0 && text->width <= MOST_WIDTH);
    for (int i = 0; i < text->width; i++) CHECK_INT(fscanf(file, "%f", &text->wanted[i]), 1);
    return 1;
}

static int read_cases(const char *name, struct text *texts)
{
    char path[128];
    int n = 0;
    snprintf(path, sizeof path, "encoders/%s/expected.txt", name);
    FILE *file = fopen(path, "r");
    CHECK_MSG(file, "%s", path);
    while (file && n < MOST_CASES && read_case(file, &texts[n])) n++;
    if (file) fclose(file);
    CHECK(n > 0);
    return n;
}

static void on_embedding(void *user, const float *vector, int32_t n)
{
    struct text *text = user;
    text->got_width = n;
    if (n <= MOST_WIDTH) memcpy(text->got, vector, (size_t)n * sizeof *vector);
}

static void on_answer(void *user, const riffle_answer *answer)
{
    struct text *text = user;
    text->ended++;
    text->code = answer->code;
    snprintf(text->sentence, sizeof text->sentence, "%s", answer->sentence);
}

static int64_t ask(riffle_batch *batch, struct text *text, riffle_pooling pooling)
{
    riffle_request request;
    riffle_request_init(&request, sizeof request);
    request.prompt = text->tokens;
    request.n_prompt = (size_t)text->n_tokens;
    request.on_embedding = on_embedding;
    request.pooling = pooling;
    request.on_answer = on_answer;
    request.user = text;
    return riffle_batch_add(batch, &request);
}

static void finish(riffle_batch *batch)
{
    while (riffle_batch_step(batch) > 0) continue;
}

static double cosine(const float *a, const float *b, int n)
{
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/* Weights in F32 are computed with about 16 bits, keys and values with 11. */
static void check_text(const char *path, const struct text *text, double least)
{
    CHECK_INT(text->ended, 1);
    CHECK_INT(text->code, 0);
    CHECK_INT(text->got_width, text->width);
    if (text->width == 1) {
        CHECK_MSG(fabsf(text->got[0] - text->wanted[0]) < 1e-3f, "%s: score %g, not %g", path,
                  (double)text->got[0], (double)text->wanted[0]);
        return;
    }
    double found = cosine(text->got, text->wanted, text->width),
           length = cosine(text->got, text->got, text->width);
    CHECK_MSG(found >= least, "%s: a text of %d tokens has the cosine %.8f", path, text->n_tokens,
              found);
    CHECK(fabs(length - 1) < 1e-6);
}

/* All texts at once, then each alone: the same bits. */
static void check_texts(riffle_model *model, const char *path, struct text *texts, int n,
                        double least)
{
    riffle_batch *batch;
    CHECK_INT(riffle_batch_open(&batch, model, NULL), 0);
    for (int i = 0; i < n; i++) CHECK(ask(batch, &texts[i], RIFFLE_POOL_MODEL) > 0);
    finish(batch);
    for (int i = 0; i < n; i++) check_text(path, &texts[i], least);
    for (int i = 0; i < n; i++) {
        struct text alone = texts[i];
        alone.ended = 0;
        memset(alone.got, 0, sizeof alone.got);
        CHECK(ask(batch, &alone, RIFFLE_POOL_MODEL) > 0);
        finish(batch);
        CHECK_MSG(memcmp(alone.got, texts[i].got, sizeof alone.got) == 0, "%s: text %d alone", path,
                  i);
    }
    riffle_batch_close(batch);
}

static riffle_model *open_model(const char *path)
{
    riffle_model *model = NULL;
    CHECK_MSG(riffle_model_open(&model, path, NULL) == 0, "%s", riffle_last_error());
    return model;
}

static void check_model(const char *name, const char *file, double least, int kind)
{
    static struct text texts[MOST_CASES];
    char path[128];
    int n = read_cases(name, texts);
    snprintf(path, sizeof path, "encoders/%s%s%s", name, file[0] ? "/" : "", file);
    riffle_model *model = open_model(path);
    if (!model) return;
    CHECK_INT(riffle_model_get_kind(model), kind);
    check_texts(model, path, texts, n, least);
    riffle_model_close(model);
}

/* A bad text among others ends alone. */
static void check_refusals(void)
{
    riffle_model *model = open_model("encoders/bert/model.gguf");
    riffle_session *session = NULL;
    riffle_batch *batch;
    static struct text texts[MOST_CASES];
    int n = read_cases("bert", texts);
    if (!model) return;
    CHECK_INT(riffle_session_open(&session, model, NULL), RIFFLE_ERR_UNSUPPORTED);
    CHECK(!session && strstr(riffle_last_error(), "encoder"));
    CHECK_INT(riffle_batch_open(&batch, model, NULL), 0);
    riffle_request request;
    riffle_request_init(&request, sizeof request);
    request.prompt = texts[0].tokens;
    request.n_prompt = (size_t)texts[0].n_tokens;
    CHECK_INT(riffle_batch_add(batch, &request), RIFFLE_ERR_UNSUPPORTED);
    CHECK(strstr(riffle_last_error(), "vectors"));
    texts[1].tokens[1] = 1 << 20;
    for (int i = 0; i < n; i++) CHECK(ask(batch, &texts[i], RIFFLE_POOL_MODEL) > 0);
    finish(batch);
    for (int i = 0; i < n; i++)
        if (i != 1) check_text("bert beside a bad text", &texts[i], 0.99999);
    CHECK_INT(texts[1].ended, 1);
    CHECK_INT(texts[1].code, RIFFLE_ERR_ARGUMENT);
    CHECK(strstr(texts[1].sentence, "vocabulary"));
    riffle_batch_close(batch);
    riffle_model_close(model);
}

/* The pooling that was asked for, and the call for several texts. */
static void check_calls(void)
{
    riffle_model *model = open_model("encoders/bert/model.gguf");
    static const riffle_text given[] = {{"The river.", 10}, {"", 0}};
    static struct text texts[MOST_CASES];
    float vectors[2][MOST_WIDTH];
    riffle_batch *batch;
    int n = read_cases("bert", texts);
    if (!model) return;
    CHECK(n > 0);
    CHECK_INT(riffle_batch_open(&batch, model, NULL), 0);
    struct text last = texts[0], mean = texts[0];
    CHECK(ask(batch, &last, RIFFLE_POOL_LAST) > 0 && ask(batch, &mean, RIFFLE_POOL_MEAN) > 0);
    CHECK(ask(batch, &texts[0], RIFFLE_POOL_CLS) > 0);
    finish(batch);
    check_text("bert", &texts[0], 0.99999);
    CHECK(cosine(last.got, mean.got, MOST_WIDTH) < 0.999);
    CHECK(cosine(last.got, texts[0].got, MOST_WIDTH) < 0.999);
    riffle_batch_close(batch);
    CHECK_INT(riffle_embed(model, given, 2, NULL, 0), MOST_WIDTH);
    CHECK_INT(riffle_embed(model, given, 2, vectors[0], 2 * MOST_WIDTH), MOST_WIDTH);
    CHECK(memcmp(vectors[0], texts[0].got, sizeof vectors[0]) == 0);
    CHECK(memcmp(vectors[0], vectors[1], sizeof vectors[0]) != 0);
    riffle_model_close(model);
}

static void check_pair(const char *name)
{
    static struct text texts[MOST_CASES];
    char path[128];
    snprintf(path, sizeof path, "encoders/%s/model.gguf", name);
    riffle_model *model = open_model(path);
    int32_t tokens[MOST_TOKENS];
    int n = read_cases(name, texts);
    if (!model) return;
    int64_t found = riffle_pair_tokenize(model, "river house", 11, "The river is read.", 18, 0,
                                         tokens, MOST_TOKENS);
    CHECK(n > 0);
    CHECK_INT(found, texts[0].n_tokens);
    CHECK(memcmp(tokens, texts[0].tokens, (size_t)found * sizeof *tokens) == 0);
    int64_t cut = riffle_pair_tokenize(model, "river house", 11, "The river is read.", 18, 7,
                                       tokens, MOST_TOKENS);
    CHECK_INT(cut, 7);
    CHECK_INT(tokens[6], texts[0].tokens[found - 1]);
    CHECK_INT(riffle_pair_tokenize(model, "river house", 11, "", 0, 4, tokens, MOST_TOKENS),
              RIFFLE_ERR_CONTEXT);
    riffle_model_close(model);
}

int main(void)
{
    check_model("bert", "model.gguf", 0.999999, RIFFLE_KIND_ENCODER);
    check_model("bert", "", 0.999999, RIFFLE_KIND_ENCODER);
    check_model("bert", "q8.gguf", 0.999, RIFFLE_KIND_ENCODER);
    check_model("nomic", "model.gguf", 0.999999, RIFFLE_KIND_ENCODER);
    check_model("nomic", "", 0.999999, RIFFLE_KIND_ENCODER);
    check_model("roberta", "model.gguf", 0.999999, RIFFLE_KIND_ENCODER);
    check_model("roberta", "", 0.999999, RIFFLE_KIND_ENCODER);
    check_model("roberta_rank", "model.gguf", 0, RIFFLE_KIND_RERANKER);
    check_model("roberta_rank", "", 0, RIFFLE_KIND_RERANKER);
    check_model("rank", "model.gguf", 0, RIFFLE_KIND_RERANKER);
    check_model("rank", "", 0, RIFFLE_KIND_RERANKER);
    for (int i = 0; i < 2; i++) {
        static const char *const names[] = {"modern", "gemma"};
        check_model(names[i], "model.gguf", 0.999999, RIFFLE_KIND_ENCODER);
        check_model(names[i], "", 0.999999, RIFFLE_KIND_ENCODER);
        check_model(names[i], "q8.gguf", 0.999, RIFFLE_KIND_ENCODER);
    }
    check_model("modern_rank", "model.gguf", 0, RIFFLE_KIND_RERANKER);
    check_model("modern_rank", "", 0, RIFFLE_KIND_RERANKER);
    check_refusals();
    check_calls();
    check_pair("rank");
    check_pair("roberta_rank");
    check_pair("modern_rank");
    return check_result();
}
