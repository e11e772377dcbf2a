/* The state of a chat, shared by the loop (verb_chat.c) and the slash commands
 * (chat_commands.c). */
#ifndef CLI_CHAT_H
#define CLI_CHAT_H

#include "cli/conversation.h"
#include "cli/engine.h"
#include "cli/options.h"

struct chat {
    const struct cli_options *options;
    struct engine engine;
    struct conversation conversation;
    int interactive;        /* standard input is a terminal */
    int stats_after_answer; /* print a line of figures */
    int paints;             /* tokens have the colour of the level that first proposed them */
};

enum { CHAT_LEAVE = -1 };

/* `line` begins with a slash. CLI_OK; CLI_FAILED with a sentence on standard error; CHAT_LEAVE. */
int chat_command(struct chat *chat, const char *line);

#endif
