/* A chat, shared by its loop (verb_chat.c) and the slash commands (chat_commands.c). */
#ifndef CLI_CHAT_H
#define CLI_CHAT_H

#include <jansson.h>

#include "engine/engine.h"
#include "messages/thoughts.h"

/* All zero is empty. Messages are JSON, as transformers has them: "role", "content",
 * "reasoning_content", "tool_calls", and what else a file gave them. */
struct conversation {
    json_t *messages; /* an array; NULL: empty */
    json_t *tools;    /* that a file offered to the model; NULL: none */
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

/* What riffle_chat_prefill_json takes: the system message and all messages from `first` on. To be
 * freed. */
char *conversation_document(const struct conversation *conversation, size_t first);

/* JSON: {"messages": [{"role": .., "content": ..}, ..]}. Loading also accepts the bare array. If it
 * fails, the conversation is unchanged. CLI_OK, or CLI_FAILED with a sentence on standard error. */
int conversation_save(const struct conversation *conversation, const char *path);
int conversation_load(struct conversation *conversation, const char *path);
/* The same for a text; `path` is for the sentences. */
int conversation_parse(struct conversation *conversation, const char *text, size_t bytes,
                       const char *path);
/* To be freed. */
char *conversation_write(const struct conversation *conversation);

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

enum { CHAT_LEAVE = -1 };

/* Handles one message and its answer. A partial answer stays in the conversation; a message without
 * any answer is removed. CLI_OK, CLI_INTERRUPTED or CLI_FAILED. */
int chat_answer(struct chat *chat, const char *message, size_t n_message);
/* The same for the last message of the conversation, which stays in any case. */
int chat_answer_last(struct chat *chat);

/* Shows the settings, or changes one: "NAME VALUE". */
int chat_set(struct chat *chat, const char *argument);

/* Whether a full context drops the oldest turns instead of ending the answer. */
int chat_drops(const struct chat *chat);
/* Says once what may be done about a full context. */
void chat_explain_full(struct chat *chat);
/* Drops whole turns, the oldest first, until the conversation, n_answer tokens of an answer that
 * has begun, and room for more fit the context; says how many. The system message and the last turn
 * stay. CLI_FAILED with a sentence, and nothing dropped, if these alone do not fit. */
int chat_make_room(struct chat *chat, size_t n_answer);

/* A line that begins with a slash. */
struct chat_command {
    const char *name;     /* "/save" */
    const char *argument; /* in the help; "": none */
    const char *help;
    int (*run)(struct chat *chat, const char *argument);
    const char *aliases[3];   /* other names, up to a NULL */
    const char *const *words; /* arguments that Tab completes, up to a NULL; NULL: none */
    int takes_file;           /* the argument is a file: Tab completes it, ~ is expanded */
};

/* Ended by an entry without a name. */
extern const struct chat_command chat_commands[];
/* The command with this name or alias; NULL: none. */
const struct chat_command *chat_command_find(const char *name);

/* `line` begins with a slash. CLI_OK; CLI_FAILED with a sentence on standard error; CHAT_LEAVE. */
int chat_command(struct chat *chat, const char *line);

#endif
