/* The tools of a request: which may be called, and whether one must be. Endpoints with text
 * answers call it. */
#ifndef REQUESTS_TOOL_CHOICE_H
#define REQUESTS_TOOL_CHOICE_H

#include <jansson.h>

#include "requests/question.h"

/* Takes "tools", "tool_choice" and "parallel_tool_calls". Without `is_chat`, tools are refused. 0,
 * or -1 with a refusal. */
int tool_choice_take(const json_t *body, const struct answerer *of, int is_chat,
                     struct question *question, struct refusal *refusal);

#endif
