#include "speculate/vocabularies.h"

#include <stdio.h>
#include <stdlib.h>

#include "model/open.h"
#include "platform/memory.h"

static const struct {
    const char *name, *path;
    int exact;
} list[N_VOCABULARIES] = {
    [GPT2] = {"gpt-2", "text/bpe-gpt-2.vocab", 1},
    [LLAMA3] = {"llama-bpe", "text/bpe-llama-bpe.vocab", 1},
    [QWEN2] = {"qwen2", "text/bpe-qwen2.vocab", 0},    /* normalises */
    [SMOLLM] = {"smollm", "text/bpe-smollm.vocab", 0}, /* lacks some bytes */
    [SPM_BPE] = {"spm-bpe", "text/spm-bpe.vocab", 1},
    [SPM_UNIGRAM] = {"spm-unigram", "text/spm-unigram.vocab", 1},
    [STORIES] = {"stories260K", "stories260K.gguf", 1},
};

int vocabulary_open(struct vocabulary *vocabulary, int number)
{
    const char *path = list[number].path;
    struct rf_error error = {.text = "the file cannot be read"};
    struct rf_vocab *vocab = &vocabulary->fixture.vocab;
    int code = 0;
    *vocabulary = (struct vocabulary){.name = list[number].name, .exact = list[number].exact};
    if (number == STORIES) {
        code = rf_source_open(&vocabulary->source, path, NULL, &rf_system_allocator, &error);
        if (!code) vocab = &vocabulary->source->vocab;
    } else {
        code = fixture_vocab_open(&vocabulary->fixture, path);
    }
    if (!code && number == SPM_UNIGRAM) {
        size_t bytes = 0;
        vocabulary->proto = fixture_read("text/spm-unigram.model", &bytes);
        vocab->spm_proto = (struct rf_str){vocabulary->proto, bytes};
    }
    if (!code)
        code = rf_tokenizer_new(&vocabulary->tokenizer, vocab, path, &rf_system_allocator, &error);
    if (code) fprintf(stderr, "%s: %s\n", path, error.text);
    return code ? -1 : 0;
}

void vocabulary_close(struct vocabulary *vocabulary)
{
    rf_tokenizer_free(vocabulary->tokenizer);
    rf_source_close(vocabulary->source);
    free(vocabulary->proto);
    fixture_vocab_close(&vocabulary->fixture);
}

struct rf_tokens vocabulary_encode(const struct vocabulary *vocabulary, struct rf_str text,
                                   unsigned flags)
{
    struct rf_segment segment = {text.data, text.bytes, 0};
    struct rf_tokens tokens = {0};
    struct rf_error error = {0};
    if (rf_tokenizer_encode(vocabulary->tokenizer, &segment, 1, flags, &rf_system_allocator,
                            &tokens, &error)) {
        fprintf(stderr, "%s: %s\n", vocabulary->name, error.text);
        exit(1);
    }
    return tokens;
}
