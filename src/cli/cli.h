/* What the verbs of the `riffle` program share: exit statuses, entry points, error sentences. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

struct cli_options;

enum cli_status { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* The verbs. They return an exit status; if it is not CLI_OK, standard error has a sentence. */
int verb_chat(const struct cli_options *options);
int verb_run(const struct cli_options *options);
int verb_bench(const struct cli_options *options);
int verb_perplexity(const struct cli_options *options);
int verb_tokenize(const struct cli_options *options);
int verb_info(const struct cli_options *options);
int verb_cores(const struct cli_options *options);
int verb_roofline(const struct cli_options *options);
int verb_quantize(const struct cli_options *options);
int verb_models(const struct cli_options *options);

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
