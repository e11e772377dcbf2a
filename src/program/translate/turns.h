/* The messages of a chat, made of those of another interface. Messages of one role that follow each
 * other become one, since many templates want roles in turns. blocks.c and items.c fill them. */
#ifndef TRANSLATE_TURNS_H
#define TRANSLATE_TURNS_H

#include <jansson.h>

#include "base/alloc.h"
#include "base/error.h"
#include "messages/refusal.h"

struct turns {
    json_t *messages; /* of the chat; borrowed */
    struct refusal *refusal;
    /* The rest is private: the message under way. */
    const char *role;      /* NULL: none */
    json_t *texts, *calls; /* parts and calls */
    struct rf_bytes thoughts;
    int wants_gap, wants_thought_gap; /* what comes next is another message's: a blank line */
};

/* Begins with no message. The functions below return 0, or -1 with a refusal for lack of memory. */
int turns_begin(struct turns *turns, json_t *messages, struct refusal *refusal);
void turns_free(struct turns *turns);

/* A message of the role, a static text, begins. It goes on the one before if that has the role, or
 * if both are the system's and the developer's. */
int turns_open(struct turns *turns, const char *role);
/* Parts of the message that was opened. Values are borrowed: texts, and arguments as an object. */
int turns_add_text(struct turns *turns, json_t *text);
int turns_add_thought(struct turns *turns, json_t *text);
int turns_add_call(struct turns *turns, json_t *id, json_t *name, json_t *arguments);
/* The result of a call, as parts that are taken, is a message of its own. The message that was
 * opened goes on behind it. */
int turns_add_result(struct turns *turns, json_t *id, json_t *parts);
/* Ends the last message. */
int turns_end(struct turns *turns);

/* 1 if the value is the word. */
int turns_is_word(const json_t *value, const char *word);
/* A part of a chat's content; NULL: no memory. */
json_t *turns_part(json_t *text);

#endif
