/* The messages of earlier chats. The line editor shows them and adds to them. */
#ifndef TERMINAL_HISTORY_H
#define TERMINAL_HISTORY_H

#include <stddef.h>

/* Oldest first. All zero: an empty one that is not kept. */
struct history {
    char **messages;
    size_t count;
    char *path; /* NULL: it is not kept */
};

/* The file has a message in each line, with \n and \\ for newlines and backslashes, and \OOO for
 * other bytes in octal. Files of libedit are read, too. Nothing fails: what cannot be read or
 * written is forgotten. */
void history_open(struct history *history, const char *path);
/* The same, at the user's place for it. */
void history_open_default(struct history *history);
/* Writes the file at once, as the process may be killed. A repetition of the last one is dropped.
 */
void history_add(struct history *history, const char *message);
void history_free(struct history *history);

#endif
