/* The entries of a list of models, while it is filled and read. The walks through folders add to
 * it; model_list.h puts it together. */
#ifndef MODELS_ENTRIES_H
#define MODELS_ENTRIES_H

#include "models/known_models.h"

struct model_entry {
    char *name; /* a known model's short name; a hub's name; else the file's without .gguf, or the
                   folder's */
    char *file; /* name of the file in its folder */
    char *path;
    const struct known_model *known; /* NULL: not in scripts/models.tsv */
    struct hub_name hub;             /* HUB_NONE: no hub is known to have it */
    const char *place; /* the program that has the file, which is only read; "": Riffle */
    int is_folder;     /* safetensors and their JSON files */
    int64_t bytes;     /* bytes on the disk; -1: not there, or only a part of it */
};

struct model_list {
    char folder[LONGEST_PATH];
    /* The known ones in their order, then the others in the folder by name, then those of other
     * programs. */
    struct model_entry *items;
    size_t count;
};

/* For the files that fill the list. Adds an entry; a model of another program that is not complete
 * is left out. `hub` may be NULL; `place` is a literal. */
void model_list_add(struct model_list *list, const char *name, const char *file, const char *path,
                    const char *place, const struct hub_name *hub);
/* Bytes of a folder with config.json and safetensors; -1 where there is none. */
int64_t model_folder_bytes(const char *path);

/* Takes the last entry away again. */
void model_list_remove_last(struct model_list *list);

/* Bytes of an interrupted fetch, of all parts. */
uint64_t model_kept_bytes(const struct model_entry *entry);
/* Calls `each` with the path of each file of a model that is one file or several parts. */
void model_each_file(const struct model_entry *entry, void (*each)(void *user, const char *path),
                     void *user);

#endif
