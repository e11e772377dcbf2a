/* Yes-or-no questions. The verbs pull, rm and chat ask before they change the disk. */
#ifndef TERMINAL_ASK_H
#define TERMINAL_ASK_H

/* Whether there is somebody to ask: standard input and standard error are terminals. */
int can_ask(void);

enum answer { ANSWER_NO, ANSWER_YES, ANSWER_INTERRUPTED };
/* Asks on standard error and reads one line. An empty line means `otherwise`; the end of input, and
 * whatever does not begin with y, means no. */
enum answer ask_yes_no(const char *question, enum answer otherwise);

#endif
