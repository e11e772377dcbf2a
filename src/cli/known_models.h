/* The models of scripts/models.tsv, and how MODEL on the command line is resolved. */
#ifndef CLI_KNOWN_MODELS_H
#define CLI_KNOWN_MODELS_H

#include <stddef.h>
#include <stdint.h>

/* The file's text, embedded by the build. */
extern const char known_models_tsv[];

struct known_model {
    char *name, *file, *licence;
    int64_t bytes;
    char *draft; /* name of its draft model; "-": none */
};

struct known_models {
    struct known_model *models;
    size_t count;
};

struct known_models known_models_list(void);
void known_models_free(struct known_models *known);

/* The folder of models with a short name: $RIFFLE_MODELS, else a folder in the user's data folder.
 * 0, or CLI_FAILED with a sentence on standard error. */
int models_folder(char *path, size_t cap);

/* The path of MODEL: an existing file or folder, else a short name or an unambiguous prefix of one.
 * For free(); NULL with a sentence on standard error that names the remedy. */
char *model_path(const char *model);

/* The listed draft model of the model at `path`, which is recognised by its file name. Its name,
 * and its path if the file is complete. Both are for free(); NULL if there is none. */
struct listed_draft {
    char *name, *path;
};
struct listed_draft listed_draft_of(const char *path);

#endif
