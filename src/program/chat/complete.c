/* Completes a line of a chat from the table of commands. The line editor calls it for Tab. */
#include "chat/complete.h"

#include <stdlib.h>
#include <string.h>

#include "chat/commands.h"
#include "output/buffer.h"

static void offer_commands(struct completion *completion, const char *typed)
{
    for (const struct chat_command *command = chat_commands; command->name; command++)
        completion_offer(completion, typed, command->name, command->argument[0] ? " " : "");
    if (completion->count) return;
    for (const struct chat_command *command = chat_commands; command->name; command++)
        for (const char *const *alias = command->aliases; *alias; alias++)
            completion_offer(completion, typed, *alias, command->argument[0] ? " " : "");
}

void complete_chat(struct completion *completion, const char *line)
{
    if (line[0] != '/' || strchr(line, '\n')) return;
    size_t n = strcspn(line, " \t");
    if (!line[n]) {
        offer_commands(completion, line);
    } else {
        char *name = cli_copy(line, n);
        const struct chat_command *command = chat_command_find(name);
        free(name);
        if (!command) return;
        completion->begin = n + strspn(line + n, " \t");
        const char *typed = line + completion->begin;
        if (command->takes_file) completion_offer_files(completion, typed);
        const char *const *word = command->words ? command->words() : NULL;
        for (; word && *word; word++) completion_offer(completion, typed, *word, "");
    }
    completion_finish(completion);
}
