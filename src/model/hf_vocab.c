#include <inttypes.h>
#include <string.h>

#include "model/hf.h"
#include "model/reader.h"

int rf_hf_set_token(struct rf_hf *hf, int64_t id, struct rf_str text, enum rf_token_type type)
{
    struct rf_vocab *vocab = &hf->source->vocab;
    if (id < 0 || id >= vocab->n_tokens)
        return rf_fail(hf->error, RF_ERR_FORMAT,
                       "%s: token \"%.*s\" has the id %" PRId64 ", but the embedding has %" PRId32
                       " rows",
                       hf->files->folder, rf_shown(text), text.data, id, vocab->n_tokens);
    struct rf_str *place = &vocab->tokens[id];
    if (place->data &&
        (place->bytes != text.bytes || memcmp(place->data, text.data, text.bytes) != 0))
        return rf_fail(
            hf->error, RF_ERR_FORMAT, "%s: tokens \"%.*s\" and \"%.*s\" both have the id %" PRId64,
            hf->files->folder, rf_shown(*place), place->data, rf_shown(text), text.data, id);
    if (!place->data) {
        char *copy =
            rf_arena_strndup(&hf->source->private_->arena, text.data, text.bytes, hf->error);
        if (!copy) return RF_ERR_MEMORY;
        *place = (struct rf_str){copy, text.bytes};
    }
    vocab->types[id] = (uint8_t)type;
    return 0;
}
