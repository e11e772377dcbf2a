/* Files of a model's log-probabilities for a text, as llama.cpp's perplexity tool writes them with
 * --kl-divergence-base: "_logits_"; INT32 tokens of a window, of the vocabulary, and windows; the
 * tokens of all windows; then for each scored token of each window a row: F32 step and least, and
 * 16-bit codes, one for each token of the vocabulary and one more where that is odd:
 * log p = least + step * code. The greatest and the least are 16 apart at most. */
#ifndef DIVERGENCE_LOGITS_FILE_H
#define DIVERGENCE_LOGITS_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "platform/file.h"

/* Tokens of a window that are scored, those of its second half. */
static inline size_t scored_of(size_t n_ctx)
{
    return n_ctx - (n_ctx / 2 + 1);
}

/* ---- reading ---- */

struct logits_file {
    const char *path;
    struct rf_mapping mapping;
    size_t n_ctx, n_vocab, n_windows;
    const int32_t *tokens; /* [n_windows][n_ctx] */
    const unsigned char *rows;
    size_t n_read; /* rows so far */
};

/* 1 if the file at `path` begins as such files do. */
int is_logits_file(const char *path);
/* CLI_OK, or an exit status with a sentence: a file that is cut, or whose numbers make no sense. */
int logits_file_open(struct logits_file *file, const char *path);
/* The next row, log-probabilities [n_vocab]. */
void logits_file_next(struct logits_file *file, float *logprobs);
/* 1 if another process made the file shorter while it was read. */
int logits_file_is_lost(const struct logits_file *file);
void logits_file_close(struct logits_file *file);

/* ---- writing ---- */

struct logits_writer {
    struct rf_new_file file;
    int is_open;
    size_t n_vocab;
    uint16_t *row;
};

/* CLI_OK, or an exit status with a sentence. */
int logits_writer_open(struct logits_writer *writer, const char *path, size_t n_vocab);
int logits_writer_begin(struct logits_writer *writer, const int32_t *tokens, size_t n_ctx,
                        size_t n_windows);
/* The next row, by logits [n_vocab]. */
int logits_writer_next(struct logits_writer *writer, const float *logits);
int logits_writer_finish(struct logits_writer *writer);
/* Drops a file that is not finished. */
void logits_writer_close(struct logits_writer *writer);

#endif
