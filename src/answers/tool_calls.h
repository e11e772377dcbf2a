/* The calls between the tags of a form, as "tool_calls" of OpenAI's reference has them. The reader
 * of answers calls it for each text that may be calls. */
#ifndef ANSWERS_TOOL_CALLS_H
#define ANSWERS_TOOL_CALLS_H

#include <jansson.h>

#include "answers/tool_forms.h"

/* Appends the calls, {"type", "function": {"name", "arguments"}} without ids, of a text that has
 * nothing else. Returns 0, or -1: it is something else, or a tool is not one of `tools`; some may
 * have been added. */
int rf_tool_calls_read(const struct tool_form *form, const json_t *tools, const char *text,
                       size_t bytes, json_t *calls);
/* 1 if a string or a value of the text goes on behind it, so that a closing tag belongs to it. */
int rf_tool_calls_go_on(const struct tool_form *form, const char *text, size_t bytes);
/* 1 if a text without tags, to which more will come, may be calls in JSON. */
int rf_tool_calls_may_begin(const char *text, size_t bytes);

#endif
