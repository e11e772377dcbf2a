/* The file of a conversation: what is accepted survives saving and loading, what is not leaves the
 * conversation as it was. */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/conversation.h"
#include "output/status.h"

static void expect(int condition, const char *what)
{
    if (condition) return;
    fprintf(stdout, "%s\n", what);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct conversation first = {.messages = NULL}, second = {.messages = NULL};
    FILE *before = stderr;
    if (!(stderr = fopen("/dev/null", "w"))) {
        stderr = before;
        return 0;
    }
    conversation_add(&first, "user", "kept", 4);
    int status = conversation_parse(&first, (const char *)data, bytes, "fuzz.json");
    if (status != CLI_OK) {
        const json_t *kept = json_object_get(conversation_at(&first, 0), "content");
        expect(conversation_count(&first) == 1 && strcmp(json_string_value(kept), "kept") == 0,
               "a conversation that a failure changed");
    }
    for (size_t i = 1; i < conversation_count(&first); i++)
        expect(!conversation_has_role(&first, i, "system"), "a late system message");
    char *saved = conversation_write(&first);
    expect(conversation_parse(&second, saved, strlen(saved), "saved.json") == CLI_OK &&
               json_equal(first.messages, second.messages),
           "a saved conversation that is another");
    if (conversation_count(&first)) free(conversation_document(&first, NULL, 0));
    fclose(stderr);
    stderr = before;
    free(saved);
    conversation_free(&first);
    conversation_free(&second);
    return 0;
}
