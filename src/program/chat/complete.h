/* What Tab offers. */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#include <stddef.h>

/* The words that a line may go on with. Owns them. */
struct completion {
    size_t begin; /* where in the line the unfinished word begins */
    char **words; /* sorted, without duplicates; each begins with the unfinished word */
    size_t count;
    size_t common; /* bytes, of whole characters, that all words begin with */
};

/* Completes commands of a chat, their arguments and names of files in the line before the cursor.
 * There is nothing to offer for a line that does not begin with a slash. */
void complete_chat(struct completion *completion, const char *line);
void completion_free(struct completion *completion);

#endif
