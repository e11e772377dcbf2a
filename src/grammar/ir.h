/* A grammar as rules of expressions. The readers of GBNF and of JSON schemas make it, and
 * the automaton is built from it. */
#ifndef RF_GRAMMAR_IR_H
#define RF_GRAMMAR_IR_H

#include <stdint.h>

#include "base/error.h"
#include "model/arena.h"
#include "model/str.h"

enum {
    RF_IR_RULES = 4096,     /* most rules of a grammar */
    RF_IR_EXPRS = 1 << 20,  /* most expressions */
    RF_IR_NESTING = 200,    /* expressions in each other in one rule; readers refuse more */
    RF_IR_REPEATS = 1 << 20 /* greatest count of a repetition */
};

enum rf_expr_kind {
    RF_EXPR_TEXT,     /* the bytes of a text */
    RF_EXPR_CHARS,    /* one character of a set, in UTF-8; an empty set has no text */
    RF_EXPR_SEQUENCE, /* all parts */
    RF_EXPR_CHOICE,   /* one of the parts */
    RF_EXPR_REPEAT,
    RF_EXPR_RULE
};

struct rf_range {
    uint32_t low, high; /* code points, both included */
};

struct rf_expr {
    enum rf_expr_kind kind;
    int32_t n; /* bytes, ranges or parts */
    union {
        const char *text;
        const struct rf_range *ranges; /* ascending, apart from each other */
        const struct rf_expr **parts;
        struct {
            const struct rf_expr *repeated;
            int32_t least, most; /* most -1: without a limit */
        };
        int32_t rule;
    };
};

struct rf_rule {
    struct rf_str name;
    const char *shown;          /* begins sentences about the rule */
    const struct rf_expr *expr; /* NULL: not defined */
};

/* The work of compiling a grammar, and a caller that may cancel it. */
struct rf_watch {
    int (*stops)(void *user); /* asked now and then; non-zero: compiling ends; NULL: nobody is */
    void *user;
    uint64_t steps;
};

/* Counts steps, each well under a microsecond; NULL: nobody does. 0, RF_ERR_CANCELLED, or
 * RF_ERR_UNSUPPORTED for a grammar that takes too many of them. */
int rf_watch_steps(struct rf_watch *watch, uint64_t n, struct rf_error *error);

/* The first failure counts: after it, what makes expressions returns NULL and does nothing. NULL
 * for a part is a failure before. All texts are copied. */
struct rf_ir {
    struct rf_arena arena; /* begins with the allocator; all but `rules` */
    struct rf_error *error;
    struct rf_watch *watch;
    int code;        /* the first failure's, or 0 */
    int32_t *places; /* [2 * RF_IR_RULES] hash table of named rules; 0: none, else number + 1 */
    struct rf_rule *rules;
    size_t n_rules, cap_rules;
    int32_t n_exprs, root;
    int keeps_form; /* expressions are not simplified: for tests that compare */
    int prunes;     /* a rule without a text is left out of choices; otherwise it is an error */
};

void rf_ir_free(struct rf_ir *ir);
/* Steps of the watch. Return the code of the first failure. */
int rf_ir_step(struct rf_ir *ir);
int rf_ir_steps(struct rf_ir *ir, uint64_t n);
int rf_ir_fail(struct rf_ir *ir, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A rule without an expression. Returns its number, or -1. */
int32_t rf_ir_add_rule(struct rf_ir *ir, struct rf_str name, const char *shown);
/* The rule of that name, or -1. */
int32_t rf_ir_find_rule(struct rf_ir *ir, struct rf_str name);

const struct rf_expr *rf_ir_text(struct rf_ir *ir, struct rf_str text);
/* Sorts and joins the ranges, and leaves out surrogates. */
const struct rf_expr *rf_ir_chars(struct rf_ir *ir, const struct rf_range *ranges, size_t n);
/* All characters but these. */
const struct rf_expr *rf_ir_chars_without(struct rf_ir *ir, const struct rf_range *ranges,
                                          size_t n);
const struct rf_expr *rf_ir_sequence(struct rf_ir *ir, const struct rf_expr *const *parts,
                                     size_t n);
const struct rf_expr *rf_ir_choice(struct rf_ir *ir, const struct rf_expr *const *parts, size_t n);
/* Repetitions of what may be empty are made simple: they cost most in automata. */
const struct rf_expr *rf_ir_repeat(struct rf_ir *ir, const struct rf_expr *repeated, int32_t least,
                                   int32_t most);
const struct rf_expr *rf_ir_rule(struct rf_ir *ir, int32_t rule);

/* Sorted and joined ranges without surrogates, in place; returns how many are left. */
size_t rf_ranges_join(struct rf_range *ranges, size_t n);

/* ---- the readers: 0, or a code with a sentence in ir->error ---- */

/* GBNF, llama.cpp's form of BNF. The grammar begins with the rule "root". Errors name line and
 * column. */
int rf_gbnf_read(struct rf_ir *ir, struct rf_str text);
/* A JSON schema. Errors name the JSON pointer of the place. */
int rf_schema_read(struct rf_ir *ir, struct rf_str text);
/* RIFFLE_GRAMMAR_CHOICE: an array of alternatives, each an array of texts, control tokens and
 * schemas. is_token: whether the vocabulary has this text, a name behind 0xff. */
int rf_choice_read(struct rf_ir *ir, struct rf_str text,
                   int (*is_token)(const void *vocab, struct rf_str text), const void *vocab);

#endif
