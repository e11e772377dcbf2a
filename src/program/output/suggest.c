/* Finds the nearest name by Levenshtein distance. A shared beginning counts as near. */
#include "output/suggest.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 64 };

/* Levenshtein distance: characters to insert, delete or replace. */
static size_t distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t row[LONGEST + 1];
    for (size_t j = 0; j <= n_b; j++) row[j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            size_t smallest = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            diagonal = row[j];
            row[j] = change < smallest ? change : smallest;
        }
    }
    return row[n_b];
}

struct suggestion suggestion_for(const char *written)
{
    /* Allows one slip in three characters, and at least two. */
    size_t n = strlen(written) / 3;
    return (struct suggestion){.written = written, .distance = (n < 2 ? 2 : n) + 1};
}

void suggestion_offer(struct suggestion *best, const char *name)
{
    size_t n = strlen(best->written), n_name = strlen(name), d;
    if (n > LONGEST || n_name > LONGEST) return;
    /* A prefix of a name is near, however short, and so is a name with more letters after it. */
    if (n > 2 && n < n_name && strncmp(name, best->written, n) == 0)
        d = 0;
    else if (n_name > 2 && n > n_name && strncmp(name, best->written, n_name) == 0 &&
             !strpbrk(best->written + n_name, "./"))
        d = 1;
    else
        d = distance(best->written, n, name, n_name);
    /* A name of two characters is near everything. */
    if (d >= best->distance || (d > 1 && n_name < 3)) return;
    best->distance = d;
    best->name = name;
    snprintf(best->text, sizeof best->text, "; did you mean %s?", name);
}
