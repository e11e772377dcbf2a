/* The drafts of one round as text: a tree of tokens that the target judged in one pass. The verb
 * run and the chat print it. */
#ifndef SESSION_DRAFT_TREE_H
#define SESSION_DRAFT_TREE_H

#include <stdio.h>

#include "riffle.h"
#include "riffle_experimental.h"

/* All zero is empty. */
struct draft_tree {
    riffle_draft_row rows[RIFFLE_DRAFT_ROWS];
    int32_t n;
};

/* Takes the drafts of the session's last round if they have more rows than those that it has. */
void draft_tree_look(struct draft_tree *tree, const riffle_session *session);

/* A line for each row, indented by its place in its branch: the token, who proposed it, how sure
 * that level was, and a star if it was kept. Prints nothing of an empty tree. */
void draft_tree_print(FILE *out, const struct draft_tree *tree, const riffle_model *model,
                      const riffle_stats *stats);

#endif
