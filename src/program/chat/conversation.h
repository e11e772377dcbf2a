/* A conversation: the messages that a chat holds, /save writes and `run --messages` reads. The
 * answers of a model become messages here, with their thoughts and calls of tools. */
#ifndef CHAT_CONVERSATION_H
#define CHAT_CONVERSATION_H

#include <jansson.h>

#include "answers/tools.h"
#include "riffle.h"

/* All zero is empty. Messages are JSON, as transformers has them: "role", "content",
 * "reasoning_content", "tool_calls", and what else a file gave them. */
struct conversation {
    json_t *messages; /* an array; NULL: empty */
    json_t *tools;    /* tools that a file offered to the model; NULL: none */
    /* What the template of the model, which was asked last, does with tools. */
    struct tool_manner manner;
    const riffle_model *manner_of;
};

size_t conversation_count(const struct conversation *conversation);
/* Message i, which is borrowed. */
json_t *conversation_at(const struct conversation *conversation, size_t i);
int conversation_has_role(const struct conversation *conversation, size_t i, const char *role);

/* Bytes that are not UTF-8 become U+FFFD. */
void conversation_add(struct conversation *conversation, const char *role, const char *content,
                      size_t n);
/* Adds a member of the last message, unless it is empty. */
void conversation_note(struct conversation *conversation, const char *key, const char *text,
                       size_t n);
/* Makes "tool_calls" of what the last message's content calls of the tools, in the form of the
 * model's template. */
void conversation_find_calls(struct conversation *conversation, const riffle_model *model);
/* Removes the messages after the first `count`. */
void conversation_cut(struct conversation *conversation, size_t count);
/* Removes n messages from `first` on. */
void conversation_drop(struct conversation *conversation, size_t first, size_t n);
/* Removes the messages from `first` on, and returns them as an array for conversation_restore. */
json_t *conversation_take(struct conversation *conversation, size_t first);
/* Adds the messages, if `back`, and frees them. */
void conversation_restore(struct conversation *conversation, json_t *messages, int back);
void conversation_free(struct conversation *conversation);

/* The text of the system or developer message, which can only be the first; NULL: none. */
const char *conversation_system(const struct conversation *conversation);
void conversation_set_system(struct conversation *conversation, const char *content);

/* The document for riffle_chat_prefill_json: the system message and all messages from `first` on,
 * as the model's template shows them. For free(). */
char *conversation_document(struct conversation *conversation, const riffle_model *model,
                            size_t first);

/* JSON: {"messages": [{"role": .., "content": ..}, ..]}. Loading also accepts the bare array. If it
 * fails, the conversation is unchanged. CLI_OK, or CLI_FAILED with a sentence on standard error. */
int conversation_save(const struct conversation *conversation, const char *path);
int conversation_load(struct conversation *conversation, const char *path);
/* Loads a text in the same way; `path` is the name in the sentences. */
int conversation_parse(struct conversation *conversation, const char *text, size_t bytes,
                       const char *path);
/* The document that conversation_save writes. For free(). */
char *conversation_write(const struct conversation *conversation);

#endif
