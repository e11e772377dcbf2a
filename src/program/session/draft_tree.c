/* Prints the drafts of one round as an indented tree. `run --verbose` and /stats of a chat use
 * it. */
#include "session/draft_tree.h"

#include "output/output.h"
#include "session/engine.h"

enum { TOKEN_BYTES = 64, TOKEN_WIDTH = 24 };

void draft_tree_look(struct draft_tree *tree, const riffle_session *session)
{
    struct draft_tree found;
    found.n = riffle_session_draft(session, found.rows, RIFFLE_DRAFT_ROWS);
    if (found.n > tree->n) *tree = found;
}

static void print_draft(FILE *out, const riffle_draft_row *row, int depth,
                        const riffle_model *model, const riffle_stats *stats)
{
    char text[TOKEN_BYTES + 1];
    int64_t n =
        riffle_detokenize(model, &row->token, 1, RIFFLE_DETOKENIZE_SPECIAL, text, TOKEN_BYTES);
    text[n < 0 ? 0 : n > TOKEN_BYTES ? TOKEN_BYTES : n] = 0;
    fprintf(out, "%*s%c \"", 2 * depth, "", row->kept ? '*' : ' ');
    int width = 2 * depth + 4 + print_name(out, text);
    fprintf(out, "\"%*s%s %.0f %%\n", width < TOKEN_WIDTH ? TOKEN_WIDTH - width : 1, "",
            stats->levels[row->level].name, 100 * (double)row->confidence);
}

/* Prints the rows that follow row `parent`, and after each row its own followers. */
static void print_drafts_after(FILE *out, const struct draft_tree *tree, int32_t parent, int depth,
                               const riffle_model *model, const riffle_stats *stats)
{
    for (int32_t i = parent + 1; i < tree->n; i++) {
        if (tree->rows[i].parent != parent) continue;
        print_draft(out, &tree->rows[i], depth, model, stats);
        print_drafts_after(out, tree, i, depth + 1, model, stats);
    }
}

void draft_tree_print(FILE *out, const struct draft_tree *tree, const riffle_model *model,
                      const riffle_stats *stats)
{
    if (!tree->n) return;
    fprintf(out, "drafts of one round, * kept:\n");
    print_drafts_after(out, tree, -1, 0, model, stats);
}
