/* Namespaces of functions, which chats do not have: there a function's name begins with that of its
 * namespace. item_options.c and items.c write such names, replies take them apart. */
#ifndef TRANSLATE_SPACES_H
#define TRANSLATE_SPACES_H

#include <jansson.h>

/* The name in a chat; `space` NULL: of a function without one. For json_decref(). NULL: they are no
 * texts without zero bytes, or there is no memory. */
json_t *spaces_join(const json_t *space, json_t *name);
/* The function of a response's tools that has the name in the chat. Both are borrowed; *space is
 * NULL where it has none, and *name is `joined` where there is no such function. */
void spaces_split(const json_t *tools, json_t *joined, json_t **space, json_t **name);

#endif
