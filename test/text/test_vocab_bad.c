/* Vocabularies of hostile files: a clear error, or a tokenizer that works; never an end of the
 * process. */
#include <math.h>
#include <stdlib.h>

#include "platform/memory.h"
#include "support/check.h"
#include "text/fixture.h"
#include "text/tokenizer.h"

static const struct rf_allocator *const memory = &rf_system_allocator;

/* Makes a tokenizer and encodes a few texts with it, if that works. */
static int try_vocab(const struct rf_vocab *vocab, struct rf_error *error)
{
    static const char *const texts[] = {
        "Hello world", "", " ", "\xff\xfe", "\xe2\x96\x81\xe2\x96\x81", "a<|im_end|>b</s>"};
    struct rf_tokenizer *tokenizer = NULL;
    *error = (struct rf_error){0};
    int code = rf_tokenizer_new(&tokenizer, vocab, "bad.gguf", memory, error);
    CHECK((code == 0) == (tokenizer != NULL));
    for (size_t i = 0; i < sizeof texts / sizeof *texts && tokenizer; i++) {
        struct rf_tokens tokens = {0};
        struct rf_segment segment = {texts[i], strlen(texts[i]), 1};
        CHECK(rf_tokenizer_encode(tokenizer, &segment, 1, RF_ENCODE_BOS, memory, &tokens, error) ==
              0);
        for (size_t k = 0; k < tokens.count; k++)
            CHECK(tokens.ids[k] >= 0 && tokens.ids[k] < vocab->n_tokens);
        rf_tokens_free(memory, &tokens);
    }
    rf_tokenizer_free(tokenizer);
    return code;
}

static void refused(const struct rf_vocab *vocab, int code, const char *part, const char *what)
{
    struct rf_error error;
    int got = try_vocab(vocab, &error);
    CHECK_MSG(got == code, "%s: code %d, \"%s\"", what, got, error.text);
    CHECK_MSG(strstr(error.text, "bad.gguf") && strstr(error.text, part), "%s: \"%s\" lacks \"%s\"",
              what, error.text, part);
}

static void accepted(const struct rf_vocab *vocab, const char *what)
{
    struct rf_error error;
    int got = try_vocab(vocab, &error);
    CHECK_MSG(got == 0, "%s: \"%s\"", what, error.text);
}

static struct rf_str str(const char *text)
{
    return (struct rf_str){text, strlen(text)};
}

static int32_t find_type(const struct rf_vocab *v, int type)
{
    for (int32_t i = 0; i < v->n_tokens; i++)
        if (v->types[i] == type) return i;
    return -1;
}

