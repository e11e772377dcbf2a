/* ollama's folder of models: manifests that name blobs. */
#ifndef MODELS_BLOBS_H
#define MODELS_BLOBS_H

#include "models/entries.h"

/* Adds the models of ollama's folder `path`, which need not exist. */
void blobs_add(struct model_list *list, const char *path);

#endif
