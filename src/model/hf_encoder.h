/* Folders of encoders (bert, nomic-bert, modern-bert). */
#ifndef RF_MODEL_HF_ENCODER_H
#define RF_MODEL_HF_ENCODER_H

#include "model/hf_class.h"
#include "model/tensors.h"

/* Whether names of tensors and keys of config.json are those of BERT and its kin. */
static inline int rf_is_bert(const struct rf_params *params)
{
    return params->encoder && params->layer_norm;
}

/* Translates a tensor's name; `to_gguf` gives the direction. 0 when the name is not known. */
int rf_encoder_name(const struct rf_params *params, const char *name, int to_gguf, char *buffer,
                    size_t bytes);
/* 1 for tensors that vectors and scores do not depend on, such as heads for training. */
int rf_encoder_leaves_out(const struct rf_source *source, const char *name);
/* Reads the parameters from hf->text, with the class's defaults. */
void rf_hf_read_encoder(struct rf_hf *hf, const struct rf_hf_class *class);

#endif
