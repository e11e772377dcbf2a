/* A Hugging Face model folder: safetensors files with config.json and a tokenizer. Only its
 * reader (hf_*.c, safetensors.c) and open.c include this. */
#ifndef RF_MODEL_HF_H
#define RF_MODEL_HF_H

#include "model/json.h"

struct rf_hf_shard {
    const char *path;
    const unsigned char *data;
    size_t bytes;
};

/* A module of sentence-transformers. */
struct rf_hf_module {
    const char *type, *path; /* the type's last name: "Dense" */
    int dense;               /* its number among linear layers, from 1; 0: it is none */
    /* A linear layer's; data is NULL for a missing file. */
    struct rf_str config;
    struct rf_hf_shard shard;
};

/* The bytes of a folder's files; data is NULL for a missing file. They live as long as the
 * source. */
struct rf_hf_files {
    const char *folder;
    struct rf_str config, generation_config, tokenizer_config, tokenizer, pooling, sentences;
    struct rf_str sentencepiece; /* tokenizer.model */
    struct rf_str chat_template_jinja, chat_template_json;
    struct rf_hf_shard *shards;
    size_t n_shards;
    struct rf_hf_module *modules; /* in their order */
    size_t n_modules;
};

/* A folder while it is read. The JSON documents are parsed; NULL for a missing file. */
struct rf_hf {
    struct rf_reading reading;
    const struct rf_hf_files *files;
    struct rf_json *config, *generation_config, *tokenizer_config, *tokenizer, *chat_template,
        *pooling, *sentences;
    const struct rf_json *text; /* config, or its part for the text model */
    int has_vision;             /* tensors that are not the text model's are left out */
    int is_tied;                /* the output head is the embedding */
    int adds_one;               /* weights w of norms count as 1 + w */
    int32_t n_further;          /* layers behind the model's own, which are left out */
    int32_t mtp_layer;          /* the layer for further tokens is read, under this number, and no
                                   other tensor; 0: a model, which leaves it out */
    int32_t position_offset;    /* rows of the positions' table that no token of a text has */
    /* Of a draft head. Writes GGUF's name of a tensor, "" for one that is left out; 0: the name is
     * not known. NULL: the tensors are a model's. */
    int (*head_name)(const char *name, char *buffer, size_t bytes);
    const unsigned char *ids; /* its tensor RF_HF_IDS, n_ids integers of 64 bits; NULL: none */
    int32_t n_ids;
};

#define RF_HF_IDS "d2t"

/* Maps the files of a folder, or of one .safetensors file of it: `shard` is then the file's name in
 * the folder, else NULL. */
int rf_hf_map(struct rf_source *source, const char *folder, const char *shard,
              struct rf_hf_files *files, struct rf_error *error);
/* Reads the files as a model. On failure the caller closes the source. */
int rf_hf_read(struct rf_source *source, const struct rf_hf_files *files, struct rf_error *error);
/* The distinct shard names of a model.safetensors.index.json, which is the reading's path; NULL
 * after a failure. They live as long as the source. */
const char **rf_hf_shard_names(struct rf_reading *reading, struct rf_str index, size_t *n);

/* Refuses modules that an encoder's vectors cannot go through, and numbers linear layers. */
void rf_hf_check_modules(struct rf_hf *hf);

void rf_hf_read_params(struct rf_hf *hf);

/* The rotation of a class of transformers where config.json does not mention it. */
struct rf_hf_rope {
    double theta;
    double local;               /* base frequency in layers with a rotation of their own; 0: that of
                                   the architecture, and rope_local_base_freq is read */
    int32_t original;           /* original_max_position_embeddings, in the class's own place: that
                                   of the scaling does not count; 0: it does */
    const struct rf_yarn *yarn; /* YaRN; its magnitude is 0: the paper's; NULL: no scaling */
    double yarn_theta;  /* base frequency of that, in the place of rope_theta; 0: rope_theta */
    double temperature; /* llama_4_scaling_beta; 0: the key is not read */
};
/* Reads all rotations, and the lengths that they depend on, of parameters that are checked. */
void rf_hf_read_rope(struct rf_hf *hf, const struct rf_hf_rope *defaults);

/* Values of an object of config.json; `otherwise` where they are missing or null. The wrong type is
 * the reading's failure. */
/* At least 1. */
int32_t rf_hf_count(struct rf_hf *hf, const struct rf_json *object, const char *key,
                    int32_t otherwise);
double rf_hf_number(struct rf_hf *hf, const struct rf_json *object, const char *key,
                    double otherwise);
int rf_hf_flag(struct rf_hf *hf, const struct rf_json *object, const char *key, int otherwise);
/* "" where it is missing or null. */
struct rf_str rf_hf_string(struct rf_hf *hf, const struct rf_json *object, const char *key);
/* An object of the text model's configuration; NULL where it is missing or null. */
const struct rf_json *rf_hf_object(struct rf_hf *hf, const char *key);
/* A failure where the list, unless it is NULL, has not an element for each layer. */
void rf_hf_check_list(struct rf_hf *hf, const struct rf_json *list, const char *key);

/* Reads what generation_config.json recommends, unless it says not to sample. */
void rf_hf_read_sampling(struct rf_hf *hf);
/* Call when the tensors are known. */
void rf_hf_check_vocab_size(struct rf_hf *hf);
/* Fills source->tensors from all shards and translates the names. */
void rf_safetensors_read(struct rf_hf *hf);
/* Translates a GGUF name to the folder's name. */
void rf_hf_tensor_name(const struct rf_params *params, const char *name, char *buffer,
                       size_t bytes);
void rf_hf_read_vocab(struct rf_hf *hf);

/* Names of the layer for further tokens (hf_mtp.c). Whether a tensor is one of its. */
int rf_hf_is_mtp(const char *name);
/* Writes GGUF's name of a tensor beside the layer's; 0: it is of the layer, or unknown. */
int rf_hf_mtp_name(int32_t layer, const char *name, char *buffer, size_t bytes);
/* The name that a tensor of the layer has as one of the model's layers; others keep theirs. */
const char *rf_hf_mtp_as_layer(int32_t layer, const char *name, char *buffer, size_t bytes);
/* Writes the folder's name of a tensor beside the layer's, whose name in GGUF behind "blk.N." it
 * is; 0: it is none. */
int rf_hf_mtp_shown(const char *gguf, char *buffer, size_t bytes);

/* Parts of rf_hf_read_vocab. The vocabulary has n_vocab entries; data is NULL for one without a
 * token. */
void rf_hf_read_bpe(struct rf_hf *hf);
void rf_hf_read_character_bpe(struct rf_hf *hf);
void rf_hf_read_unigram(struct rf_hf *hf);
/* How a text's spaces become pieces; call after the tokens are read. */
void rf_hf_read_spaces(struct rf_hf *hf);
void rf_hf_read_sentencepiece(struct rf_hf *hf);
void rf_hf_read_wordpiece(struct rf_hf *hf);
/* Finds the tokens that the tokenizer of an encoder puts around a text. */
void rf_hf_read_ends(struct rf_hf *hf);

#endif
