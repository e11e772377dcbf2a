/* Parses lists of whole numbers. Signs, blanks and empty items are not numbers here. */
#include "options/numbers.h"

#include <errno.h>
#include <stdlib.h>

#include "output/buffer.h"

int parse_whole(const char **at, int32_t least, int32_t *value)
{
    char *end;
    if (**at < '0' || **at > '9') return 0;
    errno = 0;
    long long number = strtoll(*at, &end, 10);
    if (errno || number < least || number > INT32_MAX) return 0;
    *value = (int32_t)number;
    *at = end;
    return 1;
}

int32_t *parse_wholes(const char *text, int32_t least, size_t *count)
{
    int32_t *items = NULL;
    *count = 0;
    for (;; text++) {
        items = cli_reallocate(items, *count + 1, sizeof *items);
        if (!parse_whole(&text, least, &items[*count])) break;
        ++*count;
        if (!*text) return items;
        if (*text != ',') break;
    }
    free(items);
    return NULL;
}
