/* Renders chat templates for scripts/compare_templates.py: a line "TEMPLATE JSON BOS EOS
 * GENERATION" of sizes in bytes and a flag on stdin, then the four texts; "CODE BYTES" and the text
 * or the sentence on stdout. One process answers any number of them. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/reader.h"
#include "platform/memory.h"
#include "template/chat_template.h"

enum { NOON = 1770120000 /* as in test_chat_template.c */ };

static char *read_text(size_t n)
{
    char *text = malloc(n + 1);
    if (!text || fread(text, 1, n, stdin) != n) exit(1);
    text[n] = 0;
    return text;
}

static int render_one(struct rf_str source, struct rf_str json, char *const tokens[2],
                      int generation, struct rf_rendered *rendered, struct rf_error *error)
{
    const struct rf_allocator *memory = &rf_system_allocator;
    struct rf_reading reading = {.path = "the conversation", .error = error};
    struct rf_chat_template *chat;
    struct rf_json *document = rf_json_parse(&reading, NULL, json);
    if (!document) return reading.code;
    int code = rf_chat_template_new(&chat, source.data, source.bytes, NULL, tokens[0], tokens[1],
                                    memory, error);
    if (!code) {
        rf_chat_template_set_time(chat, NOON);
        code = rf_chat_render_json(chat, document, generation, NULL, memory, rendered, error);
        rf_chat_template_free(chat);
    }
    rf_json_free(document);
    return code;
}

int main(void)
{
    size_t n[4];
    int generation;
    setenv("TZ", "UTC0", 1);
    while (scanf("%zu %zu %zu %zu %d", &n[0], &n[1], &n[2], &n[3], &generation) == 5) {
        char *texts[4];
        struct rf_rendered rendered = {0};
        struct rf_error error = {0};
        getchar();
        for (int i = 0; i < 4; i++) texts[i] = read_text(n[i]);
        int code = render_one((struct rf_str){texts[0], n[0]}, (struct rf_str){texts[1], n[1]},
                              texts + 2, generation, &rendered, &error);
        const char *text = code ? error.text : rendered.text.data;
        size_t bytes = code ? strlen(error.text) : rendered.text.count;
        printf("%d %zu\n", code, bytes);
        if (bytes) fwrite(text, 1, bytes, stdout);
        fflush(stdout);
        rf_rendered_free(&rf_system_allocator, &rendered);
        for (int i = 0; i < 4; i++) free(texts[i]);
    }
    return 0;
}
