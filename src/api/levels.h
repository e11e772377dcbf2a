/* The levels of a model's chain: their weights, and a session's cascade of them. */
#ifndef RF_API_LEVELS_H
#define RF_API_LEVELS_H

#include <riffle.h>

#include "infer/model.h"
#include "infer/program.h"
#include "infer/sampler.h"
#include "model/open.h"
#include "speculate/cascade.h"
#include "speculate/chain.h"
#include "speculate/corpus.h"
#include "speculate/model_level.h"
#include "text/tokenizer.h"

/* The weights of a level of the model's chain. All zero for drafters without a model and the
 * target. */
struct draft_weights {
    struct rf_source *source; /* NULL: the target's */
    struct rf_tokenizer *tokenizer;
    struct rf_model *model;
    struct rf_weight_cost cost;
    int32_t n_vocab; /* tokens that it shares with the target; 0: it has another vocabulary */
};

struct drafts {
    struct rf_chain chain;
    struct draft_weights weights[RF_MAX_LEVELS]; /* of chain.levels */
    char chain_text[128], note[256];
    uint64_t bytes;           /* resident ... */
    uint64_t second_bytes;    /* ... of which the second of two devices has */
    struct rf_corpus *corpus; /* that options name; NULL: none */
    char *pace_path; /* begins the names of the files with measured costs; NULL: none are kept */
};

/* Chooses the levels of `model` from options->chain; the model's own source and cost must be known.
 * Opens the draft's file and computes all costs, but loads no weights. */
int rf_drafts_choose(struct riffle_model *model, const riffle_model_options *options,
                     struct rf_error *error);
/* 1 for a model or a cast; and for one that reads the weights that the target has anyway. */
int rf_level_has_weights(const struct rf_chain_level *level);
int rf_drafts_share_weights(const struct riffle_model *model, const struct rf_chain_level *level);
/* Loads and casts the weights of all levels. */
int rf_drafts_load(struct riffle_model *model, const riffle_model_options *options,
                   struct rf_error *error);
void rf_drafts_free(struct riffle_model *model);

/* The levels of one session. */
struct levels {
    struct rf_cascade *cascade;
    struct rf_chain chain;
    int32_t n_levels; /* that have been opened */
    char *pace_file;  /* NULL: none is kept */
    char names[RF_MAX_LEVELS][RF_PACE_NAME_BYTES];
    struct part {
        const struct rf_drafter *drafter; /* without a model, and its own state; else NULL */
        void *drafter_self;
        struct rf_view *view;         /* of a draft; the target's is the session's own */
        struct rf_sequence *sequence; /* of a draft with a context of its own */
        struct rf_sampler *sampler;   /* likewise */
        struct rf_translator *translator;
        struct rf_model_level level;
        struct rf_translated_level translated;
    } parts[RF_MAX_LEVELS];
};

/* The session's queue, view, sequence and sampler are there. `chain`: some of the model's levels,
 * NULL: all. */
int rf_levels_open(struct riffle_session *session, const struct rf_chain *chain,
                   struct rf_error *error);
/* What a drafter knows besides the text; NULL where no level of the chain has a dictionary. */
struct rf_successors *rf_levels_dictionary(const struct levels *levels);
/* Gives all levels the settings of the target's sampler. */
void rf_levels_set_sampling(struct levels *levels, const struct rf_sampler *sampler);
/* Loads what was measured before with this model, tier and number of threads. */
int rf_levels_load_pace(struct riffle_session *session, struct rf_error *error);
/* Keeps what was measured of costs. */
void rf_levels_close(struct levels *levels, const struct rf_allocator *allocator);

#endif
