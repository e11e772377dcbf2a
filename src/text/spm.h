/* SentencePiece behind a C interface. spm.cc is the only C++ file of the project. */
#ifndef RF_TEXT_SPM_H
#define RF_TEXT_SPM_H

#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "text/tokens.h"

struct rf_spm;

/* Makes a processor from a serialised ModelProto, which spm_model.c has made safe for the library.
 * `prefixed` is the same model with add_dummy_prefix set; NULL where a leading space has the same
 * effect. sentencepiece allocates from the C++ heap, not from the allocator. */
int rf_spm_new(struct rf_spm **spm, const struct rf_bytes *proto, const struct rf_bytes *prefixed,
               const char *path, const struct rf_allocator *allocator, struct rf_error *error);
void rf_spm_free(struct rf_spm *spm);

/* Appends the ids of n bytes of text. `prefix`: with sentencepiece's space in front. */
void rf_spm_encode(const struct rf_spm *spm, const char *text, size_t n, int prefix,
                   struct rf_token_writer *out);

#endif
