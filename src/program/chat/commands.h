/* The commands of a chat, which begin with a slash. The loop of the verb runs them; complete.c
 * reads their table. */
#ifndef CHAT_COMMANDS_H
#define CHAT_COMMANDS_H

#include "chat/chat.h"

enum { CHAT_LEAVE = -1 };

/* A line that begins with a slash. */
struct chat_command {
    const char *name;     /* "/save" */
    const char *argument; /* name of the argument in the help; "": none */
    const char *help;
    int (*run)(struct chat *chat, const char *argument);
    const char *aliases[3]; /* other names, up to a NULL */
    /* The first words of arguments, for Tab and, behind `help`, for /help; up to a NULL. NULL:
     * none. */
    const char *const *(*words)(void);
    int lists_words; /* /help names them */
    int takes_file;  /* the argument is a file: Tab completes it, ~ is expanded */
};

/* Ended by an entry without a name. */
extern const struct chat_command chat_commands[];
/* The command with this name or alias; NULL: none. */
const struct chat_command *chat_command_find(const char *name);

/* `line` begins with a slash. CLI_OK; CLI_FAILED with a sentence on standard error; CHAT_LEAVE. */
int chat_command(struct chat *chat, const char *line);

#endif
