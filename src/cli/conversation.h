/* The messages of a chat, and their file format. */
#ifndef CLI_CONVERSATION_H
#define CLI_CONVERSATION_H

#include <stddef.h>

#include "riffle.h"

/* All zero is empty. Owns the texts. */
struct conversation {
    riffle_message *messages;
    size_t count;
};

void conversation_add(struct conversation *conversation, const char *role, const char *content,
                      size_t n);
/* Removes the messages after the first `count`. */
void conversation_cut(struct conversation *conversation, size_t count);
void conversation_free(struct conversation *conversation);

/* The system message, which can only be the first; NULL: none. */
const char *conversation_system(const struct conversation *conversation);
void conversation_set_system(struct conversation *conversation, const char *content);

/* JSON: {"messages": [{"role": .., "content": ..}, ..]}. Loading also accepts the bare array. If it
 * fails, the conversation is unchanged. CLI_OK, or CLI_FAILED with a sentence on standard error. */
int conversation_save(const struct conversation *conversation, const char *path);
int conversation_load(struct conversation *conversation, const char *path);

#endif
