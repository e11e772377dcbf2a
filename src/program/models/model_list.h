/* All models that have a name: the ones in the models' folder and the known ones. Verbs turn the
 * argument MODEL into a path with it. */
#ifndef MODELS_MODEL_LIST_H
#define MODELS_MODEL_LIST_H

#include "models/entries.h"

/* Reads the folder, which need not exist. CLI_OK, or CLI_FAILED with a sentence on standard error.
 * model_list_free is allowed in both cases. */
int model_list_read(struct model_list *list);
void model_list_free(struct model_list *list);

/* The entry that is called `name`: its name, its file, its file without .gguf, or an unambiguous
 * beginning of one of these; or what a hub's name means, without a type the best one that is there.
 * Riffle's own models come before those of other programs. NULL: none or several; `candidates` then
 * lists the several. */
const struct model_entry *model_list_find(const struct model_list *list, const char *name,
                                          struct buffer *candidates);
/* Finds an entry as model_list_find does, but not by a beginning. */
const struct model_entry *model_list_exact(const struct model_list *list, const char *name);
/* Finds an entry by its whole name, as model_list_exact does, or by a hub's name. */
const struct model_entry *model_list_named(const struct model_list *list, const char *name);
/* Prints why the search failed. Returns CLI_FAILED. */
int model_list_explain(const struct model_list *list, const char *name,
                       const struct buffer *candidates);

/* 1 if a known model's file has all its bytes; for other models, if there is a file. */
int model_is_complete(const struct model_entry *entry);
/* Prints how the model can be fetched. Returns CLI_FAILED. */
int model_explain_missing(const struct model_entry *entry);

/* The path of MODEL: an existing file, a folder of safetensors or with one GGUF model, else as
 * model_list_find says. For free(); NULL
 * with a sentence on standard error that names the remedy. */
char *model_path(const char *model);

/* Whether `name` may be meant as a MODEL: it exists, looks like a path, or begins a known name. */
int may_be_model(const char *name);

/* The listed draft model of a known model (NULL: of another one). The path, for free(), is NULL if
 * the file is not complete; the name, too, if there is none. */
struct draft {
    const char *name;
    char *path;
};
struct draft draft_of(const struct known_model *target);

#endif
