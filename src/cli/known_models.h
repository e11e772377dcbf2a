/* The models of scripts/models.tsv, and how MODEL on the command line is resolved. */
#ifndef CLI_KNOWN_MODELS_H
#define CLI_KNOWN_MODELS_H

#include <stdint.h>

#include "cli/buffer.h"

enum { LONGEST_PATH = 4096 };

/* The file's text, embedded by the build. */
extern const char known_models_tsv[];

struct known_model {
    char name[64], file[128], licence[32];
    int64_t bytes;
    char draft[64]; /* name of its draft model; "-": none */
};

/* Ended by an entry without a name. */
const struct known_model *known_models(void);

/* The folder of models with a short name: $RIFFLE_MODELS, else a folder in the user's data folder.
 * NULL, or a sentence about what is wrong. */
const char *models_folder(char path[LONGEST_PATH]);
/* Appends the path that the model has in that folder. The bytes of the file there, or -1. */
int64_t known_model_file(const struct known_model *model, const char *folder, struct buffer *path);

/* The path of MODEL: an existing file or folder, else a short name or an unambiguous prefix of one.
 * For free(); NULL with a sentence on standard error that names the remedy. */
char *model_path(const char *model);

/* The listed draft model of the model at `path`, which is recognised by its file name. The path,
 * for free(), is NULL if the file is not complete; the name, too, if there is none. */
struct draft {
    const char *name;
    char *path;
};
struct draft draft_of(const char *path);

#endif
