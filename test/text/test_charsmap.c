/* Maps of characters: one that is made by hand, and random ones, which are read only inside their
 * bounds. Tokens are compared in cli/test_embed.py with those of the package tokenizers. */
#include "text/charsmap.h"

#include <stdlib.h>
#include <string.h>

#include "platform/memory.h"
#include "support/check.h"
#include "text/fixture.h"
#include "text/tokenizer.h"

static const struct rf_allocator *const memory = &rf_system_allocator;

enum { UNITS = 512, HAS_VALUE = 1 << 8, OFFSET = 10, VALUES = 10 };
static const char values[VALUES] = "one\0three"; /* of "A" and "AAA" */

static void put(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) at[i] = (unsigned char)(value >> 8 * i);
}

/* The map of "A" and "AAA"; its children are where exclusive or leads. */
static struct rf_str make_map(unsigned char blob[4 + 4 * UNITS + VALUES])
{
    unsigned char *units = blob + 4;
    memset(blob, 0, 4 + 4 * UNITS);
    put(blob, 4 * UNITS);
    put(units, 256u << OFFSET); /* the root */
    put(units + 4 * (256 ^ 'A'), 'A' | HAS_VALUE | (256u ^ 'A' ^ 1) << OFFSET);
    put(units + 4 * 1, 1u << 31 | 0);
    put(units + 4 * (1 ^ 'A'), 'A' | (1u ^ 'A' ^ 128) << OFFSET);
    put(units + 4 * (128 ^ 'A'), 'A' | HAS_VALUE | (128u ^ 'A' ^ 2) << OFFSET);
    put(units + 4 * 2, 1u << 31 | 4);
    memcpy(blob + 4 + 4 * UNITS, values, VALUES);
    return (struct rf_str){(const char *)blob, 4 + 4 * UNITS + VALUES};
}

static void check_applied(const struct rf_charsmap *map, const char *text, const char *wanted)
{
    struct rf_error error;
    struct rf_bytes made = {0};
    struct rf_writer out = {memory, &made, &error, 0};
    rf_charsmap_apply(map, text, strlen(text), &out);
    rf_write(&out, "", 1);
    CHECK_INT(out.code, 0);
    if (made.data) CHECK_STR(made.data, wanted);
    rf_bytes_free(memory, &made);
}

static void check_longest(void)
{
    unsigned char blob[4 + 4 * UNITS + VALUES];
    struct rf_error error;
    struct rf_reading reading = {.path = "map", .error = &error, .arena.allocator = memory};
    struct rf_charsmap map;
    rf_charsmap_read(&map, make_map(blob), &reading);
    CHECK_INT(reading.code, 0);
    check_applied(&map, "", "");
    check_applied(&map, "bcd", "bcd");
    check_applied(&map, "A", "one");
    check_applied(&map, "AA", "oneone");
    check_applied(&map, "AAA", "three");
    check_applied(&map,
                  "xAAAAb\xff\xc3\xa9"
                  "A",
                  "xthreeoneb\xff\xc3\xa9one");
}

/* The map of a tokenizer.model is applied: texts with "A" have the tokens of texts with "one". */
static void check_model(void)
{
    unsigned char blob[4 + 4 * UNITS + VALUES];
    const struct rf_str map = make_map(blob);
    unsigned char proto[sizeof blob + 16];
    struct fixture_vocab fixture;
    struct rf_tokenizer *tokenizer;
    struct rf_error error;
    static const char text[] = "a bAAA Ac", same[] = "a bthree onec";
    struct rf_tokens got = {0}, wanted = {0};
    const struct rf_segment mapped = {text, strlen(text), 0}, plain = {same, strlen(same), 0};
    size_t n = 0, inner = map.bytes + 3;
    CHECK_INT(fixture_vocab_open(&fixture, "text/spm-unigram.vocab"), 0);
    proto[n++] = 3 << 3 | 2; /* normalizer_spec */
    proto[n++] = (unsigned char)(inner | 0x80);
    proto[n++] = (unsigned char)(inner >> 7);
    proto[n++] = 2 << 3 | 2; /* precompiled_charsmap */
    proto[n++] = (unsigned char)(map.bytes | 0x80);
    proto[n++] = (unsigned char)(map.bytes >> 7);
    memcpy(proto + n, map.data, map.bytes);
    fixture.vocab.spm_proto = (struct rf_str){(const char *)proto, n + map.bytes};
    CHECK_INT(rf_tokenizer_new(&tokenizer, &fixture.vocab, "map", memory, &error), 0);
    if (!tokenizer) return;
    CHECK_INT(rf_tokenizer_encode(tokenizer, &mapped, 1, 0, memory, &got, &error), 0);
    CHECK_INT(rf_tokenizer_encode(tokenizer, &plain, 1, 0, memory, &wanted, &error), 0);
    CHECK(got.count > 2 && got.count == wanted.count &&
          memcmp(got.ids, wanted.ids, got.count * sizeof *got.ids) == 0);
    rf_tokens_free(memory, &got);
    rf_tokens_free(memory, &wanted);
    rf_tokenizer_free(tokenizer);
    fixture_vocab_close(&fixture);
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* A value, one in four of them too large, or a unit with children, some of them far away. */
static uint32_t random_unit(uint32_t *state)
{
    if (next_random(state) % 4 == 0) return 1u << 31 | next_random(state) % (VALUES + 3);
    uint32_t offset = next_random(state) % (next_random(state) % 8 ? 64 : 700) << OFFSET,
             far = next_random(state) % 16 == 0 ? 1u << 9 : 0;
    return offset | far | (next_random(state) & HAS_VALUE) | (next_random(state) & 64 ? 'a' : 'b');
}

/* A random trie in memory of its own size, so that sanitizers see what lies outside. Its units lead
 * to each other often: the texts have two letters. */
static void check_random(void)
{
    uint32_t state = 7;
    size_t replaced = 0;
    for (int round = 0; round < 2000; round++) {
        size_t n_units = 1 + next_random(&state) % 300, bytes = 4 + 4 * n_units + VALUES;
        unsigned char *blob = malloc(bytes);
        struct rf_error error;
        struct rf_reading reading = {.path = "map", .error = &error, .arena.allocator = memory};
        struct rf_charsmap map;
        struct rf_bytes made = {0};
        struct rf_writer out = {memory, &made, &error, 0};
        char text[100];
        put(blob, (uint32_t)(4 * n_units));
        for (size_t i = 0; i < n_units; i++) put(blob + 4 + 4 * i, random_unit(&state));
        memcpy(blob + bytes - VALUES, values, VALUES);
        for (size_t i = 0; i < sizeof text; i++) text[i] = next_random(&state) & 64 ? 'a' : 'b';
        rf_charsmap_read(&map, (struct rf_str){(const char *)blob, bytes}, &reading);
        CHECK_INT(reading.code, 0);
        rf_charsmap_apply(&map, text, sizeof text, &out);
        CHECK_INT(out.code, 0);
        replaced += made.count != sizeof text || memcmp(made.data, text, sizeof text) != 0;
        rf_bytes_free(memory, &made);
        free(blob);
    }
    CHECK_MSG(replaced > 50, "only %zu maps replaced something", replaced);
}

int main(void)
{
    check_longest();
    check_model();
    check_random();
    return check_result();
}
