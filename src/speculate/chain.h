/* The text form of chains: levels from cheap to expensive, "ngram > tiny.gguf:mxfp4 > mxfp4". The
 * target is added as the last level. No other file parses chains. */
#ifndef RF_SPECULATE_CHAIN_H
#define RF_SPECULATE_CHAIN_H

#include "base/error.h"
#include "infer/backend.h"
#include "speculate/draft.h"
#include "speculate/drafters.h"

enum rf_level_kind {
    RF_LEVEL_DRAFTER, /* a drafter without a model: a row of drafters.h, such as "ngram" */
    RF_LEVEL_HEAD,    /* the target's draft head: "head" */
    RF_LEVEL_MODEL, /* another model: a path or a known name; stored, or ":mxfp4", ":w4", ":bf16" */
    /* The target's weights in fewer bits: "mxfp4", "q4", "w4", "stored"; or its stored weights with
     * activations in 8 bits: "a8" (QSpec). */
    RF_LEVEL_SELF,
    RF_LEVEL_TARGET /* "target"; always the last */
};

/* The part of the target's KV cache that a draft of the target's own weights reads. */
enum rf_level_reads {
    RF_READS_ALL,
    RF_READS_KV4,   /* the upper nibbles of a quantised cache (QuantSpec) */
    RF_READS_WINDOW /* upper nibbles too, and only positions that rf_window_has allows */
};

enum { RF_CHAIN_NAME_BYTES = 512 };
#define RF_CHAIN_A8 "a8"

struct rf_chain_level {
    enum rf_level_kind kind;
    const struct rf_drafter *drafter; /* DRAFTER: its row */
    enum rf_weight_form form;         /* MODEL or SELF: form of the weights */
    enum rf_level_reads reads;        /* SELF: "mxfp4:kv4", "mxfp4:window" */
    int is_own;                       /* 1 for "kv4", "window": the target's own weights */
    char name[RF_CHAIN_NAME_BYTES];   /* name without the form; "draft": the options' draft model */
};

enum rf_chain_choice { RF_CHAIN_LEVELS, RF_CHAIN_AUTO };

struct rf_chain {
    enum rf_chain_choice choice; /* AUTO: the model chooses the levels; n_levels is 0 */
    int32_t n_levels;            /* levels with the target: 1 for "none" */
    struct rf_chain_level levels[RF_MAX_LEVELS];
};

/* 1 for a level that computes with the weights of a whole model besides the target's pass: a MODEL
 * or a SELF. */
int rf_chain_level_has_weights(const struct rf_chain_level *level);
/* 1 if these are the weights that a target of this form has anyway. */
int rf_chain_level_shares_weights(const struct rf_chain_level *level,
                                  enum rf_weight_form target_form);

/* Parses "auto", "none", or levels separated by '>' and spaces. RF_ERR_ARGUMENT names what is
 * wrong: an empty level, too many levels, a level twice, a drafter after a model, a level after
 * "target", a self-draft before a model ("mxfp4 > tiny.gguf": cheaper levels come first), or an
 * unknown form after ':'. A ':' in a path that no form follows, or that comes before a '/', belongs
 * to the path. */
int rf_chain_parse(struct rf_chain *chain, const char *text, struct rf_error *error);

/* Parses "ngram > corpus; ngram > mxfp4": the levels of all these chains, so that a model has what
 * sessions with each of them need. They are in a chain's order, otherwise as they are named first.
 * "auto" is alone. */
int rf_chain_parse_all(struct rf_chain *chain, const char *text, struct rf_error *error);

/* Writes "ngram > mxfp4 > target", cut to `cap` bytes with the terminating zero. Models are written
 * as the last part of their path, without ".gguf". */
void rf_chain_format(const struct rf_chain *chain, char *out, size_t cap);
/* Writes one level's name as shown to users. */
void rf_chain_level_name(const struct rf_chain_level *level, char *out, size_t cap);

#endif
