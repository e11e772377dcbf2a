/* What the readers of each hub share: a list of files that grows as pages arrive. hub.c chooses
 * from it. */
#ifndef HUBS_LISTING_H
#define HUBS_LISTING_H

#include <jansson.h>

#include "hubs/hub.h"

struct listing {
    struct hub_name name; /* as the hub spells it */
    char address[HTTP_URL / 2];
    char moved[HUB_NAME_TEXT];
    const char *token;
    struct hub_file *files;
    size_t count;
};

/* Adds a file of the list. Names that could lead out of a folder, sizes that no file has and hashes
 * that are none fail. `sha256` may be NULL. */
int listing_add(struct listing *listing, const char *path, json_int_t bytes, const char *sha256,
                struct rf_error *error);
/* Reads a page as JSON. NULL with a sentence. `accept` may be NULL. */
json_t *listing_page(struct listing *listing, const char *url, const char *accept,
                     const struct hub_call *call, char from[HTTP_URL], char next[HTTP_URL],
                     struct rf_error *error);
int listing_bad(const char *url, const char *what, struct rf_error *error);

/* The readers. Each fills the list; ollama's also sets the address of the file. */
int huggingface_list(struct listing *listing, const struct hub_call *call, struct rf_error *error);
int modelscope_list(struct listing *listing, const struct hub_call *call, struct rf_error *error);
int ollama_list(struct listing *listing, const struct hub_call *call, struct rf_error *error);
/* Writes the address of a file. 0, or -1 if it does not fit. */
int huggingface_url(const struct listing *listing, const struct hub_file *file, char url[HTTP_URL]);
int modelscope_url(const struct listing *listing, const struct hub_file *file, char url[HTTP_URL]);
int ollama_url(const struct listing *listing, const struct hub_file *file, char url[HTTP_URL]);

#endif
