/* Joins names of namespaces and functions as clients of MCP do: SPACE__NAME. A joined name is
 * looked up among the tools, since both parts may have such a mark themselves. */
#include "translate/spaces.h"

#include <string.h>

#include "base/json.h"
#include "translate/turns.h"

static const char mark[] = "__";

/* 1 if the name of the space ends with the mark, so that none is put behind it. */
static int has_mark(const char *space)
{
    size_t n = strlen(space), bytes = strlen(mark);
    return n >= bytes && strcmp(space + n - bytes, mark) == 0;
}

json_t *spaces_join(const json_t *space, json_t *name)
{
    const char *before = rf_json_c_string(space), *behind = rf_json_c_string(name);
    if (!behind || (space && !before)) return NULL;
    if (!space) return json_incref(name);
    return json_sprintf("%s%s%s", before, has_mark(before) ? "" : mark, behind);
}

/* The name behind the space in a joined name; NULL: the name is not of the space. */
static const char *spaces_rest(const char *joined, const char *space)
{
    size_t n = strlen(space), bytes = has_mark(space) ? 0 : strlen(mark);
    if (strncmp(joined, space, n) != 0 || strncmp(joined + n, mark, bytes) != 0) return NULL;
    return joined + n + bytes;
}

static json_t *spaces_find(const json_t *functions, const char *name)
{
    for (size_t i = 0; i < json_array_size(functions); i++) {
        json_t *found = json_object_get(json_array_get(functions, i), "name");
        if (turns_is_word(found, name)) return found;
    }
    return NULL;
}

void spaces_split(const json_t *tools, json_t *joined, json_t **space, json_t **name)
{
    *space = NULL;
    *name = joined;
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i);
        json_t *outer = json_object_get(tool, "name"), *inner = NULL;
        if (!turns_is_word(json_object_get(tool, "type"), "namespace")) continue;
        const char *rest = spaces_rest(json_string_value(joined), json_string_value(outer));
        if (rest) inner = spaces_find(json_object_get(tool, "tools"), rest);
        if (!inner) continue;
        *space = outer;
        *name = inner;
        return;
    }
}
