/* Names of models on hubs, as people write them, and the one form that Riffle keeps of each. */
#ifndef HUBS_NAME_H
#define HUBS_NAME_H

#include "hubs/types.h"

enum hub { HUB_NONE, HUB_HUGGINGFACE, HUB_OLLAMA, HUB_MODELSCOPE, HUB_COUNT };
enum { HUB_PART = 97, HUB_NAME_TEXT = 512 };

struct hub_name {
    enum hub hub;
    char owner[HUB_PART], repo[HUB_PART]; /* ollama: "library", or a user; the model */
    char revision[HUB_PART];              /* "": the main one */
    char type[HUB_TYPE]; /* ollama: the tag, "latest" where none was written. Else a
                            type or a file of the repository; "": the best type */
};

/* Reads OWNER/REPO[:TYPE], hf.co/OWNER/REPO[:TYPE], NAME:TAG, ollama.com/[library/]NAME[:TAG],
 * modelscope.cn/OWNER/REPO[:TYPE] and the addresses of such pages and their files. 1 if the text is
 * the name of something on a hub, else 0: it may be a path, or an address of another kind. */
int hub_name_parse(const char *text, struct hub_name *name);
/* The shortest text that hub_name_parse reads as this name, without a revision. */
void hub_name_write(const struct hub_name *name, char text[HUB_NAME_TEXT]);
/* The folder of the repository below the models' folder: "hf.co/OWNER/REPO". */
void hub_name_folder(const struct hub_name *name, char text[HUB_NAME_TEXT]);
/* The name of the repository that has a folder: `host` is the folder of a hub. 0 if none has it. */
int hub_name_of_folder(const char *host, const char *owner, const char *repo,
                       struct hub_name *name);

/* The address of a hub without a slash at its end, from its variable (HF_ENDPOINT,
 * RIFFLE_OLLAMA_REGISTRY, MODELSCOPE_DOMAIN) or the public one. */
void hub_address(enum hub hub, char *address, size_t cap);

#endif
