/* The parts of the Jinja interpreter, each file above the ones that it calls: jinja.c (the
 * interface), jinja_eval.c (walks nodes), jinja_parse.c (nodes of tokens), jinja_lex.c (tokens of a
 * source); jinja_names.c over jinja_tests.c, jinja_filters.c,
 * jinja_text_filters.c, jinja_html_filters.c and jinja_list_filters.c, jinja_globals.c and
 * jinja_compute.c (the functions and operators of the language); jinja_json.c over jinja_sort.c
 * over jinja_attribute.c over jinja_methods.c; jinja_format.c; jinja_text.c (strings);
 * jinja_value.c (values, failures, bounds). */
#ifndef RF_TEMPLATE_JINJA_PARTS_H
#define RF_TEMPLATE_JINJA_PARTS_H

#include "model/arena.h"
#include "template/jinja.h"

typedef struct rf_jinja_value value;

enum {
    RF_JINJA_MAX_SOURCE = 1 << 20, /* bytes of a template */
    RF_JINJA_MAX_NESTING = 192,    /* expressions and statements in the source */
    RF_JINJA_MAX_DEPTH = 600,      /* nested evaluations, also through macros */
    /* The work of a rendering, in bytes that are looked at or copied, each a few nanoseconds. What
     * takes longer for a reason that is not a byte counts as so many. */
    RF_JINJA_MAX_WORK = 320 << 20,
    RF_JINJA_STEP = 64,            /* an evaluation, or one call of a function */
    RF_JINJA_ITEM = 16,            /* one item of a list that is copied or passed over */
    RF_JINJA_KEY = 4,              /* one key that is compared */
    RF_JINJA_ROUND = 1 << 20,      /* work between two questions whether to stop */
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
    NODE_AUTOESCAPE,   /* a: whether; body */
    NODE_BLOCK,        /* body; flag: it sees the names around it */
    NODE_BREAK,
    NODE_CONTINUE,
    NODE_CONSTANT, /* constant */
    NODE_NAME,     /* text */
    NODE_CAPTURED, /* the rendering of the block around it */
    NODE_LIST,     /* children */
    NODE_TUPLE,
    NODE_DICT,      /* children: key, value, key, ... */
    NODE_ATTRIBUTE, /* a . text */
    NODE_ITEM,      /* a [ b ] */
    NODE_SLICE,     /* a [ b : c : d ], each but a may be NULL */
    NODE_CALL,      /* a ( arguments ) */
    NODE_FILTER,    /* a | text ( arguments ), builtin; NULL: not known, fails where reached */
    NODE_TEST,      /* a is text ( arguments ), builtin as above; flag: negated */
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
    struct node *next;                    /* neighbour in the list */
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
    const struct node *node; /* a call of a recursive loop runs it */
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
    value self;                    /* the object of a method */
    const struct node *macro;
    struct scope *scope; /* scope of the macro's definition */
};

struct builtin {
    const char *name;
    /* Called by rf_jinja_call only, which charges for it. */
    value (*call)(struct rf_jinja_run *run, value self, const struct arguments *arguments);
    unsigned flags;
};

enum {
    /* The time does not grow with the operands. Calls without the flag are charged by the bytes and
     * items of all operands. */
    BUILTIN_CONSTANT = 1,
    /* A method whose texts are HTML where its string is. */
    BUILTIN_KEEPS_HTML = 2
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
    uint64_t work, asked_at; /* asked_at: the work at the last question whether to stop */
    struct rf_jinja_stop stop;
    int depth;
    int escapes; /* inside {% autoescape true %} */
    uint32_t line;
    struct rf_error *error;
    int code;
    struct scope globals;
    struct scope *top; /* names that the template sets outside of all blocks */
    struct scope *scope;
    struct output *output;
    enum { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } flow;
    value captured; /* the value of NODE_CAPTURED */
};

