/* The words that a line may go on with, as Tab offers them. The line editor asks a completer for
 * them; it does not know where the words come from. */
#ifndef TERMINAL_COMPLETION_H
#define TERMINAL_COMPLETION_H

#include <stddef.h>

/* All zero is empty. Owns its words. */
struct completion {
    size_t begin; /* place in the line at which the unfinished word begins */
    char **words; /* sorted, without duplicates; each begins with the unfinished word */
    size_t count;
    size_t common; /* bytes, of whole characters, that all words begin with */
};

/* Fills an empty completion for `line`, the text before the cursor. */
typedef void completer(struct completion *completion, const char *line);

/* Adds `word` and `end` if the word begins with `typed`; completers call it. */
void completion_offer(struct completion *completion, const char *typed, const char *word,
                      const char *end);
/* Adds the files that `typed`, a path perhaps with ~, may become. Moves `begin` to the file's name.
 */
void completion_offer_files(struct completion *completion, const char *typed);
/* Sorts the words and sets `common`. */
void completion_finish(struct completion *completion);

void completion_free(struct completion *completion);

#endif
