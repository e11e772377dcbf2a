/* Completions of a chat's line: commands, their arguments, and names of files. The verb chat gives
 * this function to the line editor. */
#ifndef CHAT_COMPLETE_H
#define CHAT_COMPLETE_H

#include "terminal/completion.h"

/* A completer. There is nothing to offer for a line that does not begin with a slash. */
void complete_chat(struct completion *completion, const char *line);

#endif