/* Fails once; the sentence gets the line. Returns an undefined value. */
value rf_jinja_fail(struct rf_jinja_run *run, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Fails where the value's type lacks an operation: "cannot WHAT a TYPE". */
value rf_jinja_mistyped(struct rf_jinja_run *run, const char *what, value v);
/* Counts work, and asks whether to stop; not 0 after a failure, the bound's included. */
int rf_jinja_charge(struct rf_jinja_run *run, size_t bytes);
int rf_jinja_steps(struct rf_jinja_run *run, size_t n);
/* Work that passes once over a value, without what its items contain. */
size_t rf_jinja_size(value v);
/* Calls a function of the language and charges for it. All calls go through here. */
value rf_jinja_call(struct rf_jinja_run *run, const struct builtin *builtin, value self,
                    const struct arguments *arguments);
/* Zeroed memory until the end of the run; NULL after a failure. */
void *rf_jinja_take(struct rf_jinja_run *run, size_t count, size_t size);

value rf_jinja_undefined(struct rf_str name);
value rf_jinja_text(const char *text); /* origin: the template */
struct rf_str rf_jinja_bytes(value string);
const char *rf_jinja_type_name(value v);
value rf_jinja_tuple(struct rf_jinja_run *run);
value rf_jinja_pair(struct rf_jinja_run *run, value a, value b);
value rf_jinja_pair_key(value pair);
value rf_jinja_pair_value(value pair);
/* The pairs (key, value) of a dict. */
value rf_jinja_items(struct rf_jinja_run *run, const struct rf_jinja_dict *dict);
int rf_jinja_is_sequence(value v); /* a list or a tuple */
int rf_jinja_truth(value v);
int rf_jinja_equal(struct rf_jinja_run *run, value a, value b);
/* < 0, 0 or > 0; fails where Python's < does. */
int rf_jinja_order(struct rf_jinja_run *run, value a, value b);
int rf_jinja_contains(struct rf_jinja_run *run, value container, value item);
/* 1, and the number, for numbers and bools. */
int rf_jinja_as_integer(value v, int64_t *integer);
int rf_jinja_as_number(value v, double *number);
/* -1 where len() fails. */
int64_t rf_jinja_length(struct rf_jinja_run *run, value v);
/* The value of a text of JSON; fails where it is none. */
value rf_jinja_read_json(struct rf_jinja_run *run, value text);
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
int rf_jinja_is_word(uint32_t code_point); /* \w of Python's expressions */
/* Without white space at the sides, or without `characters`. `run` may be NULL: not charged. */
value rf_jinja_strip(struct rf_jinja_run *run, value string, value characters, int left, int right);

void rf_jinja_write(struct rf_jinja_run *run, struct output *out, value string);
void rf_jinja_write_text(struct rf_jinja_run *run, struct output *out, const char *text);
/* Python's str() and repr(). */
void rf_jinja_write_str(struct rf_jinja_run *run, struct output *out, value v);
void rf_jinja_write_repr(struct rf_jinja_run *run, struct output *out, value v);
value rf_jinja_written(struct rf_jinja_run *run, const struct output *out);
value rf_jinja_str(struct rf_jinja_run *run, value v);
value rf_jinja_replace(struct rf_jinja_run *run, value text, value old, value with, int64_t most);

/* Case as Python maps characters, also those that become several. */
enum letter_case {
    CASE_LOWER,
    CASE_UPPER,
    CASE_FOLD,
    CASE_SWAPPED,
    CASE_CAPITALIZED,
    CASE_TITLE,
    CASE_JINJA_TITLE
};
value rf_jinja_recase(struct rf_jinja_run *run, value string, enum letter_case to);
/* 1 if all cased characters, and at least one, are upper (or lower) case. */
int rf_jinja_has_case(struct rf_jinja_run *run, value string, int upper);
value rf_jinja_lines(struct rf_jinja_run *run, value string, int keep_ends);
value rf_jinja_join(struct rf_jinja_run *run, value separator, value items);

/* The operator %, and str.format. */
value rf_jinja_percent(struct rf_jinja_run *run, value format, const struct arguments *arguments);
value rf_jinja_format(struct rf_jinja_run *run, value format, const struct arguments *arguments);
/* A text with filler on both sides so that it has `width` characters; `before` and `after` are the
 * shares of each side: (0, 1) puts all filler behind it, (1, 1) centers it as str.center does. */
value rf_jinja_pad(struct rf_jinja_run *run, value text, int64_t width, value fill, int before,
                   int after);

/* HTML: a string as HTML as it is; the text of any value, escaped unless it is HTML. */
value rf_jinja_html(value string);
value rf_jinja_escape(struct rf_jinja_run *run, value v);
/* The value, escaped if `beside` is HTML. */
value rf_jinja_beside(struct rf_jinja_run *run, value v, value beside);

/* ---- functions and operators ---- */

value rf_jinja_callable_value(struct rf_jinja_run *run, struct rf_jinja_callable callable);
/* A value whose call is the builtin's with `self`. */
value rf_jinja_function(struct rf_jinja_run *run, const struct builtin *builtin, value self);
/* The argument at a place or of a name; NULL if it is missing. */
const value *rf_jinja_given(const struct arguments *arguments, size_t place, struct rf_str name);
/* The same; `otherwise` if it is missing. */
value rf_jinja_argument(const struct arguments *arguments, size_t place, const char *name,
                        value otherwise);
/* The same, which must be a string. */
value rf_jinja_text_argument(struct rf_jinja_run *run, const struct arguments *arguments,
                             size_t place, const char *name);

/* The arithmetic operators, OP_ADD to OP_POWER. */
value rf_jinja_compute(struct rf_jinja_run *run, enum binary_op op, value a, value b);
/* The other ones, OP_EQUAL to OP_NOT_IN. */
int rf_jinja_compare(struct rf_jinja_run *run, enum binary_op op, value a, value b);

extern const struct builtin rf_jinja_string_methods[]; /* the last has no name */
/* object.name (dot_first) and object[name]. */
value rf_jinja_attribute(struct rf_jinja_run *run, value object, value name, int dot_first);

/* ---- helpers of filters ---- */

/* An item's attribute along a path with dots, or of an index. */
value rf_jinja_path(struct rf_jinja_run *run, value item, value path);
/* A string in lower case if `fold`, else the value. */
value rf_jinja_folded(struct rf_jinja_run *run, value key, int fold);
/* The items, sorted by `key` of each (NULL: the item), of which the attribute at a path (None: all)
 * counts, folded. NULL after a failure. */
struct rf_jinja_list *rf_jinja_sort(struct rf_jinja_run *run, const struct rf_jinja_list *items,
                                    value attribute, value (*key)(value), int fold, int reverse);

struct json_style {
    int ascii, sorted;
    int64_t indent; /* -1: one line */
    value item_separator, key_separator;
};

void rf_jinja_write_json(struct rf_jinja_run *run, struct output *out, value v,
                         const struct json_style *style);

/* ---- functions by name ---- */

/* A table ends with a row without a name. */
extern const struct builtin rf_jinja_value_filters[], rf_jinja_text_filters[],
    rf_jinja_html_filters[], rf_jinja_list_filters[], rf_jinja_tests[];

/* NULL: there is none. */
const struct builtin *rf_jinja_filter(struct rf_str name);
const struct builtin *rf_jinja_test(struct rf_str name);
const struct builtin *rf_jinja_global(struct rf_str name);

/* ---- evaluation ---- */

/* Renders a statement to run->output. */
void rf_jinja_exec(struct rf_jinja_run *run, const struct node *node);

#endif
