/* The forms in which models write calls of tools, as rows. The reader of answers, the grammar of
 * calls that must come and the writer of earlier calls all work by the row alone. */
#ifndef ANSWERS_TOOL_FORMS_H
#define ANSWERS_TOOL_FORMS_H

#include <stddef.h>

enum tool_body {
    TOOL_OBJECTS, /* JSON: objects with a name and arguments, or arrays of them */
    TOOL_NAMED,   /* a name, and the first JSON object behind it */
    TOOL_PAIRS,   /* a name, and keys with values, each between tags; strings as they are */
    TOOL_LITERALS /* name(key=value, ...), with values as Python or JSON writes them */
};

struct tool_tags {
    const char *open, *close; /* close NULL: calls go on to the end of the answer */
};

enum { TOOL_TAGS = 6 };

/* Texts that are NULL are not written. */
struct tool_form {
    const char *title;
    enum tool_body body;
    /* Around one call or several, amid text. The form's own first; the others are read as well. */
    struct tool_tags tags[TOOL_TAGS];
    int has_lines;               /* a line break behind `open` and before `close` */
    int is_untagged;             /* calls are written without tags */
    int is_bare;                 /* an answer that is nothing but JSON may be calls, without tags */
    const char *call, *call_end; /* around each call between the tags */
    const char *name, *name_end; /* around the name */
    const char *key, *key_end;   /* pairs; what stands between key_end and `value` is not read */
    const char *value, *value_end;
    int trims_lines;   /* a line break at both ends of a value belongs to the tags */
    const char *quote; /* literals: both marks of a string; NULL: those of JSON */
    /* Objects. name_key NULL: {name: arguments}. */
    const char *name_key, *arguments_key;
    int is_list; /* an array, also for one call */
    const char
        *hints[2]; /* a text that only templates with this form write, which write no calls */
};

/* In the order in which they are tried on what a template writes. */
extern const struct tool_form rf_tool_forms[];
extern const size_t rf_n_tool_forms;

/* The form by its title; NULL: there is none. */
const struct tool_form *rf_tool_form_find(const char *title);
/* 1 if one of the form's texts has the text of a control token in it. */
int rf_tool_form_has(const struct tool_form *form, const char *control);

#endif
