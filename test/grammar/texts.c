/* Texts and schemas by hand: a filter that test_oracle.py drives. Lines of standard input:
 *
 *     S schema    compiles it; answers "ok", or "error" and a sentence
 *     T text      answers 1 if the last schema accepts the text, else 0
 *     G seed      answers with a random text of the schema in hexadecimal digits, or "long"
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/ir.h"
#include "platform/memory.h"
#include "vocabulary.h"

enum { MOST_TEXT = 600, MOST_LINE = 1 << 20 };

static struct vocabulary vocabulary;
static struct rf_grammar *grammar;
static struct rf_matcher *matcher;
static struct rf_error error;
static uint64_t seed;

static uint32_t draw(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

static void compile_schema(const char *text)
{
    rf_matcher_free(matcher);
    rf_grammar_free(grammar);
    matcher = NULL;
    int code = rf_grammar_new(&grammar, RF_GRAMMAR_JSON_SCHEMA, rf_str_of(text), &vocabulary.of,
                              NULL, &rf_system_allocator, &error);
    if (!code) code = rf_matcher_new(&matcher, grammar, &error);
    puts(code ? error.text : "ok");
}

static int accepts(const char *text)
{
    int32_t state = rf_matcher_start(matcher, &error);
    for (; *text && state > RF_STATE_FINAL; text++)
        state = rf_matcher_advance(matcher, state, (unsigned char)*text, &error);
    return !*text && state >= 0 && rf_matcher_accepts(matcher, state);
}

static int is_allowed(const struct rf_token_mask *mask, int byte)
{
    return (int)(mask->bits[byte / 64] >> byte % 64 & 1);
}

/* A byte that may follow: any, or, where the text is long enough, rather one that ends something;
 * -1: there is none. */
static int choose_byte(const struct rf_token_mask *mask, int ends)
{
    static const char closing[] = "\"]}0123456789els";
    int all[256], n = 0;
    for (const char *c = closing; ends && *c; c++)
        if (is_allowed(mask, *c) && draw(8)) return *c;
    for (int byte = 0; byte < 256; byte++)
        if (is_allowed(mask, byte) && (byte < 0x80 || draw(40) == 0)) all[n++] = byte;
    for (int byte = 0; byte < 256 && !n; byte++)
        if (is_allowed(mask, byte)) return byte;
    return n ? all[draw((uint32_t)n)] : -1;
}

static void generate(void)
{
    char text[MOST_TEXT];
    size_t n = 0, enough = draw(120);
    int32_t state = rf_matcher_start(matcher, &error);
    for (; n < MOST_TEXT; n++) {
        struct rf_token_mask mask;
        if (state < 0 || rf_matcher_mask(matcher, state, &mask, &error)) break;
        int byte = state == RF_STATE_FINAL ? -1 : choose_byte(&mask, n >= enough);
        if (rf_matcher_accepts(matcher, state) && (byte < 0 || n >= enough || draw(3) == 0)) {
            for (size_t i = 0; i < n; i++) printf("%02x", (unsigned char)text[i]);
            puts("");
            return;
        }
        if (byte < 0) break;
        text[n] = (char)byte;
        state = rf_matcher_advance(matcher, state, byte, &error);
    }
    puts("long");
}

int main(void)
{
    static char line[MOST_LINE];
    vocabulary_make(&vocabulary, NULL, 0);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == 'S')
            compile_schema(line + 2);
        else if (!matcher)
            puts("no schema");
        else if (line[0] == 'T')
            puts(accepts(line + 2) ? "1" : "0");
        else {
            seed = strtoull(line + 2, NULL, 10);
            generate();
        }
        fflush(stdout);
    }
    rf_matcher_free(matcher);
    rf_grammar_free(grammar);
    return 0;
}
