/* What the names of model files say: the type of the weights, and parts of split models. Hubs and
 * folders of models choose a file by it, in the same way. */
#ifndef HUBS_TYPES_H
#define HUBS_TYPES_H

#include <stddef.h>

enum { TYPE_TEXT = 32, HUB_TYPE = 256 /* a type, or a file of a repository */ };

/* Whether the file is a GGUF model by its name: no projector, importance matrix, or part of a split
 * model but the first. */
int type_is_model_file(const char *path);
/* The parts of a split model: 1 with the number and count of "NAME-00001-of-00003.gguf", else 0. */
int type_part(const char *path, int *number, int *count);
/* The path of another part of the same model, of the same length. */
void type_other_part(const char *path, int number, char *other, size_t cap);

/* The type in the name, in capitals: "Q4_K_M", "UD-Q4_K_XL"; "" if none is recognised. */
void type_of_file(const char *path, char type[TYPE_TEXT]);
/* The word behind a colon that means this file: its type, else its name without .gguf and part. */
void type_label(const char *path, char label[HUB_TYPE]);
/* The plain name that a repository's file has here: without folders, and with the type of a folder
 * in front where the name has none. 0, or -1 if there is none. */
int type_file_name(const char *path, char *file, size_t cap);
/* The order in which types are taken where none is asked for: 0 is the first. -1: it does not run
 * here, or is unknown. */
int type_rank(const char *type);

/* Chooses among n files: those of the type or name `wanted` (capitals do not matter), or, for "",
 * those of the best type. The index, or -1. */
int type_choose(const char *const *paths, size_t n, const char *wanted);
/* Whether a file has the type or name `wanted`. 2: in these words; 1: but for a maker's prefix. */
int type_matches(const char *path, const char *wanted);

/* Whether the text is a name of a file or folder on every system, and nothing else: letters, digits
 * and "_+.-", not beginning with a dot or dash. */
int hub_is_plain(const char *text);
/* Whether two texts are equal but for capitals (ASCII). */
int type_same_text(const char *a, const char *b);

#endif
