/* A corpus file of any bytes behind a right magic: it is refused with a sentence, or drafts tokens
 * of the vocabulary. */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/memory.h"
#include "speculate/corpus.h"

enum { VOCAB = 8, VOCABULARY = 1 };

static void look_up(const struct rf_corpus *corpus)
{
    struct rf_draft draft;
    for (int32_t t = 0; t < VOCAB * VOCAB; t++) {
        int32_t text[] = {t % VOCAB, t / VOCAB};
        rf_corpus_draft(corpus, text, 2, 1 + t % RF_MAX_DRAFT, &draft);
        if (draft.n < 0 || draft.n > RF_DRAFT_ROWS) abort();
        for (int32_t i = 0; i < draft.n; i++)
            if (draft.tokens[i] < 0 || draft.tokens[i] >= VOCAB || draft.parents[i] >= i ||
                draft.parents[i] < -1 || !(draft.confidence[i] >= 0 && draft.confidence[i] <= 1))
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char magic[8] = {'R', 'F', 'C', 'O', 'R', 'P', 'U', 'S'};
    char path[64];
    struct rf_corpus *corpus;
    struct rf_error error = {0};
    snprintf(path, sizeof path, "/tmp/riffle-fuzz-%ld.corpus", (long)getpid());
    FILE *file = fopen(path, "wb");
    if (!file) abort();
    fwrite(magic, 1, sizeof magic, file);
    if (bytes) fwrite(data, 1, bytes, file);
    fclose(file);
    int code = rf_corpus_open(&corpus, path, VOCAB, VOCABULARY, 0, &rf_system_allocator, &error);
    if ((code != 0) != (error.text[0] != 0)) abort();
    if (!code) look_up(corpus);
    rf_corpus_close(corpus);
    remove(path);
    return 0;
}
