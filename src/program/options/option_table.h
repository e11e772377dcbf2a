/* The options of all verbs, and the struct that holds their values. The table is data: the parser,
 * the help, the manual page and the completions read it. A verb is a row of verbs.def; an option is
 * a row of option_table.c and a field of struct cli_options. */
#ifndef OPTIONS_OPTION_TABLE_H
#define OPTIONS_OPTION_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "riffle.h"

/* The number of each verb, and a bit for sets of verbs. */
enum verb_number {
#define VERB(name, NAME, ...) VERB_NUMBER_##NAME,
#include "options/verbs.def"
};
enum verb_bit {
#define VERB(name, NAME, ...) VERB_##NAME = 1 << VERB_NUMBER_##NAME,
#include "options/verbs.def"
};

enum { NOT_GIVEN = INT32_MIN, ANY_ARGUMENTS = -1 };

struct text_list {
    const char **items; /* NULL, or a list for free() */
    size_t count;
};

/* A text to read, from -p, -f or standard input. */
struct input {
    char *text; /* ends with a zero that is not counted */
    size_t bytes;
    const char *name; /* "-p", the file's name, or "standard input" */
};

/* Texts point into argv. */
struct cli_options {
    double start_seconds; /* the clock when the program began */
    const struct verb *verb;
    const char *model;          /* NULL where the verb takes none */
    const char *out;            /* the output file of quantize */
    struct text_list arguments; /* arguments of a verb that takes any number */
    const char *type, *rule;
    const char *calibrate; /* a text file; NULL: none */
    const char *group;     /* "128", "channel" or NULL */
    int rotate, no_rotate;
    int32_t high_share; /* percent; -1: not given */

    const char *chain, *draft, *weights, *chat_template; /* draft: NULL, or a MODEL */
    const char *corpus;                                  /* a file; NULL: none */
    const char *head;                                    /* a file; NULL: the program's own */
    int no_refine;                                       /* --no-refine of the verb corpus */
    float keep; /* --keep of the verb corpus; NAN: the default */
    const char *kv;
    const char *activations;
    const char *device;     /* NULL: the processor */
    const char *gpu_layers; /* NULL: auto */
    int32_t expert_memory;  /* MB; 0: all that is needed, or what the machine has */
    int32_t gamma;          /* 0: adaptive */
    float min_confidence;
    int32_t threads, n_ctx; /* 0: the library's default */
    const char *cores;      /* NULL: the library's default */

    const char *prompt, *file, *system;
    const char *prefix, *prompt_name,
        *format;        /* options of embed, format also of bench; NULL: not given */
    struct input input; /* input_read fills it */
    struct text_list stop;
    const char *grammar, *json_schema; /* files, one of them at most; NULL: none */
    int raw, messages, special, no_bos;

    int32_t max_tokens; /* 0: no limit */
    /* Values that were not given are NaN or NOT_GIVEN; engine.sampling has the values in effect. */
    riffle_sampling sampling;
    int ignore_repetition;
    const char *overflow; /* "stop" or "drop", in a chat */

    const char *reference, *save_reference; /* of perplexity; NULL: none */
    int32_t chunks, repeats;                /* 0: all; the verb's default */

    char *prompt_tokens, *depths; /* separated by commas, for free(); NULL: the verb's default */
    int32_t n_gen;                /* 0: the verb's default */
    const char *suite;            /* suite of prompts; NULL: none */
    const char *preset;           /* shapes of another benchmark; NULL: none */
    struct text_list chains;      /* chains that are compared with plain decoding */
    int32_t n_prompts;            /* 0: all of the suite */

    char *tiers, *kernels, *shapes, *rows; /* separated by commas, for free(); NULL: not given */
    const char *svg;
    int32_t rounds, pool_mib; /* 0: the library's default */

    const char *sha256, *name; /* options of pull, name also of serve; NULL: not given */
    int32_t max_mb, timeout;   /* MB, seconds; 0: the default */
    int verify, yes, clear;

    const char *host, *api_key; /* options of serve; api_key: NULL if not given */
    struct text_list origins;   /* of --cors */
    int32_t port, answers, queue;
    int32_t kept_mb;    /* MB; 0: the library's default */
    const char *store;  /* folder for kept texts; NULL: none */
    int32_t store_mb;   /* MB; of that folder */
    int32_t models_mb;  /* MB; 0: a share of the machine's memory */
    int32_t keep_alive; /* seconds; -1: for ever; NOT_GIVEN: as suits the models */
    int32_t model_wait; /* seconds */
    int pulls;          /* requests may name models that are fetched first */

    int json, csv, ids, verbose;
};

struct verb {
    const char *name;
    enum verb_bit bit;
    int n_arguments;       /* MODEL, OUT; ANY_ARGUMENTS: options.arguments */
    const char *arguments; /* text after the name in the usage line */
    const char *summary;   /* a few words */
    const char *help;      /* one paragraph; NULL: none */
};

enum option_kind {
    OPTION_FLAG,  /* int: 1 */
    OPTION_TEXT,  /* const char * */
    OPTION_TEXTS, /* struct text_list: one more entry, not empty */
    OPTION_LIST,  /* char *, for free(): all values given, separated by commas */
    OPTION_INT,   /* int32_t between low and high */
    OPTION_FLOAT, /* float between low and high */
    OPTION_SEED,  /* uint64_t */
    OPTION_CHOICE /* const char *: one word of `choices` */
};

struct option {
    const char *name;   /* "--threads" */
    const char *letter; /* "-p", or NULL */
    const char *value;  /* name of the value in the help; NULL for a flag */
    enum option_kind kind;
    unsigned verbs; /* enum verb_bit */
    size_t offset;  /* offset of the field in struct cli_options */
    double low, high;
    const char *choices; /* separated by '|' */
    const char *help;
};

/* A variable of the environment. */
struct variable {
    const char *name;
    const char *help;
};

/* The tables. An entry without a name ends each of them. */
extern const struct option option_table[];
extern const struct verb verb_table[];
extern const struct variable variable_table[];

#endif
