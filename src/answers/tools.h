/* Tools: the form in which a model's template has calls, the grammar of such calls, and calls read
 * out of an answer. The server and the chat use them. */
#ifndef ANSWERS_TOOLS_H
#define ANSWERS_TOOLS_H

#include <jansson.h>
#include <riffle_experimental.h>

#include "base/alloc.h"
#include "base/error.h"

enum tool_form {
    TOOLS_NONE,   /* the template has no tools */
    TOOLS_TAGGED, /* Hermes, Qwen: <tool_call>{"name", "arguments"}</tool_call>, amid text */
    TOOLS_OBJECT, /* Llama 3: the whole answer is {"name", "parameters"} */
    TOOLS_ARRAY,  /* Mistral: the whole answer is [TOOL_CALLS][{"name", "arguments"}, ...] */
    TOOLS_NAMED,  /* Mistral since 2025: text, then [TOOL_CALLS]name[ARGS]{...} for each call */
    /* DeepSeek: text, then a block of calls, each the name and {...} between marks; the older
     * models write "function" before the name and a fence around {...}. */
    TOOLS_BLOCK,
    TOOLS_FENCED
};

/* The form is the one in which the template writes a call. */
enum tool_form rf_tools_form(const riffle_model *model);

/* 1 if the model's chat template reads the variable reasoning_effort. */
int rf_template_has_effort(const riffle_model *model);

/* 1 if `tools` is a list of functions as OpenAI's reference has it. */
int rf_tools_are_valid(const json_t *tools);
/* The member "function" of the tool of that name; NULL: there is none. */
const json_t *rf_tools_find(const json_t *tools, const char *name);

/* The beginning of an answer that must call, up to the call's name or object: for the prompt and
 * the reader. May be "". For free(); NULL: out of memory. */
char *rf_tools_opening(enum tool_form form);
/* RIFFLE_GRAMMAR_CHOICE of the rest: a call of the tool `name` (NULL: of any). For json_decref();
 * NULL: out of memory. */
json_t *rf_tools_grammar(enum tool_form form, const json_t *tools, const char *name);

/* An answer that is being read. */
struct tool_reader {
    enum tool_form form;
    const json_t *tools;
    int32_t most;         /* calls that are taken; others are dropped; 0: all */
    struct rf_bytes held; /* may become a call */
    int32_t n_calls;
    int is_behind_call;
    int is_text; /* the answer is none of those that are a call as a whole */
};

/* Whether the text of a control token, which answers do not show, is to be pushed. */
int rf_tool_reader_wants(const struct tool_reader *reader, const char *control);
void rf_tool_reader_begin(struct tool_reader *reader, enum tool_form form, const json_t *tools);
void rf_tool_reader_free(struct tool_reader *reader);
/* Takes a piece of the answer. Appends text outside of calls to `text`, and complete calls to
 * `calls`, an array, as "tool_calls" has them. `is_last`: nothing follows. A call of a tool that
 * was not given is text. */
int rf_tool_reader_push(struct tool_reader *reader, const char *piece, size_t bytes, int is_last,
                        struct rf_bytes *text, json_t *calls, struct rf_error *error);

#endif
