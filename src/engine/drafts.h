/* The drafts of a model: the levels of its chain and the weights that they compute with. They are
 * chosen and their costs known when the header is read; the weights are loaded after the target's.
 * Every session of the model takes its levels from here (levels.h). */
#ifndef RF_ENGINE_DRAFTS_H
#define RF_ENGINE_DRAFTS_H

#include <riffle.h>

#include "infer/head.h"
#include "model/open.h"
#include "speculate/chain.h"
#include "speculate/corpus.h"
#include "text/tokenizer.h"

struct rf_engine;

/* The weights of one level. All zero for the target and for drafters without a model. */
struct draft_weights {
    struct rf_source *source; /* NULL: the target's */
    struct rf_tokenizer *tokenizer;
    struct rf_model *model;
    struct rf_head *head; /* a draft head in the place of a model */
    struct rf_weight_cost cost;
    int32_t n_vocab; /* tokens shared with the target; 0: the draft has another vocabulary */
};

struct drafts {
    struct rf_chain chain;
    struct draft_weights weights[RF_MAX_LEVELS]; /* weights[l] belongs to chain.levels[l] */
    char chain_text[128], note[384];
    struct rf_head_file *head_file; /* NULL: no level is a head */
    char head_path[1024];
    uint64_t bytes;           /* resident, on all devices */
    uint64_t second_bytes;    /* part of `bytes` on the second of two devices */
    struct rf_corpus *corpus; /* NULL: the options name none */
    char *pace_path;          /* first part of the names of the pace files; NULL: none are kept */
};

/* Chooses the levels of the model at `path` from options->chain. The engine's source, weights and
 * cost must be known. Opens the files of draft models and computes all costs, but loads no weights.
 */
int rf_drafts_choose(struct rf_engine *engine, const char *path,
                     const riffle_model_options *options, struct rf_error *error);
/* To be called when the layers of both devices are chosen, of which a head needs all on one: takes
 * it from a chain that was chosen, and fails where one was asked for. */
int rf_drafts_settle(struct rf_engine *engine, const riffle_model_options *options,
                     struct rf_error *error);
/* Loads and casts the weights of all levels. The target's are loaded. */
int rf_drafts_load(struct rf_engine *engine, const riffle_model_options *options,
                   struct rf_error *error);
void rf_drafts_free(struct rf_engine *engine);
/* The level that is a head; NULL: there is none. */
const struct draft_weights *rf_drafts_head(const struct drafts *drafts);

#endif
