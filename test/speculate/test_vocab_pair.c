/* Tests which vocabularies count as one, and which control tokens correspond. */
#include <stdlib.h>

#include "platform/memory.h"
#include "speculate/vocab_pair.h"
#include "speculate/vocabularies.h"
#include "support/check.h"

static struct rf_tokenizer *make(const struct rf_vocab *vocab)
{
    struct rf_tokenizer *tokenizer = NULL;
    struct rf_error error = {0};
    int code = rf_tokenizer_new(&tokenizer, vocab, "made", &rf_system_allocator, &error);
    CHECK_MSG(code == 0, "%s", error.text);
    return tokenizer;
}

/* Every vocabulary is itself and no other. */
static void check_fixtures(void)
{
    struct vocabulary all[N_VOCABULARIES];
    for (int i = 0; i < N_VOCABULARIES; i++) CHECK_INT(vocabulary_open(&all[i], i), 0);
    for (int i = 0; i < N_VOCABULARIES; i++) {
        for (int k = 0; k < N_VOCABULARIES; k++) {
            int32_t shared = -1;
            int same = rf_vocab_same(all[i].tokenizer, all[k].tokenizer, &shared);
            CHECK_MSG(same == (i == k), "%s and %s: %d", all[i].name, all[k].name, same);
            if (same) CHECK_INT(shared, rf_tokenizer_n_tokens(all[i].tokenizer));
        }
    }
    for (int i = 0; i < N_VOCABULARIES; i++) vocabulary_close(&all[i]);
}

/* A copy of a fixture's vocabulary with room for more tokens. */
struct changed {
    struct fixture_vocab fixture;
    struct rf_str tokens[2048];
    uint8_t types[2048];
    char names[512][24];
};

static void change_open(struct changed *c)
{
    CHECK_INT(fixture_vocab_open(&c->fixture, "text/bpe-qwen2.vocab"), 0);
    struct rf_vocab *v = &c->fixture.vocab;
    memcpy(c->tokens, v->tokens, (size_t)v->n_tokens * sizeof *c->tokens);
    memcpy(c->types, v->types, (size_t)v->n_tokens);
}

static void put(struct changed *c, int32_t id, const char *text, enum rf_token_type type)
{
    c->tokens[id] = (struct rf_str){text, strlen(text)};
    c->types[id] = (uint8_t)type;
}

static int same_as(struct changed *c, int32_t n_tokens, const struct rf_tokenizer *other,
                   int32_t *shared)
{
    struct rf_vocab v = c->fixture.vocab;
    v.tokens = c->tokens;
    v.types = c->types;
    v.n_tokens = n_tokens;
    struct rf_tokenizer *tokenizer = make(&v);
    int same = rf_vocab_same(tokenizer, other, shared);
    int32_t mirrored = -1;
    CHECK_INT(rf_vocab_same(other, tokenizer, &mirrored), same);
    if (same) CHECK_INT(mirrored, *shared);
    rf_tokenizer_free(tokenizer);
    return same;
}

