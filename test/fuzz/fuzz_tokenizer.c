/* A vocabulary and a text out of the input: making the tokenizer may fail, nothing else may.
 *
 * Byte 0: bit 0 sentencepiece, bits 1-2 pre-tokenizer, bit 3 without the 256 bytes, bit 4 extra
 * white space removed, bit 7 a map of characters, which is 260 bytes at the end. Byte 1: number of
 * tokens, byte 2: number of merges; then for each token its length, type, score and text; for each
 * merge two token numbers; the rest is text, its segments ended by 0xfe (special) and 0xff (not).
 */
#include "fuzz/fuzz.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/memory.h"
#include "text/tokenizer.h"

enum { BASE = 257, MOST = BASE + 255, MAP_BYTES = 260 };

struct input {
    const uint8_t *at, *end;
};

static uint8_t take(struct input *input)
{
    return input->at < input->end ? *input->at++ : 0;
}

/* GPT-2's spelling of a byte, or sentencepiece's. */
static size_t spell_byte(int byte, int spm, char *out)
{
    if (spm) return (size_t)snprintf(out, 8, "<0x%02X>", (unsigned)byte);
    int printable =
        (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    int c = byte <= 0x20                   ? 0x100 + byte
            : byte >= 0x7f && byte <= 0xa0 ? 0x121 + byte - 0x7f
                                           : 0x143;
    if (printable) c = byte;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    out[0] = (char)(0xc0 | c >> 6);
    out[1] = (char)(0x80 | (c & 0x3f));
    return 2;
}

static void fill(struct rf_vocab *vocab, struct input *input, char (*spellings)[8])
{
    static const char *const names[] = {"gpt-2",        "llama-bpe",      "qwen2",      "smollm",
                                        "gpt-4o",       "tekken",         "qwen35",     "falcon",
                                        "deepseek-llm", "deepseek-coder", "deepseek-v3"};
    int flags = take(input), n_tokens = take(input), n_merges = take(input), spm = flags & 1;
    const char *pre = names[((flags >> 1 & 3) + (flags >> 5 & 3) * 4) % 11];
    int base = flags & 8 ? 0 : BASE;
    vocab->kind = spm ? RF_VOCAB_SENTENCEPIECE : RF_VOCAB_BPE;
    vocab->pre = (struct rf_str){pre, strlen(pre)};
    vocab->n_tokens = base + n_tokens;
    vocab->bos = vocab->eos = vocab->unk = vocab->pad = vocab->eot = vocab->sep = -1;
    vocab->add_bos = vocab->add_eos = vocab->add_space_prefix = vocab->ignore_merges = vocab->nfc =
        -1;
    vocab->remove_extra_whitespaces = (int8_t)(flags >> 4 & 1);
    vocab->unigram = (int8_t)(spm && flags >> 5 & 1);
    vocab->by_clusters = (int8_t)(flags >> 6 & 1);
    for (int i = 0; i < base; i++) {
        vocab->tokens[i] =
            (struct rf_str){spellings[i], i < 256 ? spell_byte(i, spm, spellings[i]) : 5};
        vocab->types[i] = i == 256 ? RF_TOKEN_UNKNOWN : spm ? RF_TOKEN_BYTE : RF_TOKEN_NORMAL;
    }
    if (base) memcpy(spellings[256], "<unk>", 5);
    for (int i = base; i < vocab->n_tokens; i++) {
        size_t length = take(input);
        vocab->types[i] = take(input) % 8;
        int8_t score = (int8_t)take(input);
        vocab->scores[i] = score == -128 ? NAN : (float)score;
        if (length > (size_t)(input->end - input->at)) length = (size_t)(input->end - input->at);
        vocab->tokens[i] = (struct rf_str){(const char *)input->at, length};
        input->at += length;
    }
    for (int i = 0; i < n_merges && vocab->n_tokens; i++) {
        int left = take(input) | take(input) << 8, right = take(input) | take(input) << 8;
        vocab->merges[vocab->n_merges++] = (struct rf_merge){
            vocab->tokens[left % vocab->n_tokens], vocab->tokens[right % vocab->n_tokens]};
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct rf_str tokens[MOST];
    static float scores[MOST];
    static uint8_t types[MOST];
    static struct rf_merge merges[256];
    static char spellings[BASE][8];
    struct rf_vocab vocab = {.tokens = tokens, .scores = scores, .types = types, .merges = merges};
    struct input input = {data, data + bytes};
    struct rf_tokenizer *tokenizer;
    struct rf_error error;
    if (bytes > MAP_BYTES && data[0] >> 7) {
        input.end -= MAP_BYTES;
        vocab.charsmap = (struct rf_str){(const char *)input.end, MAP_BYTES};
    }
    fill(&vocab, &input, spellings);
    if (rf_tokenizer_new(&tokenizer, &vocab, "fuzz", &rf_system_allocator, &error)) return 0;

    struct rf_segment segments[64];
    size_t n_segments = 0;
    const uint8_t *begin = input.at;
    for (const uint8_t *p = begin; p <= input.end && n_segments < 64; p++) {
        if (p < input.end && *p < 0xfe) continue;
        int special = p < input.end && *p == 0xfe;
        segments[n_segments++] =
            (struct rf_segment){(const char *)begin, (size_t)(p - begin), special};
        begin = p + 1;
    }
    struct rf_tokens ids = {0};
    if (rf_tokenizer_encode(tokenizer, segments, n_segments, RF_ENCODE_BOS, &rf_system_allocator,
                            &ids, &error)) {
        fprintf(stderr, "encoding fails: %s\n", error.text);
        abort();
    }
    for (size_t i = 0; i < ids.count; i++) {
        if (ids.ids[i] < 0 || ids.ids[i] >= vocab.n_tokens) {
            fprintf(stderr, "id %d of %d tokens\n", (int)ids.ids[i], (int)vocab.n_tokens);
            abort();
        }
        volatile size_t n = rf_token_text(tokenizer, ids.ids[i], 1).bytes;
        (void)n;
    }
    rf_tokens_free(&rf_system_allocator, &ids);
    rf_tokenizer_free(tokenizer);
    return 0;
}
