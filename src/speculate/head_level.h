/* A draft head as a level of the cascade: it reads features of the text's positions, which the
 * target's passes leave (infer/head.h), and drafts one token after the other. It judges nothing.
 *
 * The level listens to the target's sequence: each row that the target reads leaves its feature
 * here. Its rows have keys and values of their own, one layer. They are made when a draft is asked
 * for: first those whose features are known, in one pass, then one by one those of drafted tokens,
 * from the results of the rows before them. Of a long text only the end is read.
 *
 * Levels that share passes (struct rf_head_passes) may be asked together: each pass then has rows
 * of all of them, with keys and values of their own. */
#ifndef RF_SPECULATE_HEAD_LEVEL_H
#define RF_SPECULATE_HEAD_LEVEL_H

#include "infer/head.h"
#include "infer/sampler.h"
#include "infer/sequence.h"
#include "speculate/level.h"

struct rf_head_level;

/* What passes of a head need, for one text or for those of a batch, which take turns or share a
 * pass. */
struct rf_head_passes;

/* For texts of up to n_ctx tokens. All outlive them. */
int rf_head_passes_new(struct rf_head_passes **passes, const struct rf_head *head,
                       struct rf_queue *queue, int32_t n_ctx, const atomic_int *cancel,
                       const struct rf_allocator *allocator, struct rf_error *error);
void rf_head_passes_free(struct rf_head_passes *passes);
const struct rf_view *rf_head_passes_view(const struct rf_head_passes *passes);

extern const struct rf_level_ops rf_head_level_ops;

/* A level of the text of `sequence`, whose judge gives out the features of the passes' head. The
 * sampler has the target's settings, so that the head draws as the target does. All outlive the
 * level. The level becomes the sequence's reader. */
int rf_head_level_new(struct rf_head_level **level, struct rf_head_passes *passes,
                      struct rf_sequence *sequence, struct rf_sampler *sampler,
                      const struct rf_allocator *allocator, struct rf_error *error);
void rf_head_level_free(struct rf_head_level *level);
/* Takes over the features of a level that had the same text. */
void rf_head_level_copy(struct rf_head_level *to, const struct rf_head_level *from);
/* The features as bytes, for a session's file: those of the last positions that a head reads of a
 * text's first n tokens. */
uint64_t rf_head_level_bytes(const struct rf_head_level *level, int32_t n);
void rf_head_level_save(const struct rf_head_level *level, int32_t n, void *out);
/* 1 if these are bytes that were saved for a text of n tokens, of any head; the numbers themselves
 * may be any. */
int rf_head_level_check(const void *data, size_t bytes, int32_t n);
/* Takes over what was checked, from a head of the same weights. Features of another width are
 * none. */
void rf_head_level_load(struct rf_head_level *level, const void *data, size_t bytes);
const struct rf_head *rf_head_level_head(const struct rf_head_level *level);
/* Bytes of the features and of the keys and values that the level holds. */
uint64_t rf_head_level_held(const struct rf_head_level *level);
/* The greatest number of positions that a row of the head reads. */
int32_t rf_head_level_window(const struct rf_head_level *level);

#endif
