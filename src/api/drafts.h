/* The drafts of a model: which levels its chain has, their weights, and a session's cascade of
 * them. */
#ifndef RF_API_DRAFTS_H
#define RF_API_DRAFTS_H

#include <riffle.h>

#include "infer/model.h"
#include "infer/sampler.h"
#include "infer/session.h"
#include "model/source.h"
#include "speculate/cascade.h"
#include "speculate/chain.h"
#include "speculate/model_level.h"
#include "speculate/ngram_level.h"
#include "speculate/pace_file.h"
#include "speculate/translated_level.h"
#include "text/tokenizer.h"

/* What a level of the model's chain draws on; all zero for "ngram" and the target. */
struct draft_weights {
    struct rf_source *source; /* NULL: the target's */
    struct rf_tokenizer *tokenizer;
    struct rf_model *model;
    struct rf_weight_cost cost;
    int32_t n_vocab; /* tokens that it shares with the target; 0: it has another vocabulary */
};

struct drafts {
    struct rf_chain chain;
    struct draft_weights weights[RF_CHAIN_MAX_LEVELS]; /* of chain.levels */
    char chain_text[128], note[256];
    uint64_t bytes;  /* resident */
    char *pace_path; /* begins the names of the files with measured costs; NULL: none are kept */
};

/* Chooses the levels of `model`, whose own source and cost are known, from options->chain: opens
 * the draft's file, and tells what all will cost. Nothing is loaded yet. */
int rf_drafts_choose(struct riffle_model *model, const struct riffle_model_options *options,
                     struct rf_error *error);
/* Loads and casts the weights of all levels. */
int rf_drafts_load(struct riffle_model *model, const struct riffle_model_options *options, int tier,
                   struct rf_error *error);
void rf_drafts_free(struct riffle_model *model);

/* The levels of one session. */
struct cascade_parts {
    struct rf_cascade *cascade;
    struct rf_chain chain;
    int32_t n_levels; /* that have been opened */
    char *pace_file;  /* NULL: none is kept */
    char names[RF_CHAIN_MAX_LEVELS][RF_PACE_NAME_BYTES];
    struct part {
        struct rf_ngram *ngram;
        struct rf_session *session; /* of a draft; the target's is the API session's own */
        struct rf_sampler *sampler; /* likewise */
        struct rf_translator *translator;
        struct rf_model_level level;
        struct rf_translated_level translated;
    } parts[RF_CHAIN_MAX_LEVELS];
};

/* `chain`: some of the model's levels, NULL: all. `session` and `sampler` are the target's. */
int rf_cascade_parts_new(struct cascade_parts *parts, const struct riffle_model *model,
                         const struct rf_chain *chain, struct rf_session *session,
                         struct rf_sampler *sampler, struct rf_error *error);
/* Gives all levels the settings of the target's sampler. */
void rf_cascade_parts_set_sampling(struct cascade_parts *parts, const struct rf_sampler *sampler);
/* Keeps what was measured of costs. */
void rf_cascade_parts_free(struct cascade_parts *parts, const struct rf_allocator *allocator);

#endif
