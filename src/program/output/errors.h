/* What the verbs of the `riffle` program share: exit statuses, entry points, error sentences. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stddef.h>
#include <stdint.h>

struct cli_options;

enum cli_status { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* The verbs: X(name, NAME). Each needs a function verb_name, in a file of its own, and a row in
 * option_table.c. */
#define CLI_EACH_VERB(X)      \
    X(chat, CHAT)             \
    X(run, RUN)               \
    X(serve, SERVE)           \
    X(bench, BENCH)           \
    X(perplexity, PERPLEXITY) \
    X(tokenize, TOKENIZE)     \
    X(info, INFO)             \
    X(quantize, QUANTIZE)     \
    X(corpus, CORPUS)         \
    X(cores, CORES)           \
    X(devices, DEVICES)       \
    X(roofline, ROOFLINE)     \
    X(list, LIST)             \
    X(pull, PULL)             \
    X(rm, RM)

/* They return an exit status; if it is not CLI_OK, standard error has a sentence. */
typedef int verb_function(const struct cli_options *options);
#define CLI_DECLARE(name, NAME) verb_function verb_##name;
CLI_EACH_VERB(CLI_DECLARE)
#undef CLI_DECLARE

#if defined(__GNUC__)
#    define CLI_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#    define CLI_PRINTF(text, first)
#endif

/* The verb whose help cli_usage_error refers to; NULL: none. */
extern const char *cli_verb;

/* Prints one sentence on standard error, with '?' for control bytes. Returns CLI_FAILED. */
int cli_fail(const char *format, ...) CLI_PRINTF(1, 2);
/* The same for wrong usage, with a reference to the help. Returns CLI_USAGE. */
int cli_usage_error(const char *format, ...) CLI_PRINTF(1, 2);
/* Only the reference to the help. Returns CLI_USAGE. */
int cli_usage_hint(void);
/* Prints a sentence of the library, and the option for a field that it names. Returns
 * CLI_FAILED. */
int cli_explain(const char *text);
/* The exit status for the result of a library call. If it is negative, prints the library's
 * sentence as cli_explain does. CLI_INTERRUPTED, without a sentence, if the
 * user stopped the call. */
int cli_status(int64_t result);

/* "Did you mean X?": the nearest of some names. */
struct suggestion {
    const char *written;
    const char *name; /* the nearest so far; NULL if none is near enough */
    size_t distance;
    char text[96]; /* "; did you mean NAME?", or "" */
};

struct suggestion suggestion_for(const char *written);
void suggestion_offer(struct suggestion *best, const char *name);

#endif