static void check_spm(void)
{
    struct fixture_vocab fixture;
    CHECK_INT(fixture_vocab_open(&fixture, "text/spm-bpe.vocab"), 0);
    struct rf_vocab *v = &fixture.vocab;
    int32_t byte = find_type(v, RF_TOKEN_BYTE), last = v->n_tokens - 1, unk = v->unk;
    struct rf_str byte_text = v->tokens[byte], last_text = v->tokens[last];
    accepted(v, "as it is");

    static const char *const bytes[] = {"<0x-1>", "<0xZZ>", "<0x0>",  "<0x000>", "0x00",
                                        "",       "<0x0a>", "<0X00>", "<0x00",   "<0x 1>"};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        v->tokens[byte] = str(bytes[i]);
        refused(v, RF_ERR_FORMAT, "byte", bytes[i]);
    }
    v->tokens[byte] = v->tokens[byte + 1];
    refused(v, RF_ERR_FORMAT, "both", "a byte token twice");
    v->tokens[byte] = byte_text;
    v->types[byte] = RF_TOKEN_NORMAL;
    refused(v, RF_ERR_FORMAT, "255 of 256", "a byte token missing");
    v->types[byte] = RF_TOKEN_BYTE;

    v->tokens[last] = str("");
    accepted(v, "an empty piece");
    v->tokens[last - 1] = str("");
    accepted(v, "two empty pieces");
    v->tokens[last - 1] = v->tokens[last - 2];
    refused(v, RF_ERR_FORMAT, "both", "a piece twice");
    v->tokens[last - 1] = str("\xff\xfe");
    accepted(v, "a piece that is no UTF-8");
    v->tokens[last - 1] = str("some other piece");
    v->tokens[last] = (struct rf_str){"a\0b", 3};
    refused(v, RF_ERR_FORMAT, "zero byte", "a zero byte");
    char *longest = malloc(1 << 16);
    memset(longest, 'a', 1 << 16);
    v->tokens[last] = (struct rf_str){longest, 1 << 16};
    refused(v, RF_ERR_UNSUPPORTED, "long", "an endless piece");
    v->types[last] = RF_TOKEN_CONTROL;
    refused(v, RF_ERR_UNSUPPORTED, "long", "an endless control token");
    v->tokens[last].bytes = 300;
    refused(v, RF_ERR_UNSUPPORTED, "long", "a very long control token");
    free(longest);
    v->tokens[last] = last_text;
    v->types[last] = RF_TOKEN_NORMAL;

    const float scores[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        v->scores[last] = scores[i];
        refused(v, RF_ERR_FORMAT, "score", "a score that is no number");
    }
    v->scores[last] = 3e38f;
    accepted(v, "a huge score");
    v->scores[last] = 0;
    v->types[last] = 0;
    refused(v, RF_ERR_FORMAT, "type", "type 0");
    v->types[last] = 7;
    refused(v, RF_ERR_FORMAT, "type", "type 7");
    v->types[last] = RF_TOKEN_UNKNOWN;
    accepted(v, "two unknown tokens");
    v->types[last] = RF_TOKEN_UNUSED;
    accepted(v, "an unused token");
    v->tokens[last] = str("\xff"
                          "5"); /* names of this form stand for control pieces in the proto */
    accepted(v, "a name of our own");
    v->tokens[last] = last_text;
    int32_t letter = 0;
    while (letter < last && !(v->tokens[letter].bytes == 1 && v->tokens[letter].data[0] == 'l'))
        letter++;
    CHECK(letter < last);
    for (int type = RF_TOKEN_UNKNOWN; type <= RF_TOKEN_USER_DEFINED; type++) {
        v->types[letter] = (uint8_t)type;
        accepted(v, "a letter that is no word piece");
    }
    v->types[letter] = RF_TOKEN_NORMAL;
    v->types[last] = RF_TOKEN_NORMAL;

    v->unk = -1;
    v->types[unk] = RF_TOKEN_NORMAL;
    accepted(v, "no unknown token, but byte tokens");
    for (int32_t i = 0; i < v->n_tokens; i++)
        if (v->types[i] == RF_TOKEN_BYTE) v->types[i] = RF_TOKEN_NORMAL;
    refused(v, RF_ERR_FORMAT, "unknown", "no unknown token, no byte tokens");
    v->unk = unk;
    accepted(v, "no byte tokens");
    v->unk = last;
    accepted(v, "an unknown token that is a word");
    for (int type = RF_TOKEN_UNKNOWN; type <= RF_TOKEN_UNUSED; type++) {
        memset(v->types, type, (size_t)v->n_tokens);
        refused(v, RF_ERR_FORMAT, "no word pieces", "one type for all");
    }
    float *kept = v->scores;
    v->scores = NULL;
    refused(v, RF_ERR_FORMAT, "scores", "no scores");
    v->scores = kept;
    v->n_tokens = 0;
    refused(v, RF_ERR_FORMAT, "empty", "no tokens");
    fixture_vocab_close(&fixture);
}

