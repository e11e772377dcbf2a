/* The models of scripts/models.tsv, and the folder of models. The list is part of the program. */
#ifndef MODELS_KNOWN_MODELS_H
#define MODELS_KNOWN_MODELS_H

#include <stdint.h>

#include "hubs/name.h"
#include "output/buffer.h"

enum { LONGEST_PATH = 4096 };

/* The file's text, which the build embeds into the program. Tests of the program have another list.
 */
extern const char known_models_tsv[];

struct known_model {
    char name[64];
    char file[128]; /* in the models' folder; "": `hub` says where it lies */
    char licence[32];
    int64_t bytes;   /* about, where a hub has the model */
    char draft[64];  /* name of its draft model; "-": none */
    char sha256[65]; /* "": the hub's list has it */
    char ends[65];   /* SHA-256 of the file's first and last MiB, one after the other; "" */
    char sources[512];
    char sampling[96];   /* "temp=0.2,top-p=0.9": options of a chat; "-": none */
    char purpose[16];    /* "chat", "code", "reasoning" or "embedding" */
    int64_t read_bytes;  /* about, of a decoding pass */
    struct hub_name hub; /* hub HUB_NONE: `sources` are addresses of the file */
};

/* Ended by an entry without a name. */
const struct known_model *known_models(void);

/* The folder of models with a short name: $RIFFLE_MODELS, else a folder in the user's data folder.
 * NULL, or a sentence about what is wrong. */
const char *models_folder(char path[LONGEST_PATH]);
/* The listed model whose bytes are at `path`: the size and both ends of the file are compared,
 * never its name. A model of a hub, of which only the repository is known, is recognised by the
 * folders that keep its repository's name. NULL: none, or the file cannot be read. */
const struct known_model *known_model_of(const char *path);

#endif
