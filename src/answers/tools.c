/* Lists of tools: whether one is valid, and which function has a name. */
#include "answers/tools.h"

#include <string.h>

#include "base/json.h"

int rf_tools_are_valid(const json_t *tools)
{
    size_t n = json_array_size(tools);
    for (size_t i = 0; i < n; i++) {
        const json_t *tool = json_array_get(tools, i),
                     *function = json_object_get(tool, "function"),
                     *parameters = json_object_get(function, "parameters");
        const char *type = rf_json_c_string(json_object_get(tool, "type"));
        if (!type || strcmp(type, "function") != 0 ||
            !rf_json_c_string(json_object_get(function, "name")) ||
            (parameters && !rf_json_is_map(parameters) && !json_is_null(parameters)))
            return 0;
    }
    return n > 0;
}

const json_t *rf_tools_find(const json_t *tools, const char *name)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        if (strcmp(json_string_value(json_object_get(function, "name")), name) == 0)
            return function;
    }
    return NULL;
}
