/* Casts that are kept between runs: the packed strips of cast matrices, in a file of a cache
 * folder. A cast takes seconds of computing and is the same each time, so the next start reads it.
 * rf_model_load_draft opens such a file; rf_weight_pack reads strips from it or writes them to it,
 * from any thread. Only drafts are kept: a wrong byte could cost accepted tokens, never change one.
 *
 * Without the file, or with a damaged one, the weights are cast; no failure of files is reported.
 */
#ifndef RF_WEIGHTS_KEPT_H
#define RF_WEIGHTS_KEPT_H

#include "base/alloc.h"
#include "weights/plan.h"

struct rf_kept_folder {
    const char *path; /* not made: where there is none, nothing is kept. NULL or "": likewise */
    uint64_t limit;   /* bytes of all files together; the oldest make room for a new one */
};

/* The names of the files in the folder begin with this; nothing else's do. */
#define RF_KEPT_PREFIX "cast-"

struct rf_kept;

/* Opens the file for these weights, or begins one, and has the plans of cast matrices point to it.
 * *kept is NULL where there is nothing to keep or no room. Experts are not kept: a pool packs them
 * later. 0, or RF_ERR_MEMORY. */
int rf_kept_open(struct rf_kept **kept, const struct rf_kept_folder *folder,
                 struct rf_weight_plan *plans, int32_t n_plans,
                 const struct rf_allocator *allocator, struct rf_error *error);
/* Ends the use of the file when all strips are packed (`complete`) or some failed. A complete new
 * file gets its name; the others are dropped. 1 if strips were read and some were damaged: the file
 * is removed, and the weights must be packed again without it. Otherwise 0. NULL is allowed. */
int rf_kept_close(struct rf_kept *kept, int complete);

/* Reads n strips of `bytes` each, which lie at `at` behind the header. 1 if they are there. */
int rf_kept_read(struct rf_kept *kept, uint64_t at, void *strips, size_t n, size_t bytes);
/* Writes them; nothing where the file is being read. */
void rf_kept_write(struct rf_kept *kept, uint64_t at, const void *strips, size_t n, size_t bytes);

#endif