/* A tokenizer.model cut at every byte, and with fields that are not supported. */
static void check_proto(void)
{
    struct fixture_vocab fixture;
    struct rf_error error;
    CHECK_INT(fixture_vocab_open(&fixture, "text/spm-unigram.vocab"), 0);
    struct rf_vocab *v = &fixture.vocab;
    static const char charsmap[] = "\x1a\x05\x12\x03xyz", word[] = "\x12\x02\x18\x03",
                      endless[] = "\x12\xff\xff\xff\xff\x0f";
    v->spm_proto = (struct rf_str){charsmap, 7};
    refused(v, RF_ERR_FORMAT, "character map is damaged", "a charsmap");
    v->spm_proto = (struct rf_str){word, 4};
    refused(v, RF_ERR_UNSUPPORTED, "type 3", "a word model");
    v->spm_proto = (struct rf_str){endless, 6};
    refused(v, RF_ERR_FORMAT, "damaged", "a field beyond the end");
    v->spm_proto = (struct rf_str){"\x12\x04\x18\x02\x18\x01", 6};
    accepted(v, "a unigram model in the end");
    for (size_t i = 1; i < 6; i++) {
        v->spm_proto.bytes = i;
        if (i == 1 || i == 2 || i == 3 || i == 5)
            refused(v, RF_ERR_FORMAT, "damaged", "a truncated model");
    }
    memset(v->types, RF_TOKEN_UNUSED, (size_t)v->n_tokens);
    v->spm_proto.bytes = 6;
    CHECK(try_vocab(v, &error) < 0);
    fixture_vocab_close(&fixture);
}

static void check_bpe(void)
{
    struct fixture_vocab fixture;
    CHECK_INT(fixture_vocab_open(&fixture, "text/bpe-qwen2.vocab"), 0);
    struct rf_vocab *v = &fixture.vocab;
    struct rf_vocab whole = *v;
    accepted(v, "as it is");
    v->pre = str("deepseek");
    refused(v, RF_ERR_UNSUPPORTED, "\"deepseek\"", "an unknown pre-tokenizer");
    v->pre = str("");
    refused(v, RF_ERR_UNSUPPORTED, "pre-tokenizer", "no pre-tokenizer");
    v->pre = str("qwen2\n");
    refused(v, RF_ERR_UNSUPPORTED, "pre-tokenizer", "a newline");
    v->pre = whole.pre;

    struct rf_merge merge = v->merges[7];
    v->merges[7].left = str("no such token");
    refused(v, RF_ERR_FORMAT, "merge 7 (\"no such token\"", "a merge of something unknown");
    v->merges[7] = (struct rf_merge){merge.left, str("")};
    refused(v, RF_ERR_FORMAT, "merge 7", "a merge with nothing");
    v->merges[7] = (struct rf_merge){v->tokens[v->n_tokens - 5], v->tokens[v->n_tokens - 6]};
    refused(v, RF_ERR_FORMAT, "makes a token", "a merge to something unknown");
    v->merges[7] = v->merges[8];
    accepted(v, "a merge twice");
    v->merges[7] = merge;
    v->n_merges = 0;
    accepted(v, "no merges");
    v->n_merges = whole.n_merges;

    struct rf_str token = v->tokens[300];
    v->tokens[300] = v->tokens[301];
    refused(v, RF_ERR_FORMAT, "300 and 301", "a token twice");
    v->tokens[300] = str("\xff\xfe not of the alphabet");
    v->n_merges = 0;
    accepted(v, "a token outside the byte alphabet");
    v->tokens[300] = str("");
    accepted(v, "an empty token");
    v->tokens[300] = token;
    v->types[300] = 9;
    accepted(v, "a type that does not exist");
    v->types[300] = RF_TOKEN_NORMAL;
    v->n_merges = whole.n_merges;

    int32_t control = find_type(v, RF_TOKEN_CONTROL);
    token = v->tokens[control];
    v->tokens[control] = v->tokens[control + 1];
    refused(v, RF_ERR_FORMAT, "both", "a control token twice");
    v->tokens[control] = str("");
    accepted(v, "a control token without a text");
    v->tokens[control] = str("a");
    accepted(v, "a control token that is a letter too");
    v->tokens[control] = token;

    v->bos = v->eos = v->eot = v->n_tokens + 5;
    v->add_bos = 1;
    accepted(v, "a BOS outside the vocabulary");
    memset(v->types, RF_TOKEN_CONTROL, (size_t)v->n_tokens);
    refused(v, RF_ERR_FORMAT, "single byte", "control tokens only");
    v->n_tokens = 0;
    refused(v, RF_ERR_FORMAT, "empty", "no tokens");
    v->kind = RF_VOCAB_NONE;
    refused(v, RF_ERR_UNSUPPORTED, "no vocabulary", "no vocabulary");
    fixture_vocab_close(&fixture);
}

int main(void)
{
    check_spm();
    check_proto();
    check_bpe();
    return check_result();
}
