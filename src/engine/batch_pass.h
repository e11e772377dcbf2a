/* The parts of a batch's pass: a round of each answer whose prompt is read, slices of prompts, and
 * so many rows of drafts as the others should wait for. For batch.c alone. */
#ifndef RF_ENGINE_BATCH_PASS_H
#define RF_ENGINE_BATCH_PASS_H

#include "engine/embed.h"
#include "engine/encoder.h"
#include "engine/generation.h"
#include "engine/kept.h"
#include "engine/stored.h"
#include "engine/tempo.h"
#include "speculate/balance.h"
#include "speculate/batch.h"

enum {
    RF_MOST_ANSWERS = 32, /* answers under way at the same time, at most */
    RF_FEW_UNREAD = 16    /* unread tokens that need no slice, and that nobody waits for; a prompt
                             beside others has a slice from RF_TEMPO_LEAST on */
};

_Static_assert((int)RF_MOST_ANSWERS <= (int)RF_BALANCE_TEXTS, "rounds of a pass");

/* A request, and its answer once that is begun. */
struct member {
    struct rf_engine_batch *batch;
    int64_t id;
    int32_t *prompt;          /* [n_prompt] */
    int32_t n_prompt, n_kept; /* n_kept: tokens that another text had read */
    int32_t n_told;           /* rows of the prompt whose log-probabilities were told */
    riffle_sampling sampling;
    struct rf_answer_options wanted;
    struct rf_bias *bias; /* [n_bias] */
    int32_t n_bias, n_top;
    riffle_on_logprobs on_logprobs, on_prompt_logprobs;
    riffle_on_embedding on_embedding; /* NULL: an answer */
    riffle_pooling pooling;
    int has_vector; /* 1: on_embedding was called */
    riffle_on_event on_event;
    riffle_on_answer on_answer;
    void *user;
    double added, begun, first; /* seconds of the clock; 0: not yet */
    int cancelled, has_looked;  /* looked: for a stored text */
    struct rf_session *session; /* NULL while it waits */
    struct generation generation;
    struct rf_batch_part part;
};

/* Some members wait, some have their prompts read and some generate. */
struct rf_engine_batch {
    struct rf_session *root; /* has no tokens; its view reads all texts */
    struct member **members;
    size_t n_members, cap_members; /* members are in the order of their coming */
    int64_t last_id;
    int32_t most_answers;
    struct kept kept;
    struct rf_stored *stored;      /* texts in a folder; NULL: there is none */
    struct rf_embedder *embedder;  /* NULL: nobody has asked for a vector yet */
    struct rf_encoder *encoder;    /* likewise of an encoder */
    const struct member *embedded; /* member whose prompt the embedder reads; or NULL */
    uint64_t turn;                 /* the member that comes first in a pass, modulo n_members */
    struct tempo tempo;
    struct rf_balance balance;
    uint64_t passes, rows;
    double pass_seconds;
};

/* The parts of a pass while they are collected. */
struct parts {
    struct rf_batch_part *list[RF_MOST_ANSWERS];
    struct member *members[RF_MOST_ANSWERS];
    int32_t n, rounds, rows, slices; /* rows of all parts, and of the slices */
    int32_t told;                    /* rows of the slices whose logits are wanted */
};

/* ---- members ---- */

/* Tokens of the member's text that are read. */
int32_t rf_member_n_read(const struct member *member);
/* 1 while its prompt gets slices. */
int rf_member_is_reading(const struct member *member);
/* Answers that have been begun. */
int32_t rf_batch_under_way(const struct rf_engine_batch *batch);

/* ---- a pass, in this order ---- */

/* Adds a round of each answer whose prompt is read. */
void rf_parts_add_rounds(struct parts *parts, const struct rf_engine_batch *batch);
/* Rows of prompts that the pass may have beside the rounds. */
int32_t rf_parts_slice(const struct parts *parts, const struct rf_engine_batch *batch);
/* Adds slices of the prompts, in turn. */
void rf_parts_add_slices(struct parts *parts, struct rf_engine_batch *batch);
/* Rows that the pass may have with drafts. */
int32_t rf_parts_most_rows(const struct parts *parts, const struct rf_engine_batch *batch);
/* Learns from what the pass took, and from the seconds of it and all drafting. */
void rf_parts_learn(const struct parts *parts, struct rf_engine_batch *batch,
                    const struct rf_batch_cost *cost, double seconds);

#endif
