/* Building a corpus: texts to tokens, the pieces that the model finds likely, and the file
 * (speculate/corpus.h). */
#ifndef RF_ENGINE_CORPUS_H
#define RF_ENGINE_CORPUS_H

#include <riffle_experimental.h>

#include "engine/engine.h"

/* riffle_corpus_build of n_texts >= 1 texts. With options->keep below 1 a session scores pieces. */
int rf_corpus_build(struct rf_engine *engine, const char *path, const riffle_text *texts,
                    size_t n_texts, const riffle_corpus_options *options, riffle_corpus_info *info,
                    struct rf_error *error);

#endif
