/* Asks a hub which files a name means: their addresses, sizes and hashes. models/pull.c fetches
 * them. Every answer of a hub is untrusted. */
#ifndef HUBS_HUB_H
#define HUBS_HUB_H

#include <stdint.h>

#include "fetch/http.h"
#include "fetch/sha256.h"
#include "hubs/name.h"

struct hub_file {
    char *path;     /* in the repository, with slashes */
    char file[256]; /* its plain name here */
    int64_t bytes;
    char sha256[SHA256_TEXT]; /* "": the hub does not say it */
    char url[HTTP_URL];
};

/* The files of one model in the order in which they are to be fetched: the last one makes it a
 * model. One GGUF file, the parts of a split one, or a folder of safetensors. */
struct hub_model {
    struct hub_name name; /* as the hub spells it, with the type that was chosen */
    int is_folder;        /* safetensors and JSON files */
    struct hub_file *files;
    size_t count;
    uint64_t bytes;            /* of all files */
    char moved[HUB_NAME_TEXT]; /* the name that the repository had before it was moved; "" */
    const char *token;         /* for the files, as in struct http_request; or NULL */
};

/* Who is asked, and how long. */
struct hub_call {
    int timeout_seconds;
    int (*poll)(void *user); /* as in struct http_request */
    void *user;
};

/* 0, or a negative code with a sentence that says what can be done. hub_model_free is allowed in
 * both cases. */
int hub_find(const struct hub_name *name, const struct hub_call *call, struct hub_model *model,
             struct rf_error *error);
void hub_model_free(struct hub_model *model);

#endif
