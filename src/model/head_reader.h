/* Shared by the readers of a draft head's file: the head while it is read, and the checks that do
 * not depend on the container. Only head*.c include this. */
#ifndef RF_MODEL_HEAD_READER_H
#define RF_MODEL_HEAD_READER_H

#include "model/head.h"
#include "model/hf.h"
#include "model/reader.h"

/* Begins sentences about a head whose target has other sizes. */
#define RF_OF_ANOTHER "is a head of another target: "

/* Rows that are joined begin at multiples of it (infer/backend.h). */
enum { RF_HEAD_WIDTH_STEP = 16 };

/* What a file states. rf_head_check compares it with the target and the tensors. */
struct rf_head_reading {
    const struct rf_source *target;
    struct rf_head_file *head; /* in the source's memory. Its n_embd_target and n_vocab_target are
                                  stated, or 0 */
    int64_t layers[RF_HEAD_TAPS]; /* of the target, whose inputs are read */
    int32_t n_vocab;              /* stated output rows; 0: not stated */
    /* The target's ids, or id - index, of the output rows: n_ids integers of 64 bits, low byte
     * first, not aligned. NULL: none. */
    const unsigned char *ids;
    int32_t n_ids;
    int are_offsets;
};

/* Makes the head in the memory of the source. NULL after a failure. */
struct rf_head_file *rf_head_new(struct rf_head_reading *of, struct rf_reading *reading);

/* Readers of open.h; `user` is the rf_head_reading. */
int rf_head_read_gguf(struct rf_source *source, const char *path, const unsigned char *data,
                      size_t bytes, void *user, struct rf_error *error);
int rf_head_read_folder(struct rf_source *source, const struct rf_hf_files *files, void *user,
                        struct rf_error *error);

/* Sorts the tensors, completes the head and checks all of it. Returns the reading's code. */
int rf_head_check(struct rf_head_reading *of, struct rf_reading *reading);

/* The same of a head that was trained with its target (head_mtp.c). rf_mtp_begin comes before: it
 * makes the head, and of the file's parameters, a model's, those of the head's layer, one of `n`
 * behind the model's own. */
void rf_mtp_begin(struct rf_head_reading *of, struct rf_reading *reading, int32_t n);
int rf_mtp_check(struct rf_head_reading *of, struct rf_reading *reading);

#endif
