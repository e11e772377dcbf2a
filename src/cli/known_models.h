/* The models of scripts/models.tsv, and what MODEL on the command line means. */
#ifndef CLI_KNOWN_MODELS_H
#define CLI_KNOWN_MODELS_H

#include <stddef.h>
#include <stdint.h>

/* The file's text, embedded by the build. */
extern const char known_models_tsv[];

struct known_model {
    char *name, *file, *licence;
    int64_t bytes;
    char *draft; /* the name of the model that drafts for it; "-": none */
};

struct known_models {
    struct known_model *models;
    size_t count;
};

struct known_models known_models_list(void);
void known_models_free(struct known_models *known);

/* The folder where models of a short name lie: $RIFFLE_MODELS, else below the user's data folder.
 * 0, or CLI_FAILED with a sentence on standard error. */
int models_folder(char *path, size_t cap);

/* The path of MODEL: a file or folder that exists, else a short name or an unambiguous beginning of
 * one. The result is for free(); NULL with a sentence on standard error that names the remedy. */
char *model_path(const char *model);

/* The model that drafts for the one at `path`, which is known by the name of its file: its name,
 * and its path where it is whole on this disk. Both are for free(); NULL where there is none. */
struct listed_draft {
    char *name, *path;
};
struct listed_draft listed_draft_of(const char *path);

#endif
