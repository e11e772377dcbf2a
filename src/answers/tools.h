/* Tools: the form in which a model calls them, the grammar of such calls, calls read out of an
 * answer, and conversations for templates that show no tools. The server and the chat use them. */
#ifndef ANSWERS_TOOLS_H
#define ANSWERS_TOOLS_H

#include <jansson.h>
#include <riffle_experimental.h>

#include "base/alloc.h"
#include "base/error.h"

struct tool_form; /* tool_forms.h */

/* What a model's chat template does with tools. */
struct tool_manner {
    /* NULL: the model has no chat template, or one whose form is not known. */
    const struct tool_form *form;
    int shows_tools, shows_calls;
    int has_tool_role;  /* it takes messages of the role "tool" */
    int has_system;     /* and of the role "system" */
    int null_content;   /* a message that only calls has no content, else an empty one */
    int text_arguments; /* arguments are a text, else an object */
    int named_ids;      /* it writes ids in place of names: "functions.NAME:NUMBER" */
};

/* The form is the one in which the template writes a call; where it writes none, the one that its
 * words or the vocabulary tell; else Hermes's, which most models know. */
struct tool_manner rf_tools_manner(const riffle_model *model);

/* 1 if a conversation, {"messages", "tools"}, has tools, calls or results of them. */
int rf_tools_are_used(const json_t *conversation);
/* The conversation as the template shows all of it: calls, tools and
 * results that it has no place for become text. For json_decref(); NULL: out of memory. */
json_t *rf_tools_adapt(const struct tool_manner *manner, json_t *conversation);

/* 1 if the model's chat template reads the variable reasoning_effort. */
int rf_template_has_effort(const riffle_model *model);

/* 1 if `tools` is a list of functions as OpenAI's reference has it. */
int rf_tools_are_valid(const json_t *tools);
/* The member "function" of the tool of that name; NULL: there is none. */
const json_t *rf_tools_find(const json_t *tools, const char *name);

/* The beginning of an answer that must call, up to the call's name or object: for the prompt and
 * the reader. May be "". For free(); NULL: out of memory. */
char *rf_tools_opening(const struct tool_form *form);
/* RIFFLE_GRAMMAR_CHOICE of the rest: a call of the tool `name` (NULL: of any). For json_decref();
 * NULL: out of memory. */
json_t *rf_tools_grammar(const struct tool_form *form, const json_t *tools, const char *name);
/* Calls as the form writes them; arguments are objects, or texts with one. For free(). */
char *rf_tools_write(const struct tool_form *form, const json_t *calls);

/* An answer that is being read. */
struct tool_reader {
    const struct tool_form *form; /* NULL: all is text */
    const json_t *tools;
    int32_t most;         /* calls that are taken; others are dropped; 0: all */
    uint64_t seed;        /* of the calls' ids */
    struct rf_bytes held; /* may become a call */
    size_t searched;      /* bytes of it that have no closing tag */
    int32_t n_calls;
    int is_behind_call;
    int is_text; /* the answer is none of those that are calls as a whole */
};

/* Whether the text of a control token, which answers do not show, is to be pushed. */
int rf_tool_reader_wants(const struct tool_reader *reader, const char *control);
/* Calls get ids of a random seed. */
void rf_tool_reader_begin(struct tool_reader *reader, const struct tool_form *form,
                          const json_t *tools);
void rf_tool_reader_free(struct tool_reader *reader);
/* Takes a piece of the answer. Appends text outside of calls to `text`, and complete calls to
 * `calls`, an array, as "tool_calls" has them. `is_last`: nothing follows. A call of a tool that
 * was not given is text. */
int rf_tool_reader_push(struct tool_reader *reader, const char *piece, size_t bytes, int is_last,
                        struct rf_bytes *text, json_t *calls, struct rf_error *error);

#endif
