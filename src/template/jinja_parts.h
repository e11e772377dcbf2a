/* What the files of the Jinja interpreter share: jinja_lex.c makes tokens, jinja_parse.c a tree of
 * nodes, jinja_eval.c walks it; jinja_value.c has the values, jinja_filters.c and jinja_methods.c
 * the functions of the language. */
#ifndef RF_TEMPLATE_JINJA_PARTS_H
#define RF_TEMPLATE_JINJA_PARTS_H

#include "model/arena.h"
#include "template/jinja.h"

typedef struct rf_jinja_value value;

enum {
    RF_JINJA_MAX_SOURCE = 1 << 20, /* bytes of a template */
    RF_JINJA_MAX_NESTING = 192,    /* of expressions and statements in the source */
    RF_JINJA_MAX_DEPTH = 600,      /* while rendering, also through macros */
    RF_JINJA_MAX_STEPS = 4 << 20,  /* each about a microsecond at most */
    RF_JINJA_MAX_MEMORY = 96 << 20 /* bytes of values, without the caller's strings */
};

/* ---- tokens ---- */

enum token_kind {
    TOKEN_END,
    TOKEN_DATA,
    TOKEN_PRINT, /* {{ */
    TOKEN_PRINT_END,
    TOKEN_BLOCK, /* {% */
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING, /* text: the value */
    TOKEN_INTEGER,
    TOKEN_FLOAT,
    TOKEN_OPERATOR
};

struct token {
    enum token_kind kind;
    uint32_t line;
    struct rf_str text;
};

/* Tokens of a source, in the arena; a TOKEN_END is the last. */
int rf_jinja_lex(struct rf_arena *arena, struct rf_str source, struct token **tokens,
                 struct rf_error *error);

