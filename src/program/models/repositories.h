/* The folders in which models of hubs lie: Riffle's own, and those of other programs, which are
 * only read. model_list.c joins them with the other models. */
#ifndef MODELS_REPOSITORIES_H
#define MODELS_REPOSITORIES_H

#include "models/entries.h"

/* Adds the models of Riffle's folders of hubs, also those that were fetched in part. */
void repositories_add_own(struct model_list *list);
/* Adds the complete models that other programs have: Hugging Face's cache, LM Studio, ollama and
 * llama.cpp. */
void repositories_add_others(struct model_list *list);

/* The model that a folder holds, as a path for free(): its one GGUF model. NULL: it has none or
 * several; *count says how many. */
char *repository_only_model(const char *folder, int *count);

#endif
