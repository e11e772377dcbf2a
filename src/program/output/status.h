/* The exit statuses of the program, which its functions also return. Every file may include this
 * header; it includes nothing. */
#ifndef OUTPUT_STATUS_H
#define OUTPUT_STATUS_H

enum cli_status { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

#if defined(__GNUC__)
#    define CLI_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#    define CLI_PRINTF(text, first)
#endif

#endif