/* Fails with "the chat template, line N: ...". */
int rf_jinja_bad(struct rf_error *error, int code, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- nodes ---- */

enum node_kind {
    NODE_DATA,         /* text */
    NODE_PRINT,        /* a */
    NODE_IF,           /* children: (test or NULL, body) pairs as NODE_ARM */
    NODE_ARM,          /* a: test, NULL for else; body */
    NODE_FOR,          /* a: target, b: iterable, c: filter; body; other: else */
    NODE_SET,          /* a: target, b: value */
    NODE_SET_BLOCK,    /* a: target, b: filters over NODE_CAPTURED, body */
    NODE_MACRO,        /* text: name; children: parameters; body */
    NODE_CALL_BLOCK,   /* a: call; b: NODE_MACRO of the caller */
    NODE_FILTER_BLOCK, /* b: filters over NODE_CAPTURED; body */
    NODE_WITH,         /* children: NODE_SET; body */
    NODE_SCOPE,        /* body: {% generation %} */
    NODE_BREAK,
    NODE_CONTINUE,
    NODE_CONSTANT, /* constant */
    NODE_NAME,     /* text */
    NODE_CAPTURED, /* what the block around it rendered */
    NODE_LIST,     /* children */
    NODE_TUPLE,
    NODE_DICT,      /* children: key, value, key, ... */
    NODE_ATTRIBUTE, /* a . text */
    NODE_ITEM,      /* a [ b ] */
    NODE_SLICE,     /* a [ b : c : d ], each but a may be NULL */
    NODE_CALL,      /* a ( arguments ) */
    NODE_FILTER,    /* a | text ( arguments ), builtin */
    NODE_TEST,      /* a is text ( arguments ), builtin; flag: negated */
    NODE_AND,
    NODE_OR,
    NODE_NOT,
    NODE_CHOICE,  /* a if b else c; c may be NULL */
    NODE_CONCAT,  /* children */
    NODE_COMPARE, /* a, then children: NODE_BINARY with op and a */
    NODE_BINARY,  /* a op b */
    NODE_NEGATIVE,
    NODE_POSITIVE
};

enum binary_op {
    OP_ADD,
    OP_SUBTRACT,
    OP_MULTIPLY,
    OP_DIVIDE,
    OP_FLOOR,
    OP_MODULO,
    OP_POWER,
    OP_EQUAL,
    OP_UNEQUAL,
    OP_LESS,
    OP_GREATER,
    OP_AT_MOST,
    OP_AT_LEAST,
    OP_IN,
    OP_NOT_IN
};

struct node {
    uint8_t kind, op, flag; /* flag: recursive of NODE_FOR, negated of NODE_TEST */
    uint32_t line;
    struct rf_str text;
    struct node *a, *b, *c, *d;
    struct node *children, *body, *other; /* first of a list */
    struct node *next;                    /* in its list */
    struct node *arguments;               /* list; a named one has `text`, a starred one `op` */
    value constant;
    const struct builtin *builtin;
};

int rf_jinja_parse(struct rf_arena *arena, const struct token *tokens, struct node **root,
                   struct rf_error *error);

struct rf_jinja_template {
    const struct rf_allocator *allocator;
    struct rf_arena arena;
    struct node *body;
};

/* ---- values ---- */

struct rf_jinja_list {
    value *items;
    size_t n, cap;
};

struct rf_jinja_dict {
    value *keys, *values;
    size_t n, cap;
};

struct scope {
    struct rf_jinja_dict names;
    struct scope *parent;
};

struct rf_jinja_loop {
    const struct node *node; /* for a call of a recursive loop */
    struct scope *scope;     /* around the loop */
    struct rf_jinja_list *items;
    size_t index;
    int depth;
    value changed; /* the last arguments of loop.changed */
};

struct arguments {
    value *positional;
    size_t n;
    struct rf_str *names;
    value *named;
    size_t n_named;
};

struct rf_jinja_callable {
    const struct builtin *builtin; /* NULL: a macro */
    value self;                    /* of a method */
    const struct node *macro;
    struct scope *scope; /* where the macro was defined */
};

struct builtin {
    const char *name;
    value (*call)(struct rf_jinja_run *run, value self, const struct arguments *arguments);
};

/* A text that grows, with origins. */
struct output {
    char *text;
    uint8_t *origins;
    size_t n, cap;
};

struct rf_jinja_run {
    const struct rf_jinja_template *compiled;
    const struct rf_allocator *allocator;
    int64_t now; /* seconds of Unix */
    struct rf_arena arena;
    size_t memory;
    uint64_t steps;
    int depth;
    uint32_t line;
    struct rf_error *error;
    int code;
    struct scope globals;
    struct scope *scope;
    struct output *output;
    enum { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } flow;
    value captured; /* of NODE_CAPTURED */
};

/* Fails once; the sentence gets the line. Returns an undefined value. */
value rf_jinja_fail(struct rf_jinja_run *run, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* For an operation that the value's type does not have: "cannot WHAT a TYPE". */
value rf_jinja_mistyped(struct rf_jinja_run *run, const char *what, value v);
/* Counts work; not 0 after a failure, the bound's included. */
int rf_jinja_steps(struct rf_jinja_run *run, size_t n);
/* Zeroed memory until the end of the run; NULL after a failure. */
void *rf_jinja_take(struct rf_jinja_run *run, size_t count, size_t size);

value rf_jinja_undefined(struct rf_str name);
value rf_jinja_text(const char *text); /* of the template's origin */
struct rf_str rf_jinja_bytes(value string);
const char *rf_jinja_type_name(value v);
value rf_jinja_tuple(struct rf_jinja_run *run);
value rf_jinja_pair(struct rf_jinja_run *run, value a, value b);
int rf_jinja_is_sequence(value v); /* a list or a tuple */
int rf_jinja_truth(value v);
int rf_jinja_equal(struct rf_jinja_run *run, value a, value b);
/* < 0, 0 or > 0; fails where Python's < does. */
int rf_jinja_order(struct rf_jinja_run *run, value a, value b);
int rf_jinja_contains(struct rf_jinja_run *run, value container, value item);
/* As a number: also a bool. */
int rf_jinja_as_integer(value v, int64_t *integer);
int rf_jinja_as_number(value v, double *number);
/* -1 where len() fails. */
int64_t rf_jinja_length(struct rf_jinja_run *run, value v);
/* The items of anything that can be iterated; NULL after a failure. */
struct rf_jinja_list *rf_jinja_iterate(struct rf_jinja_run *run, value v);
value *rf_jinja_find(struct rf_jinja_run *run, const struct rf_jinja_dict *dict, value key);
void rf_jinja_insert(struct rf_jinja_run *run, struct rf_jinja_dict *dict, value key, value v);

/* Part of a string, by bytes. */
value rf_jinja_cut(value string, size_t from, size_t to);
/* Bytes of the character at `at`; a stray byte counts as one. */
size_t rf_jinja_char(struct rf_str text, size_t at);
/* The byte at which a wanted text begins, at or after `from`; SIZE_MAX if there is none. */
size_t rf_jinja_search(struct rf_jinja_run *run, struct rf_str text, struct rf_str wanted,
                       size_t from);
int rf_jinja_is_space(uint32_t code_point);
int rf_jinja_is_word(uint32_t code_point); /* of a word, as \w of Python's expressions */
value rf_jinja_strip(value string, value characters, int left, int right);

void rf_jinja_write(struct rf_jinja_run *run, struct output *out, value string);
void rf_jinja_write_text(struct rf_jinja_run *run, struct output *out, const char *text);
/* As Python's str() and repr(). */
void rf_jinja_write_str(struct rf_jinja_run *run, struct output *out, value v);
void rf_jinja_write_repr(struct rf_jinja_run *run, struct output *out, value v);
value rf_jinja_written(struct rf_jinja_run *run, const struct output *out);
value rf_jinja_str(struct rf_jinja_run *run, value v);
value rf_jinja_replace(struct rf_jinja_run *run, value text, value old, value with, int64_t most);

/* ---- evaluation and functions ---- */

value rf_jinja_attribute(struct rf_jinja_run *run, value object, value name, int dot_first);
value rf_jinja_call(struct rf_jinja_run *run, value callee, const struct arguments *arguments);
/* A value whose call is the builtin's with `self`. */
value rf_jinja_function(struct rf_jinja_run *run, const struct builtin *builtin, value self);
/* The argument at a place or of a name; `otherwise` if it is missing. */
value rf_jinja_argument(const struct arguments *arguments, size_t place, const char *name,
                        value otherwise);

const struct builtin *rf_jinja_filter(struct rf_str name);
const struct builtin *rf_jinja_test(struct rf_str name);
const struct builtin *rf_jinja_global(struct rf_str name);
/* The method of a type; NULL if there is none. */
const struct builtin *rf_jinja_method(value object, struct rf_str name);
/* Case as utf8proc maps single characters. */
enum letter_case { CASE_LOWER, CASE_UPPER, CASE_CAPITALIZED, CASE_TITLE, CASE_JINJA_TITLE };
value rf_jinja_recase(struct rf_jinja_run *run, value string, enum letter_case to);
/* 1 if all cased characters, and at least one, are upper (or lower) case. */
int rf_jinja_has_case(struct rf_jinja_run *run, value string, int upper);
value rf_jinja_lines(struct rf_jinja_run *run, value string, int keep_ends);
value rf_jinja_join(struct rf_jinja_run *run, value separator, value items);
value rf_jinja_format(struct rf_jinja_run *run, value format, const struct arguments *arguments);

#endif
