/* A sequence: the tokens of a text, how far views have read them, and their keys and values.
 *
 * The text is tokens[0 .. length): first the committed tokens, then tokens that are placed *ahead*,
 * drafts that may be taken back. Only the sequence holds the text. A follower is told when tokens
 * are taken back.
 *
 * Reading. Committing a token only appends it; the pass that needs it reads it. The cache belongs
 * to one view, the *judge*: n_read positions hold its entries. Other views of the same shape may
 * read along (QSpec, section 3.3): they use the judge's entries and write their own behind those,
 * which the judge overwrites when it gets there.
 *
 * Long texts. A model may have other frequencies for texts of more than n_ctx_short tokens
 * (struct rf_params). A row is long if the text up to it is, and then it reads rows that are long,
 * too. So the entries of a cache are either short or long, and a text that gets over the border in
 * either direction is read again from its beginning. Rows of both kinds never are in one question:
 * rf_sequence_room.
 *
 * A failed or cancelled call changes no committed token, but for prefills that were cancelled. */
#ifndef RF_INFER_SEQUENCE_H
#define RF_INFER_SEQUENCE_H

#include "infer/backend.h"

struct rf_sequence;

enum { RF_PROMPT_ROWS = 256 /* rows of a pass over a prompt: weights are read once for so many */ };

struct rf_sequence_shape {
    int32_t n_ctx; /* tokens that it can hold */
    enum rf_kv_type kv;
};

/* `judge` must outlive the sequence. NULL: a text without a cache, which cannot be read. */
int rf_sequence_new(struct rf_sequence **sequence, struct rf_view *judge,
                    const struct rf_sequence_shape *shape, const struct rf_allocator *allocator,
                    struct rf_error *error);
void rf_sequence_free(struct rf_sequence *sequence);
/* A second sequence with the committed tokens of `from`, judged by a view of the same weights. Both
 * share the cache's blocks until one of them writes. */
int rf_sequence_fork(struct rf_sequence **copy, struct rf_sequence *from, struct rf_view *judge,
                     struct rf_error *error);

/* ---- the text ---- */

const int32_t *rf_sequence_tokens(const struct rf_sequence *sequence); /* valid for its lifetime */
int32_t rf_sequence_n_committed(const struct rf_sequence *sequence);
int32_t rf_sequence_length(const struct rf_sequence *sequence); /* committed and ahead */
int32_t rf_sequence_n_ctx(const struct rf_sequence *sequence);
int32_t rf_sequence_n_read(const struct rf_sequence *sequence); /* positions the judge has read */
/* Entries that the judge could use for the text's first n_text tokens: 0 where they are longer than
 * a short text and the entries are not, or the other way. */
int32_t rf_sequence_n_read_for(const struct rf_sequence *sequence, int32_t n_text);
/* Tokens that may follow the first n_text in one question, drafts among them: up to the end of the
 * context, or of short texts. */
int32_t rf_sequence_room(const struct rf_sequence *sequence, int32_t n_text);

/* Commits tokens; drops tokens ahead. Nothing is appended on failure: RF_ERR_CONTEXT when they do
 * not fit, RF_ERR_ARGUMENT names a token outside the vocabulary. */
int rf_sequence_append(struct rf_sequence *sequence, const int32_t *tokens, int32_t n,
                       struct rf_error *error);
/* Cuts the text to its first n <= length tokens. */
void rf_sequence_rewind(struct rf_sequence *sequence, int32_t n);

/* Places tokens ahead. There is room for RF_TREE_ROWS beyond n_ctx. */
void rf_sequence_place(struct rf_sequence *sequence, const int32_t *tokens, int32_t n);
/* Commits the first token that is ahead. RF_ERR_CONTEXT when the context is full. */
int rf_sequence_commit(struct rf_sequence *sequence, struct rf_error *error);

/* Hears when all tokens after the first n are taken back, before anything changes. A sequence has
 * one at most, which outlives it or is taken off with NULL. */
struct rf_follower {
    void (*rewound)(struct rf_follower *follower, int32_t n);
};
void rf_sequence_set_follower(struct rf_sequence *sequence, struct rf_follower *follower);

/* Hears of each row of the text that the judge reads: after a pass, rows of the view's last pass
 * from `row` on stand at the text's positions from `position` on, and what they left in the view's
 * taps is there. Drafted rows are told when they are accepted. A sequence has one at most, which
 * outlives it or is taken off with NULL. */
struct rf_reader {
    void (*has_read)(struct rf_reader *reader, struct rf_view *view, int32_t row, int32_t position,
                     int32_t n);
};
void rf_sequence_set_reader(struct rf_sequence *sequence, struct rf_reader *reader);

/* ---- reading ---- */

/* A question about one sequence: which token follows tokens[0 .. n_text), and which one follows
 * each of n_draft < RF_TREE_ROWS draft rows behind it. parents[i] < i: the draft row that row i
 * follows, -1: the text; NULL: each follows the one before. */
