/* The search for special tokens: what a plain search finds, and a text in which thousands of tokens
 * begin at each place. */
#include <stdlib.h>
#include <string.h>

#include "platform/memory.h"
#include "support/check.h"
#include "text/special.h"

static uint32_t random_below(uint32_t *seed, uint32_t n)
{
    *seed = *seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)*seed * n >> 32);
}

/* Tokens, which rf_special_init sorts, in their first order too. */
struct tokens {
    struct rf_special special;
    struct rf_special_entry *entries;
    int32_t n;
    struct rf_reading reading;
    struct rf_error error;
};

static void tokens_open(struct tokens *tokens)
{
    tokens->reading = (struct rf_reading){
        .path = "special", .error = &tokens->error, .arena.allocator = &rf_system_allocator};
    rf_special_init(&tokens->special, tokens->entries, tokens->n, &tokens->reading);
    CHECK_MSG(tokens->reading.code == 0, "%s", tokens->error.text);
}

/* The longest token at the beginning of the text, by looking at all. */
static const struct rf_special_entry *plain_longest(const struct tokens *tokens, const char *text,
                                                    size_t n, size_t n_control)
{
    const struct rf_special_entry *longest = NULL;
    for (int32_t i = 0; i < tokens->n; i++) {
        const struct rf_special_entry *at = &tokens->entries[i];
        size_t bytes = at->text.bytes;
        if (bytes <= (at->control && n_control < n ? n_control : n) &&
            memcmp(text, at->text.data, bytes) == 0 && (!longest || bytes > longest->text.bytes))
            longest = at;
    }
    return longest;
}

/* Every place of the text, with each number of bytes for control tokens. */
static void compare(const struct tokens *tokens, const char *text, size_t n)
{
    static struct rf_special_search search;
    rf_special_begin(&search, &tokens->special, text, n);
    size_t next = rf_special_next(&search, 0);
    for (size_t at = 0; at < n; at++) {
        const struct rf_special_entry *any = plain_longest(tokens, text + at, n - at, n);
        CHECK_MSG((any != NULL) == (next == at), "place %zu of %zu: next is %zu", at, n, next);
        if (next != at) continue;
        for (size_t n_control = 0; n_control < 12 && at + n_control <= n; n_control++)
            CHECK_MSG(rf_special_longest(&search, at, n_control) ==
                          plain_longest(tokens, text + at, n - at, n_control),
                      "place %zu of %zu, %zu for control tokens", at, n, n_control);
        CHECK(rf_special_longest(&search, at, n - at) == any);
        next = rf_special_next(&search, at + 1);
    }
    CHECK_INT(next, n);
    /* Back to the beginning, from behind the last block. */
    size_t first = rf_special_next(&search, 0);
    for (size_t at = 0; at < first; at++) CHECK(!plain_longest(tokens, text + at, n - at, n));
    if (first < n)
        CHECK(rf_special_longest(&search, first, n - first) ==
              plain_longest(tokens, text + first, n - first, n));
}

/* Random tokens of few letters, so that many hold, begin and end each other. */
static void check_random(uint32_t seed)
{
    enum { MOST = 40, BYTES = 10 };
    char texts[MOST][BYTES], text[3 * RF_SPECIAL_BLOCK / 2];
    struct rf_special_entry entries[MOST];
    struct tokens tokens = {.entries = entries};
    uint32_t letters = 1 + random_below(&seed, 3), most = 1 + random_below(&seed, MOST);
    for (uint32_t i = 0; i < most; i++) {
        size_t bytes = 1 + random_below(&seed, BYTES);
        int known = 0;
        for (size_t k = 0; k < bytes; k++)
            texts[i][k] = "\xff"
                          "a\0"[random_below(&seed, letters)];
        for (int32_t k = 0; k < tokens.n; k++)
            known |= rf_str_same(entries[k].text, (struct rf_str){texts[i], bytes});
        if (!known)
            entries[tokens.n++] = (struct rf_special_entry){
                {texts[i], bytes}, (int32_t)i, (int32_t)random_below(&seed, 2)};
    }
    tokens_open(&tokens);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "\xff"
                  "a\0b"[random_below(&seed, letters + 1)];
    compare(&tokens, text, sizeof text);
    for (size_t n = 0; n < 20; n++) compare(&tokens, text, n);
    rf_arena_free(&tokens.reading.arena);
}

/* Tokens with a common beginning, and one that is a part of it, in texts that are such a beginning
 * again and again. A search that looked at each place for itself would take more than the time that
 * ctest gives a test. */
static void check_common_beginning(void)
{
    enum { N = 20000, COMMON = 250, TIMES = IS_SANITIZED ? 1 : 8 };
    const size_t bytes = (size_t)1 << 24;
    struct tokens tokens = {.n = N + 1};
    char *texts = malloc((size_t)N * RF_SPECIAL_MAX_BYTES), *text = malloc(bytes);
    tokens.entries = calloc(N + 1, sizeof *tokens.entries);
    CHECK(texts && text && tokens.entries);
    if (!texts || !text || !tokens.entries) return;
    for (int32_t i = 0; i < N; i++) {
        char *at = texts + (size_t)i * RF_SPECIAL_MAX_BYTES;
        char number[8];
        memset(at, 'a', COMMON);
        snprintf(number, sizeof number, "%05d>", (int)i);
        memcpy(at + COMMON, number, RF_SPECIAL_MAX_BYTES - COMMON);
        tokens.entries[i] = (struct rf_special_entry){{at, RF_SPECIAL_MAX_BYTES}, i, i % 2};
    }
    tokens.entries[N] = (struct rf_special_entry){{texts, COMMON / 2}, N, 1};
    tokens_open(&tokens);
    memset(text, 'a', bytes);
    memcpy(text + bytes - 6, "00007>", 6);
    struct rf_special_search search;
    for (int time = 0; time < TIMES; time++) {
        size_t found = 0, at = 0;
        rf_special_begin(&search, &tokens.special, text, bytes);
        for (; (at = rf_special_next(&search, at)) < bytes; at++) {
            const struct rf_special_entry *longest = rf_special_longest(&search, at, bytes - at);
            CHECK(longest && longest->id == (at == bytes - RF_SPECIAL_MAX_BYTES ? 7 : N));
            CHECK(!rf_special_longest(&search, at, 0));
            found++;
        }
        CHECK_INT(found, bytes - 6 - COMMON / 2 + 1);
    }
    rf_arena_free(&tokens.reading.arena);
    free(tokens.entries);
    free(texts);
    free(text);
}

int main(void)
{
    struct tokens none = {.n = 0};
    tokens_open(&none);
    compare(&none, "abc", 3);
    for (uint32_t seed = 0; seed < (IS_SANITIZED ? 20 : 100); seed++) check_random(seed);
    check_common_beginning();
    return check_result();
}
