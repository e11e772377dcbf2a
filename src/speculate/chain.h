/* Chains as people write them: levels from cheap to dear, "ngram > tiny.gguf:mxfp4 > mxfp4"; the
 * target comes last by itself. Parsed here and nowhere else. */
#ifndef RF_SPECULATE_CHAIN_H
#define RF_SPECULATE_CHAIN_H

#include "base/error.h"
#include "infer/backend.h"
#include "speculate/draft.h"

enum rf_level_kind {
    RF_LEVEL_NGRAM, /* "ngram" */
    RF_LEVEL_MODEL, /* a model of its own: a path or a known name, as stored, or with ":mxfp4",
                       ":q4" or ":bf16" in that form */
    RF_LEVEL_SELF,  /* the target's weights in fewer bits: "mxfp4", "q4", "stored" */
    RF_LEVEL_TARGET /* "target"; always the last */
};

enum { RF_CHAIN_MAX_LEVELS = RF_MAX_LEVELS, RF_CHAIN_NAME_BYTES = 512 };

struct rf_chain_level {
    enum rf_level_kind kind;
    enum rf_weight_form form;       /* of a MODEL or SELF */
    char name[RF_CHAIN_NAME_BYTES]; /* as written, without the form; "draft" is the draft model of
                                       the options */
};

enum rf_chain_choice { RF_CHAIN_LEVELS, RF_CHAIN_AUTO };

struct rf_chain {
    enum rf_chain_choice choice; /* AUTO: the levels are the model's to choose, and n_levels is 0 */
    int32_t n_levels;            /* the target counted: 1 for "none" */
    struct rf_chain_level levels[RF_CHAIN_MAX_LEVELS];
};

/* "auto", "none", or levels separated by '>', with spaces around as one likes. RF_ERR_ARGUMENT
 * names what is wrong: an empty level, too many, one that occurs twice, "ngram" that is not first,
 * a level after "target", a self-draft before a model
 * ("mxfp4 > tiny.gguf": the cheaper comes first), an unknown form after ':'. A ':' in a path that
 * no form follows, or before a '/', belongs to the path. */
int rf_chain_parse(struct rf_chain *chain, const char *text, struct rf_error *error);

/* "ngram > mxfp4 > target", cut to `cap` bytes with the terminating zero. Models are written by the
 * last part of their path, without ".gguf". */
void rf_chain_format(const struct rf_chain *chain, char *out, size_t cap);
/* One level's name for people. */
void rf_chain_level_name(const struct rf_chain_level *level, char *out, size_t cap);

#endif
