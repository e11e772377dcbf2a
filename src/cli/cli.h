/* What the verbs of the `riffle` program share: exit statuses, entry points, error sentences. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

struct cli_options;

enum cli_status { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* The verbs: X(name, NAME). Each needs a function verb_name, in a file of its own, and a row in
 * option_table.c. */
#define CLI_EACH_VERB(X)      \
    X(chat, CHAT)             \
    X(run, RUN)               \
    X(bench, BENCH)           \
    X(perplexity, PERPLEXITY) \
    X(tokenize, TOKENIZE)     \
    X(info, INFO)             \
    X(quantize, QUANTIZE)     \
    X(cores, CORES)           \
    X(roofline, ROOFLINE)     \
    X(models, MODELS)

/* They return an exit status; if it is not CLI_OK, standard error has a sentence. */
#define CLI_DECLARE(name, NAME) int verb_##name(const struct cli_options *options);
CLI_EACH_VERB(CLI_DECLARE)
#undef CLI_DECLARE

#if defined(__GNUC__)
#    define CLI_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#    define CLI_PRINTF(text, first)
#endif

/* Prints one sentence on standard error, with '?' for control bytes. Returns CLI_FAILED. */
int cli_fail(const char *format, ...) CLI_PRINTF(1, 2);
/* The same for wrong usage, with a reference to the help of `verb` (may be NULL). Returns
 * CLI_USAGE. */
int cli_usage_error(const char *verb, const char *format, ...) CLI_PRINTF(2, 3);
/* Prints the sentence of the library call that returned `code`, and the option for a field that it
 * names. Returns CLI_FAILED. If the user stopped the call, prints nothing and returns
 * CLI_INTERRUPTED. */
int cli_library_failed(int code);

#endif
