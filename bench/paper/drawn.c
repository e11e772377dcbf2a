#include "paper/drawn.h"

#include <math.h>

/* SplitMix64's finalizer (Steele, Lea and Flood 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t with_token(uint64_t text, int32_t token)
{
    return mix(text + 0x9e3779b97f4a7c15u * ((uint64_t)(uint32_t)token + 1));
}

static uint64_t text_of(const int32_t *text, int32_t n)
{
    uint64_t hash = 1;
    for (int32_t i = 0; i < n; i++) hash = with_token(hash, text[i]);
    return hash;
}

/* Uniform in [0, 1). */
static double uniform(uint64_t hash)
{
    return (double)(mix(hash) >> 11) * 0x1p-53;
}

static int32_t truth_of(uint64_t text, int32_t n_vocab)
{
    return (int32_t)(mix(text ^ 0x7275746874u) % (uint64_t)n_vocab);
}

int32_t drawn_truth(const int32_t *text, int32_t n, int32_t n_vocab)
{
    return truth_of(text_of(text, n), n_vocab);
}

double drawn_rate(double ratio, int32_t length)
{
    double low = 0.0, high = 1.0;
    for (int i = 0; i < 60; i++) {
        double p = 0.5 * (low + high), kept = 0.0;
        for (int32_t k = 1; k <= length; k++) kept += pow(p, k);
        if (kept < ratio * length)
            low = p;
        else
            high = p;
    }
    return high;
}

static struct rf_choice draw(const struct drawn_level *level, uint64_t text)
{
    int32_t token = truth_of(text, level->n_vocab);
    if (uniform(text ^ level->luck) >= level->rate) {
        uint64_t other = mix(text ^ level->errors) % (uint64_t)(level->n_vocab - 1);
        token = (int32_t)(((uint64_t)token + 1 + other) % (uint64_t)level->n_vocab);
    }
    return (struct rf_choice){token, (float)level->rate};
}

static int choose(void *self, struct rf_question *question, struct rf_choice *choices,
                  struct rf_error *error)
{
    struct drawn_level *level = self;
    const struct rf_draft *draft = question->draft;
    uint64_t texts[RF_DRAFT_ROWS + 1];
    int code = rf_model_level_ops.choose(&level->model, question, choices, error);
    if (code) return code;
    texts[0] = text_of(question->text, question->n);
    choices[0] = draw(level, texts[0]);
    for (int32_t i = 0; i < draft->n; i++) {
        texts[i + 1] = with_token(texts[draft->parents[i] + 1], draft->tokens[i]);
        choices[i + 1] = draw(level, texts[i + 1]);
    }
    return 0;
}

static int keep(void *self, const int32_t *text, int32_t n, const int32_t *path, int32_t k,
                struct rf_error *error)
{
    struct drawn_level *level = self;
    return rf_model_level_ops.keep(&level->model, text, n, path, k, error);
}

static int32_t unread(void *self, const int32_t *text, int32_t n)
{
    struct drawn_level *level = self;
    return rf_model_level_ops.unread(&level->model, text, n);
}

static void rewind_level(void *self, int32_t n)
{
    struct drawn_level *level = self;
    rf_model_level_ops.rewind(&level->model, n);
}

const struct rf_level_ops drawn_level_ops = {
    .choose = choose, .keep = keep, .unread = unread, .rewind = rewind_level};
