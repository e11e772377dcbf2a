/* What the public handles are made of, and the border between the library's errors and the
 * caller's. */
#ifndef RF_API_HANDLES_H
#define RF_API_HANDLES_H

#include <riffle.h>

#include <stdatomic.h>

#include "api/drafts.h"
#include "base/alloc.h"
#include "base/error.h"
#include "infer/model.h"
#include "infer/sampler.h"
#include "infer/session.h"
#include "model/source.h"
#include "platform/team.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

struct riffle_model {
    struct rf_allocator allocator;
    struct rf_source *source;
    struct rf_tokenizer *tokenizer;
    struct rf_chat_template *chat; /* NULL: chat_error says why */
    struct rf_error chat_error;
    struct rf_model *model; /* NULL when only the header was opened */
    struct rf_weight_cost cost;
    char *stored_types, *weights_note;
    struct drafts drafts;

    /* teams.c. The team that loaded the model is lent to one session at a time; others get teams of
     * their own. */
    struct rf_team *team, *_Atomic idle_team;
    struct rf_split *measured; /* speeds of its workers; NULL: of one */
    char *cores;
    int32_t threads; /* that were asked for */
};

struct riffle_session {
    riffle_model *model;
    struct rf_team *team;
    struct rf_session *session;
    struct rf_sampler *sampler;
    struct cascade_parts levels;
    riffle_progress_fn progress;
    void *progress_user;
    riffle_finish finish;
    char finish_sentence[512];
    uint64_t prefill_tokens, generated_tokens;
    double prefill_seconds, decode_seconds;
    uint64_t first_pass; /* of the session's passes, for the statistics since the last reset */
};

/* Keeps the sentence for riffle_last_error() and returns its code. */
int rf_api_fail(const struct rf_error *error);
/* A failing call with its own sentence. */
int rf_api_error(int code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* Copies what the caller's structure and ours have in common over our defaults. `given` may be
 * NULL: the defaults stay. */
int rf_api_take(void *ours, size_t our_size, const void *given, const char *name);
/* Copies as much of a result as the caller's structure holds. */
void rf_api_give(void *theirs, size_t their_size, const void *ours, size_t our_size);

/* The tier that models are opened with. Fails when RIFFLE_CPU asks for one that cannot be had. */
int rf_api_tier(int *tier, struct rf_error *error);
/* How many threads `wanted` are; 0: one for each core that "auto" chooses. */
int rf_api_threads(int32_t wanted, int32_t *threads, struct rf_error *error);

/* The model's team, then what its workers can do with its weights; and its end. */
int rf_api_open_team(riffle_model *model, const riffle_model_options *options,
                     struct rf_error *error);
int rf_api_measure_team(riffle_model *model, struct rf_error *error);
void rf_api_close_team(riffle_model *model);
/* A session's team, and what becomes of it. `cores`: NULL: the model's. */
int rf_api_take_team(struct rf_team **team, riffle_model *model, const char *cores, int32_t threads,
                     struct rf_error *error);
void rf_api_return_team(riffle_model *model, struct rf_team *team);

#endif
