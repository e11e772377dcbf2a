/* The file of a conversation: what is accepted survives saving and loading, what is not leaves the
 * conversation as it was. */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/chat.h"

static void expect(int condition, const char *what)
{
    if (condition) return;
    fprintf(stdout, "%s\n", what);
    abort();
}

static int same(const struct conversation *a, const struct conversation *b)
{
    int same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = strcmp(a->messages[i].role, b->messages[i].role) == 0 &&
               strcmp(a->messages[i].content, b->messages[i].content) == 0;
    return same;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct conversation first = {NULL, 0}, second = {NULL, 0};
    struct json_writer json = {0};
    FILE *before = stderr;
    if (!(stderr = fopen("/dev/null", "w"))) {
        stderr = before;
        return 0;
    }
    conversation_add(&first, "user", "kept", 4);
    int status = conversation_parse(&first, (const char *)data, bytes, "fuzz.json");
    expect(status == CLI_OK || (first.count == 1 && strcmp(first.messages[0].content, "kept") == 0),
           "a conversation that a failure changed");
    for (size_t i = 0; i < first.count; i++)
        expect(i == 0 || strcmp(first.messages[i].role, "system") != 0, "a late system message");
    conversation_write(&first, &json);
    expect(conversation_parse(&second, json.text.data, json.text.count, "saved.json") == CLI_OK &&
               same(&first, &second),
           "a saved conversation that is another");
    fclose(stderr);
    stderr = before;
    buffer_free(&json.text);
    conversation_free(&first);
    conversation_free(&second);
    return 0;
}
