/* Every allocation of text/ fails once: an error of its own kind, nothing leaked, nothing half
 * done. */
#include <stdlib.h>

#include "platform/memory.h"
#include "support/check.h"
#include "template/chat_template.h"
#include "text/fixture.h"
#include "text/tokenizer.h"

/* Counts blocks, and refuses the one that `fail_at` counts down to. */
struct counting {
    long fail_at, blocks;
};

static void *counting_alloc(void *user, size_t bytes)
{
    struct counting *counting = user;
    if (counting->fail_at-- == 0) return NULL;
    counting->blocks++;
    return rf_system_allocator.alloc(NULL, bytes);
}

static void counting_release(void *user, void *block, size_t bytes)
{
    struct counting *counting = user;
    counting->blocks--;
    rf_system_allocator.release(NULL, block, bytes);
}

/* Each takes an allocator and returns a code. */
static const struct rf_vocab *vocab;

static int make(const struct rf_allocator *memory, struct rf_error *error)
{
    struct rf_tokenizer *tokenizer;
    int code = rf_tokenizer_new(&tokenizer, vocab, "model.gguf", memory, error);
    CHECK((code == 0) == (tokenizer != NULL));
    rf_tokenizer_free(tokenizer);
    return code;
}

static const struct rf_tokenizer *made;

static int encode(const struct rf_allocator *memory, struct rf_error *error)
{
    static char text[3000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = "ab e\xcc\x81 \xff"[i % 9];
    memset(text, 'a', 500); /* a long word */
    struct rf_segment segments[3] = {
        {"<|im_start|>x", 13, 1}, {text, sizeof text, 0}, {"<|im_end|>", 10, 1}};
    struct rf_tokens tokens = {0};
    int code = rf_tokenizer_encode(made, segments, 3, RF_ENCODE_BOS, memory, &tokens, error);
    CHECK(code == 0 ? tokens.count > 100 : tokens.count == 0);
    rf_tokens_free(memory, &tokens);
    return code;
}

static int chat(const struct rf_allocator *memory, struct rf_error *error)
{
    static char source[] =
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
        "{{ '<|im_start|>system\nHi<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + "
        "'\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
    static const struct rf_chat_message messages[] = {
        {"user", "a"},      {"assistant", "b"}, {"user", "c"},
        {"assistant", "d"}, {"user", "e"},      {"assistant", "f"},
        {"user", "g"},      {"assistant", "h"}, {"user", "i"}};
    struct rf_chat_template *template_;
    struct rf_rendered rendered;
    int code = rf_chat_template_new(&template_, source, strlen(source), NULL, "<s>", "</s>", memory,
                                    error);
    if (code) return code;
    code = rf_chat_render(template_, messages, 9, 1, NULL, memory, &rendered, error);
    CHECK(code == 0 ? rendered.n_segments > 10
                    : rendered.segments == NULL && rendered.text.data == NULL);
    rf_rendered_free(memory, &rendered);
    rf_chat_template_free(template_);
    return code;
}

static void sweep(const char *what, int (*work)(const struct rf_allocator *, struct rf_error *))
{
    struct rf_error error;
    long n = 0;
    for (;; n++) {
        struct counting counting = {n, 0};
        struct rf_allocator memory = {counting_alloc, counting_release, &counting};
        error = (struct rf_error){0};
        int code = work(&memory, &error);
        CHECK_MSG(counting.blocks == 0, "%s, allocation %ld: %ld blocks leak", what, n,
                  counting.blocks);
        if (code == 0) break;
        CHECK_MSG(code == RF_ERR_MEMORY && error.text[0], "%s, allocation %ld: code %d, \"%s\"",
                  what, n, code, error.text);
        if (n > 100000) break;
    }
    CHECK_MSG(n > 2 && n < 100000, "%s makes %ld allocations", what, n);
}

int main(void)
{
    static const char *const paths[] = {"text/bpe-qwen2.vocab", "text/bpe-llama-bpe.vocab",
                                        "text/bpe-deepseek-coder.vocab", "text/spm-bpe.vocab",
                                        "text/spm-json.vocab"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct fixture_vocab fixture;
        struct counting counting = {-1, 0};
        struct rf_allocator memory = {counting_alloc, counting_release, &counting};
        struct rf_tokenizer *tokenizer = NULL;
        CHECK_INT(fixture_vocab_open(&fixture, paths[i]), 0);
        vocab = &fixture.vocab;
        sweep(paths[i], make);
        CHECK_INT(rf_tokenizer_new(&tokenizer, vocab, paths[i], &memory, NULL), 0);
        made = tokenizer;
        sweep("encoding", encode);
        rf_tokenizer_free(tokenizer);
        CHECK_INT(counting.blocks, 0);
        fixture_vocab_close(&fixture);
    }
    sweep("chat template", chat);
    return check_result();
}
