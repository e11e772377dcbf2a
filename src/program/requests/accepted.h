/* The members that requests may have: the table of those that act, that change no answer, and that
 * are refused. docs/serving.md lists them for users. */
#ifndef REQUESTS_ACCEPTED_H
#define REQUESTS_ACCEPTED_H

#include <jansson.h>

#include "messages/refusal.h"

/* The endpoint that a body is for. */
enum accepted_by {
    ACCEPTED_CHAT = 1,
    ACCEPTED_COMPLETION = 2,
    ACCEPTED_EMBEDDING = 4,
    ACCEPTED_MESSAGES = 8,   /* Anthropic's, with a table of its own */
    ACCEPTED_RESPONSES = 16, /* likewise */
    ACCEPTED_TOKENS = 32,    /* of the tokenizer */
    ACCEPTED_OLLAMA_CHAT = 64,
    ACCEPTED_OLLAMA_GENERATE = 128,
    ACCEPTED_OLLAMA_EMBED = 256,
    ACCEPTED_OLLAMA_MODEL = 512,    /* about a model */
    ACCEPTED_OLLAMA_OPTIONS = 1024, /* the member "options" of ollama's */
    ACCEPTED_RERANK = 2048
};

/* Refuses the first member that neither acts there nor may be ignored. A member that is null, or
 * that asks for nothing (false, 0, "", [], {}), counts as absent. 0, or -1 with a refusal. */
int accepted_check(const json_t *body, enum accepted_by endpoint, struct refusal *refusal);
/* The same of a member that has members: a refusal names the path. */
int accepted_check_in(const json_t *object, const char *path, enum accepted_by endpoint,
                      struct refusal *refusal);
/* 1 if the value asks for nothing. */
int accepted_is_off(const json_t *value);

#endif
