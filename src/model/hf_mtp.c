/* Names in a folder of the layer for further tokens (`mtp`): its tensors are called as those of a
 * layer behind the model's own would be, with a few more beside. safetensors.c asks for the names,
 * head_hf.c for those in sentences. */
#include <inttypes.h>
#include <stdio.h>

#include "model/hf.h"

/* Beside the layer's: behind "blk.N." and behind "mtp.". */
static const struct {
    const char *gguf, *hf;
} mtp_names[] = {
    {"nextn.eh_proj.weight", "fc.weight"},
    {"nextn.enorm.weight", "pre_fc_norm_embedding.weight"},
    {"nextn.hnorm.weight", "pre_fc_norm_hidden.weight"},
    {"nextn.shared_head_norm.weight", "norm.weight"},
    {"nextn.shared_head_head.weight", "shared_head.head.weight"},
    {"nextn.embed_tokens.weight", "embed_tokens.weight"},
};
enum { N_MTP_NAMES = sizeof mtp_names / sizeof *mtp_names };

/* The rest of such names, behind their prefix; NULL: the tensor is another one. */
static const char *name_in_mtp(const char *name)
{
    static const char *const prefixes[] = {"mtp.", "model.mtp."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return name + strlen(prefixes[i]);
    return NULL;
}

int rf_hf_is_mtp(const char *name)
{
    return name_in_mtp(name) != NULL;
}

int rf_hf_mtp_name(int32_t layer, const char *name, char *buffer, size_t bytes)
{
    const char *rest = name_in_mtp(name);
    if (!rest) return 0;
    for (size_t i = 0; i < N_MTP_NAMES; i++)
        if (strcmp(rest, mtp_names[i].hf) == 0) {
            snprintf(buffer, bytes, "blk.%" PRId32 ".%s", layer, mtp_names[i].gguf);
            return 1;
        }
    return 0;
}

const char *rf_hf_mtp_as_layer(int32_t layer, const char *name, char *buffer, size_t bytes)
{
    static const char first[] = "layers.0.";
    const char *rest = name_in_mtp(name);
    if (!rest || strncmp(rest, first, strlen(first)) != 0) return name;
    snprintf(buffer, bytes, "model.layers.%" PRId32 ".%s", layer, rest + strlen(first));
    return buffer;
}

int rf_hf_mtp_shown(const char *gguf, char *buffer, size_t bytes)
{
    for (size_t i = 0; i < N_MTP_NAMES; i++)
        if (strcmp(gguf, mtp_names[i].gguf) == 0) {
            snprintf(buffer, bytes, "mtp.%s", mtp_names[i].hf);
            return 1;
        }
    return 0;
}
