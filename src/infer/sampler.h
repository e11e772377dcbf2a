/* From logits to a token. The order is llama.cpp's default chain: penalties, top-k, top-p, min-p,
 * temperature, draw. Temperature 0 takes the greatest logit after the penalties, the lowest id
 * among equals.
 *
 * Random numbers are a function of (seed, position, token), not a stream. So the target's choice
 * does not depend on drafts, and a draft model that chooses by the same rule from its own logits
 * often makes the same choice (docs/design/sampling.md). */
#ifndef RF_INFER_SAMPLER_H
#define RF_INFER_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "infer/backend.h"

struct rf_sampling {
    float temperature;
    int32_t top_k;         /* 0: off */
    float top_p;           /* 1: off; 0: as temperature 0 */
    float min_p;           /* 0: off */
    float repeat_penalty;  /* 1: off */
    int32_t repeat_last_n; /* -1: all */
    uint64_t seed;
    float frequency_penalty, presence_penalty; /* 0: off; only the answer's own tokens count */
};

/* A token and a confidence: an estimate of its probability, in [0, 1]. For a runner-up: that it is
 * right if the choice and the runners-up before it are not. */
struct rf_choice {
    int32_t token;
    float confidence;
};

enum { RF_RUNNERS_UP = 2 /* most runners-up of a choice */ };

/* Added to a token's logit before anything else. */
struct rf_bias {
    int32_t token;
    float logit;
};

enum { RF_MAX_LOG_PROBS = 20 };

/* Log p of a chosen token and of the likeliest ones, in their order, as the model
 * has them: before biases, penalties, masks and temperature. */
struct rf_log_probs {
    float chosen;
    int32_t n;
    struct rf_candidate top[RF_MAX_LOG_PROBS]; /* .logit is log p */
};

struct rf_sampler;

/* The index of the first x[i] > threshold, or n; a NaN is greater than nothing. A backend's,
 * because a vocabulary is long. */
typedef size_t rf_first_above_fn(const float *x, size_t n, float threshold);

int rf_sampler_new(struct rf_sampler **sampler, int32_t n_vocab, rf_first_above_fn *first_above,
                   const struct rf_allocator *allocator, struct rf_error *error);
void rf_sampler_free(struct rf_sampler *sampler);

/* RF_ERR_ARGUMENT names the value that is out of its range. */
int rf_sampling_check(const struct rf_sampling *sampling, struct rf_error *error);
/* Checks and sets; on failure nothing changes. */
int rf_sampler_set(struct rf_sampler *sampler, const struct rf_sampling *sampling,
                   struct rf_error *error);
/* Biases of tokens of the vocabulary, each at most once. The list must live as long as this sampler
 * or a copy of its settings has it. */
void rf_sampler_set_bias(struct rf_sampler *sampler, const struct rf_bias *bias, int32_t n);
/* The answer's own tokens, which frequency and presence count, begin in the history at this
 * position. */
void rf_sampler_set_answer(struct rf_sampler *sampler, int32_t first);
/* Gives `to` the settings of `from`: from then on both choose alike. */
void rf_sampler_copy(struct rf_sampler *to, const struct rf_sampler *from);

/* Chooses the token that follows the `n` tokens of `history`, from logits[n_vocab]. Every call with
 * the same arguments gives the same token. Its confidence is its probability among the remaining
 * candidates; of a greedy choice, its probability among all tokens at temperature 1. Fails with
 * RF_ERR_FORMAT when the logits are not numbers. */
int rf_sampler_choose(struct rf_sampler *sampler, const float *logits, const int32_t *history,
                      int32_t n, struct rf_choice *choice, struct rf_error *error);

/* The same with the history in two parts: text[0 .. n) and then path[0 .. n_path). Chooses among
 * the tokens of the mask (struct rf_pass), as if the others' logits were minus infinity; NULL:
 * among all. runners_up[RF_RUNNERS_UP]: the choice if the tokens before it did not exist,
 * -1 where nothing is left; NULL: nobody asks. */
int rf_sampler_choose_after(struct rf_sampler *sampler, const float *logits, const uint64_t *mask,
                            const int32_t *text, int32_t n, const int32_t *path, int32_t n_path,
                            struct rf_choice *choice, struct rf_choice *runners_up,
                            struct rf_error *error);

/* found->n: how many of the likeliest tokens are wanted; set to how many there are. */
int rf_sampler_log_probs(struct rf_sampler *sampler, const float *logits, int32_t token,
                         struct rf_log_probs *found, struct rf_error *error);

/* Fails with RF_ERR_FORMAT: the logits after n tokens are not finite numbers. */
int rf_not_finite(int32_t n, struct rf_error *error);

/* 1 if the choice is the likeliest token whatever the history is. */
int rf_sampler_is_greedy(const struct rf_sampler *sampler);
/* Makes that choice, and its runners-up as above, from the candidates that a pass told; `n`: tokens
 * before it, for the sentence. */
int rf_sampler_take(const struct rf_best *best, int32_t n, struct rf_choice *choice,
                    struct rf_choice *runners_up, struct rf_error *error);

#endif
