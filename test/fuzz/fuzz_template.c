/* A chat template and a conversation out of the input: "SOURCE\0ROLE\0CONTENT\0ROLE\0CONTENT...".
 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "platform/memory.h"
#include "template/chat_template.h"

enum { MAX_MESSAGES = 32 };

static void render(const struct rf_chat_template *chat, const struct rf_chat_message *messages,
                   size_t n)
{
    for (int generation = 0; generation < 2; generation++) {
        struct rf_rendered rendered;
        struct rf_error error;
        size_t total = 0;
        if (rf_chat_render(chat, messages, n, generation, NULL, &rf_system_allocator, &rendered,
                           &error))
            continue;
        for (size_t i = 0; i < rendered.n_segments; i++) total += rendered.segments[i].bytes;
        if (total != rendered.text.count) abort();
        rf_rendered_free(&rf_system_allocator, &rendered);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1);
    if (!text) return 0;
    if (bytes) memcpy(text, data, bytes);
    text[bytes] = 0;

    struct rf_chat_message messages[MAX_MESSAGES];
    size_t source = strlen(text), n = 0;
    for (size_t at = source + 1; at < bytes && n < MAX_MESSAGES; n++) {
        const char *role = text + at;
        at += strlen(role) + 1;
        if (at >= bytes) break;
        messages[n] = (struct rf_chat_message){role, text + at};
        at += strlen(text + at) + 1;
    }
    struct rf_chat_template *chat;
    struct rf_error error;
    if (!rf_chat_template_new(&chat, text, source, NULL, "<s>", "</s>", &rf_system_allocator,
                              &error)) {
        render(chat, messages, n);
        rf_chat_template_free(chat);
    }
    free(text);
    return 0;
}