struct rf_ask {
    struct rf_sequence *sequence;
    const int32_t *draft, *parents;
    int32_t n_text, n_draft;
    /* [1 + n_draft]: the tokens that may be candidates after the text and after each draft row, as
     * in struct rf_pass; NULL: all. */
    const uint64_t *const *masks;
    /* Only read, as far as n_text, and answer nothing; no drafts. So many tokens must fit into the
     * pass; tokens before them are read, too. The committed text decides whether rows are long. */
    int reads_only;
    int32_t first; /* set by rf_read: the answer after the text is answer `first` of the view, that
                      after draft row i is first + 1 + i */
};

struct rf_read_options {
    int32_t n_best; /* candidates of each answer, 0 .. RF_MAX_BEST */
    /* [answers]: 1 + n_draft of each ask that is answered, in their order; NULL if n_best is 0. */
    struct rf_best *best;
};

/* Rows and seconds of the last pass, without the passes before it over a long text. */
struct rf_read_cost {
    int32_t rows;
    double seconds;
};

/* Reads what `view` has not read of each text and all draft rows, the rows of all sequences in one
 * pass: weights are read once for them. Each sequence is asked once. The answers' logits are the
 * view's (rf_backend_ops.logits) until its next pass. `cost` may be NULL. */
int rf_read(struct rf_view *view, struct rf_ask *asks, int32_t n_asks,
            const struct rf_read_options *options, struct rf_read_cost *cost,
            struct rf_error *error);

/* Keeps the rows path[0 .. n) of the last rf_read's drafts (ascending, each the child of the one
 * before) as read. Their tokens are the text's tokens [n_text, n_text + n): the caller has placed
 * them there. */
int rf_sequence_accept(struct rf_sequence *sequence, struct rf_view *view, int32_t n_text,
                       const int32_t *path, int32_t n, struct rf_error *error);

/* Tokens that rf_read has to read for this question before its drafts; 0 if the view still has the
 * answer after them. */
int32_t rf_ask_unread(const struct rf_ask *ask, const struct rf_view *view);
/* The same for a question about the first n_text tokens without drafts. */
int32_t rf_sequence_unread(const struct rf_sequence *sequence, const struct rf_view *view,
                           int32_t n_text);

/* The candidates that follow the whole text, if the view's last pass told them without a mask; else
 * NULL. */
const struct rf_best *rf_sequence_best(const struct rf_sequence *sequence,
                                       const struct rf_view *view);
/* The logits [n_vocab] that follow the whole text, valid until the view's next pass; reads what is
 * unread. RF_ERR_ARGUMENT for an empty text. */
int rf_sequence_answer(struct rf_sequence *sequence, struct rf_view *view, const float **logits,
                       struct rf_error *error);

/* Called before a read, with nothing done, and after each of its blocks; non-zero cancels. */
typedef int (*rf_read_progress)(void *user, int32_t done, int32_t total);

/* Commits and reads tokens, in blocks of the view's max_rows. On failure nothing is committed, but
 * when cancelled the blocks that were read stay. */
int rf_sequence_prefill(struct rf_sequence *sequence, struct rf_view *view, const int32_t *tokens,
                        int32_t n, rf_read_progress progress, void *user, struct rf_error *error);

/* Commits and reads tokens, and writes log p(tokens[i] | everything before) for i in [first, n) to
 * logprobs[i - first]. */
int rf_sequence_score(struct rf_sequence *sequence, struct rf_view *view, const int32_t *tokens,
                      int32_t n, int32_t first, double *logprobs, struct rf_error *error);

/* Seconds of each of `repeats` passes over n_rows rows after `context` tokens, missing ones being
 * filler; leaves the text as it was. */
int rf_sequence_time_passes(struct rf_sequence *sequence, struct rf_view *view, int32_t n_rows,
                            int32_t context, int32_t repeats, double *seconds,
                            struct rf_error *error);

/* ---- state ---- */

/* The keys and values of the first n_read tokens, in the backends' common order. */
uint64_t rf_sequence_kv_bytes(const struct rf_sequence *sequence, int32_t n_read);
/* Memory that they take; what forks share counts for each in part. */
uint64_t rf_sequence_kv_held(const struct rf_sequence *sequence);
/* The committed tokens whose entries rf_sequence_kv_save writes: those that are read, but for the
 * last ones where the cache could not go on from them. */
int32_t rf_sequence_n_saved(const struct rf_sequence *sequence);
int rf_sequence_kv_save(struct rf_sequence *sequence, void *kv, struct rf_error *error);
/* Makes the text tokens[0 .. n), of which n_read are read. On failure nothing changes. */
int rf_sequence_load(struct rf_sequence *sequence, const int32_t *tokens, int32_t n, int32_t n_read,
                     const void *kv, struct rf_error *error);

#endif
