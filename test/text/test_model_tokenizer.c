/* Ids of whole model files, through the readers: stories260K.gguf, which is here, and SmolLM2 where
 * RIFFLE_TEST_MODEL names its file (sha256 b179c952...).
 *
 *     test_model_tokenizer MODEL|- IDS      "-": the file that RIFFLE_TEST_MODEL names; exit status
 * 77 without it */
#include <stdlib.h>

#include "model/open.h"
#include "platform/memory.h"
#include "support/check.h"
#include "template/chat_template.h"
#include "text/fixture.h"
#include "text/tokenizer.h"

int main(int argc, char **argv)
{
    const struct rf_allocator *memory = &rf_system_allocator;
    if (argc != 3) return 2;
    const char *path = strcmp(argv[1], "-") == 0 ? getenv("RIFFLE_TEST_MODEL") : argv[1];
    if (!path || !*path) {
        printf("skipped: RIFFLE_TEST_MODEL does not name the SmolLM2 file\n");
        return 77;
    }
    struct rf_source *source = NULL;
    struct rf_tokenizer *tokenizer = NULL;
    struct rf_error error = {0};
    struct fixture_strings strings = {0};
    char *ids = fixture_read(argv[2], NULL), *at = ids, **lines = NULL;
    CHECK_INT(fixture_strings_open(&strings, "text/strings.txt"), 0);
    CHECK_MSG(rf_source_open(&source, path, NULL, memory, &error) == 0, "%s", error.text);
    if (source)
        CHECK_MSG(rf_tokenizer_new(&tokenizer, &source->vocab, path, memory, &error) == 0, "%s",
                  error.text);
    lines = calloc(strings.n, sizeof *lines);
    for (int special = 0; special < 2 && tokenizer && ids; special++) {
        if (special) CHECK_STR(fixture_line(&at), "special");
        for (size_t i = 0; i < strings.n; i++) {
            char *line = fixture_line(&at);
            CHECK(line != NULL);
            if (!line) break;
            if (strcmp(line, "=") != 0) lines[i] = line;
            struct rf_segment segment = {strings.strings[i].data, strings.strings[i].bytes,
                                         special};
            struct rf_tokens tokens = {0};
            CHECK(rf_tokenizer_encode(tokenizer, &segment, 1, 0, memory, &tokens, &error) == 0);
            CHECK_MSG(fixture_same_ids(lines[i], tokens.ids, tokens.count),
                      "case %zu (%.60s), special %d: wanted %.200s", i, strings.strings[i].data,
                      special, lines[i]);
            rf_tokens_free(memory, &tokens);
        }
    }
    if (source && source->chat_template) {
        struct rf_chat_template *chat = NULL;
        int code = rf_chat_template_new(&chat, source->chat_template, source->chat_template_bytes,
                                        NULL, "", "", memory, &error);
        CHECK_MSG(code == 0, "%s", error.text);
        if (chat) CHECK_STR(rf_chat_template_name(chat), "jinja");
        rf_chat_template_free(chat);
    }
    rf_tokenizer_free(tokenizer);
    rf_source_close(source);
    fixture_strings_close(&strings);
    free(lines);
    free(ids);
    return check_result();
}
