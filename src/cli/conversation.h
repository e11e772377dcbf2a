/* The messages of a chat, and their form in a file. */
#ifndef CLI_CONVERSATION_H
#define CLI_CONVERSATION_H

#include <stddef.h>

#include "riffle.h"

/* All zero is an empty one. The texts belong to it. */
struct conversation {
    riffle_message *messages;
    size_t count;
};

void conversation_add(struct conversation *conversation, const char *role, const char *content,
                      size_t n);
/* Forgets the messages after the first `count`. */
void conversation_cut(struct conversation *conversation, size_t count);
void conversation_free(struct conversation *conversation);

/* The system message, which can only be the first; NULL if there is none. */
const char *conversation_system(const struct conversation *conversation);
void conversation_set_system(struct conversation *conversation, const char *content);

/* JSON: {"messages": [{"role": .., "content": ..}, ..]}. Loading also takes the bare array, and
 * leaves the conversation as it is on failure. CLI_OK, or CLI_FAILED with a sentence on standard
 * error. */
int conversation_save(const struct conversation *conversation, const char *path);
int conversation_load(struct conversation *conversation, const char *path);

#endif
