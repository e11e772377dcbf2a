/* The levels of a session: its cascade, with a level for each level of the chain, and what each
 * level needs of its own (view, sequence, sampler). Opened by the session when its own parts are
 * there, and closed before them. */
#ifndef RF_ENGINE_LEVELS_H
#define RF_ENGINE_LEVELS_H

#include "infer/sampler.h"
#include "speculate/cascade.h"
#include "speculate/chain.h"
#include "speculate/head_level.h"
#include "speculate/model_level.h"

struct rf_engine;
struct rf_session;

struct levels {
    struct rf_cascade *cascade;
    struct rf_chain chain;
    int32_t n_levels;                              /* opened so far */
    char *pace_file;                               /* NULL: none is kept */
    char names[RF_MAX_LEVELS][RF_PACE_NAME_BYTES]; /* names of the levels in the pace file */
    struct part {
        const struct rf_drafter *drafter; /* drafter without a model; else NULL */
        void *drafter_self;               /* state of that drafter */
        struct rf_view *view;             /* view of a draft; the target's is the session's */
        struct rf_sequence *sequence;     /* set for a draft with a context of its own; else NULL */
        struct rf_sampler *sampler;       /* set for the same drafts; else NULL */
        struct rf_head_level *head;       /* set for a draft head; else NULL */
        struct rf_head_passes *passes;    /* likewise; lent if `borrows_passes` */
        int borrows_passes;
        struct rf_translator *translator; /* set for a draft with another vocabulary; else NULL */
        struct rf_model_level level;
        struct rf_translated_level translated;
    } parts[RF_MAX_LEVELS];
};

/* The session's queue, view, sequence and sampler are there. `chain`: some of the engine's levels;
 * NULL: all. `lender`: levels of the same chain and queue, which outlive these and whose passes of
 * heads these share; NULL: none. */
int rf_levels_open(struct rf_session *session, const struct rf_chain *chain,
                   const struct levels *lender, struct rf_error *error);
/* The head whose features the target's view is to give out: that of the session's chain, NULL for
 * the engine's. NULL: there is none. */
const struct rf_head *rf_levels_head(const struct rf_engine *engine, const struct rf_chain *chain);
/* Takes over what a session with the same chain and text has learnt about the text: dictionaries
 * and features. */
void rf_levels_copy(struct levels *to, const struct levels *from);
/* The dictionary of a drafter, which the text does not tell; NULL where no level has one. */
struct rf_successors *rf_levels_dictionary(const struct levels *levels);
/* The level that is a draft head; NULL: there is none. */
struct rf_head_level *rf_levels_head_level(const struct levels *levels);
/* Gives all levels the settings of the target's sampler. */
void rf_levels_set_sampling(struct levels *levels, const struct rf_sampler *sampler);
/* Loads the costs measured before with this model, tier and number of threads. */
int rf_levels_load_pace(struct rf_session *session, struct rf_error *error);
/* Saves the measured costs, then closes. */
void rf_levels_close(struct levels *levels, const struct rf_allocator *allocator);

#endif