static void check_changes(void)
{
    static struct changed c;
    struct vocabulary qwen;
    int32_t shared = -1;
    CHECK_INT(vocabulary_open(&qwen, QWEN2), 0);
    change_open(&c);
    int32_t n = c.fixture.vocab.n_tokens, last_word = n - 5;
    for (int i = 0; i < 512; i++) snprintf(c.names[i], sizeof c.names[i], "[PAD%d]", i);

    for (int i = 0; i < 128; i++) put(&c, n + i, c.names[i], RF_TOKEN_UNUSED); /* padding rows */
    CHECK_INT(same_as(&c, n + 128, qwen.tokenizer, &shared), 1);
    CHECK_INT(shared, n);
    for (int i = 0; i < 128; i++) put(&c, n + i, c.names[i], RF_TOKEN_CONTROL); /* added tokens */
    CHECK_INT(same_as(&c, n + 128, qwen.tokenizer, &shared), 1);
    CHECK_INT(shared, n);
    for (int i = 0; i < 40; i++) put(&c, n + i, c.names[i], RF_TOKEN_NORMAL); /* a few words more */
    CHECK_INT(same_as(&c, n + 40, qwen.tokenizer, &shared), 1);
    for (int i = 0; i < 400; i++)
        put(&c, n + i, c.names[i], RF_TOKEN_NORMAL); /* another vocabulary's words */
    CHECK_INT(same_as(&c, n + 400, qwen.tokenizer, &shared), 0);

    put(&c, n - 1, "<other>", RF_TOKEN_CONTROL); /* an added token with another name */
    CHECK_INT(same_as(&c, n, qwen.tokenizer, &shared), 1);
    CHECK_INT(shared, n - 1);
    put(&c, n - 2, "[PAD0]", RF_TOKEN_UNUSED); /* an unused token */
    CHECK_INT(same_as(&c, n, qwen.tokenizer, &shared), 1);
    CHECK_INT(shared, n - 2);
    put(&c, 300, "zzzz", RF_TOKEN_NORMAL);
    c.fixture.vocab.n_merges = 0; /* merges would make token 300 */
    CHECK_INT(same_as(&c, n, qwen.tokenizer, &shared), 0);
    c.tokens[300] = c.fixture.vocab.tokens[300];
    CHECK_INT(same_as(&c, n, qwen.tokenizer, &shared), 1);
    struct rf_str swapped = c.tokens[last_word]; /* two that changed places */
    c.tokens[last_word] = c.tokens[last_word - 1];
    c.tokens[last_word - 1] = swapped;
    CHECK_INT(same_as(&c, n, qwen.tokenizer, &shared), 0);
    fixture_vocab_close(&c.fixture);
    vocabulary_close(&qwen);
}

static int32_t find(const struct rf_tokenizer *tokenizer, const char *name)
{
    for (int32_t id = 0; id < rf_tokenizer_n_tokens(tokenizer); id++) {
        struct rf_str text = rf_token_text(tokenizer, id, 1);
        if (text.bytes == strlen(name) && memcmp(text.data, name, text.bytes) == 0 &&
            rf_token_is_control(tokenizer, id))
            return id;
    }
    return -1;
}

static void check_controls(void)
{
    struct vocabulary qwen, smollm, llama, pieces;
    struct rf_control_map map;
    CHECK_INT(vocabulary_open(&qwen, QWEN2), 0);
    CHECK_INT(vocabulary_open(&smollm, SMOLLM), 0);
    CHECK_INT(vocabulary_open(&llama, LLAMA3), 0);
    CHECK_INT(vocabulary_open(&pieces, SPM_BPE), 0);
    static const char *const names[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

    CHECK_INT(
        rf_control_map_init(&map, qwen.tokenizer, smollm.tokenizer, &rf_system_allocator, NULL), 0);
    for (int i = 0; i < 3; i++) { /* control tokens map by name */
        int32_t to = find(smollm.tokenizer, names[i]);
        CHECK(to >= 0);
        CHECK_INT(rf_control_map_find(&map, find(qwen.tokenizer, names[i])), to);
    }
    CHECK_INT(rf_control_map_find(&map, 0), -1);
    CHECK_INT(rf_control_map_find(&map, -1), -1);
    CHECK_INT(rf_control_map_find(&map, 1 << 30), -1);
    rf_control_map_free(&map, &rf_system_allocator);

    CHECK_INT(
        rf_control_map_init(&map, llama.tokenizer, pieces.tokenizer, &rf_system_allocator, NULL),
        0);
    CHECK_INT(rf_control_map_find(&map, find(llama.tokenizer, "<|begin_of_text|>")),
              rf_tokenizer_bos(pieces.tokenizer));
    CHECK_INT(rf_control_map_find(&map, find(llama.tokenizer, "<|eot_id|>")),
              rf_tokenizer_eos(pieces.tokenizer));
    CHECK_INT(rf_control_map_find(&map, find(llama.tokenizer, "<|endless|>")), -1);
    rf_control_map_free(&map, &rf_system_allocator);
    vocabulary_close(&qwen);
    vocabulary_close(&smollm);
    vocabulary_close(&llama);
    vocabulary_close(&pieces);
}

int main(void)
{
    check_fixtures();
    check_changes();
    check_controls();
    return check_result();
}
