/* A chat in progress. The verb owns it; answers, commands and settings change it. */
#ifndef CHAT_CHAT_H
#define CHAT_CHAT_H

#include "answers/thoughts.h"
#include "chat/conversation.h"
#include "session/engine.h"

struct chat {
    struct cli_options *options; /* the chat's own copy, which /set changes */
    struct engine engine;
    struct conversation conversation;
    const struct thought_form *thoughts; /* the model's markers */
    int interactive;                     /* standard input is a terminal */
    int stats_after_answer;              /* print a line of figures */
    int answered;                        /* the last message has an answer, perhaps a part of one */
    int explained_full;                  /* the user was told what a full context offers */
    int paints; /* tokens have the colour of the level that first proposed them */
};

#endif
