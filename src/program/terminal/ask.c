/* Asks a yes-or-no question on standard error. Standard output stays free for results. */
#include "terminal/ask.h"

#include <stdio.h>

#include "output/output.h"
#include "platform/terminal.h"

int can_ask(void)
{
    return rf_is_terminal(RF_STDIN) && rf_is_terminal(RF_STDERR);
}

enum answer ask_yes_no(const char *question, enum answer otherwise)
{
    char line[256]; /* a terminal gives one line at a time */
    print_name(stderr, question);
    fprintf(stderr, " [%s] ", otherwise == ANSWER_YES ? "Y/n" : "y/N");
    fflush(stderr);
    int64_t n = rf_stdin_read(line, sizeof line);
    if (n == RF_READ_INTERRUPTED) {
        fputc('\n', stderr);
        return ANSWER_INTERRUPTED;
    }
    if (n <= 0) return ANSWER_NO;
    if (line[0] == '\n') return otherwise;
    return line[0] == 'y' || line[0] == 'Y' ? ANSWER_YES : ANSWER_NO;
}
